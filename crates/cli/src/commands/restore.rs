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
use crate::commands::serve;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::Output;
use crate::store::StoreConfig;
use crate::store_check;

const EXAMPLES: &str = "\
Examples:
  clinch restore /var/backups/clinch-monday.db
  clinch restore /var/backups/clinch-monday.db --force

The backup cannot know what was called since it was taken: the effect of every open operation
becomes unknown. What may be repeated is repeated; what may not is probed, or held for a person.
Stop every server first: while a process has the database open, nothing is done (exit 4).
With --force a database that is there is kept beside it under another name.
API keys of the database that is there stay as they are. Keys that only the backup knows are
revoked, because they may have been revoked since: make new ones with `clinch keys create`.";

/// From what.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file that `clinch backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Take the place of a database that is there; it is kept under another name
    #[arg(long)]
    force: bool,
    /// Leave API keys that only the backup knows as they are, active ones included
    #[arg(long)]
    keep_keys: bool,
}

/// Makes the database out of a backup.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let config = serve::load(global, &[])?;
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
        note(&format!("what was there is kept as {kept}"));
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

/// Says what became of API keys.
fn tell_keys(args: &Args, keys: &RestoredKeys) {
    if keys.revoked > 0 {
        note(&format!(
            "{} API keys of the backup are revoked; make new ones with `clinch keys create`",
            keys.revoked
        ));
    }
    if args.keep_keys {
        note(
            "API keys that only the backup knows are as they were in it; revoke what must not work",
        );
    }
}

/// What may be repeated: the marks depend on it.
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
