//! The collector's tokens: whether the API knows them. They are named by their hashes.

use std::sync::Arc;

use clinch_github::{ApiRequest, Token, Transport as _};
use clinch_system::SystemClock;

use super::{Finding, Subject};
use crate::github;

pub(super) fn look(subject: &Subject) -> Vec<Finding> {
    let settings = match github::settings(&subject.config.github) {
        Ok(settings) => settings,
        Err(error) => return vec![Finding::error(&error)],
    };
    let http = match github::Http::new(Arc::new(SystemClock::new())) {
        Ok(http) => http,
        Err(error) => return vec![Finding::error(&error)],
    };
    let ask = |token: &Token| {
        let request = ApiRequest {
            url: format!("{}/rate_limit", settings.api_url),
            token: Some(token.clone()),
            if_none_match: None,
        };
        let answer = subject.runtime.block_on(http.get(&request));
        let hash = token.hash();
        match answer {
            Ok(answer) if answer.status == 401 => {
                let what = format!("the API refuses the token {hash}");
                Finding::fail(what, "replace it in github.tokens")
            }
            Ok(answer) if answer.status == 200 => {
                Finding::ok(format!("the API knows the token {hash}"))
            }
            Ok(answer) => {
                let what = format!(
                    "asked for the token {hash}, the API answers {}",
                    answer.status
                );
                Finding::warn(what, "look at github.api_url")
            }
            Err(error) => {
                let what = format!("the API at {} does not answer: {error}", settings.api_url);
                Finding::warn(what, "look at github.api_url")
            }
        }
    };
    settings.tokens.iter().map(ask).collect()
}
