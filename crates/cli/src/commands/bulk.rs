//! Applies one action to many operations: to named ones, or to those that a filter finds.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::filter::Filter;
use super::operation::{self, Brief, op_id_or_prefix};
use super::pages::{List, PAGE, count};
use crate::client::Request;
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::listing::Listing;
use crate::output::table::{Column, at};
use crate::output::text::Style;
use crate::progress::Progress;
use crate::prompt::Consent;

const RESULTS: &[Column] = &[
    Column::id("OP_ID", |result| at(result, &["/op_id"])),
    Column::new("RESULT", |result| {
        let style = match result.get("code") {
            Some(_) => Style::Bad,
            None => Style::Good,
        };
        at(result, &["/code", "/done"]).styled(style)
    })
    .at_least(20),
    Column::new("DETAIL", |result| at(result, &["/detail"])),
];

/// The operations to act on.
#[derive(Debug, clap::Args)]
pub(crate) struct Targets {
    /// The operations; or find them by a filter
    #[arg(value_name = "OP_ID", value_parser = op_id_or_prefix)]
    pub(crate) op_ids: Vec<String>,
    /// At most this many of the operations that the filter finds
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count)]
    limit: usize,
    #[command(flatten)]
    consent: Consent,
    // Must be last: its help heading applies to all following flags.
    #[command(flatten)]
    pub(crate) filter: Filter,
}

impl Targets {
    /// Requires either ids or a filter: a bare `cancel` must not mean everything.
    pub(crate) fn check(&self, has_filter: bool) -> Result<(), CliError> {
        match (self.op_ids.is_empty(), has_filter) {
            (true, false) => Err(CliError::usage(
                "name operations, or give a filter such as --domain",
            )),
            (false, true) => Err(CliError::usage(
                "name operations or give a filter, not both",
            )),
            _ => Ok(()),
        }
    }
}

/// The action on each operation.
#[derive(Debug)]
pub(crate) struct Action {
    /// The last segment of the endpoint, and the verb in the question.
    pub(crate) verb: &'static str,
    /// The message for a 200.
    pub(crate) done: &'static str,
    /// The message for a 202.
    pub(crate) begun: &'static str,
    /// The request body for each operation.
    pub(crate) body: Vec<u8>,
}

/// Acts on the named operations, or finds operations by the filters, one after the other, and asks
/// before acting on them.
pub(crate) async fn run(
    targets: Targets,
    filters: Vec<Vec<(&'static str, String)>>,
    action: Action,
    context: &mut Context,
) -> Result<Exit, CliError> {
    if targets.consent.dry_run && !targets.op_ids.is_empty() {
        let found = named(&targets.op_ids, context).await?;
        return show(&found, false, context);
    }
    if let [op_id] = targets.op_ids.as_slice() {
        return one(op_id, &action, context).await;
    }
    if !targets.op_ids.is_empty() {
        return each(&targets.op_ids, &action, context).await;
    }
    targets.consent.check()?;
    let found = gather(filters, targets.limit, context).await?;
    if found.is_empty() {
        note("none found");
        // A program that asked for JSON gets the empty list.
        return match targets.consent.dry_run {
            true => show(&found, false, context),
            false => {
                Listing::new("results", RESULTS).end(None, &mut context.out)?;
                Ok(Exit::Ok)
            }
        };
    }
    if targets.consent.dry_run {
        return show(&found, false, context);
    }
    if !targets.consent.yes {
        show(&found, true, context)?;
    }
    let question = format!("{} these {} operations?", action.verb, found.len());
    targets.consent.ask(&question)?;
    let briefs = found.iter().filter_map(|document| Brief::read(document));
    let op_ids: Vec<String> = briefs.map(|brief| brief.op_id).collect();
    each(&op_ids, &action, context).await
}

async fn gather(
    filters: Vec<Vec<(&'static str, String)>>,
    limit: usize,
    context: &mut Context,
) -> Result<Vec<Box<RawValue>>, CliError> {
    let mut found = Vec::new();
    for pairs in filters {
        let list = List {
            path: "/v1/operations",
            member: "operations",
            pairs,
        };
        let mut cursor = None;
        loop {
            let left = limit.saturating_sub(found.len()).min(PAGE);
            if left == 0 {
                note(&format!(
                    "only the first {limit}; repeat the command for the rest"
                ));
                return Ok(found);
            }
            let page = list.page(left, cursor.as_deref(), context).await?;
            found.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

async fn named(op_ids: &[String], context: &mut Context) -> Result<Vec<Box<RawValue>>, CliError> {
    let mut found = Vec::with_capacity(op_ids.len());
    for op_id in op_ids {
        let request = Request::get(format!("/v1/operations/{op_id}"));
        found.push(context.client.send(request).await?.document);
    }
    Ok(found)
}

/// Prints the matches: as the answer, or above the question.
fn show(found: &[Box<RawValue>], asks: bool, context: &mut Context) -> Result<Exit, CliError> {
    let mut question;
    let out = if asks {
        question = context.out.question();
        &mut question
    } else {
        &mut context.out
    };
    let mut listing = Listing::new("operations", operation::COLUMNS);
    listing.push(found, out)?;
    listing.end(None, out)?;
    Ok(Exit::Ok)
}

async fn one(op_id: &str, action: &Action, context: &mut Context) -> Result<Exit, CliError> {
    let answer = context.client.send(request(op_id, action)).await?;
    if answer.status.as_u16() == 202 {
        note(action.begun);
    }
    context.out.document(&answer.document, operation::FIRST)?;
    Ok(Exit::Ok)
}

#[derive(Serialize)]
struct Done<'a> {
    op_id: &'a str,
    status: u16,
    done: &'a str,
    operation: Box<RawValue>,
}

#[derive(Serialize)]
struct Refused<'a> {
    op_id: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
}

/// A refusal only concerns its own operation. An unreachable server ends the action: the remaining
/// operations are unchanged.
async fn each(op_ids: &[String], action: &Action, context: &mut Context) -> Result<Exit, CliError> {
    let mut listing = Listing::new("results", RESULTS);
    let mut progress = Progress::new(action.verb, op_ids.len());
    let mut exit = Exit::Ok;
    let mut refused = 0;
    for (i, op_id) in op_ids.iter().enumerate() {
        let result = match context.client.send(request(op_id, action)).await {
            Ok(answer) => to_raw_value(&Done {
                op_id,
                status: answer.status.as_u16(),
                done: match answer.status.as_u16() {
                    202 => action.begun,
                    _ => action.done,
                },
                operation: answer.document,
            }),
            Err(CliError::Problem(problem)) if problem.concerns_one() => {
                exit = exit.and(problem.exit());
                refused += 1;
                to_raw_value(&Refused {
                    op_id,
                    status: problem.status,
                    code: &problem.code,
                    detail: &problem.detail,
                })
            }
            Err(error) => {
                progress.hide();
                listing.end(None, &mut context.out)?;
                note(&format!("stopped after {i} of {}", op_ids.len()));
                return Err(error);
            }
        };
        let result = result.map_err(|_| operation::expected(&context.client))?;
        progress.hide();
        listing.push(&[result], &mut context.out)?;
        context.out.flush()?;
        progress.step();
    }
    drop(progress);
    listing.end(None, &mut context.out)?;
    let (verb, done) = (action.verb, op_ids.len() - refused);
    note(&format!("{verb}: {done} done, {refused} refused"));
    Ok(exit)
}

fn request(op_id: &str, action: &Action) -> Request {
    let path = format!("/v1/operations/{op_id}/{}", action.verb);
    Request::post(path, action.body.clone())
}
