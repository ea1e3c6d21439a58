//! `clinch demo`: the whole system with an unreliable provider and killed processes.
//!
//! The provider is slow, busy, refuses, and drops answers after it has charged. A server and two
//! worker processes run on one embedded database, or on the named store; clients submit a few
//! thousand payments, some of them several times. In the middle a worker and then the server are
//! killed without warning. At the end three independent accounts are compared: what the clients
//! were told, what the store holds, and what the provider charged.

mod clients;
mod ledger;
mod metrics;
mod processes;
mod provider;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::args::Global;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::folder::Folder;
use crate::output::Output;

use clients::Clients;
use ledger::Ledger;
use processes::Processes;
use provider::Provider;

/// Payments of one demo: enough that both kills interrupt hundreds of them.
const PAYMENTS: usize = 3_000;
/// Concurrent clients.
const CLIENTS: usize = 16;
/// Maximum time for all payments to settle after the last was accepted.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(180);
/// Metric: transactions that were run again after a deadlock.
const DEADLOCK_RETRIES: &str = "orchestrator_store_deadlock_retry_count_total";
/// How often the progress is shown.
const REFRESH: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  clinch demo
  clinch demo --seed 7
  clinch demo --keep
  clinch demo --store postgres://localhost/clinch --workers 8 --payments 20000

Exit 0, or 1 if a payment was lost or charged twice. On a store of yours the demo uses a domain
of its own.";

/// The flags of the demo.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Varies the provider's behaviour and the times of the kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of payments
    #[arg(long, value_name = "N", default_value_t = PAYMENTS)]
    payments: usize,
    /// Leave the server running at the end, until you interrupt it
    #[arg(long)]
    keep: bool,
    /// Run it on this store instead of an embedded one
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Dispatch by this bus instead of the store itself
    #[arg(long, value_name = "URL")]
    bus: Option<String>,
    /// Number of worker processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: u8,
    /// How often the server is killed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=100))]
    server_kills: u8,
    /// Half-way, take the provider down for this long
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse, default_value = "0")]
    provider_outage: Duration,
    /// Kill no process: for tests that make the store or the bus fail
    #[arg(long)]
    no_kills: bool,
}

pub(crate) fn run(args: Args, global: &Global) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    let folder = Folder::new(&std::env::temp_dir(), "clinch-demo")?;
    let exit = runtime.block_on(play(
        &args,
        folder.path(),
        Output::stdout(global.output, !global.no_color),
    ));
    runtime.shutdown_background();
    exit
}

async fn play(args: &Args, folder: &Path, mut out: Output) -> Result<Exit, CliError> {
    let provider = Arc::new(Provider::new(args.seed));
    let provider_address = provider.clone().listen().await?;
    let environment = Environment::new(args, folder);
    let mut processes = Processes::new(folder, &environment, provider_address)?;
    processes.start_all(args.workers).await?;
    note(&format!(
        "a server at {}, {} workers, and an unreliable provider; seed {}",
        processes.url(),
        args.workers,
        args.seed
    ));
    let domain = &environment.domain;
    let clients = Clients::new(processes.url(), domain, args.payments, args.seed);
    let clients = Arc::new(clients);
    let submitting = tokio::spawn(clients.clone().submit_all(CLIENTS));
    let mut ledger = Ledger::new(processes.url(), domain);
    for (after, victim) in kills(args) {
        while clients.accepted.load(Ordering::SeqCst) < after && !submitting.is_finished() {
            view(&clients, &provider);
            crate::clock::pause(REFRESH).await;
        }
        match victim {
            Victim::Worker => processes.kill_worker().await?,
            Victim::Server => processes.kill_server().await?,
        }
    }
    if !args.provider_outage.is_zero() {
        while provider.charged() < args.payments / 2 {
            view(&clients, &provider);
            crate::clock::pause(REFRESH).await;
        }
        note(&format!(
            "the provider is down for {:?}",
            args.provider_outage
        ));
        provider.gone(true);
        crate::clock::pause(args.provider_outage).await;
        provider.gone(false);
    }
    while !submitting.is_finished() {
        view(&clients, &provider);
        crate::clock::pause(REFRESH).await;
    }
    let told = submitting
        .await
        .map_err(|_| CliError::failed("a client task failed".to_owned()))??;
    ledger
        .settle(&told, SETTLE_TIMEOUT, || view(&clients, &provider))
        .await?;
    let mut books = ledger.close(&told, &provider).await?;
    books.run_again = processes.metric(DEADLOCK_RETRIES).await?;
    crate::progress::erase();
    out.answer(&books.document(), &[books.text()])?;
    if args.keep {
        let url = processes.url();
        note(&format!(
            "the server keeps running at {url}; interrupt to end"
        ));
        let _ = tokio::signal::ctrl_c().await;
    }
    processes.stop_all().await;
    Ok(if books.is_balanced() {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

/// The kills, and after how many payments each happens: a worker first, then the server.
fn kills(args: &Args) -> Vec<(usize, Victim)> {
    if args.no_kills {
        return Vec::new();
    }
    let servers = usize::from(args.server_kills);
    let at = |number| args.payments * (servers + number) / (2 * servers + 1);
    let mut kills = vec![(args.payments / 3, Victim::Worker)];
    kills.extend((1..=servers).map(|number| (at(number), Victim::Server)));
    kills
}

/// The store, bus and domain of the demo.
struct Environment {
    store: String,
    bus: String,
    /// A domain of its own if the store may hold other data.
    domain: String,
}

impl Environment {
    fn new(args: &Args, folder: &Path) -> Self {
        let own = format!("sqlite://{}", folder.join("demo.db").display());
        let domain = match &args.store {
            None => "payments".to_owned(),
            Some(_) => format!("demo-{}", uuid::Uuid::now_v7().simple()),
        };
        Self {
            store: args.store.clone().unwrap_or(own),
            bus: args.bus.clone().unwrap_or_else(|| "store".to_owned()),
            domain,
        }
    }
}

#[derive(Clone, Copy)]
enum Victim {
    Worker,
    Server,
}

fn view(clients: &Clients, provider: &Provider) {
    crate::progress::line(&format!(
        "accepted {:>5}   repeated {:>4}   charged {:>5}   refused {:>4}   answers dropped {:>4}",
        clients.accepted.load(Ordering::SeqCst),
        clients.repeated.load(Ordering::SeqCst),
        provider.charged(),
        provider.refused(),
        provider.dropped(),
    ));
}
