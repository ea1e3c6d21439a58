//! Builds the collector from `[github]` and the store.

mod fake;
mod local;
mod pages;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch::backend::Opened;
use clinch_core::policy::QuotaRules;
use clinch_core::ports::{Clock, DocumentSink};
use clinch_github::{
    ApiUrl, App, Collector, Config, Parts, Schedule, Secrets, Settings, Token, TokenKey, TokenKeys,
    TokenReader, Transport, selected,
};
use clinch_http::{Secrets as _, SystemSecrets, reveal};
use clinch_server::Gauges;

use crate::error::CliError;
use crate::store::StoreConfig;

pub(crate) use fake::FakeHub;
pub(crate) use local::LocalCollector;
pub(crate) use pages::Pages;
pub(crate) use transport::Http;

/// Added to the request timeout: after this time no answer can arrive any more.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

/// `[github]`; `None`: the configuration does not have the section.
pub(crate) fn config(config: &clinch_server::Config) -> Result<Option<Config>, CliError> {
    Ok(config.section(Config::SECTION)?)
}

/// The server's tokens, read from where the configuration says.
fn tokens(written: &[String]) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::with_capacity(written.len());
    for (number, text) in (1..).zip(written) {
        let wrong = |why: &str| format!("github.tokens, entry {number}, {why}");
        let secret = reveal(text, &SystemSecrets).map_err(|why| wrong(&why))?;
        if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("is not a token; write \"${env:GITHUB_TOKEN}\""));
        }
        tokens.push(Token::new(secret));
    }
    Ok(tokens)
}

/// The keys that seal tokens of users.
fn token_keys(github: &Config) -> Result<TokenKeys, CliError> {
    let mut keys: Vec<TokenKey> = Vec::with_capacity(github.token_keys.len());
    for (number, text) in (1..).zip(&github.token_keys) {
        let wrong = |why: String| {
            let message = format!("github.token_keys, entry {number}, {why}");
            CliError::usage(message)
        };
        let key = reveal(text, &SystemSecrets).map_err(wrong)?;
        keys.push(key.parse().map_err(|error| wrong(format!("{error}")))?);
    }
    Ok(keys.into())
}

/// The GitHub App, if one is configured. Its key has several lines, so that it comes from a file or
/// the environment.
fn app(github: &Config) -> Result<Option<App>, CliError> {
    if github.app_id.is_empty() {
        return Ok(None);
    }
    let wrong = |why: &str| CliError::usage(format!("github.app_private_key {why}"));
    let written = github.app_private_key.as_str();
    let reference = written
        .strip_prefix("${")
        .and_then(|one| one.strip_suffix('}'));
    let (pem, missing) = match reference.and_then(|one| one.split_once(':')) {
        Some(("file", path)) => (SystemSecrets.file(path), format!("needs the file {path}")),
        Some(("env", name)) => (
            SystemSecrets.env(name),
            format!("needs the environment variable {name}"),
        ),
        _ => (None, "must be \"${file:PATH}\"".to_owned()),
    };
    let pem = pem.ok_or_else(|| wrong(&missing))?;
    let app = App::new(&github.app_id, &pem);
    app.map(Some).map_err(|error| wrong(&error.to_string()))
}

/// The server's secrets, read again from where the configuration says.
fn secrets(github: &Config) -> Result<Secrets, String> {
    let text = |error: CliError| error.to_string();
    Ok(Secrets {
        tokens: tokens(&github.tokens)?,
        token_keys: token_keys(github).map_err(text)?,
        app: app(github).map_err(text)?,
    })
}

