//! Settings of the bus.

use std::fmt;
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};

/// Maximum length of the prefix: it becomes the stream's name and a token of every subject.
const PREFIX_BYTES_MAX: usize = 64;
/// JetStream's own limit.
const REPLICAS_MAX: usize = 5;

/// Settings of the bus. Every process of one system must use the same prefix.
#[derive(Clone)]
pub struct Settings {
    /// Name of the stream and first token of its subjects, so that several systems can share a
    /// server.
    pub prefix: String,
    /// The visibility timeout that workers use. Another timeout works too, but costs one more
    /// message for each delivery. Read when a consumer is created.
    pub visibility: Duration,
    /// Copies of each hint in a cluster: 1, 3 or 5. Read when the stream is created.
    pub replicas: usize,
    /// Maximum hints in the stream. More remove the oldest ones, and the sweeper announces those
    /// again. Read when the stream is created.
    pub hints_max: u64,
    /// The text of a credentials file (`.creds`), for servers that require one. The address may
    /// contain a user name and password or a token instead.
    pub credentials: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: "clinch".into(),
            visibility: Duration::from_secs(30),
            replicas: 1,
            // About 400 bytes each: less than half a gigabyte.
            hints_max: 1_000_000,
            credentials: None,
        }
    }
}

impl Settings {
    /// The defaults with this prefix.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            ..Self::default()
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let length = self.prefix.len();
        let problem = if !self.prefix.chars().all(fits) || !(1..=PREFIX_BYTES_MAX).contains(&length)
        {
            "prefix must be 1 to 64 letters, digits, '_' or '-'"
        } else if self.replicas == 0 || self.replicas > REPLICAS_MAX {
            "replicas must be 1 to 5"
        } else if self.visibility.is_zero() {
            "visibility must be more than 0"
        } else if self.hints_max == 0 {
            "hints_max must be more than 0"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Invalid, problem))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("prefix", &self.prefix)
            .field("visibility", &self.visibility)
            .field("replicas", &self.replicas)
            .field("hints_max", &self.hints_max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_settings_are_refused_and_secrets_not_shown() {
        assert!(Settings::default().validate().is_ok());
        for prefix in ["", "a.b", "a b", "a*", ">", &"x".repeat(65)] {
            assert!(Settings::new(prefix).validate().is_err(), "{prefix:?}");
        }
        let replicas = |replicas| Settings {
            replicas,
            ..Settings::default()
        };
        assert!(replicas(0).validate().is_err());
        assert!(replicas(6).validate().is_err());
        let secret = Settings {
            credentials: Some("hunter2".into()),
            ..Settings::default()
        };
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
