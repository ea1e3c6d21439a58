//! Checks the collector: whether the API accepts its tokens, which are named by their hashes, and
//! whether operations wait although the collector is no longer configured.

use std::sync::Arc;

use clinch_core::ports::{Clock, DomainView};
use clinch_github::{ApiRequest, Config, DOMAIN, Settings, Token, Transport};
use clinch_system::SystemClock;

use super::{Finding, Subject};
use crate::error::CliError;
use crate::github;
use crate::store::StoreConfig;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let parts = match github::config(&subject.config) {
        Ok(None) => return left_over(subject),
        Ok(Some(config)) => parts(&config),
        Err(error) => Err(error),
    };
    match parts {
        Ok((settings, transport)) => {
            let mut findings = tokens(subject, &settings, &*transport);
            findings.extend(app(subject, &settings, &*transport));
            findings
        }
        Err(error) => vec![Finding::error(&error)],
    }
}

fn parts(config: &Config) -> Result<(Settings, Arc<dyn Transport>), CliError> {
    let settings = github::settings(config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let transport = github::transport(config, &settings, &clock)?;
    Ok((settings, transport))
}

/// Open operations of a collector that no server with this configuration runs.
fn left_over(subject: &Subject) -> Vec<Finding> {
    match open_jobs(subject) {
        Ok(0) => Vec::new(),
        Ok(open) => vec![Finding::warn(
            format!("{open} operations of the collector wait, and there is no [github] section"),
            "add the section, or end them with `clinch ops cancel --domain github`",
        )],
        Err(error) => vec![Finding::error(&error)],
    }
}

fn open_jobs(subject: &Subject) -> Result<u64, CliError> {
    let store = StoreConfig::of(&subject.config)?;
    if !subject.runtime.block_on(store.is_current()) {
        return Ok(0);
    }
    let opened = subject.runtime.block_on(store.open())?;
    let domains = opened.backend.domains();
    let views = subject.runtime.block_on(domains.domains())?;
    let open = |view: &DomainView| {
        let counts = view.counts;
        counts.pending + counts.live + counts.recorded + counts.waiting + counts.held
    };
    let mut views = views.iter();
    let github = views.find(|view| view.domain.as_str() == DOMAIN);
    Ok(github.map_or(0, open))
}

/// Whether the API knows the GitHub App by its key.
fn app(subject: &Subject, settings: &Settings, http: &dyn Transport) -> Option<Finding> {
    let (app, now) = (settings.app.as_ref()?, SystemClock::new().now());
    let checked = app.check(&settings.api_url, http, now);
    Some(match subject.runtime.block_on(checked) {
        Ok(200) => Finding::ok("the API knows the GitHub App by its private key"),
        Ok(401) => Finding::fail(
            "the API refuses the GitHub App",
            "check github.app_id, github.app_private_key and the machine's clock",
        ),
        Ok(status) => Finding::warn(
            format!("the API answers {status} to the GitHub App"),
            "check github.api_url",
        ),
        Err(error) => Finding::warn(
            format!("the API at {} does not answer: {error}", settings.api_url),
            "check github.api_url",
        ),
    })
}

fn tokens(subject: &Subject, settings: &Settings, http: &dyn Transport) -> Vec<Finding> {
    let ask = |token: &Token| {
        let request = ApiRequest {
            url: settings.api_url.at("/rate_limit"),
            token: Some(token.clone()),
            if_none_match: None,
            accept: None,
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
                let what = format!("for the token {hash} the API answers {}", answer.status);
                Finding::warn(what, "check github.api_url")
            }
            Err(error) => {
                let what = format!("the API at {} does not answer: {error}", settings.api_url);
                Finding::warn(what, "check github.api_url")
            }
        }
    };
    settings.tokens.iter().map(ask).collect()
}
