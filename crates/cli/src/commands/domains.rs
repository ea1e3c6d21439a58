//! `clinch domains`.

use super::pages;
use crate::client::{Request, segment};
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};

const LS_EXAMPLES: &str = "\
Examples:
  clinch domains ls
  clinch domains ls -o json";

const PAUSE_EXAMPLES: &str = "\
Examples:
  clinch domains pause payments

Pausing blocks new attempts only: running ones settle, probes and deadlines go on.";

const RESUME_EXAMPLES: &str = "\
Examples:
  clinch domains resume payments";

const COLUMNS: &[Column] = &[
    Column::new("DOMAIN", |domain| at(domain, &["/domain"])),
    Column::new("PAUSED", |domain| match at(domain, &["/paused"]) {
        paused if paused.text == "true" => Cell::new("paused").styled(Style::Warn),
        _ => Cell::new(""),
    }),
    Column::new("PENDING", |domain| at(domain, &["/counts/PENDING"])),
    Column::new("LIVE", |domain| at(domain, &["/counts/live"])),
    Column::new("WAITING", |domain| at(domain, &["/counts/waiting"])),
    Column::new("HELD", |domain| at(domain, &["/counts/held"])),
    Column::new("FAILED", |domain| at(domain, &["/counts/FAILED"])),
    Column::new("OLDEST_MS", |domain| at(domain, &["/oldest_age_ms"])),
    Column::new("COMPLETED", |domain| at(domain, &["/counts/COMPLETED"])),
    Column::new("DEPTH", |domain| at(domain, &["/depth"])),
];

/// Subcommands for domains.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List domains with their counters
    #[command(after_help = LS_EXAMPLES)]
    Ls,
    /// Begin no more attempts in a domain
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause {
        /// The domain
        domain: String,
    },
    /// Begin attempts in a domain again
    #[command(after_help = RESUME_EXAMPLES)]
    Resume {
        /// The domain
        domain: String,
    },
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Ls => pages::whole("/v1/domains", "domains", COLUMNS, context).await,
        Command::Pause { domain } => set(&domain, "pause", "paused", context).await,
        Command::Resume { domain } => set(&domain, "resume", "resumed", context).await,
    }
}

async fn set(
    domain: &str,
    verb: &str,
    done: &str,
    context: &mut Context,
) -> Result<Exit, CliError> {
    let path = format!("/v1/domains/{}/{verb}", segment(domain));
    let answer = context
        .client
        .send(Request::post(path, b"{}".to_vec()))
        .await?;
    match answer.document.get() {
        "null" => {}
        _ => context
            .out
            .document(&answer.document, &["domain", "paused"])?,
    }
    note(&format!("{domain} is {done}"));
    Ok(Exit::Ok)
}
