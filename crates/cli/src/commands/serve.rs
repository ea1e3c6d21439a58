//! `clinch serve`: API, workers and recovery in one process, or some of them.

use std::sync::Arc;

use clinch::backend::{Opened, StoreFiles};
use clinch_core::ports::Clock;
use clinch_github::Collector;
use clinch_server::telemetry::{self, LogFormat};
use clinch_server::{Application, Config, Look, Panel, Parts, Role, Server};
use clinch_system::SystemClock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::args::Global;
use crate::error::{CliError, note};
use crate::executors::Http;
use crate::exit::Exit;
use crate::output::Output;
use crate::{config, github, store};

const EXAMPLES: &str = "\
Examples:
  clinch serve
  clinch serve --config clinch.toml --log-format json
  clinch serve --roles worker --config clinch.toml

Without a configuration the server keeps its operations in clinch.db in the working folder and
listens on 127.0.0.1:7070. SIGINT or SIGTERM stops it after its running attempts; a second signal
ends it at once. SIGHUP reads the collector's tokens and keys again.";

/// Said by a server that can accept nothing.
const NO_ROUTES: &str = "no [[route]] is configured, so every submission is refused as \
                         unknown_route: `clinch init` writes a clinch.toml with a first route";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The roles of this process: api, worker, recovery, or several of them separated by commas
    #[arg(long, value_name = "ROLES", default_value = "api,worker,recovery")]
    roles: String,
    /// Print the effective configuration with secrets masked, and exit
    #[arg(long)]
    print_config: bool,
    /// Log format: pretty, one line for people, or json, one object a line
    #[arg(long, value_name = "FORMAT", default_value = "pretty")]
    log_format: Log,
    /// The same as --log-format
    #[arg(long, value_name = "FORMAT", conflicts_with = "log_format")]
    log: Option<Log>,
    /// Which lines to log, as in RUST_LOG
    #[arg(
        long,
        value_name = "FILTER",
        env = "RUST_LOG",
        default_value = "warn,clinch=info"
    )]
    log_filter: String,
    /// Start on a SQLite file that has lost commits, was replaced, is a backup or is missing
    #[arg(long)]
    accept_data_loss: bool,
    /// Set one value; overrides file and environment
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Log {
    #[value(alias = "text")]
    Pretty,
    Json,
}

/// Serves until a signal stops it.
pub(crate) fn run(args: Args, global: &Global) -> Result<Exit, CliError> {
    let config = config::load(global, &args.set)?;
    if args.print_config {
        return print_config(&config, global);
    }
    let roles = clinch_server::roles(&args.roles)?;
    clinch_server::check_address(&config, &roles)?;
    let format = match args.log.unwrap_or(args.log_format) {
        Log::Pretty => LogFormat::Text,
        Log::Json => LogFormat::Json,
    };
    telemetry::logs(format, &args.log_filter)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    let exit = runtime.block_on(async {
        let signals = Signals::new()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let opened = store::open_as(&config, args.accept_data_loss).await?;
        let identity = opened.identity().await?;
        opened.limit_payloads(config.server.payload_max.0).await?;
        let executors = Http::new(config.clone(), clock.clone())?;
        let collector = collector(&config, &opened, &clock).await?;
        let outlets = executors.outlets()?;
        let mut parts = Parts::new(opened.backend, opened.keys, executors);
        parts.store = Some(identity);
        parts.locks = Some(opened.locks);
        parts.records = Some(opened.records);
        parts.look = opened.files.map(check_of);
        parts.limits = opened.limits;
        parts.outlets = outlets;
        parts
            .applications
            .push(application(collector.as_ref(), &config));
        if let Some(collector) = &collector {
            with_collector(&mut parts, collector, &roles);
        }
        let has_routes = !config.route.is_empty() || collector.is_some();
        let server = Server::bind(config, parts, &roles).await?;
        if let Some(collector) = &collector {
            collector.attach(server.clinch()).await;
            reload_on_hangup(collector)?;
        }
        let clinch = server.clinch().clone();
        match server.local_addr() {
            Some(address) => note(&format!("listening on {}://{address}", server.scheme())),
            None => note("working"),
        }
        if !has_routes {
            note(NO_ROUTES);
        }
        let (stop, second) = signals.split();
        Ok::<Exit, CliError>(tokio::select! {
            biased;
            in_time = server.run(stop) => if in_time { Exit::Ok } else { Exit::Failed },
            exit = second => {
                let attempts = clinch.runtime().attempts();
                // Answers that have arrived go to the spill file; running calls are abandoned.
                clinch.runtime().close().await;
                note(&left_behind(attempts));
                exit
            }
        })
    })?;
    runtime.shutdown_background();
    Ok(exit)
}

