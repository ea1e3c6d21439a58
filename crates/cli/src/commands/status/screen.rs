//! The overview on a terminal of 80 columns and 24 lines.

use jiff::Timestamp;
use serde_json::Value;

use crate::error::CliError;
use crate::output::table::{Column, Table, at};
use crate::output::text::{Cell, Style, cut, plain, width};
use crate::output::{Output, times};

/// The width of a pipe.
const COLUMNS: usize = 80;
/// Warnings that are shown whole; more are counted.
const WARNINGS_MAX: usize = 4;
/// Rows of each table; more are counted.
const ROWS_MAX: usize = 5;
/// Lines of one warning's message.
const MESSAGE_LINES_MAX: usize = 3;
/// The indentation of a warning's text.
const INDENT: usize = 10;
/// Steps of a sparkline.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const DOMAINS: &[Column] = &[
    Column::new("DOMAIN", |domain| at(domain, &["/domain"])),
    Column::new("PENDING", |domain| at(domain, &["/counts/PENDING"])),
    Column::new("LIVE", |domain| at(domain, &["/counts/live"])),
    Column::new("WAITING", |domain| at(domain, &["/counts/waiting"])),
    Column::new("HELD", |domain| at(domain, &["/counts/held"])),
    Column::new("FAILED", |domain| at(domain, &["/counts/FAILED"])),
    Column::new("OLDEST_DUE", |domain| age(&domain["oldest_age_ms"])),
    Column::new("", |domain| match domain["paused"] == true {
        true => Cell::new("paused").styled(Style::Warn),
        false => Cell::new(""),
    }),
];

const DESTINATIONS: &[Column] = &[
    Column::new("DESTINATION", |one| at(one, &["/destination"])),
    Column::new("STATE", |one| at(one, &["/state"]).styled(Style::Bad)).whole(),
    Column::time("SINCE", |one| at(one, &["/breaker_since", "/paused_since"])),
    Column::time("UNTIL", |one| at(one, &["/open_until", "/paused_until"])),
    Column::new("BACKLOG", |one| at(one, &["/backlog"])),
    Column::new("LAST_ERROR", |one| at(one, &["/last_error/message"])).kept(),
];

/// Prints the overview.
pub(super) fn draw(overview: &Value, now: Timestamp, out: &mut Output) -> Result<(), CliError> {
    let warnings = list(overview, "warnings");
    headline(overview, warnings, out)?;
    let process = format!(
        "clinch {} on {}, up {}, {} UTC",
        text(overview, "/version"),
        text(overview, "/store"),
        lasting(number(overview, "/uptime_ms")),
        times::clock(now, now)
    );
    out.line(&process)?;
    for warning in warnings.iter().take(WARNINGS_MAX) {
        out.line("")?;
        draw_warning(warning, now, out)?;
    }
    more(
        warnings.len(),
        WARNINGS_MAX,
        "warnings: clinch status -o json",
        out,
    )?;
    out.line("")?;
    counters(overview, out)?;
    let has_work = |domain: &&Value| {
        let counts = ["PENDING", "live", "waiting", "held"];
        let open: u64 = counts
            .iter()
            .map(|name| number(&domain["counts"], &format!("/{name}")))
            .sum();
        open > 0 || domain["paused"] == true
    };
    let domains: Vec<Value> = list(overview, "domains")
        .iter()
        .filter(has_work)
        .cloned()
        .collect();
    table(DOMAINS, &domains, "domains: clinch domains ls", out)?;
    let is_bad = |one: &&Value| one["state"] != "ok";
    let bad: Vec<Value> = list(overview, "destinations")
        .iter()
        .filter(is_bad)
        .cloned()
        .collect();
    table(
        DESTINATIONS,
        &bad,
        "destinations: clinch destinations ls",
        out,
    )?;
    out.line("")?;
    nodes(overview, out)?;
    last_hour(overview, out)
}

fn headline(overview: &Value, warnings: &[Value], out: &mut Output) -> Result<(), CliError> {
    let critical = warnings
        .iter()
        .filter(|one| one["severity"] == "critical")
        .count();
    let (line, style) = match (critical, warnings.len()) {
        (_, 0) => ("all is well".to_owned(), Style::Good),
        (0, 1) => ("works, 1 warning".to_owned(), Style::Warn),
        (0, all) => (format!("works, {all} warnings"), Style::Warn),
        (critical, all) => {
            let others = match all - critical {
                0 => String::new(),
                1 => ", 1 warning".to_owned(),
                others => format!(", {others} warnings"),
            };
            let first = text(overview, "/warnings/0/message");
            (format!("{critical} critical{others}: {first}"), Style::Bad)
        }
    };
    let most = out.width().unwrap_or(COLUMNS);
    let line = cut(&plain(&line), most).into_owned();
    out.line(&out.painted(&line, style))
}

fn draw_warning(warning: &Value, now: Timestamp, out: &mut Output) -> Result<(), CliError> {
    let style = match warning["severity"] == "critical" {
        true => Style::Bad,
        false => Style::Warn,
    };
    let most = out
        .width()
        .unwrap_or(COLUMNS)
        .saturating_sub(INDENT)
        .max(20);
    let message = plain(text(warning, "/message")).into_owned();
    let mut lines = wrapped(&message, most);
    if lines.len() > MESSAGE_LINES_MAX {
        lines.truncate(MESSAGE_LINES_MAX);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), most).into_owned();
        }
    }
    let label = plain(text(warning, "/severity")).into_owned();
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { label.as_str() } else { "" };
        let pad = " ".repeat(INDENT.saturating_sub(width(label)));
        out.line(&format!("{}{pad}{line}", out.painted(label, style)))?;
    }
    let since = times::read(text(warning, "/since")).map(|since| {
        let ago = now.duration_since(since).as_millis();
        let ago = lasting(u64::try_from(ago).unwrap_or(0));
        format!("since {} ({ago})  ", times::clock(since, now))
    });
    let next = plain(text(warning, "/command")).into_owned();
    let next = out.painted(&next, Style::Bold);
    out.line(&format!(
        "{}{}next: {next}",
        " ".repeat(INDENT),
        since.unwrap_or_default()
    ))
}

