//! Checks the server and its setup, for operators.

use std::sync::Arc;

use serde_json::Value;

use crate::shared::Shared;

/// The oldest supported server. Tests run on 2.15.
const OLDEST: (u64, u64) = (2, 12);

/// One result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What it risks and what to do. Empty if nothing.
    pub risk: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// As it should be.
    Good,
    /// A choice to be aware of.
    Note,
    /// Works, but should be changed.
    Warning,
    /// Does not work.
    Problem,
}

impl Finding {
    fn new(level: Level, what: impl Into<String>, risk: &str) -> Self {
        Self {
            level,
            what: what.into(),
            risk: risk.into(),
        }
    }

    fn good(what: impl Into<String>) -> Self {
        Self::new(Level::Good, what, "")
    }
}

pub(crate) async fn findings(shared: &Arc<Shared>) -> Vec<Finding> {
    let mut found = vec![version(&shared.link.server().version)];
    match shared.api("INFO", String::new()).await {
        Ok(Ok(_)) => found.push(Finding::good("JetStream is on")),
        Ok(Err(refusal)) => {
            let said = clinch_core::Error::from(refusal).to_string();
            let risk = "no hint can be published; enable JetStream for this account";
            found.push(Finding::new(Level::Problem, said, risk));
            return found;
        }
        Err(error) => {
            let risk = "no hint can be published; operations wait until the server is back";
            found.push(Finding::new(Level::Problem, error.to_string(), risk));
            return found;
        }
    }
    if let Err(error) = shared.know_stream().await {
        let risk = "no hint can be published";
        found.push(Finding::new(Level::Problem, error.to_string(), risk));
        return found;
    }
    let call = format!("STREAM.INFO.{}", shared.settings.prefix);
    if let Ok(Ok(stream)) = shared.api(&call, String::new()).await {
        let wanted = shared.settings.replicas as u64;
        found.extend(of_stream(&stream["config"], wanted));
    }
    found.push(sync_interval());
    found
}

fn version(version: &str) -> Finding {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u64>());
    let what = format!("NATS server {version}");
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST => Finding::good(what),
        _ => {
            let risk = "older than 2.12: untested; upgrade";
            Finding::new(Level::Warning, what, risk)
        }
    }
}

fn of_stream(config: &Value, wanted: u64) -> Vec<Finding> {
    let mut found = Vec::new();
    let replicas = config["num_replicas"].as_u64().unwrap_or(1);
    let what = format!("the stream has {replicas} replica(s)");
    found.push(if replicas != wanted {
        let risk = "not what is configured; change the stream with `nats stream edit`";
        Finding::new(Level::Warning, what, risk)
    } else if replicas == 1 {
        let risk = "while its server is down no hint moves, and if its disk is lost the sweeper \
                    announces everything again after its grace; 3 replicas outlive one server";
        Finding::new(Level::Note, what, risk)
    } else {
        Finding::good(what)
    });
    let storage = config["storage"].as_str().unwrap_or("unknown");
    found.push(if storage == "file" {
        Finding::good("the stream is on disk")
    } else {
        let risk = "a restart of the server loses every hint; the sweeper announces them again \
                    after its grace";
        let what = format!("the stream is in {storage}");
        Finding::new(Level::Warning, what, risk)
    });
    if config["persist_mode"] == "async" {
        let risk = "a crash of the server loses what was published shortly before";
        let what = "the stream is written in the background";
        found.push(Finding::new(Level::Note, what, risk));
    }
    found
}

/// Servers do not show this to ordinary accounts.
fn sync_interval() -> Finding {
    let risk = "by default a server syncs its files every 2 minutes: a power failure loses the \
                hints since then, and the sweeper announces them again after its grace; \
                `sync_interval: always` in the server's jetstream block avoids it";
    let what = "sync_interval of the server cannot be seen from here";
    Finding::new(Level::Note, what, risk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn old_servers_are_found() {
        for (text, level) in [
            ("2.15.1", Level::Good),
            ("2.12.0-RC.1", Level::Good),
            ("3.0.0", Level::Good),
            ("2.11.9", Level::Warning),
            ("unknown", Level::Warning),
        ] {
            assert_eq!(version(text).level, level, "{text}");
        }
    }

    #[test]
    fn a_stream_that_risks_hints_is_found() {
        let levels = |config, wanted| {
            let found = of_stream(&config, wanted);
            found.iter().map(|found| found.level).collect::<Vec<_>>()
        };
        use Level::{Good, Note, Warning};
        let file = json!({"num_replicas": 3, "storage": "file"});
        assert_eq!(levels(file.clone(), 3), [Good, Good]);
        assert_eq!(levels(file, 1), [Warning, Good]);
        let memory = json!({"num_replicas": 1, "storage": "memory", "persist_mode": "async"});
        assert_eq!(levels(memory, 1), [Note, Warning, Note]);
    }
}
