//! `clinch github status`.

use std::time::Duration;

use serde_json::{Value, json};

use super::TOKEN_COLUMNS;
use super::collector_client::CollectorClient;
use super::follow::{Printed, number, text};
use super::{summary, switch};
use crate::client::{query, segment};
use crate::clock;
use crate::commands::pages::{List, Paging};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Format;
use crate::output::table::{Column, Table, at};
use crate::output::text::{Cell, Style, plain};

/// Pause between two updates.
const PAUSE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  clinch github status
  clinch github status octocat
  clinch github status octocat.7 --watch

Without a name: the recent runs. With one: jobs by kind, the next attempt of waiting jobs, the
resources that are unavailable, and the budgets of the tokens. --watch updates the output until the
run has ended.";

const RUN_COLUMNS: &[Column] = &[
    Column::new("RUN", |run| at(run, &["/run_id"])).whole(),
    Column::new("STATUS", |run| {
        let status = at(run, &["/status"]);
        let style = match status.text.as_str() {
            "COMPLETED" => Style::Good,
            "FAILED" => Style::Bad,
            "CANCELED" => Style::Warn,
            _ => Style::Plain,
        };
        status.styled(style)
    })
    .at_least(10),
    Column::new("TRIGGER", |run| at(run, &["/trigger"])),
    Column::new("JOBS", |run| at(run, &["/jobs/total"])),
    Column::new("FAILED", |run| at(run, &["/jobs/failed"])),
    Column::new("UNAVAILABLE", |run| at(run, &["/jobs/unavailable"])),
    Column::new("DOCUMENTS", |run| at(run, &["/pages/documents"])),
    Column::time("CREATED_AT", |run| at(run, &["/created_at"])),
    Column::time("COMPLETED_AT", |run| at(run, &["/completed_at"])),
];

const KIND_COLUMNS: &[Column] = &[
    Column::new("KIND", |kind| at(kind, &["/kind"])).at_least(12),
    Column::new("JOBS", |kind| at(kind, &["/total"])),
    Column::new("DONE", |kind| at(kind, &["/succeeded"])),
    Column::new("OPEN", |kind| at(kind, &["/open"])),
    Column::new("FAILED", |kind| match at(kind, &["/failed"]) {
        none if none.text == "0" => none,
        some => Cell::new(&some.text).styled(Style::Bad),
    }),
    Column::new("UNAVAILABLE", |kind| at(kind, &["/unavailable"])),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run such as octocat.7, or a login: the user's latest run
    run: Option<String>,
    /// Update the output until the run has ended
    #[arg(long, requires = "run")]
    watch: bool,
    #[command(flatten)]
    paging: Paging,
}

/// Shows a run, or lists the recent runs.
pub(crate) async fn run(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let Some(name) = &args.run else {
        let list = List {
            path: "/v1/github/runs",
            member: "runs",
            pairs: Vec::new(),
        };
        if let Some(notice) = switch::notice(client).await? {
            client.note(&notice);
        }
        let paging = args.paging.clone();
        return list.print(paging, RUN_COLUMNS, &mut client.context).await;
    };
    let id = match name.contains('.') {
        true => name.clone(),
        false => latest(name, client).await?,
    };
    if let Some(notice) = switch::notice(client).await? {
        client.note(&notice);
    }
    let mut printed = Printed::default();
    let mut is_first = true;
    loop {
        let run = client
            .get(format!("/v1/github/runs/{}", segment(&id)))
            .await?;
        let tokens = client.get("/v1/github/tokens").await?;
        let is_over = run["completed_at"].is_string();
        let is_drawn = args.watch && client.context.out.is_terminal();
        let progress = printed.line(std::slice::from_ref(&run));
        // A file gets the whole page at the beginning and at the end, and short lines in between.
        let is_page = is_first || is_drawn || is_over || client.context.out.format != Format::Table;
        if is_drawn {
            client.context.out.raw(b"\x1b[2J\x1b[H")?;
        }
        if is_page {
            let progress = (!is_over).then_some(progress.as_str());
            show(&run, progress, &tokens, client)?;
        } else if printed.is_plain_due() {
            client.context.out.line(&progress)?;
        }
        client.context.out.flush()?;
        if !args.watch || is_over {
            return Ok(Exit::Ok);
        }
        is_first = false;
        clock::pause(PAUSE).await;
    }
}

async fn latest(login: &str, client: &mut CollectorClient) -> Result<String, CliError> {
    let pairs = [("login", login.to_owned()), ("limit", "1".to_owned())];
    let runs = client
        .get(format!("/v1/github/runs{}", query(&pairs)))
        .await?;
    match runs.pointer("/runs/0/run_id").and_then(Value::as_str) {
        Some(id) => Ok(id.to_owned()),
        None => Err(CliError::NotThere(format!("there is no run of {login:?}"))),
    }
}

fn show(
    run: &Value,
    progress: Option<&str>,
    tokens: &Value,
    client: &mut CollectorClient,
) -> Result<(), CliError> {
    let tokens = tokens.pointer("/tokens").cloned().unwrap_or_default();
    let out = &mut client.context.out;
    if out.format != Format::Table {
        return out.answer(&json!({ "run": run, "tokens": tokens }), &[]);
    }
    for line in summary::run_lines(run) {
        out.line(&line)?;
    }
    if let Some(progress) = progress {
        out.line(&format!("  {progress}"))?;
    }
    for line in summary::unavailable_lines(run, usize::MAX) {
        out.line(&line)?;
    }
    if let Some(line) = waiting_line(run) {
        out.line(&line)?;
    }
    let kinds = run.pointer("/kinds").and_then(Value::as_object);
    let kinds: Vec<Value> = kinds.into_iter().flatten().map(with_kind).collect();
    if !kinds.is_empty() {
        out.line("")?;
        Table::new(KIND_COLUMNS).print(&kinds, out)?;
    }
    if let Some(tokens) = tokens.as_array().filter(|tokens| !tokens.is_empty()) {
        out.line("")?;
        Table::new(TOKEN_COLUMNS).print(tokens, out)?;
    }
    Ok(())
}

/// What jobs of the run wait for; or the next step of the run, if no job waits.
fn waiting_line(run: &Value) -> Option<String> {
    let (next, reason) = (text(run, "/next_at"), plain(text(run, "/waits_for")));
    match (number(run, "/waiting"), next) {
        (0, _) if reason.is_empty() => None,
        (0, _) => Some(format!("  waiting: {reason}")),
        (waiting, "") => Some(format!("  waiting: {waiting}: {reason}")),
        (waiting, next) => Some(format!(
            "  waiting: {waiting}, the first until {next}: {reason}"
        )),
    }
}

fn with_kind((kind, jobs): (&String, &Value)) -> Value {
    let mut jobs = jobs.clone();
    jobs["kind"] = json!(kind);
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn col_15_a_wait_without_an_end_has_a_reason() {
        let paused = "the domain github is paused";
        let at = "2026-11-15T15:10:00.000Z";
        let cases = [
            (0, Value::Null, "", None),
            (
                0,
                Value::Null,
                paused,
                Some("  waiting: the domain github is paused"),
            ),
            (
                7,
                Value::Null,
                paused,
                Some("  waiting: 7: the domain github is paused"),
            ),
            (
                7,
                json!(at),
                "budget",
                Some("  waiting: 7, the first until 2026-11-15T15:10:00.000Z: budget"),
            ),
        ];
        for (waiting, next_at, reason, expected) in cases {
            let run = json!({"waiting": waiting, "next_at": next_at, "waits_for": reason});
            assert_eq!(waiting_line(&run).as_deref(), expected, "{run}");
        }
    }
}
