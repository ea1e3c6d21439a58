//! What `redrive`, `dismiss` and `reopen` share: plan to the last dead letter, ask, and do what the
//! plan showed.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::DeadLetterFilter;
use crate::client::{Page, Request};
use crate::commands::operation::op_id;
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::Format;
use crate::output::Output;
use crate::output::listing::Listing;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};
use crate::progress::Progress;
use crate::prompt::Consent;

/// The API's name for the list of verdicts, in a plan and in its result.
const MEMBER: &str = "results";
/// Dead letters of one request after the question: each request ends within seconds, and the
/// progress bar moves with it.
const SENT_AT_ONCE: usize = 1_000;
/// Dead letters that are shown before the question; `--dry-run` shows all.
const SHOWN_MAX: usize = 50;

/// Which dead letters, and whether to ask.
#[derive(Debug, clap::Args)]
pub(super) struct Selected {
    /// The dead letters; or find them by a filter
    #[arg(value_name = "OP_ID", value_parser = op_id)]
    op_ids: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    filter: DeadLetterFilter,
}

/// One of the three commands.
pub(super) struct Work {
    pub path: &'static str,
    /// The verdict of a letter that is, or would be, changed; also the verb of the question.
    pub verdict: &'static str,
    /// The word of the summary.
    pub done: &'static str,
    pub columns: &'static [Column],
    /// Why, where the API asks for it.
    pub reason: Option<String>,
}

/// What was planned or done so far.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    already: usize,
    refused: usize,
}

impl Tally {
    fn add(&mut self, items: &[Box<RawValue>], verdict: &str) {
        for item in items {
            match verdict_of(item).as_str() {
                "already" => self.already += 1,
                "refused" => self.refused += 1,
                told if told == verdict => self.done += 1,
                _ => {}
            }
        }
    }
}

