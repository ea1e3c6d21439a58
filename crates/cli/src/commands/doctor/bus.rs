//! Checks the bus. A store that is its own bus is checked as a store.

use clinch::backend::{BusUrl, Options};
use clinch_redis::Weight;

use super::{Finding, Subject};
use crate::error::CliError;
use crate::store;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let (bus, options) = match store::bus(&subject.config) {
        Err(error) => return vec![Finding::error(&error)],
        Ok((BusUrl::Store, _)) => return vec![Finding::ok("the store is its own bus")],
        Ok(found) => found,
    };
    match subject.runtime.block_on(ask(&bus, &options)) {
        Err(error) => vec![Finding::error(&error)],
        Ok(mut findings) => {
            findings.insert(0, Finding::ok(format!("{bus} answers")));
            findings
        }
    }
}

async fn ask(bus: &BusUrl, options: &Options) -> Result<Vec<Finding>, CliError> {
    let mut findings = Vec::new();
    if let Some(redis) = bus.redis(options).await? {
        let found = redis.check().await?;
        findings.extend(found.into_iter().map(|one| match one.weight {
            Weight::Good => Finding::ok(one.text),
            Weight::Risk => Finding::warn(one.text, ""),
            Weight::Wrong => Finding::fail(one.text, ""),
        }));
    }
    if let Some(nats) = bus.nats(options).await? {
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
