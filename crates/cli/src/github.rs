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
use clinch_github::{ApiUrl, Collector, Config, Parts, Schedule, Settings, Token, Transport};
use clinch_http::{SystemSecrets, reveal};
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

/// The collector's settings from the configuration.
pub(crate) fn settings(github: &Config) -> Result<Settings, CliError> {
    let mut tokens = Vec::with_capacity(github.tokens.len());
    for (number, text) in (1..).zip(&github.tokens) {
        let wrong = |why: &str| CliError::usage(format!("github.tokens, entry {number}, {why}"));
        let secret = reveal(text, &SystemSecrets).map_err(|why| wrong(&why))?;
        if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("is not a token; write \"${env:GITHUB_TOKEN}\""));
        }
        tokens.push(Token::new(secret));
    }
    let mut schedule = Vec::new();
    for (login, cron) in github.scheduled() {
        let one = Schedule::new(login, cron);
        let wrong = |error| CliError::usage(format!("github.schedule, {login:?}: {error}"));
        schedule.push(one.map_err(wrong)?);
    }
    Ok(Settings {
        api_url: api_url(&github.api_url)?,
        tokens,
        page_size: github.page_size,
        concurrency: github.concurrency,
        schedule,
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
    Ok(Collector::new(Parts {
        settings,
        records: opened.records.clone(),
        documents: sink(github, opened).await?,
        quota: opened.quota(rules, clock),
        transport,
        inspect: opened.backend.inspect(),
        clock: clock.clone(),
    }))
}

/// The sink for documents, from `github.sink`.
async fn sink(github: &Config, opened: &Opened) -> Result<Arc<dyn DocumentSink>, CliError> {
    let sink = github.sink.as_str();
    match sink.split_once("://").map_or(sink, |(scheme, _)| scheme) {
        "store" => Ok(opened.documents.clone()),
        "postgres" | "postgresql" => {
            let store = StoreConfig::named(sink, "github.sink")?;
            Ok(store.open().await?.documents)
        }
        "mongodb" => mongodb(sink).await,
        _ => Err(CliError::usage(
            "github.sink is \"store\", postgres://HOST/DATABASE or mongodb://HOST/DATABASE",
        )),
    }
}

#[cfg(feature = "mongodb")]
async fn mongodb(sink: &str) -> Result<Arc<dyn DocumentSink>, CliError> {
    Ok(Arc::new(clinch_mongodb::MongoDb::connect(sink).await?))
}

#[cfg(not(feature = "mongodb"))]
async fn mongodb(_sink: &str) -> Result<Arc<dyn DocumentSink>, CliError> {
    Err(CliError::usage(
        "github.sink names a MongoDB, which this program was built without; build it with \
         `--features mongodb`, or use \"store\" or postgres://HOST/DATABASE",
    ))
}

/// The collector's gauges, for a server's `/metrics`.
pub(crate) struct Measured(pub(crate) Collector);

#[async_trait]
impl Gauges for Measured {
    async fn measure(&self) -> clinch::Result<()> {
        self.0.measure().await
    }
}
