//! The collector that a command works with: on a server, or in this process.

use std::sync::Arc;

use clinch_core::ports::Clock;
use clinch_github::{Settings, Transport};
use clinch_server::Config;
use clinch_server::telemetry::{self, LogFormat};
use clinch_system::SystemClock;
use serde_json::Value;

use crate::args::Global;
use crate::client::{Base, Client, Request};
use crate::config;
use crate::context::Context;
use crate::error::{CliError, note};
use crate::github::{self, LocalCollector};
use crate::output::Output;
use crate::store::StoreConfig;
use crate::{settings, store_check};

/// What a command does with the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only reads, or changes records.
    Read,
    /// Only reads, also at GitHub, and may create a store.
    Look,
    /// Changes records, and may create a store.
    Write,
    /// Works on existing runs.
    Repair,
    /// Works, and may create a store.
    Work,
}

/// A collector on a server or in this process, and the output.
pub(crate) struct CollectorClient {
    pub(crate) context: Context,
    /// The collector in this process, if there is no server.
    pub(crate) local: Option<LocalCollector>,
}

impl CollectorClient {
    /// Uses the named server, or the one that answers at the default address; otherwise opens the
    /// store in this process.
    pub(crate) async fn open(global: Global, access: Access) -> Result<Self, CliError> {
        let is_named = global.url.as_deref().is_some_and(|url| !url.is_empty());
        if is_named || is_served(&global).await? {
            let context = Context::open(global).await?;
            return Ok(Self {
                context,
                local: None,
            });
        }
        let config = config::load(&global, &[])?;
        let github = github::config(&config)?.unwrap_or_default();
        let settings = github::settings(&github)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let transport = github::transport(&github, &settings, &clock)?;
        Self::local(&global, &config, settings, transport, access).await
    }

    /// Starts a collector in this process.
    pub(crate) async fn local(
        global: &Global,
        config: &Config,
        settings: Settings,
        transport: Arc<dyn Transport>,
        access: Access,
    ) -> Result<Self, CliError> {
        let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "error".to_owned());
        telemetry::logs(LogFormat::Text, &filter)?;
        let store = StoreConfig::of(config)?.url;
        store_check::say(global, &format!("this process (store {store})"));
        let may_create = matches!(access, Access::Look | Access::Write | Access::Work);
        let mut local = LocalCollector::open(config, settings, transport, may_create).await?;
        let (router, _) = clinch_github::api(local.collector.clone(), config.server.body_timeout.0);
        if matches!(access, Access::Repair | Access::Work) {
            local.start();
        }
        let base = Base::parse("http://127.0.0.1").map_err(CliError::failed)?;
        let context = Context {
            client: Client::inside(base, router),
            out: Output::stdout(global.output, !global.no_color),
        };
        Ok(Self {
            context,
            local: Some(local),
        })
    }

    /// Whether the collector is in this process.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    pub(crate) async fn ask(&mut self, request: Request) -> Result<Value, CliError> {
        let answer = self.context.client.send(request).await?;
        let document = serde_json::from_str(answer.document.get());
        document.map_err(|_| self.context.client.not_clinch("the answer is not JSON"))
    }

    pub(crate) async fn get(&mut self, path: impl Into<String>) -> Result<Value, CliError> {
        self.ask(Request::get(path)).await
    }

    pub(crate) async fn post(&mut self, path: String, body: &Value) -> Result<Value, CliError> {
        let body = body.to_string().into_bytes();
        self.ask(Request::post(path, body)).await
    }

    /// Prints a line on standard error.
    pub(crate) fn note(&self, line: &str) {
        note(line);
    }

    /// Waits for running requests, and flushes the output.
    pub(crate) async fn close(mut self) -> Result<(), CliError> {
        if let Some(local) = &mut self.local {
            local.stop().await;
        }
        self.context.out.flush()
    }
}

/// Whether a server answers at the configured address. Another program there is an error: the
/// store's own server may run elsewhere because of it.
pub(crate) async fn is_served(global: &Global) -> Result<bool, CliError> {
    let base = settings::base(global)?;
    match store_check::ask(&base, global.trust()).await {
        Ok(_) => Ok(true),
        Err(CliError::Unreachable { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
