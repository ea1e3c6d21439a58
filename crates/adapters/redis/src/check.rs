//! Checks a server's settings and reports what they risk.

use std::collections::BTreeMap;
use std::fmt;

use clinch_core::Result;

use crate::Redis;
use crate::error::ours;

/// The oldest version that supports everything the scripts use.
const VERSION_MIN: u32 = 7;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// As it should be.
    Good,
    /// Works, with a risk.
    Risk,
    /// Does not work.
    Wrong,
}

/// One result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// What was found, what it risks and what to do.
    pub text: String,
}

impl Finding {
    fn new(weight: Weight, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { weight, text }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::Good => "good",
            Weight::Risk => "risk",
            Weight::Wrong => "wrong",
        };
        write!(f, "{weight}: {}", self.text)
    }
}

impl Redis {
    /// Checks version, persistence and memory policy.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        let link = &self.shared.link;
        let mut info = redis::cmd("INFO");
        let info: String = link.command(info.arg("server")).await.map_err(ours)?;
        let mut findings = vec![version(&info)];
        let mut config = redis::cmd("CONFIG");
        config.arg("GET");
        for name in ["appendonly", "appendfsync", "save", "maxmemory-policy"] {
            config.arg(name);
        }
        // Hosted servers often forbid this command.
        match link.command::<BTreeMap<String, String>>(&config).await {
            Ok(config) => findings.extend(judge(&config)),
            Err(_) => findings.push(Finding::new(
                Weight::Risk,
                "CONFIG GET is refused: look up persistence and maxmemory-policy yourself",
            )),
        }
        Ok(findings)
    }
}

fn version(info: &str) -> Finding {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    let version = line.map(str::trim).unwrap_or_default();
    let major = version
        .split('.')
        .next()
        .and_then(|n| n.parse::<u32>().ok());
    match major {
        Some(major) if major >= VERSION_MIN => {
            Finding::new(Weight::Good, format!("redis {version}"))
        }
        Some(_) => Finding::new(
            Weight::Wrong,
            format!("redis {version} is too old; version 7 or later is needed"),
        ),
        None => Finding::new(Weight::Risk, "the server does not tell its version"),
    }
}

fn judge(config: &BTreeMap<String, String>) -> Vec<Finding> {
    let get = |name: &str| config.get(name).map_or("", String::as_str);
    let appends = get("appendonly") == "yes";
    let persistence = match (appends, get("appendfsync"), get("save")) {
        (true, "always", _) => Finding::new(Weight::Good, "appendfsync always: no hint is lost"),
        (true, "no", _) => Finding::new(
            Weight::Risk,
            "appendfsync no: a power cut loses what the system had not written; operations are \
             found again by the sweeper, later",
        ),
        (true, _, _) => Finding::new(
            Weight::Good,
            "appendfsync everysec: a crash loses about a second of hints; the sweeper announces \
             them again",
        ),
        (false, _, "") => Finding::new(
            Weight::Risk,
            "no persistence: a restart loses every hint, lock and budget; operations are found \
             again by the sweeper, providers may be called over their limit once",
        ),
        (false, _, _) => Finding::new(
            Weight::Risk,
            "snapshots only: a restart loses everything since the last; set appendonly yes",
        ),
    };
    let memory = match get("maxmemory-policy") {
        "noeviction" => Finding::new(Weight::Good, "maxmemory-policy noeviction"),
        policy => Finding::new(
            Weight::Wrong,
            format!("maxmemory-policy {policy} may evict streams and locks; set it to noeviction"),
        ),
    };
    vec![persistence, memory]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_and_evictions_are_wrong() {
        assert_eq!(version("redis_version:6.2.1\r\n").weight, Weight::Wrong);
        assert_eq!(version("redis_version:7.0.15\r\n").weight, Weight::Good);
        assert_eq!(version("").weight, Weight::Risk);
        let config = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
            pairs.collect::<BTreeMap<String, String>>()
        };
        let weights = |pairs: &[(&str, &str)]| {
            let found = judge(&config(pairs));
            found.iter().map(|one| one.weight).collect::<Vec<_>>()
        };
        let everysec = [
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("maxmemory-policy", "noeviction"),
        ];
        assert_eq!(weights(&everysec), [Weight::Good, Weight::Good]);
        let cache = [("appendonly", "no"), ("maxmemory-policy", "allkeys-lru")];
        assert_eq!(weights(&cache), [Weight::Risk, Weight::Wrong]);
    }
}
