//! `clinch demo`: the whole system, with a bad day.
//!
//! A provider that is slow, busy, refuses and drops answers after it charged; a server and two
//! worker processes on one embedded database, or on the one that is named; a few thousand
//! payments, some of them submitted several times. In the middle a worker and then the server
//! are killed without warning. At the end three accounts are compared that know nothing of each
//! other: what clients were told, what the store holds, and what the provider charged.

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

use clients::Clients;
use ledger::Ledger;
use processes::Processes;
use provider::Provider;

/// Payments of one demo: enough that both kills meet hundreds of them on their way.
const PAYMENTS: usize = 3_000;
/// Clients that submit at once.
const CLIENTS: usize = 16;
/// No payment takes longer to settle after the last was accepted.
const PATIENCE: Duration = Duration::from_secs(180);
/// Transactions that the database server ended for a deadlock, and that were run again.
const RUN_AGAIN: &str = "orchestrator_store_deadlock_retry_count_total";
/// How often the picture is drawn.
const VIEW: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  clinch demo
  clinch demo --seed 7
  clinch demo --keep
  clinch demo --store postgres://localhost/clinch --workers 8 --payments 20000

Ends with exit 0, or 1 if a payment was lost or charged twice. On a store of yours it keeps to
a domain of its own.";

/// How to play it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Varies the provider's moods and the moments of the kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many payments
    #[arg(long, value_name = "N", default_value_t = PAYMENTS)]
    payments: usize,
    /// Leave the server up when all is done, until you interrupt it
    #[arg(long)]
    keep: bool,
    /// Play it on this store instead of an embedded one
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Dispatch by this bus instead of the store itself
    #[arg(long, value_name = "URL")]
    bus: Option<String>,
    /// How many worker processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: u8,
    /// How often the server is killed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=100))]
    server_kills: u8,
    /// Half-way, let the provider be gone for so long
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse, default_value = "0")]
    provider_outage: Duration,
    /// Kill no process of ours: for those who harm the store or the bus meanwhile
    #[arg(long)]
    no_kills: bool,
}

pub(crate) fn run(args: Args, _global: &Global) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    let folder = Folder::new(&std::env::temp_dir(), "clinch-demo")?;
    let exit = runtime.block_on(play(&args, folder.path()));
    runtime.shutdown_background();
    exit
}

async fn play(args: &Args, folder: &Path) -> Result<Exit, CliError> {
    let provider = Arc::new(Provider::new(args.seed));
    let provider_address = provider.clone().listen().await?;
    let setting = Setting::new(args, folder);
    let mut processes = Processes::new(folder, &setting, provider_address)?;
    processes.start_all(args.workers).await?;
    note(&format!(
        "a server at {}, {} workers, and a provider that has a bad day; seed {}",
        processes.url(),
        args.workers,
        args.seed
    ));
    let clients = Clients::new(processes.url(), &setting.domain, args.payments, args.seed);
    let clients = Arc::new(clients);
    let submitting = tokio::spawn(clients.clone().submit_all(CLIENTS));
    let mut ledger = Ledger::new(processes.url(), &setting.domain);
    for (after, victim) in kills(args) {
        while clients.accepted.load(Ordering::SeqCst) < after && !submitting.is_finished() {
            view(&clients, &provider);
            crate::clock::pause(VIEW).await;
        }
        match victim {
            Victim::Worker => processes.kill_worker().await?,
            Victim::Server => processes.kill_server().await?,
        }
    }
    if !args.provider_outage.is_zero() {
        while provider.charged() < args.payments / 2 {
            view(&clients, &provider);
            crate::clock::pause(VIEW).await;
        }
        note(&format!(
            "the provider is gone for {:?}",
            args.provider_outage
        ));
        provider.gone(true);
        crate::clock::pause(args.provider_outage).await;
        provider.gone(false);
    }
    while !submitting.is_finished() {
        view(&clients, &provider);
        crate::clock::pause(VIEW).await;
    }
    let told = submitting
        .await
        .map_err(|_| CliError::failed("the clients broke off".to_owned()))??;
    ledger
        .settle(&told, PATIENCE, || view(&clients, &provider))
        .await?;
    let mut books = ledger.close(&told, &provider).await?;
    books.run_again = processes.metric(RUN_AGAIN).await?;
    crate::output::print(&books.text())?;
    if args.keep {
        note(&format!(
            "the server stays up at {}; interrupt to end",
            processes.url()
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

/// Who is killed, and after how many payments: a worker first, then the server.
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

/// Where it plays.
struct Setting {
    store: String,
    bus: String,
    /// Of its own where the store may hold more than this demo.
    domain: String,
}

impl Setting {
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
