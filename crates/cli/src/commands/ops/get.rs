//! `clinch ops get`.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::{Page, Request};
use crate::commands::operation::{self, op_id};
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
    Column::new("NUMBER", |line| at(line, &["/number", "/attempt"])),
    Column::new("STARTED", |line| at(line, &["/started", "/started_at"])),
    Column::new("ENDED", |line| at(line, &["/ended", "/ended_at"])),
    Column::new("OUTCOME", outcome),
    Column::new("LATENCY", latency),
    Column::new("WORKER", |line| at(line, &["/worker"])),
    Column::new("ERROR", |line| at(line, &["/error", "/reason"])),
    Column::new("LATE", late),
];

/// Which, and how much of it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The operation
    #[arg(value_parser = op_id)]
    op_id: String,
    /// The full ledger too: every attempt, its outcome, late answers
    #[arg(long)]
    path: bool,
}

/// Prints it.
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

/// JSON: `{"operation":{…},"attempts":[…]}`, the ledger's own members as they came.
fn print(operation: &RawValue, ledger: &RawValue, context: &mut Context) -> Result<(), CliError> {
    let page = Page::read(ledger, "attempts")
        .ok_or_else(|| context.client.not_clinch("the answer is not a ledger"))?;
    let out = &mut context.out;
    if out.format == Format::Table {
        out.document(operation, operation::FIRST)?;
        out.line("")?;
        let mut listing = Listing::new("attempts", ATTEMPTS);
        listing.push(&page.items, out)?;
        if page.items.is_empty() {
            out.line("no attempt yet")?;
        }
        return listing.end(None, out);
    }
    let ledger = ledger.get().trim_start().strip_prefix('{').unwrap_or("}");
    let both = format!("{{\"operation\":{},{ledger}", operation.get());
    let both = match out.format {
        Format::Jsonl => json::compact(&both),
        _ => json::indented(&both, 0),
    };
    out.line(&both)
}

fn outcome(line: &Value) -> Cell {
    let cell = at(line, &["/outcome", "/outcome/type"]);
    let style = match cell.text.as_str() {
        "ok" => Style::Good,
        "fail" => Style::Bad,
        "retry" | "lost" => Style::Warn,
        _ => Style::Plain,
    };
    cell.styled(style)
}

fn latency(line: &Value) -> Cell {
    let cell = at(line, &["/latency_ms", "/latency"]);
    match line.get("latency_ms") {
        Some(Value::Number(millis)) => Cell::new(&format!("{millis}ms")),
        _ => cell,
    }
}

/// How many late answers there were; `-o json` has them whole.
fn late(line: &Value) -> Cell {
    match line.get("late") {
        Some(Value::Array(answers)) if answers.is_empty() => Cell::new(""),
        Some(Value::Array(answers)) => Cell::new(&answers.len().to_string()).styled(Style::Warn),
        Some(Value::Null | Value::Bool(false)) | None => Cell::new(""),
        Some(other) => Cell::of(other).styled(Style::Warn),
    }
}
