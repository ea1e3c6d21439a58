//! Checks across routes: each domain and event type once, and one set of guards for each
//! destination.

use std::collections::{BTreeMap, BTreeSet};

use clinch::Result;
use clinch_protect::{BulkheadConfig, CircuitConfig, DestinationConfig, RateConfig, RatioConfig};

use super::{Config, wrong};

/// The host of a URL, with its port unless that is the port of the scheme: two services on one
/// machine are two destinations. `None`: the URL has no fixed host.
pub(super) fn host_and_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?.to_ascii_lowercase();
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_v6 = authority.starts_with('[');
    if host.is_empty() || authority.contains('{') {
        return None;
    }
    let usual = match scheme.eq_ignore_ascii_case("https") {
        true => "443",
        false => "80",
    };
    match port.strip_prefix(':').filter(|port| *port != usual) {
        None => Some(host.to_owned()),
        Some(port) if is_v6 => Some(format!("[{host}]:{port}")),
        Some(port) => Some(format!("{host}:{port}")),
    }
}

/// Merges one setting of two routes with the same destination; false: they differ.
fn merge<T: PartialEq>(ours: &mut Option<T>, theirs: Option<T>) -> bool {
    match (ours.as_ref(), theirs) {
        (_, None) => true,
        (None, theirs) => {
            *ours = theirs;
            true
        }
        (Some(ours), Some(theirs)) => *ours == theirs,
    }
}

impl Config {
    pub(super) fn route_problems(&self) -> Vec<clinch::Error> {
        let mut problems = Vec::new();
        let mut seen = BTreeMap::new();
        let mut names = BTreeMap::new();
        for route in &self.route {
            problems.extend(route.validate(self).err());
            let covers = (route.domain.clone(), route.event_type.clone());
            if let Some(other) = seen.insert(covers, route.label()) {
                let problem =
                    format!("covers the same domain and event_type as {other:?}; leave one out");
                problems.push(route.problem(problem));
            }
            if names.insert(route.label(), ()).is_some() {
                problems.push(
                    route.problem("has the same name as another route; names must be unique"),
                );
            }
        }
        // Guards are checked once every route is valid.
        if problems.is_empty() {
            problems.extend(self.destinations().err());
        }
        problems
    }

    /// The guards of every destination. Routes that share a destination may repeat a guard or leave
    /// it out, and must not contradict each other. A destination that only remote workers call has
    /// only the guards that its routes name; a destination that this server calls has defaults.
    pub fn destinations(&self) -> Result<BTreeMap<String, DestinationConfig>> {
        let mut destinations: BTreeMap<String, DestinationConfig> = BTreeMap::new();
        let mut called = BTreeSet::new();
        for route in &self.route {
            let name = route.destination_name();
            let wanted = route.guards();
            if !route.remote {
                called.insert(name.clone());
            }
            let guards = destinations
                .entry(name.clone())
                .or_insert(DestinationConfig::NONE);
            let clash = [
                ("breaker", merge(&mut guards.breaker, wanted.breaker)),
                (
                    "concurrency",
                    merge(&mut guards.concurrency, wanted.concurrency),
                ),
                ("rate", merge(&mut guards.rate, wanted.rate)),
                ("retry.budget", merge(&mut guards.budget, wanted.budget)),
            ];
            if let Some((key, _)) = clash.iter().find(|(_, agrees)| !agrees) {
                return Err(route.problem(format!(
                    "{key} differs from another route of destination {name:?}; set it once, or name another destination"
                )));
            }
        }
        for (name, guards) in &mut destinations {
            let defaults = match called.contains(name) {
                true => DestinationConfig::default(),
                false => DestinationConfig::NONE,
            };
            guards.breaker = guards.breaker.take().or(defaults.breaker);
            guards.concurrency = guards.concurrency.take().or(defaults.concurrency);
            guards.budget = guards.budget.take().or(defaults.budget);
            let invalid =
                |invalid: clinch_core::Invalid| wrong(format!("destination {name:?}: {invalid}"));
            guards
                .breaker
                .as_ref()
                .map_or(Ok(()), CircuitConfig::validate)
                .map_err(invalid)?;
            guards
                .concurrency
                .as_ref()
                .map_or(Ok(()), BulkheadConfig::validate)
                .map_err(invalid)?;
            guards
                .rate
                .as_ref()
                .map_or(Ok(()), RateConfig::validate)
                .map_err(invalid)?;
            guards
                .budget
                .as_ref()
                .map_or(Ok(()), RatioConfig::validate)
                .map_err(invalid)?;
        }
        Ok(destinations)
    }
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn core_19_two_services_of_one_machine_are_two_destinations() {
        for (url, expected) in [
            ("https://psp.example/v1", Some("psp.example")),
            ("https://PSP.example:443/v1", Some("psp.example")),
            ("https://psp.example:8443", Some("psp.example:8443")),
            ("http://127.0.0.1:8099/", Some("127.0.0.1:8099")),
            ("http://127.0.0.1:8100/", Some("127.0.0.1:8100")),
            ("http://127.0.0.1:80?x=1", Some("127.0.0.1")),
            ("http://psp.example:443", Some("psp.example:443")),
            ("http://[::1]:8099/", Some("[::1]:8099")),
            ("http://[::1]/", Some("::1")),
            ("https://me:secret@h:99/", Some("h:99")),
            ("https://{payload.host}/", None),
            ("https:///x", None),
            ("nowhere", None),
        ] {
            assert_eq!(host_and_port(url).as_deref(), expected, "{url}");
        }
    }
}
