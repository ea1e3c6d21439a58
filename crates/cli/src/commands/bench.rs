//! `clinch bench`: measures this machine and a store.

mod measure;
mod provider;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clinch::backend::StoreUrl;
use rustix::fs::statfs;
use serde_json::json;

use crate::args::Global;
use crate::config;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::folder::Folder;
use crate::output::table::{Column, Table, at};
use crate::output::{Format, Output};
use crate::store::StoreConfig;

use measure::{Measure, Plan};

/// Figures of a shorter run mean nothing.
const SECONDS_MIN: u64 = 2;
const SECONDS_MAX: u64 = 3_600;
/// The `statfs` type number of a file system in memory.
const TMPFS: u32 = 0x0102_1994;

const EXAMPLES: &str = "\
Examples:
  clinch bench
  clinch bench --folder /var/lib/clinch --seconds 60
  clinch bench --store sqlite:///var/lib/clinch/bench.db -o json

Measures a temporary database, which is removed afterwards, or the store that --store names; never
the configured one. Every accept and every result is durable before it counts. The same run also
measures the best that the machine can do.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Approximate total duration
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(SECONDS_MIN..=SECONDS_MAX))]
    seconds: u64,
    /// The store to measure, such as sqlite://FILE; the measured operations stay in it
    #[arg(long, value_name = "URL", conflicts_with = "folder")]
    store: Option<String>,
    /// The folder for the temporary database: a folder on the disk to measure
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

const COLUMNS: &[Column] = &[
    Column::new("MEASURE", |one| at(one, &["/name"])),
    Column::new("FIGURE", |one| at(one, &["/shown"])),
    Column::new("THE MACHINE AT BEST", |one| at(one, &["/limit"])),
];

/// Measures and prints the figures.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let under = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = Folder::new(&under, "clinch-bench")?;
    let store = match &args.store {
        None => StoreConfig::at(StoreUrl::Sqlite(folder.path().join("clinch.db"))),
        Some(url) => {
            let store = StoreConfig::named(url, "--store")?;
            refuse_configured(&store, global)?;
            store
        }
    };
    // The disk of the store, if the store is a file on this machine.
    let disk = match store.file() {
        Ok(file) => parent(file),
        Err(_) => folder.path().to_owned(),
    };
    let is_in_memory = statfs(&disk).is_ok_and(|stat| stat.f_type as u32 == TMPFS);
    if is_in_memory {
        note(
            "this folder is in memory, so the figures say nothing about a disk; choose one with --folder",
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let scratch = Folder::new(&disk, "clinch-bench-limits")?;
    let plan = Plan {
        store: &store,
        scratch: scratch.path(),
        unit: Duration::from_secs(args.seconds) / 20,
    };
    let measured = runtime.block_on(async {
        tokio::select! {
            measured = measure::all(&plan) => measured,
            // Returning here removes the temporary folder.
            _ = tokio::signal::ctrl_c() => Err(CliError::failed("interrupted")),
        }
    });
    runtime.shutdown_background();
    print(&measured?, &store, args, global)?;
    Ok(Exit::Ok)
}

fn print(
    measured: &[Measure],
    store: &StoreConfig,
    args: &Args,
    global: &Global,
) -> Result<(), CliError> {
    let shown = match &args.store {
        None => "a temporary SQLite file".to_owned(),
        Some(_) => store.name(),
    };
    let rows: Vec<_> = measured.iter().map(Measure::document).collect();
    let mut out = Output::stdout(global.output, !global.no_color);
    match global.output {
        Format::Table => {
            note(&format!("measured on {shown}"));
            Table::new(COLUMNS).print(&rows, &mut out)?;
            out.flush()
        }
        _ => {
            let document = json!({"store": shown, "seconds": args.seconds, "measures": rows});
            out.answer(&document, &[])
        }
    }
}

/// Refuses the configured store: thousands of artificial operations do not belong among real ones.
fn refuse_configured(store: &StoreConfig, global: &Global) -> Result<(), CliError> {
    let Ok(config) = config::load(global, &[]) else {
        return Ok(());
    };
    let configured = StoreConfig::of(&config)?;
    let is_same = match (store.file(), configured.file()) {
        (Ok(one), Ok(other)) => real(one) == real(other),
        _ => store.url == configured.url && store.url != StoreUrl::Memory,
    };
    if is_same {
        let what = "--store names the configured store; measure another one";
        return Err(CliError::usage(what));
    }
    Ok(())
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let folder = parent(path);
    let folder = folder.canonicalize().unwrap_or(folder);
    let path = folder.join(path.file_name().unwrap_or_default());
    path.canonicalize().unwrap_or(path)
}

fn parent(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}
