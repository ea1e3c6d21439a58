//! `clinch github stats`.

mod svg;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::collector_client::CollectorClient;
use super::follow::{number, text};
use super::summary::grouped;
use crate::client::query;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Format;
use crate::output::table::{Column, Table, at};
use crate::output::text::{Cell, Style, plain};

/// Languages and types of events that a line names; JSON has all.
const NAMED_MAX: usize = 5;

const EXAMPLES: &str = "\
Examples:
  clinch github stats octocat
  clinch github stats octocat --repository hello --weeks 52
  clinch github stats octocat --weeks 52 --svg octocat.svg
  clinch github stats octocat -o json

Weeks begin on Monday, in UTC, and end with the present one. The lead time of a pull request is the
time from its opening to its merge, the review time that to the first review by another person;
shown are the medians of the week in which they ended. Reviews and languages are counted if they
are collected. --svg writes a chart instead of the table; `-` writes it to standard output.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The user
    login: String,
    /// Only this repository of the user: NAME or OWNER/NAME
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,
    /// Number of weeks, up to the present one
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=520))]
    weeks: u16,
    /// Write a chart to this file, or to standard output if it is `-`
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show the statistics of shadow runs
    #[arg(long)]
    shadow: bool,
}

const COLUMNS: &[Column] = &[
    Column::new("WEEK", |week| match text(week, "/week") {
        "" => Cell::new("total").styled(Style::Bold),
        _ => at(week, &["/week"]),
    })
    .whole()
    .at_least(10),
    Column::new("COMMITS", |week| {
        Cell::new(&grouped(number(week, "/commits")))
    }),
    Column::new("ISSUES", |week| {
        pair(week, "/issues_opened", "/issues_closed", "-")
    }),
    Column::new("PULL_REQUESTS", |week| {
        let merged = "/pull_requests_merged";
        pair(week, "/pull_requests_opened", merged, "merged ")
    }),
    Column::new("LEAD_TIME", |week| {
        Cell::new(&median(week, "/lead_time/median_minutes"))
    }),
    Column::new("REVIEW_TIME", |week| {
        Cell::new(&median(week, "/review_time/median_minutes"))
    }),
    Column::new("EVENTS", |week| Cell::new(&shown(events(week)))),
];

/// A number; nothing for 0, so that a quiet week looks quiet.
fn shown(number: u64) -> String {
    match number {
        0 => String::new(),
        some => grouped(some),
    }
}

/// `+7 -3`
fn pair(week: &Value, first: &str, second: &str, sign: &str) -> Cell {
    let parts = [("+", number(week, first)), (sign, number(week, second))];
    let parts = parts.iter().filter(|(_, number)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(sign, number)| format!("{sign}{}", grouped(*number)))
        .collect();
    Cell::new(&parts.join(" "))
}

