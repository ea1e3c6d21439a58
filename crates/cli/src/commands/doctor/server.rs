//! Checks the running server, if there is one.

use std::time::Duration;

use super::{Finding, Subject};
use crate::client::{Answer, Base, Client, Request, StoreTold};
use crate::error::CliError;
use crate::store::StoreConfig;
use crate::{settings, store_check};

/// Timeout: liveness is answered at once, readiness within two seconds.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let base = match settings::base(subject.global) {
        Ok(base) => base,
        // `server.listen` of another machine says nothing about this one.
        Err(_) if subject.global.url.is_none() => return Vec::new(),
        Err(error) => return vec![Finding::error(&error)],
    };
    subject.runtime.block_on(async {
        match ask(&base, "/healthz").await {
            Ok(answer) => {
                let mut findings = vec![Finding::ok(format!("a server answers at {base}"))];
                findings.extend(store(subject, &base, answer.store.as_ref()).await);
                findings.extend(ready(&base).await);
                findings
            }
            Err(CliError::Unreachable { .. }) if subject.global.url.is_none() => {
                vec![Finding::ok(format!("no server runs at {base}"))]
            }
            Err(error) => vec![Finding::fail(
                format!("no healthy server at {base}: {error}"),
                "check its log",
            )],
        }
    })
}

/// Checks that the server uses the store of this configuration. A server that was named by its
/// address may use any store.
async fn store(subject: &Subject<'_>, base: &Base, told: Option<&StoreTold>) -> Option<Finding> {
    if subject.global.url.is_some() {
        return None;
    }
    let store = StoreConfig::of(&subject.config).ok()?;
    Some(match store_check::judge(&store, told, base).await {
        Ok(()) => Finding::ok("it works on the store of this configuration"),
        Err(_) => Finding::fail(
            format!(
                "it does not work on the store of this configuration, {}",
                store.url
            ),
            "set server.listen to a free address, or check which configuration it was started with",
        ),
    })
}

async fn ready(base: &Base) -> Vec<Finding> {
    let said = match ask(base, "/readyz").await {
        Ok(answer) => serde_json::from_str(answer.document.get())
            .map_err(|_| CliError::failed("the answer is not that of a Clinch server")),
        Err(error) => Err(error),
    };
    match said {
        Ok(Readiness { warnings }) => {
            let mut findings = vec![Finding::ok("it is ready: its store answers")];
            findings.extend(warnings.into_iter().map(|warning| {
                match warning.message.split_once("; ") {
                    Some((what, to_do)) => Finding::warn(what, to_do),
                    None => Finding::warn(warning.message, ""),
                }
            }));
            findings
        }
        Err(error) => vec![Finding::fail(
            format!("it is not ready: {error}"),
            "check its log and its store",
        )],
    }
}

/// A server's readiness document.
#[derive(serde::Deserialize)]
struct Readiness {
    #[serde(default)]
    warnings: Vec<Warning>,
}

#[derive(serde::Deserialize)]
struct Warning {
    message: String,
}

/// Neither endpoint needs a key, so none is sent.
async fn ask(base: &Base, path: &str) -> Result<Answer, CliError> {
    let mut client = Client::new(base.clone(), None);
    let asked = tokio::time::timeout(TIMEOUT, client.send(Request::get(path))).await;
    asked.map_err(|_| CliError::failed("no answer in time"))?
}
