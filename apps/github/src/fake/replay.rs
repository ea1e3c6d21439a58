//! Replays answers that were recorded at the real API.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use crate::{ApiAnswer, ApiRequest, Broken, Transport};

/// Replays a scenario of `@octokit/fixtures`: a list of exchanges in JSON.
///
/// - Only GETs with a text answer are kept.
/// - A repeated request gets its answers in the order of the record; the last one repeats.
/// - Tokens and ETags are ignored.
pub struct Replay {
    /// Answers by complete address with sorted parameters.
    recorded: BTreeMap<String, Vec<ApiAnswer>>,
    asked: Mutex<BTreeMap<String, usize>>,
}

/// A scenario that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum BadScenario {
    /// The file cannot be read.
    #[error("the scenario cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The file is not a list of exchanges.
    #[error("the scenario is not a record of @octokit/fixtures: {0}")]
    Malformed(#[from] serde_json::Error),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exchange {
    scope: String,
    method: String,
    path: String,
    status: u16,
    response: Value,
    #[serde(default)]
    response_is_binary: bool,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
}

impl Replay {
    /// Reads a `normalized-fixture.json`.
    pub fn scenario(file: &Path) -> Result<Self, BadScenario> {
        let exchanges: Vec<Exchange> = serde_json::from_slice(&std::fs::read(file)?)?;
        let mut recorded: BTreeMap<String, Vec<ApiAnswer>> = BTreeMap::new();
        for exchange in exchanges {
            if exchange.method.eq_ignore_ascii_case("get") && !exchange.response_is_binary {
                let address = format!("{}{}", exchange.scope, exchange.path);
                let answers = recorded.entry(canonical(&address)).or_default();
                answers.push(exchange.into_answer());
            }
        }
        Ok(Self {
            recorded,
            asked: Mutex::default(),
        })
    }

    /// The recorded requests, as complete addresses.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.recorded.keys().map(String::as_str)
    }
}

impl Exchange {
    fn into_answer(self) -> ApiAnswer {
        let headers = self.headers.into_iter();
        let headers = headers.map(|(name, value)| (name.to_lowercase(), text(value)));
        ApiAnswer {
            status: self.status,
            headers: headers.collect(),
            body: text(self.response).into_bytes(),
        }
    }
}

#[async_trait]
impl Transport for Replay {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        let address = canonical(&request.url);
        let Some(answers) = self.recorded.get(&address) else {
            let known: Vec<&str> = self.urls().collect();
            let known = known.join(", ");
            return Err(Broken::NotSent(format!(
                "{address} was not recorded; recorded are {known}"
            )));
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(address).or_default();
        let answer = answers.get(*times).or(answers.last());
        *times += 1;
        answer
            .cloned()
            .ok_or_else(|| Broken::NotSent("nothing was recorded".to_owned()))
    }
}

/// The address without a default port, and with sorted parameters.
fn canonical(address: &str) -> String {
    let address = address.replacen(":443/", "/", 1);
    let Some((path, query)) = address.split_once('?') else {
        return address;
    };
    let mut parameters: Vec<&str> = query.split('&').collect();
    parameters.sort_unstable();
    format!("{path}?{}", parameters.join("&"))
}

/// A string unquoted, any other value as JSON.
fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
