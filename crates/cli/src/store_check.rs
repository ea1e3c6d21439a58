//! Whether the server that answers works on the store that the configuration names.
//!
//! A port is free for anyone to take. A command whose server follows from a configuration file
//! compares the two before it sends anything else, its key included.

use std::io::IsTerminal as _;
use std::time::Duration;

use clinch::backend::StoreUrl;

use crate::args::Global;
use crate::client::{Base, Client, Request, StoreTold, Trust};
use crate::error::{CliError, note};
use crate::store::StoreConfig;
use crate::{config, settings};

/// A database that takes longer to say its id does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Names the store like any key of the file.
const STORE_VARIABLE: &str = "CLINCH__STORE__URL";

/// Says on standard error where a command works, to whoever sits before a terminal or asks.
pub(crate) fn say(global: &Global, place: &str) {
    if global.verbose || std::io::stderr().is_terminal() {
        note(place);
    }
}

/// Says which database a command works on.
pub(crate) fn say_database(global: &Global, store: &StoreConfig) {
    say(global, &format!("database {}", store.url));
}

/// Refuses a server of another store than the configuration names, and says where the command
/// works. A server that was named without a configuration is meant, whatever its store.
pub(crate) async fn check(global: &Global, base: &Base) -> Result<(), CliError> {
    let Some(store) = configured(global)? else {
        say(global, &format!("server {base}"));
        return Ok(());
    };
    let told = ask(base, global.trust()).await?;
    judge(&store, told.as_ref(), base).await?;
    say(global, &format!("server {base} (store {})", store.url));
    Ok(())
}

/// The store that the server is expected to work on; `None`: nothing names one.
fn configured(global: &Global) -> Result<Option<StoreConfig>, CliError> {
    let is_url = global.url.as_deref().is_some_and(|url| !url.is_empty());
    let config = global.config.as_deref();
    let is_config = config.is_some_and(|path| !path.as_os_str().is_empty());
    if is_url && !is_config {
        return Ok(None);
    }
    let variable = std::env::var_os(STORE_VARIABLE).is_some_and(|url| !url.is_empty());
    if settings::file(global).is_none() && !variable {
        return Ok(None);
    }
    let config = config::read(global)?;
    StoreConfig::of(&config).map(Some)
}

/// Which store the server says it works on; `None`: it is a version that does not say. No key
/// is sent: whoever listens there may be anyone.
pub(crate) async fn ask(base: &Base, trust: Trust) -> Result<Option<StoreTold>, CliError> {
    let mut client = Client::new(base.clone(), None).trusting(trust);
    match client.send(Request::get("/healthz")).await {
        Ok(answer) => Ok(answer.store),
        Err(CliError::Problem(problem)) => {
            let why = format!("/healthz is answered with {}", problem.status);
            Err(client.not_clinch(&why))
        }
        Err(error) => Err(error),
    }
}

/// With the whole path of a file: one that is relative to the working folder is the likeliest
/// mistake.
fn whole_address(store: &StoreConfig) -> String {
    match store.url.file() {
        Some(path) => {
            let whole = std::path::absolute(path);
            let whole = whole.unwrap_or_else(|_| path.to_owned());
            format!("sqlite://{}", whole.display())
        }
        None => store.url.to_string(),
    }
}

/// Refuses what a server told of its store if that cannot be this one.
pub(crate) async fn judge(
    store: &StoreConfig,
    told: Option<&StoreTold>,
    base: &Base,
) -> Result<(), CliError> {
    let address = whole_address(store);
    let to_do = format!("name it with --url {base}, without --config, if it is meant");
    let Some(told) = told else {
        return Err(CliError::usage(format!(
            "the server at {base} does not say which store it works on (an older version?), and \
             the configuration names {address}: nothing was done; {to_do}"
        )));
    };
    let is_same = match store.url {
        StoreUrl::Memory => told.kind == store.url.kind(),
        _ if told.kind != store.url.kind() => false,
        _ => {
            let id = tokio::time::timeout(PATIENCE, store.id()).await;
            let id = id.unwrap_or_else(|_| Err(CliError::failed("no answer in time")));
            let id = id.map_err(|error| {
                CliError::usage(format!(
                    "cannot tell whether the server at {base} works on the store of the \
                     configuration, {address} ({error}): nothing was done; {to_do}"
                ))
            })?;
            id.as_ref() == Some(&told.id)
        }
    };
    match is_same {
        true => Ok(()),
        false => Err(CliError::usage(format!(
            "the server at {base} works on another store than the configuration names, {address}: \
             nothing was done; start `clinch serve` with this configuration on a free \
             server.listen, or {to_do}"
        ))),
    }
}
