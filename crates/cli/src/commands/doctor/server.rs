//! A server that runs, if there is one.

use std::time::Duration;

use super::{Finding, Subject};
use crate::client::{Base, Client, Request, StoreTold};
use crate::error::CliError;
use crate::store::Place;
use crate::{settings, store_check};

/// Liveness is answered at once, readiness within two seconds.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn look(subject: &Subject) -> Vec<Finding> {
    let base = match settings::base(subject.global) {
        Ok(base) => base,
        // A server on another machine is none of this machine's.
        Err(_) if subject.global.url.is_none() => return Vec::new(),
        Err(error) => return vec![Finding::error(&error)],
    };
    subject.runtime.block_on(async {
        match ask(&base, "/healthz").await {
            Ok(told) => {
                let mut findings = vec![Finding::ok(format!("a server answers at {base}"))];
                findings.extend(store(subject, &base, told.as_ref()).await);
                findings.push(ready(&base).await);
                findings
            }
            Err(CliError::Unreachable { .. }) if subject.global.url.is_none() => {
                vec![Finding::ok(format!("no server runs at {base}"))]
            }
            Err(error) => vec![Finding::fail(
                format!("no healthy server at {base}: {error}"),
                "look at its log",
            )],
        }
    })
}

/// Whether it works on the store of this configuration. One that was named by its address may
/// be any.
async fn store(subject: &Subject<'_>, base: &Base, told: Option<&StoreTold>) -> Option<Finding> {
    if subject.global.url.is_some() {
        return None;
    }
    let place = Place::configured(&subject.config).ok()?;
    Some(match store_check::judge(&place, told, base).await {
        Ok(()) => Finding::ok("it works on the store of this configuration"),
        Err(_) => Finding::fail(
            format!(
                "it does not work on the store of this configuration, {}",
                place.address()
            ),
            "set server.listen to a free address, or look at which configuration it was started with",
        ),
    })
}

async fn ready(base: &Base) -> Finding {
    match ask(base, "/readyz").await {
        Ok(_) => Finding::ok("it is ready: its store answers"),
        Err(error) => Finding::fail(
            format!("it is not ready: {error}"),
            "look at its log and at its store",
        ),
    }
}

/// No key is needed for either, so none is sent.
async fn ask(base: &Base, path: &str) -> Result<Option<StoreTold>, CliError> {
    let mut client = Client::new(base.clone(), None);
    let asked = tokio::time::timeout(PATIENCE, client.send(Request::get(path))).await;
    let answer = asked.map_err(|_| CliError::failed("no answer in time"))??;
    Ok(answer.store)
}
