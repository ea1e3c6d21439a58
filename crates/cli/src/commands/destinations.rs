//! `clinch destinations`.

use serde_json::Value;

use super::pages;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};

const LS_EXAMPLES: &str = "\
Examples:
  clinch destinations ls
  clinch destinations ls -o json";

const COLUMNS: &[Column] = &[
    Column::new("DESTINATION", |one| at(one, &["/destination"])),
    Column::new("BREAKER", breaker),
    Column::new("RATE_ROOM", |one| at(one, &["/rate/available"])),
    Column::new("CALLS_ROOM", |one| at(one, &["/concurrency/available"])),
    Column::new("PAUSED_UNTIL", |one| at(one, &["/paused_until"])),
];

/// Subcommands for destinations.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List destinations: breaker, rate, concurrency, pauses
    #[command(after_help = LS_EXAMPLES)]
    Ls,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Ls => pages::whole("/v1/destinations", "destinations", COLUMNS, context).await,
    }
}

fn breaker(destination: &Value) -> Cell {
    let cell = at(destination, &["/breaker"]);
    let style = match cell.text.as_str() {
        "open" => Style::Bad,
        "half_open" => Style::Warn,
        _ => Style::Plain,
    };
    cell.styled(style)
}