fn events(week: &Value) -> u64 {
    let events = week.pointer("/events").and_then(Value::as_object);
    let counts = events.into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

fn median(week: &Value, pointer: &str) -> String {
    let minutes = week.pointer(pointer).and_then(Value::as_u64);
    minutes.map(duration).unwrap_or_default()
}

/// `45m`, `5.5h`, `3.2d`
fn duration(minutes: u64) -> String {
    const HOUR: u64 = 60;
    const DAY: u64 = 24 * HOUR;
    let in_unit = |unit: u64| minutes as f64 / unit as f64;
    match minutes {
        0..HOUR => format!("{minutes}m"),
        HOUR..DAY => format!("{:.1}h", in_unit(HOUR)),
        _ => format!("{:.1}d", in_unit(DAY)),
    }
}

/// Shows the statistics of a user or of one repository.
pub(crate) async fn run(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let mut pairs = vec![
        ("login", args.login.clone()),
        ("weeks", args.weeks.to_string()),
    ];
    pairs.extend(args.shadow.then(|| ("shadow", "true".to_owned())));
    let repository = args.repository.iter();
    pairs.extend(repository.map(|name| ("repository", name.clone())));
    let path = format!("/v1/github/statistics{}", query(&pairs));
    let statistics = client.get(path).await?;
    match number(&statistics, "/weekly/stale") {
        0 => {}
        stale => client.note(&format!(
            "the figures of {stale} repositories are not up to date; the next run computes them"
        )),
    }
    match &args.svg {
        Some(path) => draw(path, &statistics, client)?,
        None => show(&statistics, client)?,
    }
    Ok(Exit::Ok)
}

fn draw(path: &Path, statistics: &Value, client: &mut CollectorClient) -> Result<(), CliError> {
    let chart = svg::chart(&name(statistics), statistics);
    if path == Path::new("-") {
        return client.context.out.raw(chart.as_bytes());
    }
    let wrong = |error| CliError::failed(format!("cannot write {}: {error}", path.display()));
    std::fs::write(path, chart).map_err(wrong)?;
    client.note(&format!("chart in {}", path.display()));
    Ok(())
}

/// What the statistics are of: `octocat`, or `octocat/hello`.
fn name(statistics: &Value) -> String {
    let (login, repository) = (text(statistics, "/login"), text(statistics, "/repository"));
    match repository {
        "" => login.to_owned(),
        full if full.contains('/') => full.to_owned(),
        name => format!("{login}/{name}"),
    }
}

fn show(statistics: &Value, client: &mut CollectorClient) -> Result<(), CliError> {
    let out = &mut client.context.out;
    if out.format != Format::Table {
        return out.answer(statistics, &[]);
    }
    let weeks = statistics
        .pointer("/weekly/weeks")
        .and_then(Value::as_array);
    let mut rows = weeks.cloned().unwrap_or_default();
    let total = statistics.pointer("/weekly/total");
    rows.push(total.cloned().unwrap_or(json!({})));
    Table::new(COLUMNS).print(&rows, out)?;
    out.line("")?;
    lines(statistics).iter().try_for_each(|line| out.line(line))
}

/// The lines below the table.
fn lines(statistics: &Value) -> Vec<String> {
    let all = |name: &str| grouped(number(statistics, &format!("/weekly/all_time/{name}")));
    let of = plain(&name(statistics)).into_owned();
    let repositories = match text(statistics, "/repository") {
        "" => format!(
            ", {} repositories",
            number(statistics, "/weekly/repositories")
        ),
        _ => String::new(),
    };
    let mut lines = vec![
        format!("{of}{repositories}, since the beginning:"),
        format!(
            "  commits: {}, of these by {}: {}",
            all("commits"),
            plain(text(statistics, "/login")),
            all("own_commits")
        ),
        format!(
            "  issues: {} opened, {} closed",
            all("issues_opened"),
            all("issues_closed")
        ),
        format!(
            "  pull requests: {} opened, {} merged, {} closed without a merge",
            all("pull_requests_opened"),
            all("pull_requests_merged"),
            all("pull_requests_closed")
        ),
    ];
    lines.extend(shares(statistics, "/weekly/all_time/events", "events"));
    lines.extend(shares(statistics, "/weekly/languages", "languages"));
    lines
}

/// `  languages: Rust 81 %, C 19 %`, the largest first.
fn shares(statistics: &Value, pointer: &str, title: &str) -> Option<String> {
    let counts = statistics.pointer(pointer).and_then(Value::as_object)?;
    let counts = counts
        .iter()
        .map(|(name, n)| (n.as_u64().unwrap_or(0), name));
    let mut counts: Vec<(u64, &String)> = counts.collect();
    counts.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    let sum = counts.iter().map(|(count, _)| *count as f64).sum::<f64>();
    if sum <= 0.0 {
        return None;
    }
    let share = |(count, name): &(u64, &String)| {
        format!("{} {:.0} %", plain(name), *count as f64 * 100.0 / sum)
    };
    let mut named: Vec<String> = counts.iter().take(NAMED_MAX).map(share).collect();
    if counts.len() > NAMED_MAX {
        named.push(format!("{} others", counts.len() - NAMED_MAX));
    }
    Some(format!("  {title}: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let cases = [
            (0, "0m"),
            (59, "59m"),
            (60, "1.0h"),
            (1_439, "24.0h"),
            (1_440, "1.0d"),
            (10_080, "7.0d"),
        ];
        for (minutes, expected) in cases {
            assert_eq!(duration(minutes), expected);
        }
    }

    #[test]
    fn the_largest_shares_come_first() {
        let languages = json!({"languages": {
            "A": 1, "B": 50, "C": 30, "D": 10, "E": 5, "F": 3, "\u{1b}[31mG": 1,
        }});
        let line = shares(&languages, "/languages", "languages");
        let expected = "  languages: B 50 %, C 30 %, D 10 %, E 5 %, F 3 %, 2 others";
        assert_eq!(line.as_deref(), Some(expected));
        assert_eq!(shares(&json!({"languages": {}}), "/languages", "x"), None);
        assert_eq!(
            shares(&json!({"languages": {"A": 0}}), "/languages", "x"),
            None
        );
    }

    #[test]
    fn a_quiet_week_is_blank() {
        let week = json!({"week": "2026-11-16", "commits": 0, "events": {}, "lead_time": null});
        assert_eq!(shown(events(&week)), "");
        assert_eq!(
            pair(&week, "/issues_opened", "/issues_closed", "-").text,
            ""
        );
        assert_eq!(median(&week, "/lead_time/median_minutes"), "");
        let week = json!({"issues_opened": 1_200, "issues_closed": 3, "events": {"A": 2, "B": 1}});
        let issues = pair(&week, "/issues_opened", "/issues_closed", "-");
        assert_eq!(issues.text, "+1,200 -3");
        assert_eq!(events(&week), 3);
    }
}
