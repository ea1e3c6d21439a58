//! Checks the bus. A store that is its own bus is checked as a store.

use clinch_redis::Weight;

use super::{Finding, Subject};
use crate::error::CliError;
use crate::store::Line;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let line = match Line::configured(&subject.config) {
        Err(error) => return vec![Finding::error(&error)],
        Ok(Line::Store) => return vec![Finding::ok("the store is its own bus")],
        Ok(line) => line,
    };
    match subject.runtime.block_on(ask(&line)) {
        Err(error) => vec![Finding::error(&error)],
        Ok(mut findings) => {
            findings.insert(0, Finding::ok(format!("{} answers", line.shown())));
            findings
        }
    }
}

async fn ask(line: &Line) -> Result<Vec<Finding>, CliError> {
    let mut findings = Vec::new();
    if let Some(redis) = line.redis().await? {
        let found = redis.check().await?;
        findings.extend(found.into_iter().map(|one| match one.weight {
            Weight::Good => Finding::ok(one.text),
            Weight::Risk => Finding::warn(one.text, ""),
            Weight::Wrong => Finding::fail(one.text, ""),
        }));
    }
    if let Some(nats) = line.nats().await? {
        let found = nats.check().await;
        findings.extend(found.into_iter().map(|one| match one.level {
            clinch_nats::Level::Good | clinch_nats::Level::Note => Finding {
                to_do: one.risk,
                ..Finding::ok(one.what)
            },
            clinch_nats::Level::Warning => Finding::warn(one.what, one.risk),
            clinch_nats::Level::Problem => Finding::fail(one.what, one.risk),
        }));
    }
    Ok(findings)
}
