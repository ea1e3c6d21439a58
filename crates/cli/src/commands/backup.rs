//! `clinch backup`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clinch_sqlite::{Existing, Settings, Sqlite};
use serde_json::json;

use crate::args::Global;
use crate::clock::{self, Budget};
use crate::config;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::progress;
use crate::store::StoreConfig;
use crate::store_check;

/// How often the progress is shown.
const REFRESH: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  clinch backup /var/backups/clinch-monday.db
  clinch backup /var/backups/clinch.db --force

Servers and workers keep running. The copy is a snapshot of the database. It appears under its
name only when it is complete, has passed SQLite's integrity check, and is on disk. It holds
payloads, so only you can read it.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// Copies the database.
pub(crate) fn run(args: Args, global: &Global) -> Result<Exit, CliError> {
    let config = config::load(global, &[])?;
    let store = StoreConfig::of(&config)?;
    store_check::say_database(global, &store);
    let source = store.file()?.to_owned();
    if !source.exists() {
        let what = format!("there is no database at {}", source.display());
        return Err(CliError::NotThere(what));
    }
    let existing = match args.force {
        true => Existing::Replace,
        false if args.file.exists() => {
            let what = format!(
                "{} exists; name another file, or replace it with --force",
                args.file.display()
            );
            return Err(CliError::usage(what));
        }
        false => Existing::Refuse,
    };
    let took = Budget::start(None);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(copy(source.clone(), args.file.clone(), existing))?;
    let bytes = size(&args.file);
    let document = json!({
        "database": store.name(),
        "backup": args.file.display().to_string(),
        "bytes": bytes,
        "checked": true,
        "seconds": took.spent().as_secs_f64(),
    });
    let line = format!(
        "{}: {} copied and checked in {:.1} s",
        args.file.display(),
        mib(bytes),
        took.spent().as_secs_f64()
    );
    Output::stdout(global.output, !global.no_color).answer(&document, &[line])?;
    Ok(Exit::Ok)
}

async fn copy(source: PathBuf, target: PathBuf, existing: Existing) -> Result<(), CliError> {
    let all = size(&source);
    let partial = {
        let mut name = target.clone().into_os_string();
        name.push(".partial");
        PathBuf::from(name)
    };
    let mut copying = tokio::task::spawn_blocking(move || {
        Sqlite::copy(&source, &target, existing, &Settings::default())
    });
    loop {
        tokio::select! {
            ended = &mut copying => {
                progress::line("");
                let ended = ended.map_err(|_| CliError::failed("the backup was interrupted"))?;
                return Ok(ended?);
            }
            () = clock::pause(REFRESH) => {
                let done = size(&partial);
                progress::line(&match done < all {
                    true => format!("copied {} of about {}", mib(done), mib(all)),
                    false => "checking the copy".to_owned(),
                });
            }
        }
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |there| there.len())
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1024 * 1024))
}