/// Prints the values in effect.
fn print_config(config: &Config, global: &Global) -> Result<Exit, CliError> {
    let mut out = Output::stdout(global.output, !global.no_color);
    let text = config.print().trim_end().to_owned();
    out.answer(&config.print_json(), &[text])?;
    Ok(Exit::Ok)
}

/// The collector's routes and pages; without a collector they say that there is none.
fn application(collector: Option<&Collector>, config: &Config) -> Application {
    let (router, described) = match collector {
        Some(collector) => clinch_github::api(collector.clone(), config.server.body_timeout.0),
        None => clinch_github::absent(),
    };
    let panel =
        |collector: &Collector| -> Arc<dyn Panel> { Arc::new(github::Pages(collector.clone())) };
    Application {
        domain: clinch_github::DOMAIN,
        router,
        described,
        examples: clinch_github::EXAMPLES,
        panel: collector.map(panel),
    }
}

/// The check of the store's files.
fn check_of(files: Arc<dyn StoreFiles>) -> Arc<Look> {
    Arc::new(move || files.check())
}

/// What is left to recovery after a second signal.
fn left_behind(attempts: usize) -> String {
    let left = match attempts {
        0 => "no attempt was running".to_owned(),
        1 => "1 attempt was running; recovery handles it when its lease has ended".to_owned(),
        many => {
            format!(
                "{many} attempts were running; recovery handles them when their leases have ended"
            )
        }
    };
    format!("ended at once by a second signal: {left}")
}

/// The collector, if `[github]` is configured. A server without the section neither knows its
/// operations nor answers for it.
async fn collector(
    config: &Config,
    opened: &Opened,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Collector>, CliError> {
    let Some(github) = github::config(config)? else {
        return Ok(None);
    };
    let settings = github::settings(&github)?;
    let transport = github::transport(&github, &settings, clock)?;
    let collector = github::collector(&github, settings, transport, opened, clock).await?;
    Ok(Some(collector))
}

/// Adds the collector's gauges and operations; processes with the worker role execute them.
fn with_collector(parts: &mut Parts, collector: &Collector, roles: &[Role]) {
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

/// SIGHUP: the tokens and keys are read again from where the configuration says.
fn reload_on_hangup(collector: &Collector) -> Result<(), CliError> {
    let failed = |error| CliError::failed(format!("cannot listen for signals: {error}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let collector = collector.clone();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match collector.reload_tokens().await {
                Ok(true) => note("the tokens and keys were read again and have changed"),
                Ok(false) => note("the tokens and keys were read again and are the same"),
                Err(error) => note(&format!("reading the tokens and keys again: {error}")),
            }
        }
    });
    Ok(())
}

/// SIGINT and SIGTERM: the first stops the server, a second one ends the process at once.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, CliError> {
        let failed = |error| CliError::failed(format!("cannot listen for signals: {error}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    /// Waits for the first signal, and for the second. The second future must be polled too: it
    /// alone reads the signals, because a second reader could take the two for one.
    fn split(mut self) -> (impl Future<Output = ()>, impl Future<Output = Exit>) {
        let (stop, stopped) = oneshot::channel();
        let second = async move {
            self.next().await;
            let _ = stop.send(());
            self.next().await
        };
        let first = async move {
            let _ = stopped.await;
        };
        (first, second)
    }

    /// Waits for the next signal; returns the exit code of a process that it ends.
    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}
