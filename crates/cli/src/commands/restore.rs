//! `clinch restore`.

use std::path::PathBuf;
use std::sync::Arc;

use clinch_core::policy::{EventTypes, Routes};
use clinch_core::ports::Clock;
use clinch_core::{Domain, EventType, Invalid};
use clinch_server::Config;
use clinch_sqlite::{BackupKeys, Existing, RestoredKeys, Settings, Sqlite};
use clinch_system::SystemClock;
use serde_json::json;

use crate::args::Global;
use crate::config;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::Output;
use crate::store::StoreConfig;
use crate::store_check;

const EXAMPLES: &str = "\
Examples:
  clinch restore /var/backups/clinch-monday.db
  clinch restore /var/backups/clinch-monday.db --force

The backup cannot know which calls were made since it was taken: the effect of every open operation
becomes unknown. Calls that may be repeated are repeated; other operations are probed, or held for
an operator. Stop every server first: while a process has the database open, nothing is done
(exit 4). With --force an existing database is kept under another name.

API keys of the existing database stay as they are. Keys that only the backup has are
revoked, because they may have been revoked since: create new ones with `clinch keys create`.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file that `clinch backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace an existing database; it is kept under another name
    #[arg(long)]
    force: bool,
    /// Keep API keys that only the backup has, active ones included
    #[arg(long)]
    keep_keys: bool,
}

/// Creates the database from a backup.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let config = config::load(global, &[])?;
    let store = StoreConfig::of(&config)?;
    store_check::say_database(global, &store);
    let target = store.file()?;
    let shown = args.file.display().to_string();
    if !args.file.exists() {
        return Err(CliError::NotThere(format!("there is no file {shown}")));
    }
    let is_taken = std::fs::metadata(target).is_ok_and(|there| there.len() > 0);
    if is_taken && !args.force {
        let what = format!(
            "there is a database at {}; --force puts the backup in its place and keeps what is \
             there under another name",
            target.display()
        );
        return Err(CliError::usage(what));
    }
    let existing = match args.force {
        true => Existing::Replace,
        false => Existing::Refuse,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let routes = routes(&config)?;
    let settings = Settings::default();
    let unknown = match args.keep_keys {
        true => BackupKeys::Keep,
        false => BackupKeys::Revoke,
    };
    let file = &args.file;
    let restored = Sqlite::restore(file, target, existing, &settings, &clock, &routes, unknown)?;
    let kept = restored.kept.map(|kept| kept.display().to_string());
    if let Some(kept) = &kept {
        note(&format!("the replaced database is kept as {kept}"));
    }
    tell_keys(args, &restored.keys);
    let document = json!({
        "database": store.name(),
        "backup": shown,
        "marked_unknown": restored.open,
        "keys": {
            "taken_over": restored.keys.taken_over,
            "revoked": restored.keys.revoked,
        },
        "kept": kept,
    });
    let line = format!(
        "{}: restored from {shown}; {} open operations marked: effect unknown",
        store.name(),
        restored.open
    );
    Output::stdout(global.output, !global.no_color).answer(&document, &[line])?;
    Ok(Exit::Ok)
}

/// Prints what happened to the API keys.
fn tell_keys(args: &Args, keys: &RestoredKeys) {
    if keys.revoked > 0 {
        note(&format!(
            "{} API keys of the backup are revoked; create new ones with `clinch keys create`",
            keys.revoked
        ));
    }
    if args.keep_keys {
        note("API keys that only the backup has are kept; revoke those that must not work");
    }
}

/// The rules that say which calls may be repeated: the marks depend on them.
fn routes(config: &Config) -> Result<Routes, CliError> {
    let wrong = |invalid: Invalid| CliError::usage(invalid.to_string());
    let mut routes = Routes::new();
    for route in &config.route {
        let domain = Domain::new(&route.domain).map_err(wrong)?;
        let event_types = match route.event_type.as_str() {
            "*" => EventTypes::Any,
            one => EventTypes::One(EventType::new(one).map_err(wrong)?),
        };
        routes = routes.with(domain, event_types, route.rules(config)?);
    }
    Ok(routes)
}
