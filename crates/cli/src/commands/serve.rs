//! `clinch serve`: API, workers and recovery in one process, or some of them.

use std::path::PathBuf;
use std::sync::Arc;

use clinch::core::ports::Clock;
use clinch_github::Collector;
use clinch_server::config::Sources;
use clinch_server::telemetry::{self, LogFormat};
use clinch_server::{Config, Look, Parts, Role, Server};
use clinch_system::SystemClock;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Global;
use crate::error::{CliError, note};
use crate::executors::Http;
use crate::exit::Exit;
use crate::store::Opened;
use crate::{github, settings, store};

const EXAMPLES: &str = "\
Examples:
  clinch serve
  clinch serve --config clinch.toml --log json
  clinch serve --roles worker --config clinch.toml

Without a configuration it keeps its operations in clinch.db in the working folder and listens
on 127.0.0.1:7070. It ends on SIGINT and SIGTERM, when its attempts have.";

/// What can be said about a server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What this process does: api, worker, recovery, or several of them with commas
    #[arg(long, value_name = "ROLES", default_value = "api,worker,recovery")]
    roles: String,
    /// Show the effective values with secrets masked, and end
    #[arg(long)]
    print_config: bool,
    /// How to write the log: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: Log,
    /// Which lines to log, as in RUST_LOG
    #[arg(
        long,
        value_name = "FILTER",
        env = "RUST_LOG",
        default_value = "warn,clinch=info"
    )]
    log_filter: String,
    /// Start on a SQLite file that has lost commits, was replaced, is a backup or is gone
    #[arg(long)]
    accept_data_loss: bool,
    /// Set one value, whatever file and environment say
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Log {
    Text,
    Json,
}

/// Serves until it is told to stop.
pub(crate) fn run(args: Args, global: &Global) -> Result<Exit, CliError> {
    let config = load(global, &args.set)?;
    if args.print_config {
        crate::output::print(&config.print())?;
        return Ok(Exit::Ok);
    }
    let roles = clinch_server::roles(&args.roles)?;
    let format = match args.log {
        Log::Text => LogFormat::Text,
        Log::Json => LogFormat::Json,
    };
    telemetry::logs(format, &args.log_filter)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    let in_time = runtime.block_on(async {
        let stop = stop_signal()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let opened = store::open_as(&config, args.accept_data_loss).await?;
        opened.limit_payloads(config.server.payload_max.0).await?;
        let executors = Http::new(config.clone(), clock.clone())?;
        let collector = collector(&config, &opened, &clock).await?;
        let outlets = executors.outlets()?;
        let mut parts = Parts::new(opened.backend, opened.keys, executors);
        parts.locks = Some(opened.locks);
        parts.look = opened
            .sqlite
            .map(|file| Arc::new(move || file.check()) as Arc<Look>);
        parts.limits = opened.limits;
        parts.outlets = outlets;
        with_collector(&mut parts, &collector, &config, &roles);
        let server = Server::bind(config, parts, &roles).await?;
        collector.attach(server.clinch()).await?;
        match server.local_addr() {
            Some(address) => note(&format!("listening on {}://{address}", server.scheme())),
            None => note("working"),
        }
        Ok::<bool, CliError>(server.run(stop).await)
    })?;
    runtime.shutdown_background();
    Ok(if in_time { Exit::Ok } else { Exit::Failed })
}

async fn collector(
    config: &Config,
    opened: &Opened,
    clock: &Arc<dyn Clock>,
) -> Result<Collector, CliError> {
    let settings = github::settings(&config.github)?;
    let transport = Arc::new(github::Http::new(clock.clone())?);
    github::collector(config, settings, transport, opened, clock).await
}

/// The collector is part of every server: what it costs while nobody uses it is its routes.
fn with_collector(parts: &mut Parts, collector: &Collector, config: &Config, roles: &[Role]) {
    let body_timeout = config.server.body_timeout.0;
    let (router, described) = clinch_github::api(collector.clone(), body_timeout);
    parts.extra = std::mem::take(&mut parts.extra).merge(router);
    parts.described = Some(described);
    parts
        .gauges
        .push(Arc::new(github::Measured(collector.clone())));
    let (collector, works) = (collector.clone(), roles.contains(&Role::Worker));
    parts.tune = Box::new(move |builder| {
        let builder = builder;
        match works {
            true => collector.handle(builder),
            false => collector.declare(builder),
        }
    });
}

/// File, environment, then `--set`.
pub(crate) fn load(global: &Global, set: &[String]) -> Result<Config, CliError> {
    let (file, sources) = sources(global, set)?;
    Ok(Config::load(file.as_deref(), &sources)?)
}

/// Where the configuration comes from.
pub(crate) fn sources(
    global: &Global,
    set: &[String],
) -> Result<(Option<PathBuf>, Sources), CliError> {
    let file: Option<PathBuf> = settings::file(global);
    let mut flags = Vec::with_capacity(set.len());
    for pair in set {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            CliError::usage("--set takes KEY=VALUE, such as server.listen=127.0.0.1:0")
        })?;
        flags.push((key.to_owned(), value.to_owned()));
    }
    let sources = Sources {
        environment: std::env::vars().collect(),
        flags,
    };
    Ok((file, sources))
}

/// Completes on the first SIGINT or SIGTERM; a second one ends the process at once.
fn stop_signal() -> Result<impl Future<Output = ()>, CliError> {
    let failed = |error| CliError::failed(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