/// The collector's settings from the configuration.
pub(crate) fn settings(github: &Config) -> Result<Settings, CliError> {
    let again = github.clone();
    let mut schedule = Vec::new();
    for (login, cron) in github.scheduled() {
        let one = Schedule::new(login, cron);
        let wrong = |error| CliError::usage(format!("github.schedule, {login:?}: {error}"));
        schedule.push(one.map_err(wrong)?);
    }
    let no_time = || CliError::usage("github.keep_runs must be a duration, such as 90d");
    let keep_runs = github.kept_for().ok_or_else(no_time)?;
    let no_time = || CliError::usage("github.full_every must be a duration, such as 30d");
    let full_every = github.full_after().ok_or_else(no_time)?;
    Ok(Settings {
        api_url: api_url(&github.api_url)?,
        tokens: tokens(&github.tokens).map_err(CliError::usage)?,
        token_reader: TokenReader::new(move || secrets(&again)),
        token_keys: token_keys(github)?,
        app: app(github)?,
        page_size: github.page_size,
        concurrency: github.concurrency,
        requests_per_minute: (github.requests_per_minute > 0).then_some(github.requests_per_minute),
        schedule,
        streams: selected(&github.streams)
            .map_err(|wrong| CliError::usage(format!("github.streams: {wrong}")))?,
        repositories: github.repositories.clone(),
        full_every,
        keep_runs,
    })
}

/// The address of the API.
fn api_url(text: &str) -> Result<ApiUrl, CliError> {
    let wrong = |error| CliError::usage(format!("github.api_url: {error}"));
    text.parse().map_err(wrong)
}

/// The transport to the configured API.
pub(crate) fn transport(
    github: &Config,
    settings: &Settings,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Transport>, CliError> {
    let api_url = settings.api_url.to_string();
    let http = Http::new(clock.clone(), &api_url, github.allow_private)?;
    Ok(Arc::new(http))
}

/// A collector on this store.
pub(crate) async fn collector(
    github: &Config,
    settings: Settings,
    transport: Arc<dyn Transport>,
    opened: &Opened,
    clock: &Arc<dyn Clock>,
) -> Result<Collector, CliError> {
    let rules = QuotaRules {
        threshold: u64::from(github.threshold),
        // If a process dies while its request is open, the others wait no longer than a request
        // takes.
        answer_within: transport::TIMEOUT + ANSWER_MARGIN,
        ..QuotaRules::default()
    };
    let shadow = match github.shadow_sink.as_str() {
        "" => None,
        url => Some(sink(url, "github.shadow_sink", opened).await?),
    };
    let parts = Parts {
        settings,
        records: opened.records.clone(),
        documents: sink(&github.sink, "github.sink", opened).await?,
        quota: opened.quota(rules, clock),
        transport,
        inspect: opened.backend.inspect(),
        clock: clock.clone(),
    };
    Ok(Collector::with_shadow_sink(parts, shadow))
}

/// The sink for documents that `key` of the configuration names.
async fn sink(sink: &str, key: &str, opened: &Opened) -> Result<Arc<dyn DocumentSink>, CliError> {
    match sink.split_once("://").map_or(sink, |(scheme, _)| scheme) {
        "store" => Ok(opened.documents.clone()),
        "postgres" | "postgresql" | "mysql" | "mariadb" | "sqlite" => {
            let store = StoreConfig::named(sink, key)?;
            Ok(store.open().await?.documents)
        }
        "mongodb" => mongodb(sink, key).await,
        _ => Err(CliError::usage(format!(
            "{key} is \"store\", postgres://HOST/DATABASE, mysql://HOST/DATABASE, sqlite://FILE or \
             mongodb://HOST/DATABASE",
        ))),
    }
}

#[cfg(feature = "mongodb")]
async fn mongodb(sink: &str, _key: &str) -> Result<Arc<dyn DocumentSink>, CliError> {
    Ok(Arc::new(clinch_mongodb::MongoDb::connect(sink).await?))
}

#[cfg(not(feature = "mongodb"))]
async fn mongodb(_sink: &str, key: &str) -> Result<Arc<dyn DocumentSink>, CliError> {
    Err(CliError::usage(format!(
        "{key} names a MongoDB, which this program was built without; build it with `--features \
         mongodb`, or use \"store\", postgres://HOST/DATABASE or mysql://HOST/DATABASE",
    )))
}

/// The collector's gauges, for a server's `/metrics`.
pub(crate) struct Measured(pub(crate) Collector);

#[async_trait]
impl Gauges for Measured {
    async fn measure(&self) -> clinch::Result<()> {
        self.0.measure().await
    }
}
