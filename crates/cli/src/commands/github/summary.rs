//! Summaries of runs, for people.

use serde_json::{Value, json};

use super::collector_client::CollectorClient;
use super::compare;
use super::follow::{number, text};
use crate::client::{query, segment};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::text::plain;

/// Maximum failed jobs that are listed; `status` and the API show all.
const NAMED_MAX: usize = 10;

/// The report on a run that has ended.
pub(crate) struct Report {
    /// The document, for programs.
    pub(crate) document: Value,
    /// The text, for people.
    pub(crate) lines: Vec<String>,
    /// The exit code.
    pub(crate) exit: Exit,
}

/// Reads everything for the report on a run that has ended.
pub(crate) async fn report(run: Value, client: &mut CollectorClient) -> Result<Report, CliError> {
    let (id, login) = (
        text(&run, "/run_id").to_owned(),
        text(&run, "/login").to_owned(),
    );
    let (is_shadow, is_trial) = (run["shadow"] == true, run["trial"] == true);
    let mut lines = run_lines(&run);
    let statistics = statistics(&login, is_shadow, client).await?;
    if let Some(statistics) = &statistics {
        let kinds = statistics.pointer("/documents").and_then(Value::as_object);
        let kinds = kinds.into_iter().flatten();
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{} {kind}", grouped(count.as_u64().unwrap_or(0))))
            .collect();
        lines.push(format!("  documents of {login}: {}", kinds.join(", ")));
    }
    let failed = match number(&run, "/jobs/failed") {
        0 => Vec::new(),
        _ => failed(&id, client).await?,
    };
    lines.extend(failed.iter().map(|job| {
        let at = |pointer| plain(text(job, pointer)).into_owned();
        let (kind, resource) = (at("/kind"), at("/resource"));
        let (page, error) = (at("/page"), at("/error"));
        format!("  failed: {kind} of {resource}, page {page}: {error}")
    }));
    lines.extend(unavailable_lines(&run, NAMED_MAX));
    let missing = run.pointer("/missing").and_then(Value::as_array);
    let missing = missing.cloned().unwrap_or_default();
    let names = missing.iter().filter_map(Value::as_str).take(NAMED_MAX);
    lines.extend(names.map(|name| {
        format!("  not found: {name}: {login} owns no public repository of this name")
    }));
    let mut document = json!({ "run": run, "statistics": statistics, "failed": failed });
    if is_trial {
        match compare::of(&login, &[], client).await? {
            Some(compared) => {
                lines.extend(compare::lines(&compared));
                document["comparison"] = compared;
            }
            None => lines.push("  there is no real run to compare this with".to_owned()),
        }
    }
    let is_fine = document.pointer("/run/status") == Some(&json!("COMPLETED"))
        && number(&document, "/run/jobs/failed") == 0
        && missing.is_empty();
    Ok(Report {
        document,
        lines,
        exit: if is_fine { Exit::Ok } else { Exit::Failed },
    })
}

async fn statistics(
    login: &str,
    is_shadow: bool,
    client: &mut CollectorClient,
) -> Result<Option<Value>, CliError> {
    let pairs = [
        ("login", login.to_owned()),
        ("shadow", is_shadow.to_string()),
    ];
    let path = format!("/v1/github/statistics{}", query(&pairs));
    match client.get(path).await {
        Ok(statistics) => Ok(Some(statistics)),
        // A run that failed early has no statistics.
        Err(CliError::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn failed(id: &str, client: &mut CollectorClient) -> Result<Vec<Value>, CliError> {
    let id = segment(id);
    let path = format!("/v1/github/runs/{id}/jobs?state=FAILED&limit={NAMED_MAX}");
    let jobs = client.get(path).await?;
    let jobs = jobs.pointer("/jobs").and_then(Value::as_array);
    Ok(jobs.cloned().unwrap_or_default())
}

/// The result of one run.
pub(crate) fn run_lines(run: &Value) -> Vec<String> {
    let pages = Pages::of(run);
    let mut head = format!("{}  {}", text(run, "/run_id"), text(run, "/status"));
    if let Some(error) = run.pointer("/error").and_then(Value::as_str) {
        head.push_str(&format!("  {}", plain(error)));
    }
    let mut lines = vec![
        head,
        format!(
            "  jobs: {}, {} failed, {} unavailable",
            grouped(number(run, "/jobs/total")),
            grouped(number(run, "/jobs/failed")),
            grouped(number(run, "/jobs/unavailable"))
        ),
        format!(
            "  pages: {} fetched, {} not modified, {} skipped ({:.1} % not fetched), {} documents",
            grouped(pages.fetched),
            grouped(pages.not_modified),
            grouped(pages.skipped),
            pages.share(),
            grouped(number(run, "/pages/documents"))
        ),
    ];
    let removed = number(run, "/pages/removed");
    if removed > 0 {
        let line = format!(
            "  gone at GitHub: {} documents, put aside",
            grouped(removed)
        );
        lines.push(line);
    }
    lines
}

/// The resources of a run that the API does not give, at most `max`.
pub(crate) fn unavailable_lines(run: &Value, max: usize) -> Vec<String> {
    let all = run.pointer("/unavailable").and_then(Value::as_array);
    let all = all.map(Vec::as_slice).unwrap_or_default();
    let line = |one: &Value| {
        let at = |pointer| plain(text(one, pointer)).into_owned();
        format!("  unavailable: {}: {}", at("/resource"), at("/reason"))
    };
    all.iter().take(max).map(line).collect()
}

/// Counts of the pages of runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pages {
    fetched: u64,
    not_modified: u64,
    skipped: u64,
}

impl Pages {
    pub(crate) fn of(run: &Value) -> Self {
        Self {
            fetched: number(run, "/pages/fetched"),
            not_modified: number(run, "/pages/not_modified"),
            skipped: number(run, "/pages/skipped"),
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            fetched: self.fetched + other.fetched,
            not_modified: self.not_modified + other.not_modified,
            skipped: self.skipped + other.skipped,
        }
    }

    /// Share of pages that were not fetched, in percent.
    pub(crate) fn share(self) -> f64 {
        let spared = self.not_modified + self.skipped;
        match spared + self.fetched {
            0 => 0.0,
            all => spared as f64 * 100.0 / all as f64,
        }
    }
}

/// Prints a run and its state.
pub(crate) fn print_run(run: &Value, client: &mut CollectorClient) -> Result<(), CliError> {
    client.context.out.answer(run, &run_lines(run))
}

/// `20,000`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ];
        for (number, expected) in cases {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn the_share_of_pages_that_were_spared() {
        let run = json!({"pages": {"fetched": 1, "not_modified": 2, "skipped": 7}});
        assert!((Pages::of(&run).share() - 90.0).abs() < 1e-9);
        assert!(Pages::default().share().abs() < 1e-9);
    }
}
