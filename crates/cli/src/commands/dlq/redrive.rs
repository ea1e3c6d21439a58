//! `clinch dlq redrive`.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::DeadLetterFilter;
use crate::client::{Page, Request};
use crate::commands::operation::op_id;
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::listing::Listing;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};
use crate::prompt::Consent;

const EXAMPLES: &str = "\
Examples:
  clinch dlq redrive 01917f5e-0000-7000-8000-000000000000
  clinch dlq redrive --domain payments --from 1h --dry-run
  clinch dlq redrive --domain payments -y

The server's plan is shown first, then you are asked; only what the plan showed is redriven.
A redrive keeps the outbound key; two redrives of one dead letter create one operation. It is
refused if the call may have been applied and may not be repeated: exit 4 if all are refused.";

/// The API's name for the list of verdicts, in a plan and in its result.
const MEMBER: &str = "results";

const COLUMNS: &[Column] = &[
    Column::id("OP_ID", |one| at(one, &["/op_id"])),
    Column::new("VERDICT", verdict),
    Column::new("REASON", |one| at(one, &["/reason"])),
    Column::id("REDRIVEN_BY", |one| at(one, &["/redriven_by"])),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The dead letters; or find them by a filter
    #[arg(value_name = "OP_ID", value_parser = op_id)]
    op_ids: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    filter: DeadLetterFilter,
}

/// Shows the plan, asks, and redrives.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    if args.op_ids.is_empty() && args.filter.is_empty() {
        let what = "name dead letters, or give a filter such as --domain";
        return Err(CliError::usage(what));
    }
    args.consent.check()?;
    let plan = call(&filter(&args, None), true, context).await?;
    let page = Page::read(&plan, MEMBER)
        .ok_or_else(|| context.client.not_clinch("the answer is not a plan"))?;
    if let (true, Some(domain)) = (page.items.is_empty(), args.filter.domain()) {
        context.require_domain(domain).await?;
    }
    if args.consent.dry_run {
        print(&page.items, &mut context.out)?;
        return Ok(Exit::Ok);
    }
    let planned = with_verdict(&page.items, "redrive");
    warn_if_cut(&plan);
    let refused = with_verdict(&page.items, "refused").len();
    if !args.consent.yes || planned.is_empty() {
        print(&page.items, &mut context.out.question())?;
    } else if refused > 0 {
        note(&format!("{refused} refused; --dry-run says why"));
    }
    if planned.is_empty() {
        note("nothing to redrive");
        return Ok(match (page.items.is_empty(), args.op_ids.is_empty()) {
            (true, false) => Exit::NotFound,
            _ if refused > 0 => Exit::Conflict,
            _ => Exit::Ok,
        });
    }
    let question = format!("redrive {} operations?", planned.len());
    args.consent.ask(&question)?;
    let done = call(&filter(&args, Some(planned)), false, context).await?;
    let page = Page::read(&done, MEMBER)
        .ok_or_else(|| context.client.not_clinch("the answer is not a result"))?;
    print(&page.items, &mut context.out)?;
    Ok(Exit::Ok)
}

async fn call(
    filter: &Map<String, Value>,
    dry_run: bool,
    context: &mut Context,
) -> Result<Box<RawValue>, CliError> {
    let body = json!({ "filter": filter, "dry_run": dry_run });
    let body = body.to_string().into_bytes();
    let request = Request::post("/v1/dead-letters/redrive", body);
    Ok(context.client.send(request).await?.document)
}

/// The given filter, limited to the dead letters that the plan showed: the person did not agree to
/// redrive later ones.
fn filter(args: &Args, planned: Option<Vec<String>>) -> Map<String, Value> {
    let pairs = args.filter.pairs().into_iter();
    let mut filter: Map<String, Value> = pairs
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    let op_ids = planned.unwrap_or_else(|| args.op_ids.clone());
    if !op_ids.is_empty() {
        filter.insert("op_ids".to_owned(), Value::from(op_ids));
    }
    filter
}

/// The operations that got this verdict.
fn with_verdict(items: &[Box<RawValue>], verdict: &str) -> Vec<String> {
    let items = items.iter();
    let items = items.filter_map(|item| serde_json::from_str::<Value>(item.get()).ok());
    let has_it = |item: &Value| item.get("verdict").and_then(Value::as_str) == Some(verdict);
    items
        .filter(has_it)
        .filter_map(|item| item.get("op_id")?.as_str().map(str::to_owned))
        .collect()
}

/// Warns if there are more dead letters than the server handles in one call.
fn warn_if_cut(plan: &RawValue) {
    let plan: Value = serde_json::from_str(plan.get()).unwrap_or_default();
    if plan.get("truncated") == Some(&Value::Bool(true)) {
        note("the plan does not cover all dead letters: repeat the command for the rest");
    }
}

fn print(items: &[Box<RawValue>], out: &mut Output) -> Result<(), CliError> {
    let mut listing = Listing::new(MEMBER, COLUMNS);
    listing.push(items, out)?;
    listing.end(None, out)
}

fn verdict(item: &Value) -> Cell {
    let cell = at(item, &["/verdict"]);
    let style = match cell.text.as_str() {
        "redrive" => Style::Good,
        "refused" => Style::Bad,
        _ => Style::Plain,
    };
    cell.styled(style)
}