fn member(item: &RawValue, name: &str) -> String {
    let item: Value = serde_json::from_str(item.get()).unwrap_or_default();
    let text = item.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn verdict_of(item: &RawValue) -> String {
    member(item, "verdict")
}

impl Work {
    /// Shows the plan, asks, and does it.
    pub(super) async fn run(
        &self,
        args: Selected,
        context: &mut Context,
    ) -> Result<Exit, CliError> {
        if args.op_ids.is_empty() && args.filter.is_empty() {
            let what = "name dead letters, or give a filter such as --domain";
            return Err(CliError::usage(what));
        }
        args.consent.check()?;
        // Once: a time such as 1h ago must not move between two pages.
        let filter = filter(&args);
        let (items, tally) = self.plan(&filter, context).await?;
        if let (true, Some(domain)) = (items.is_empty(), args.filter.domain()) {
            context.require_domain(domain).await?;
        }
        if args.consent.dry_run {
            let mut listing = Listing::new(MEMBER, self.columns);
            listing.push(&items, &mut context.out)?;
            listing.end(None, &mut context.out)?;
            if items.is_empty() {
                note("none found");
            }
            return Ok(Exit::Ok);
        }
        if !args.consent.yes || tally.done == 0 {
            self.show(&items, &mut context.out.question())?;
        } else if tally.refused > 0 {
            note(&format!("{} refused; --dry-run says why", tally.refused));
        }
        if tally.done == 0 {
            // A program that asked for JSON gets the empty list.
            Listing::new(MEMBER, self.columns).end(None, &mut context.out)?;
            note(&format!("nothing to {}", self.verdict));
            return Ok(match (items.is_empty(), args.op_ids.is_empty()) {
                (true, false) => Exit::NotFound,
                _ if tally.refused > 0 => Exit::Conflict,
                _ => Exit::Ok,
            });
        }
        let question = format!("{} {} operations?", self.verdict, tally.done);
        args.consent.ask(&question)?;
        let planned = items.iter().filter(|item| verdict_of(item) == self.verdict);
        let planned: Vec<String> = planned.map(|item| member(item, "op_id")).collect();
        let left = Tally { done: 0, ..tally };
        self.work_off(&filter, &planned, left, context).await
    }

    /// Every page of the plan.
    async fn plan(
        &self,
        filter: &Map<String, Value>,
        context: &mut Context,
    ) -> Result<(Vec<Box<RawValue>>, Tally), CliError> {
        let (mut items, mut tally, mut cursor) = (Vec::new(), Tally::default(), None);
        loop {
            let page = self.call(filter, true, cursor.as_deref(), context).await?;
            tally.add(&page.items, self.verdict);
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok((items, tally));
            }
        }
    }

    /// Changes what the plan showed, and nothing else: the person did not agree to later letters.
    /// The requests follow the plan's order, which is that of every lane.
    async fn work_off(
        &self,
        filter: &Map<String, Value>,
        planned: &[String],
        mut tally: Tally,
        context: &mut Context,
    ) -> Result<Exit, CliError> {
        let mut progress = Progress::new(self.verdict, planned.chunks(SENT_AT_ONCE).len());
        let mut listing = Listing::new(MEMBER, self.columns);
        for ids in planned.chunks(SENT_AT_ONCE) {
            let mut filter = filter.clone();
            filter.insert("op_ids".to_owned(), Value::from(ids.to_vec()));
            let page = self.call(&filter, false, None, context).await;
            let page = page.inspect_err(|_| {
                progress.hide();
                note(&format!("stopped: {}", self.summary(&tally)));
            })?;
            tally.add(&page.items, self.verdict);
            if context.out.format != Format::Table {
                listing.push(&page.items, &mut context.out)?;
            }
            progress.step();
        }
        progress.hide();
        match context.out.format {
            Format::Table => {
                context.out.line(&self.summary(&tally))?;
                context.out.flush()?;
            }
            Format::Json | Format::Jsonl => {
                listing.end(None, &mut context.out)?;
                note(&self.summary(&tally));
            }
        }
        Ok(Exit::Ok)
    }

    fn summary(&self, tally: &Tally) -> String {
        let Tally {
            done,
            already,
            refused,
        } = tally;
        format!("{done} {}, {already} already, {refused} refused", self.done)
    }

    async fn call(
        &self,
        filter: &Map<String, Value>,
        dry_run: bool,
        cursor: Option<&str>,
        context: &mut Context,
    ) -> Result<Page, CliError> {
        let mut body = json!({ "filter": filter, "dry_run": dry_run });
        if let Some(reason) = &self.reason {
            body["reason"] = Value::from(reason.as_str());
        }
        if let Some(cursor) = cursor {
            body["cursor"] = Value::from(cursor);
        }
        let request = Request::post(self.path, body.to_string().into_bytes());
        let document = context.client.send(request).await?.document;
        let not_a_plan = || context.client.not_clinch("the answer has no results");
        Page::read(&document, MEMBER).ok_or_else(not_a_plan)
    }

    fn show(&self, items: &[Box<RawValue>], out: &mut Output) -> Result<(), CliError> {
        let shown = &items[..items.len().min(SHOWN_MAX)];
        let mut listing = Listing::new(MEMBER, self.columns);
        listing.push(shown, out)?;
        listing.end(None, out)?;
        if items.len() > shown.len() {
            let more = items.len() - shown.len();
            note(&format!("and {more} more; --dry-run shows all"));
        }
        Ok(())
    }
}

fn filter(args: &Selected) -> Map<String, Value> {
    let pairs = args.filter.pairs().into_iter();
    let mut filter: Map<String, Value> = pairs
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    if !args.op_ids.is_empty() {
        filter.insert("op_ids".to_owned(), Value::from(args.op_ids.clone()));
    }
    filter
}

/// The verdict in its colour.
pub(super) fn verdict(item: &Value) -> Cell {
    let cell = at(item, &["/verdict"]);
    let style = match cell.text.as_str() {
        "redrive" | "dismiss" | "reopen" => Style::Good,
        "refused" => Style::Bad,
        _ => Style::Plain,
    };
    cell.styled(style)
}
