//! `clinch destinations`.

use std::time::Duration;

use serde_json::{Value, json};

use super::pages;
use crate::client::{Request, segment};
use crate::context::Context;
use crate::duration;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};

const LS_EXAMPLES: &str = "\
Examples:
  clinch destinations ls
  clinch destinations ls -o json

STATE: ok, down (no call passes), probing (a few calls test it), throttled (the provider asked for
a pause), full (a limit is used up). The state is the same in every process of the store; calls,
failures and room are those of the process that answers.";

const RESET_EXAMPLES: &str = "\
Examples:
  clinch destinations reset psp --reason 'the provider is back'

Closes the breaker and ends a pause that the provider asked for, in every process of the store:
at the latest a second later.";

const OPEN_EXAMPLES: &str = "\
Examples:
  clinch destinations open psp --for 30m --reason 'maintenance at the provider'
  clinch destinations open psp

No process of the store calls the destination until the time has passed, or until `clinch
destinations reset`. Work for it waits. Others learn of it at the latest a second later.";

const COLUMNS: &[Column] = &[
    Column::new("DESTINATION", |one| at(one, &["/destination"])),
    Column::new("STATE", state).at_least(9).whole(),
    Column::time("SINCE", |one| at(one, &["/breaker_since", "/paused_since"])),
    Column::time("UNTIL", |one| at(one, &["/open_until", "/paused_until"])),
    Column::new("BACKLOG", |one| at(one, &["/backlog"])),
    Column::new("CALLS_5M", |one| at(one, &["/recent/calls"])),
    Column::new("FAILED_5M", |one| at(one, &["/recent/failed"])),
    Column::new("ROOM", |one| at(one, &["/concurrency/available"])),
    Column::new("RATE_ROOM", |one| at(one, &["/rate/available"])),
    Column::new("LAST_ERROR", last_error).kept(),
];

/// Subcommands for destinations.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List destinations: state, since when, backlog, last error
    #[command(after_help = LS_EXAMPLES)]
    Ls,
    /// Call a destination again: close its breaker and end a pause
    #[command(after_help = RESET_EXAMPLES)]
    Reset {
        /// The destination
        name: String,
        /// Why, shown with the destination and in the log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Make no call to a destination
    #[command(after_help = OPEN_EXAMPLES)]
    Open {
        /// The destination
        name: String,
        /// For how long; by default until it is reset
        #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
        lasting: Option<Duration>,
        /// Why, shown with the destination and in the log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Ls => pages::whole("/v1/destinations", "destinations", COLUMNS, context).await,
        Command::Reset { name, reason } => {
            let body = json!({ "reason": reason });
            change(&name, "reset", &body, context).await
        }
        Command::Open {
            name,
            lasting,
            reason,
        } => {
            let lasting = lasting.map(|lasting| lasting.as_secs_f64());
            let body = json!({ "reason": reason, "for": lasting });
            change(&name, "open", &body, context).await
        }
    }
}

async fn change(
    name: &str,
    verb: &str,
    body: &Value,
    context: &mut Context,
) -> Result<Exit, CliError> {
    let path = format!("/v1/destinations/{}/{verb}", segment(name));
    let body = body.to_string().into_bytes();
    let answer = context.client.send(Request::post(path, body)).await?;
    let first = [
        "destination",
        "state",
        "breaker",
        "open_until",
        "paused_until",
    ];
    context.out.document(&answer.document, &first)?;
    let shown: Value = serde_json::from_str(answer.document.get()).unwrap_or_default();
    let state = shown["state"].as_str().unwrap_or_default();
    note(&format!("{name} is {state}"));
    if shown["shared"] == false {
        note("only in the process that answered: the store does not answer");
    }
    Ok(Exit::Ok)
}

fn state(destination: &Value) -> Cell {
    let cell = at(destination, &["/state"]);
    let style = match cell.text.as_str() {
        "down" => Style::Bad,
        "probing" | "throttled" | "full" => Style::Warn,
        _ => Style::Plain,
    };
    match destination["forced"] == true {
        true => Cell::new("down (by hand)").styled(style),
        false => cell.styled(style),
    }
}

fn last_error(destination: &Value) -> Cell {
    let text = |pointer: &str| destination.pointer(pointer).and_then(Value::as_str);
    if let Some(reason) = text("/reason") {
        return match text("/opened_by") {
            Some(by) => Cell::new(&format!("{by}: {reason}")),
            None => Cell::new(reason),
        };
    }
    match (text("/last_error/message"), text("/last_error/at")) {
        (Some(message), Some(at)) => Cell::new(&format!("{at} {message}")),
        _ => Cell::new(""),
    }
}
