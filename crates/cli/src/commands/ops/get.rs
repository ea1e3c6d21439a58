//! `clinch ops get`.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::{Page, Request};
use crate::commands::operation::{self, op_id_or_prefix};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::listing::Listing;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};
use crate::output::{Format, json};

const EXAMPLES: &str = "\
Examples:
  clinch ops get 01917f5e-0000-7000-8000-000000000000
  clinch ops get 01917f5e-0000-7000-8000-000000000000 --path
  clinch ops get 01917f5e-0000-7000-8000-000000000000 -o json | jq .result";

const ATTEMPTS: &[Column] = &[
    Column::new("NUMBER", |attempt| at(attempt, &["/number"])),
    Column::time("STARTED_AT", |attempt| at(attempt, &["/started_at"])),
    Column::time("ENDED_AT", |attempt| at(attempt, &["/ended_at"])),
    Column::new("OUTCOME", outcome),
    Column::new("LATENCY", latency),
    Column::new("WORKER", |attempt| at(attempt, &["/worker"])),
    Column::new("ERROR", |attempt| at(attempt, &["/error"])).kept(),
];

const LATE: &[Column] = &[
    Column::time("LATE_AT", |answer| at(answer, &["/at"])),
    Column::new("OUTCOME", outcome),
    Column::new("WORKER", |answer| at(answer, &["/worker"])),
    Column::new("PROVIDER_TXN_ID", |answer| {
        at(answer, &["/provider_txn_id"])
    }),
    Column::new("REFUSED", |answer| at(answer, &["/refused"])).kept(),
];

const LEDGER: &[Column] = &[
    Column::time("AT", |line| at(line, &["/at"])),
    Column::new("EVENT", |line| at(line, &["/event"])).whole(),
    Column::new("STATE", operation::state).whole(),
    Column::new("FENCE", |line| at(line, &["/fence"])),
    Column::new("BY", |line| at(line, &["/by"])),
    Column::new("NOTE", |line| at(line, &["/note"])).kept(),
    Column::new("REFUSED", |line| at(line, &["/refused"])).kept(),
];

/// The lists of the ledger document, in the order in which they are shown.
const LISTS: [(&str, &[Column]); 3] = [
    ("attempts", ATTEMPTS),
    ("late_answers", LATE),
    ("ledger", LEDGER),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The operation
    #[arg(value_parser = op_id_or_prefix)]
    op_id: String,
    /// Also show the full ledger: every attempt, its outcome, late answers
    #[arg(long)]
    path: bool,
}

/// Prints the operation.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let path = format!("/v1/operations/{}", args.op_id);
    let answer = context.client.send(Request::get(&path)).await?;
    if !args.path {
        context.out.document(&answer.document, operation::FIRST)?;
        return Ok(Exit::Ok);
    }
    let ledger = Request::get(format!("{path}/attempts"));
    let ledger = context.client.send(ledger).await?;
    print(&answer.document, &ledger.document, context)?;
    Ok(Exit::Ok)
}

/// JSON: the ledger document as it came, with the operation as its first member.
fn print(operation: &RawValue, ledger: &RawValue, context: &mut Context) -> Result<(), CliError> {
    if Page::read(ledger, "attempts").is_none() {
        return Err(context.client.not_clinch("the answer is not a ledger"));
    }
    let out = &mut context.out;
    if out.format == Format::Table {
        out.document(operation, operation::FIRST)?;
        for (member, columns) in LISTS {
            let items = Page::read(ledger, member).map(|page| page.items);
            if let Some(items) = items.filter(|items| !items.is_empty()) {
                out.line("")?;
                Listing::new(member, columns).push(&items, out)?;
            }
        }
        return Ok(());
    }
    let ledger = ledger.get().trim_start().strip_prefix('{').unwrap_or("}");
    let both = format!("{{\"operation\":{},{ledger}", operation.get());
    let both = match out.format {
        Format::Jsonl => json::compact(&both),
        _ => json::indented(&both, 0),
    };
    out.line(&both)
}

fn outcome(answer: &Value) -> Cell {
    let cell = at(answer, &["/outcome"]);
    let style = match cell.text.as_str() {
        "ok" => Style::Good,
        "fail" => Style::Bad,
        "retry" | "lost" => Style::Warn,
        _ => Style::Plain,
    };
    cell.styled(style)
}

fn latency(attempt: &Value) -> Cell {
    match attempt.get("latency_ms") {
        Some(Value::Number(millis)) => Cell::new(&format!("{millis}ms")),
        _ => Cell::new(""),
    }
}
