//! Where a command's questions go: to a server, or to a collector in this process.

use std::sync::Arc;

use clinch_core::ports::Clock;
use clinch_github::{Settings, Transport};
use clinch_server::Config;
use clinch_server::telemetry::{self, LogFormat};
use clinch_system::SystemClock;
use serde_json::Value;

use crate::args::Global;
use crate::client::{Base, Client, Request};
use crate::commands::serve;
use crate::context::Context;
use crate::error::{CliError, note};
use crate::github::{self, Here};
use crate::output::Output;
use crate::store::StoreConfig;
use crate::{settings, store_check};

/// What a command is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Only read or change records.
    Look,
    /// Work on what is there.
    Repair,
    /// Work, also on a store that is new.
    Work,
}

/// A server or a collector, and the place to answer.
pub(crate) struct Desk {
    pub(crate) context: Context,
    /// The collector, where it is in this process.
    pub(crate) here: Option<Here>,
}

impl Desk {
    /// A server that is named, or one that answers where it would be; otherwise the store.
    pub(crate) async fn open(global: Global, need: Need) -> Result<Self, CliError> {
        let is_named = global.url.as_deref().is_some_and(|url| !url.is_empty());
        if is_named || is_served(&global).await? {
            let context = Context::open(global).await?;
            return Ok(Self {
                context,
                here: None,
            });
        }
        let config = serve::load(&global, &[])?;
        let github = config.github.clone().unwrap_or_default();
        let settings = github::settings(&github)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let transport = github::transport(&github, &settings, &clock)?;
        Self::here(&global, &config, settings, transport, need).await
    }

    /// A collector in this process.
    pub(crate) async fn here(
        global: &Global,
        config: &Config,
        settings: Settings,
        transport: Arc<dyn Transport>,
        need: Need,
    ) -> Result<Self, CliError> {
        let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "error".to_owned());
        telemetry::logs(LogFormat::Text, &filter)?;
        let store = StoreConfig::of(config)?.url;
        store_check::say(global, &format!("this process (store {store})"));
        let mut here = Here::open(config, settings, transport, need == Need::Work).await?;
        let (router, _) = clinch_github::api(here.collector.clone(), config.server.body_timeout.0);
        if need != Need::Look {
            here.start();
        }
        let base = Base::parse("http://127.0.0.1").map_err(CliError::failed)?;
        let context = Context {
            client: Client::inside(base, router),
            out: Output::stdout(global.output, !global.no_color),
        };
        Ok(Self {
            context,
            here: Some(here),
        })
    }

    /// The collector is in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.here.is_some()
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

    /// A line beside the answer.
    pub(crate) fn note(&self, line: &str) {
        note(line);
    }

    /// Lets requests that are on their way end, and hands the answer on.
    pub(crate) async fn close(mut self) -> Result<(), CliError> {
        if let Some(here) = &mut self.here {
            here.stop().await;
        }
        self.context.out.flush()
    }
}

/// Whether a server answers where it would be. Another program there is an error: the store
/// may have a server that this one keeps from its port.
pub(crate) async fn is_served(global: &Global) -> Result<bool, CliError> {
    let base = settings::base(global)?;
    match store_check::ask(&base, global.trust()).await {
        Ok(_) => Ok(true),
        Err(CliError::Unreachable { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
