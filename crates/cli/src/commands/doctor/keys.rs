//! Checks that a server that is reachable from other machines has API keys.

use clinch_core::ports::Clock as _;
use clinch_system::SystemClock;

use super::{Finding, Subject};
use crate::error::CliError;
use crate::store::StoreConfig;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let Ok(listen) = subject.config.listen() else {
        return Vec::new();
    };
    let is_loopback = listen.ip().is_loopback();
    let finding = match active(subject) {
        Err(error) => Finding::error(&error),
        Ok(Some(0) | None) if is_loopback => {
            Finding::ok(format!("{listen} is loopback: no API key is needed"))
        }
        Ok(Some(0) | None) => Finding::fail(
            format!("{listen} is not loopback and there is no active API key"),
            "`clinch keys create`, or listen on 127.0.0.1",
        ),
        Ok(Some(active)) => Finding::ok(format!("{active} active API keys")),
    };
    vec![finding]
}

/// The number of active keys; `None`: there is no database yet.
fn active(subject: &Subject) -> Result<Option<usize>, CliError> {
    let store = StoreConfig::of(&subject.config)?;
    if !subject.runtime.block_on(store.is_current()) {
        return Ok(None);
    }
    let opened = subject.runtime.block_on(store.open())?;
    let keys = subject.runtime.block_on(opened.keys.list())?;
    let now = SystemClock::new().now();
    let is_active = |key: &&clinch_core::ports::ApiKey| {
        key.revoked_at.is_none() && key.expires_at.is_none_or(|ends| ends > now)
    };
    Ok(Some(keys.iter().filter(is_active).count()))
}
