//! `clinch demo`: the whole system, with a bad day.
//!
//! A provider that is slow, busy, refuses and drops answers after it charged; a server and two
//! worker processes on one embedded database; a few thousand payments, some of them submitted
//! several times. In the middle a worker and then the server are killed without warning. At the
//! end three accounts are compared that know nothing of each other: what clients were told,
//! what the store holds, and what the provider charged.

mod clients;
mod ledger;
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
/// How often the picture is drawn.
const VIEW: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  clinch demo
  clinch demo --seed 7
  clinch demo --keep

Ends with exit 0, or 1 if a payment was lost or charged twice.";

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
    let mut processes = Processes::new(folder, provider_address)?;
    processes.start_all().await?;
    note(&format!(
        "a server at {}, two workers, and a provider that has a bad day; seed {}",
        processes.url(),
        args.seed
    ));
    let clients = Arc::new(Clients::new(processes.url(), args.payments, args.seed));
    let submitting = tokio::spawn(clients.clone().submit_all(CLIENTS));
    let kills = [
        (args.payments / 3, Victim::Worker),
        (args.payments * 2 / 3, Victim::Server),
    ];
    let mut ledger = Ledger::new(processes.url());
    for (after, victim) in kills {
        while clients.accepted.load(Ordering::SeqCst) < after && !submitting.is_finished() {
            view(&clients, &provider);
            crate::clock::pause(VIEW).await;
        }
        match victim {
            Victim::Worker => processes.kill_worker().await?,
            Victim::Server => processes.kill_server().await?,
        }
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
    let books = ledger.close(&told, &provider).await?;
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
