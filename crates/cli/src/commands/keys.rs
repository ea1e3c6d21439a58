//! `clinch keys`: works on the database, so that the first key can be created.

use clinch_core::ports::{ApiKey, Clock};
use clinch_core::{Domain, EventType, Timestamp};
use clinch_server::auth::{self, Restriction};
use clinch_system::SystemClock;
use serde_json::{Value, json};

use crate::args::Global;
use crate::config;
use crate::duration;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::table::{Column, Table, at};
use crate::output::text::{Cell, Style};
use crate::output::{Format, Output};
use crate::store::{self, StoreConfig};
use crate::store_check;

const COLUMNS: &[Column] = &[
    Column::new("ID", |key| at(key, &["/id"])).whole(),
    Column::new("NAME", |key| at(key, &["/name"])),
    Column::new("SCOPES", |key| names(key, "scopes")),
    Column::new("DOMAINS", |key| names(key, "domains")),
    Column::time("ENDS", ends),
    Column::new("EVENT_TYPES", |key| names(key, "event_types")),
    Column::time("CREATED_AT", |key| at(key, &["/created_at"])),
];

/// Names, separated by commas.
fn names(key: &Value, member: &str) -> Cell {
    let names = key[member].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    Cell::new(&names.join(","))
}

/// When the key was revoked, or when it expires.
fn ends(key: &Value) -> Cell {
    match key["revoked_at"].as_str() {
        Some(at) => Cell::new(&format!("revoked {at}")).styled(Style::Warn),
        None => at(key, &["/expires_at"]),
    }
}

/// Subcommands for API keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create a key; it is shown once
    Create(Create),
    /// List keys, without their secrets
    Ls(Ls),
    /// Revoke a key
    Revoke(Revoke),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  clinch keys create shop --scopes submit,read --expires 90d
  clinch keys create mailer --scopes work --domains mail --event-types welcome,receipt

Scopes: submit submits operations, read reads them, work leases operations as a remote worker,
operate reads, cancels, resolves, redrives and pauses, admin does everything.

Operations of other domains and event types do not exist for a restricted key.";

/// Said when the first key is created, because it changes what every other caller may do.
const FIRST_KEY: &str = "this is the first key: from now on every request to the server needs a \
                         key (Authorization: Bearer KEY, or CLINCH_API_KEY for clinch); revoking \
                         keys does not undo this";

/// The flags of a new key.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct Create {
    /// Name of the key's owner
    name: String,
    /// What the key may be used for: submit, read, work, operate, admin, separated by commas
    #[arg(long, value_name = "SCOPES", default_value = "submit,read")]
    scopes: String,
    /// The only domains of the key, separated by commas; by default all
    #[arg(long, value_name = "DOMAINS", value_delimiter = ',')]
    domains: Vec<String>,
    /// The only event types of the key in these domains, separated by commas; by default all
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    event_types: Vec<String>,
    /// Lifetime of the key, such as 90d
    #[arg(long, value_name = "DURATION")]
    expires: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clinch keys ls")]
pub(crate) struct Ls {}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clinch keys revoke 3f9a0c1d2e4b5a67")]
pub(crate) struct Revoke {
    /// The key's id, as `clinch keys ls` shows it
    id: String,
}

pub(crate) fn run(command: Command, global: &Global) -> Result<Exit, CliError> {
    let config = config::load(global, &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        store_check::say_database(global, &StoreConfig::of(&config)?);
        let keys = store::open_database(&config).await?.keys;
        let now = SystemClock::new().now();
        let mut out = Output::stdout(global.output, !global.no_color);
        match command {
            Command::Create(create) => {
                let scopes = auth::parse_scopes(&create.scopes)?;
                let expires = create.expires.as_deref().map(duration::parse).transpose();
                let expires =
                    expires.map_err(|why| CliError::usage(format!("--expires: {why}")))?;
                let ends = expires.map(|after| now + after);
                let allowed = restriction(&create)?;
                let is_first = keys.list().await?.is_empty();
                let (name, keys) = (&create.name, keys.as_ref());
                let made = auth::create_restricted(keys, name, &scopes, allowed, now, ends);
                let (key, secret) = made.await?;
                if is_first {
                    note(FIRST_KEY);
                }
                note(&format!(
                    "key {} of {}; it is shown only once:",
                    key.id, key.name
                ));
                let mut document = shown(&key);
                document["key"] = secret.reveal().into();
                out.answer(&document, &[secret.reveal().to_owned()])?;
                Ok(Exit::Ok)
            }
            Command::Ls(_) => {
                let keys = keys.list().await?;
                list(&keys, &mut out)?;
                Ok(Exit::Ok)
            }
            Command::Revoke(revoke) => {
                if !auth::revoke(keys.as_ref(), &revoke.id, now).await? {
                    let message = "there is no active key with this id";
                    return Err(CliError::NotThere(message.to_owned()));
                }
                note("the key is revoked");
                let listed = keys.list().await?;
                let revoked = listed.iter().find(|key| key.id == revoke.id);
                if let Some(key) = revoked {
                    out.answer(&shown(key), &[])?;
                }
                Ok(Exit::Ok)
            }
        }
    })
}

/// Prints keys. In a pipe `-o table`, which is the default, is one document a line.
fn list(keys: &[ApiKey], out: &mut Output) -> Result<(), CliError> {
    let keys: Vec<Value> = keys.iter().map(shown).collect();
    match out.format {
        Format::Json => out.answer(&json!({ "keys": keys }), &[]),
        Format::Table if out.is_terminal() => {
            Table::new(COLUMNS).print(&keys, out)?;
            out.flush()
        }
        Format::Table | Format::Jsonl => {
            keys.iter().try_for_each(|key| out.line(&key.to_string()))?;
            out.flush()
        }
    }
}

/// The restriction of a new key.
fn restriction(create: &Create) -> Result<Restriction, CliError> {
    let domains = create.domains.iter().map(|name| Domain::new(name.trim()));
    let domains: Result<Vec<_>, _> = domains.collect();
    let types = create.event_types.iter();
    let types: Result<Vec<_>, _> = types.map(|name| EventType::new(name.trim())).collect();
    Ok(Restriction {
        domains: domains.map_err(|why| CliError::usage(format!("--domains: {why}")))?,
        event_types: types.map_err(|why| CliError::usage(format!("--event-types: {why}")))?,
    })
}

fn shown(key: &ApiKey) -> serde_json::Value {
    let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    json!({
        "id": key.id,
        "name": key.name,
        "scopes": scopes,
        "domains": key.domains,
        "event_types": key.event_types,
        "created_at": shown_at(key.created_at),
        "expires_at": key.expires_at.map(shown_at),
        "revoked_at": key.revoked_at.map(shown_at),
    })
}

fn shown_at(at: Timestamp) -> Option<String> {
    let moment = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
    Some(moment.to_string())
}
