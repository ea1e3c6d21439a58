//! `clinch migrate`.

use clinch::backend::Step;
use serde_json::{Value, json};

use crate::args::Global;
use crate::config;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::store::StoreConfig;
use crate::store_check;

const EXAMPLES: &str = "\
Examples:
  clinch migrate --dry-run --show-sql
  clinch migrate

Servers may keep running, and any number of processes may migrate at once: each migration is
applied once. A missing database is created, except with --dry-run. `clinch serve` also migrates
when it starts; this command does it earlier.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Show the SQL of each migration
    #[arg(long)]
    show_sql: bool,
}

/// Migrates, or shows what would be done.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let config = config::load(global, &[])?;
    let store = StoreConfig::of(&config)?;
    store_check::say_database(global, &store);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let before = runtime.block_on(async {
        match args.dry_run {
            true => store.schema().await,
            false => store.migrate().await,
        }
    })?;
    let steps: Vec<Value> = before.pending.iter().map(|one| shown(one, args)).collect();
    let version = match args.dry_run {
        true => before.version.unwrap_or(0),
        false => before.known,
    };
    let document = json!({
        "database": store.name(),
        "dry_run": args.dry_run,
        "version": version,
        "version_before": before.version,
        "version_known": before.known,
        "steps": steps,
    });
    let name = store.name();
    let known = before.known;
    let mut lines = Vec::new();
    match (before.pending.is_empty(), args.dry_run) {
        (true, _) => lines.push(format!("{name}: up to date, version {known}")),
        (_, true) if before.version.is_none() => {
            lines.push(format!("{name}: would be created, at version {known}"));
        }
        (_, true) => lines.push(format!(
            "{name}: version {version}, would be brought to {known}"
        )),
        (_, false) if before.version.is_none() => {
            lines.push(format!("{name}: created, at version {known}"));
        }
        (_, false) => lines.push(format!("{name}: brought to version {known}")),
    }
    for step in &before.pending {
        lines.push(format!("  {}  {}", step.number, step.name));
        if args.show_sql {
            lines.extend(step.sql.lines().map(str::to_owned));
        }
    }
    Output::stdout(global.output, !global.no_color).answer(&document, &lines)?;
    Ok(Exit::Ok)
}

fn shown(step: &Step, args: &Args) -> Value {
    let mut shown = json!({"version": step.number, "name": step.name});
    if args.show_sql {
        shown["sql"] = Value::from(step.sql);
    }
    shown
}