fn counters(overview: &Value, out: &mut Output) -> Result<(), CliError> {
    let count = |name: &str| number(overview, &format!("/operations/{name}"));
    let names = ["pending", "live", "waiting", "held", "completed", "failed"];
    let counts = names.map(|name| format!("{name} {}", count(name)));
    out.line(&format!("operations  {}", counts.join("  ")))?;
    let due = match overview
        .pointer("/operations/oldest_due_ms")
        .and_then(Value::as_u64)
    {
        Some(age) => {
            let domain = plain(text(overview, "/operations/oldest_due_domain")).into_owned();
            format!("oldest due {} ({domain})", lasting(age))
        }
        None => "nothing is due".to_owned(),
    };
    let dead = number(overview, "/dead_letters_open");
    out.line(&format!("            {due}  open dead letters {dead}"))
}

fn table(
    columns: &'static [Column],
    rows: &[Value],
    rest: &str,
    out: &mut Output,
) -> Result<(), CliError> {
    if rows.is_empty() {
        return Ok(());
    }
    out.line("")?;
    Table::new(columns).print(&rows[..rows.len().min(ROWS_MAX)], out)?;
    more(rows.len(), ROWS_MAX, rest, out)
}

fn more(all: usize, shown: usize, rest: &str, out: &mut Output) -> Result<(), CliError> {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        more => out.line(&format!("{}{more} more {rest}", " ".repeat(INDENT))),
    }
}

fn nodes(overview: &Value, out: &mut Output) -> Result<(), CliError> {
    let nodes = list(overview, "nodes");
    if nodes.is_empty() {
        return Ok(());
    }
    let alive = nodes.iter().filter(|node| node["alive"] == true).count();
    let lost = match nodes.len() - alive {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    let name = |node: &Value| {
        let roles: Vec<&str> = node["roles"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        format!("{} ({})", text(node, "/name"), roles.join("+"))
    };
    let names: Vec<String> = nodes
        .iter()
        .filter(|node| node["alive"] == true)
        .map(name)
        .collect();
    let line = format!("processes   {alive} alive{lost}: {}", names.join(", "));
    let most = out.width().unwrap_or(COLUMNS);
    out.line(&cut(&plain(&line), most))
}

fn last_hour(overview: &Value, out: &mut Output) -> Result<(), CliError> {
    let minutes = overview
        .pointer("/history/minutes")
        .and_then(Value::as_array);
    let minutes = minutes.map(Vec::as_slice).unwrap_or_default();
    let all = |name: &str| -> u64 {
        let counts = minutes
            .iter()
            .map(|minute| number(minute, &format!("/{name}")));
        counts.sum()
    };
    let done: Vec<u64> = minutes
        .iter()
        .map(|minute| number(minute, "/completed"))
        .collect();
    out.line(&format!("last hour   {}", sparkline(&done)))?;
    let p95 = |name: &str| {
        let found = overview.pointer(&format!("/history/{name}/p95_ms"));
        found
            .and_then(Value::as_u64)
            .map_or("-".to_owned(), lasting)
    };
    out.line(&format!(
        "            {} completed, {} failed, {} retried; p95 {}, calls {}",
        all("completed"),
        all("failed"),
        all("retried"),
        p95("end_to_end"),
        p95("calls")
    ))
}

/// One character for each number: a dot for zero, otherwise a bar relative to the largest.
fn sparkline(numbers: &[u64]) -> String {
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let bar = |number: &u64| match number {
        0 => '·',
        number => {
            let steps = BARS.len() as u64;
            let step = (number * steps).div_ceil(most).clamp(1, steps) - 1;
            usize::try_from(step)
                .ok()
                .and_then(|step| BARS.get(step).copied())
                .unwrap_or('·')
        }
    };
    numbers.iter().map(bar).collect()
}

/// Lines of at most this width, broken at spaces; a longer word is cut.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = cut(word, most);
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= most => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word.into_owned()),
        }
    }
    lines
}

fn list<'a>(overview: &'a Value, name: &str) -> &'a [Value] {
    let found = overview.get(name).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    let found = document.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn number(document: &Value, pointer: &str) -> u64 {
    let found = document.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_default()
}

fn age(millis: &Value) -> Cell {
    Cell::new(&millis.as_u64().map_or(String::new(), lasting))
}

/// A duration in its largest unit: `120 ms`, `27 s`, `3 min`, `2 h`, `4 d`.
pub(crate) fn lasting(millis: u64) -> String {
    match millis / 1_000 {
        0 => format!("{millis} ms"),
        secs @ 1..120 => format!("{secs} s"),
        secs @ 120..7_200 => format!("{} min", secs / 60),
        secs @ 7_200..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_has_one_character_for_each_number() {
        assert_eq!(sparkline(&[0, 1, 4, 8]), "·▁▄█");
        assert_eq!(sparkline(&[0, 0]), "··");
        assert_eq!(sparkline(&[5]), "█");
    }

    #[test]
    fn text_is_broken_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abc…"]);
    }
}
