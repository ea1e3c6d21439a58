//! The limit of open files and sockets of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process to the maximum that the system allows, and returns it; `None`:
/// there is no limit.
pub(crate) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// The connection limit: at most half of the file descriptors. The other half is for the store,
/// outgoing calls and files. Logs a warning if that is less than configured.
pub(crate) fn connections(configured: usize, descriptors: Option<u64>) -> usize {
    let Some(descriptors) = descriptors else {
        return configured;
    };
    let half = usize::try_from(descriptors / 2)
        .unwrap_or(usize::MAX)
        .max(1);
    if half < configured {
        let wanted = configured.saturating_mul(2);
        tracing::warn!(
            target: "clinch",
            "server.connections_max is lowered from {configured} to {half}, half of the {descriptors} files that this process may open; raise the limit to {wanted} (LimitNOFILE= of systemd, `ulimit -n`) or set server.connections_max = {half}"
        );
    }
    configured.min(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_get_at_most_half_of_the_descriptors() {
        assert_eq!(connections(4_096, Some(1_024)), 512);
        assert_eq!(connections(4_096, Some(8_192)), 4_096);
        assert_eq!(connections(100, Some(1_048_576)), 100);
        assert_eq!(connections(4_096, None), 4_096);
        assert_eq!(connections(4_096, Some(1)), 1);
    }

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let allowed = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise(), allowed);
        assert_eq!(getrlimit(Resource::Nofile).current, allowed);
    }
}
