//! `clinch github overview`.

use serde_json::{Value, json};

use super::collector_client::CollectorClient;
use super::follow::number;
use super::summary::grouped;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, Table, at};
use crate::output::text::{Cell, Style};
use crate::output::{Format, Output};

const EXAMPLES: &str = "\
Examples:
  clinch github overview
  clinch github overview -o json

The runs of the last day by status; the open jobs; of the jobs of the last hour failures, times and
numbers of attempts; the jobs that wait, by run and reason, and until when the first of them waits;
attempts that run for more than ten minutes. `clinch github status RUN` shows one run.";

const KIND_COLUMNS: &[Column] = &[
    Column::new("KIND", |kind| at(kind, &["/name"])).whole(),
    Column::new("SUCCEEDED", |kind| at(kind, &["/succeeded"])),
    Column::new("FAILED", |kind| match at(kind, &["/failed"]) {
        none if none.text == "0" => none,
        some => Cell::new(&some.text).styled(Style::Bad),
    }),
    Column::new("FAILED_%", |kind| decimal(kind, "failed_percent")),
    Column::new("UNAVAILABLE", |kind| at(kind, &["/unavailable"])),
    Column::new("AVERAGE_S", |kind| decimal(kind, "average_seconds")),
    Column::new("LONGEST_S", |kind| decimal(kind, "longest_seconds")),
];

const ATTEMPT_COLUMNS: &[Column] = &[
    Column::new("ATTEMPTS", |one| at(one, &["/attempts"])),
    Column::new("JOBS", |one| at(one, &["/jobs"])),
];

const WAITING_COLUMNS: &[Column] = &[
    Column::new("RUN", |row| at(row, &["/run_id"])).whole(),
    Column::new("JOBS", |row| at(row, &["/jobs"])),
    Column::time("UNTIL", |row| at(row, &["/next_at"])),
    Column::new("WAITS_FOR", |row| at(row, &["/waits_for"])).kept(),
    Column::new("FIRST", |row| at(row, &["/first/resource"])),
    Column::id("OPERATION", |row| at(row, &["/first/op_id"])),
];

const STUCK_COLUMNS: &[Column] = &[
    Column::new("RUN", |job| at(job, &["/run_id"])).whole(),
    Column::new("KIND", |job| at(job, &["/kind"])),
    Column::new("RESOURCE", |job| at(job, &["/resource"])),
    Column::new("ATTEMPTS", |job| at(job, &["/attempts"])),
    Column::time("UNTIL", |job| at(job, &["/not_before"])),
    Column::new("WAITS_FOR", |job| at(job, &["/error"])).kept(),
    Column::id("OPERATION", |job| at(job, &["/op_id"])),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

fn decimal(document: &Value, name: &str) -> Cell {
    Cell::new(&format!("{:.1}", document[name].as_f64().unwrap_or(0.0)))
}

/// Prints everything.
pub(crate) async fn run(_: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let overview = client.get("/v1/github/overview").await?;
    let out = &mut client.context.out;
    if out.format != Format::Table {
        out.answer(&overview, &[])?;
        return Ok(Exit::Ok);
    }
    let members = |name: &str| {
        let members = overview[name].as_object();
        members.into_iter().flatten()
    };
    let runs: Vec<String> = members("runs")
        .map(|(status, count)| format!("{} {status}", grouped(count.as_u64().unwrap_or(0))))
        .collect();
    let runs = match runs.is_empty() {
        true => "none".to_owned(),
        false => runs.join(", "),
    };
    let more = match overview["runs_cut"] == true {
        true => " (the newest; there are more)",
        false => "",
    };
    out.line(&format!("runs of the last day: {runs}{more}"))?;
    out.line(&format!(
        "open jobs: {} pending, {} running, {} waiting",
        grouped(number(&overview, "/open/pending")),
        grouped(number(&overview, "/open/running")),
        grouped(number(&overview, "/open/waiting"))
    ))?;
    let kinds: Vec<Value> = members("kinds").map(named).collect();
    let attempts: Vec<Value> = members("attempts")
        .map(|(attempts, jobs)| json!({ "attempts": attempts, "jobs": jobs }))
        .collect();
    let list = |name: &str| overview[name].as_array().cloned().unwrap_or_default();
    let newest = |is_cut: &str| match overview[is_cut] == true {
        true => ", the newest",
        false => "",
    };
    let (of_hour, of_waiting) = (newest("cut"), newest("waiting_cut"));
    let tables = [
        (
            format!("jobs of the last hour{of_hour}"),
            KIND_COLUMNS,
            kinds,
        ),
        (
            format!("attempts of these jobs{of_hour}"),
            ATTEMPT_COLUMNS,
            attempts,
        ),
        (
            format!("jobs that wait{of_waiting}"),
            WAITING_COLUMNS,
            list("waiting"),
        ),
        (
            "attempts that run for more than ten minutes".to_owned(),
            STUCK_COLUMNS,
            list("stuck"),
        ),
    ];
    for (title, columns, rows) in tables {
        print(out, &title, columns, &rows)?;
    }
    Ok(Exit::Ok)
}

/// Prints a table below its title.
fn print(
    out: &mut Output,
    title: &str,
    columns: &'static [Column],
    rows: &[Value],
) -> Result<(), CliError> {
    out.line("")?;
    if rows.is_empty() {
        return out.line(&format!("{title}: none"));
    }
    out.line(&format!("{title}:"))?;
    Table::new(columns).print(rows, out)
}

fn named((name, jobs): (&String, &Value)) -> Value {
    let mut jobs = jobs.clone();
    jobs["name"] = json!(name);
    jobs
}
