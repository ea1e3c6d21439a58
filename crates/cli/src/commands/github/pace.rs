//! The progress of runs as one line: jobs, documents, requests a second, and an estimate of the
//! time to go.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::follow::{number, text};
use super::summary::grouped;
use crate::output::text::plain;

/// Columns of the line: a terminal of 80 columns keeps one for the cursor.
const WIDTH: usize = 79;
/// Rates are those of the last half minute.
const WINDOW: Duration = Duration::from_secs(30);
/// Looks that are kept; one each 300 ms fills the window.
const LOOKS_MAX: usize = 128;
/// A rate over less time says little.
const SPAN_MIN: Duration = Duration::from_secs(1);
/// What the collector says of a job that waits for the API's budget.
const NO_BUDGET: &str = "the API's budget is used up";

/// The numbers of one look.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Duration,
    done: u64,
    requests: u64,
}

/// The latest looks at some runs.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    looks: VecDeque<Look>,
}

impl Pace {
    /// The line for these documents of runs. `at` is the time since the first look.
    pub(crate) fn line(&mut self, runs: &[Value], at: Duration, now: Timestamp) -> String {
        let sum = |pointer: &str| -> u64 { runs.iter().map(|run| number(run, pointer)).sum() };
        let (total, open) = (sum("/jobs/total"), sum("/jobs/open"));
        let done = total.saturating_sub(open);
        let look = Look {
            at,
            done,
            requests: sum("/requests"),
        };
        let is_old = |one: &Look| at.saturating_sub(one.at) > WINDOW;
        while self.looks.len() >= LOOKS_MAX || self.looks.front().is_some_and(is_old) {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
        let mut parts = vec![format!("{}/{} jobs", grouped(done), grouped(total))];
        match sum("/jobs/failed") {
            0 => {}
            failed => parts.push(format!("{} failed", grouped(failed))),
        }
        parts.push(format!("{} documents", grouped(sum("/pages/documents"))));
        match waiting(runs, now) {
            Some(waiting) => parts.push(waiting),
            None => parts.extend(self.rates(open)),
        }
        let line = parts.join(", ");
        let line = match runs {
            [run] => format!("{}: {line}", text(run, "/run_id")),
            _ => line,
        };
        cut(&line, &parts.join(", "))
    }

    /// Requests a second, and how long the open jobs take at the present rate.
    fn rates(&self, open: u64) -> Vec<String> {
        let ends = self.looks.front().zip(self.looks.back());
        let Some((first, last)) = ends.filter(|(first, last)| last.at - first.at >= SPAN_MIN)
        else {
            return Vec::new();
        };
        let seconds = (last.at - first.at).as_secs_f64();
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let mut parts = vec![format!("{:.1} req/s", rate(first.requests, last.requests))];
        let jobs = rate(first.done, last.done);
        if jobs > 0.0 && open > 0 {
            let left = short(open as f64 / jobs);
            parts.push(format!("about {left} to go"));
        }
        parts
    }
}

/// What all open jobs wait for, and until when.
fn waiting(runs: &[Value], now: Timestamp) -> Option<String> {
    let mut open = runs.iter().filter(|run| number(run, "/jobs/open") > 0);
    if !open.clone().all(|run| run["all_wait"] == true) {
        return None;
    }
    let next = |run: &&Value| text(run, "/next_at").parse::<Timestamp>().ok();
    let Some(first) = open.clone().filter_map(|run| next(&run)).min() else {
        // Nothing says until when: the domain is paused, perhaps before the first job.
        let mut reasons = runs.iter().map(|run| text(run, "/waits_for"));
        let reason = reasons.find(|reason| !reason.is_empty())?;
        return Some(format!("waiting: {}", plain(reason)));
    };
    let reason = open.find(|run| next(run) == Some(first));
    let reason = reason
        .map(|run| text(run, "/waits_for"))
        .unwrap_or_default();
    let form = match first.strftime("%F").to_string() == now.strftime("%F").to_string() {
        true => "%H:%M",
        false => "%F %H:%M",
    };
    let until = first.strftime(form);
    Some(match reason {
        NO_BUDGET => format!("waiting for budget until {until} UTC"),
        "" => format!("waiting until {until} UTC"),
        other => format!("waiting until {until} UTC: {}", plain(other)),
    })
}

/// The line if it fits, otherwise the shorter one, cut.
fn cut(line: &str, shorter: &str) -> String {
    match line.chars().count() <= WIDTH {
        true => line.to_owned(),
        false => shorter.chars().take(WIDTH).collect(),
    }
}

/// `40s`, `12m`, `3h`, `2d`
fn short(seconds: f64) -> String {
    let seconds = seconds.ceil().clamp(1.0, 1e9) as u64;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds.div_ceil(60)),
        7_200..172_800 => format!("{}h", seconds.div_ceil(3_600)),
        _ => format!("{}d", seconds.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(done: u64, total: u64, requests: u64) -> Value {
        json!({
            "run_id": "octocat.7",
            "jobs": {"total": total, "open": total - done, "failed": 0},
            "pages": {"documents": done * 60}, "requests": requests,
        })
    }

    fn noon() -> Timestamp {
        "2026-11-18T12:00:00Z".parse().expect("a time")
    }

    #[test]
    fn col_15_the_line_has_counts_a_rate_and_an_estimate() {
        let mut pace = Pace::default();
        let first = pace.line(&[run(300, 1_204, 310)], Duration::ZERO, noon());
        assert_eq!(first, "octocat.7: 300/1,204 jobs, 18,000 documents");
        let later = pace.line(&[run(400, 1_204, 430)], Duration::from_secs(10), noon());
        assert_eq!(
            later,
            "octocat.7: 400/1,204 jobs, 24,000 documents, 12.0 req/s, about 81s to go"
        );
        // Only the last half minute counts.
        pace.line(&[run(400, 1_204, 430)], Duration::from_secs(35), noon());
        let idle = pace.line(&[run(400, 1_204, 430)], Duration::from_secs(60), noon());
        assert_eq!(
            idle,
            "octocat.7: 400/1,204 jobs, 24,000 documents, 0.0 req/s"
        );
    }

    #[test]
    fn col_15_a_wait_for_budget_says_until_when() {
        let mut waits = run(300, 1_204, 310);
        waits["all_wait"] = json!(true);
        waits["next_at"] = json!("2026-11-18T14:05:00.000Z");
        waits["waits_for"] = json!(NO_BUDGET);
        let line = Pace::default().line(&[waits.clone()], Duration::ZERO, noon());
        assert_eq!(
            line,
            "octocat.7: 300/1,204 jobs, 18,000 documents, waiting for budget until 14:05 UTC"
        );
        waits["next_at"] = json!("2026-11-19T01:00:00.000Z");
        waits["waits_for"] = json!("the API refuses the token");
        let line = Pace::default().line(&[waits.clone()], Duration::ZERO, noon());
        assert!(line.contains("until 2026-11-19 01:00 UTC: "), "{line}");
        // Nobody knows when a paused domain is resumed.
        let mut paused = waits.clone();
        paused["next_at"] = Value::Null;
        paused["waits_for"] = json!("the domain github is paused");
        let line = Pace::default().line(&[paused.clone()], Duration::ZERO, noon());
        assert!(
            line.ends_with("waiting: the domain github is paused"),
            "{line}"
        );
        paused["jobs"] = json!({"total": 0, "open": 0, "failed": 0});
        paused["all_wait"] = json!(false);
        let line = Pace::default().line(&[paused], Duration::ZERO, noon());
        assert!(
            line.ends_with("waiting: the domain github is paused"),
            "{line}"
        );
        // Another run that works is no wait.
        let both = [waits, run(1, 2, 3)];
        let line = Pace::default().line(&both, Duration::ZERO, noon());
        assert!(!line.contains("waiting"), "{line}");
    }

    #[test]
    fn col_15_no_line_is_longer_than_a_terminal() {
        let mut long = run(199_999_999, 200_000_000, 1);
        long["run_id"] = json!(format!("{}.shadow.1000000", "a".repeat(64)));
        long["waits_for"] = json!("x".repeat(500));
        long["next_at"] = json!("2027-11-19T01:00:00.000Z");
        for all_wait in [false, true] {
            long["all_wait"] = json!(all_wait);
            let line = Pace::default().line(&[long.clone()], Duration::ZERO, noon());
            assert!(line.chars().count() < 80, "{line}");
            assert!(line.starts_with("199,999,999/200,000,000 jobs"), "{line}");
        }
    }
}
