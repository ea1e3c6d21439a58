//! Compares a shadow run with a run of the real documents: jobs, pages, time, errors, statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clinch::types::ErrorKind;
use clinch::{Error, Result};

use crate::collector::Collector;
use crate::model::{Jobs, Pages, Run, RunId, RunStatus, Space};

/// Runs of a user that are looked at for one that completed.
const LOOKED_AT_MAX: u64 = 20;
/// A difference below this is noise: short runs differ by the load of the machine.
pub(crate) const NOISE: Duration = Duration::from_secs(10);

/// What a shadow run may need or fail more than the real one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareLimits {
    /// How many times as long it may take.
    pub max_time_ratio: f64,
    /// How many of its jobs may fail; `None`: as many as of the real run.
    pub max_failed: Option<u64>,
}

impl Default for CompareLimits {
    fn default() -> Self {
        Self {
            max_time_ratio: 2.0,
            max_failed: None,
        }
    }
}

/// A number that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Such as `jobs.repo_issues.total`, `errors.http_500` or `seconds`.
    pub name: String,
    /// Of the real run.
    pub main: f64,
    /// Of the shadow run.
    pub shadow: f64,
    /// The difference is beyond the limits; otherwise it has an explanation.
    pub is_beyond: bool,
}

/// The result of a comparison of two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunComparison {
    /// The latest completed run of the real documents.
    pub main: Run,
    /// The latest completed shadow run.
    pub shadow: Run,
    /// Both read everything, of the same streams: numbers of jobs and times can be compared.
    pub is_comparable: bool,
    /// How many times as long the shadow run took; `None`: the real one took no time.
    pub time_ratio: Option<f64>,
    /// Every number that differs.
    pub differences: Vec<Difference>,
}

impl RunComparison {
    /// Whether every difference is within the limits.
    pub fn is_within_limits(&self) -> bool {
        !self.differences.iter().any(|one| one.is_beyond)
    }

    fn between(main: Run, shadow: Run, limits: &CompareLimits) -> Self {
        let streams = |run: &Run| run.streams.iter().copied().collect::<BTreeSet<_>>();
        let is_comparable = main.is_full && shadow.is_full && streams(&main) == streams(&shadow);
        let mut differences = Differences::default();
        // A failed list has no further pages and no items.
        let has_failed = main.jobs.failed + shadow.jobs.failed > 0;
        let kinds: BTreeSet<_> = main.kinds.keys().chain(shadow.kinds.keys()).collect();
        for kind in kinds {
            let of = |run: &Run| run.kinds.get(kind).copied().unwrap_or_default();
            differences.jobs(kind.as_str(), of(&main), of(&shadow), |name| {
                name == "total" && is_comparable && !has_failed
            });
        }
        let failed_max = limits.max_failed.unwrap_or(main.jobs.failed);
        let is_beyond = shadow.jobs.failed > failed_max;
        let failed = (main.jobs.failed, shadow.jobs.failed);
        differences.note("jobs.failed".to_owned(), failed, is_beyond);
        differences.pages(main.pages, shadow.pages);
        for code in union(&main.errors, &shadow.errors) {
            let of = |run: &Run| run.errors.get(code).copied().unwrap_or(0);
            let both = (of(&main), of(&shadow));
            differences.note(format!("errors.{code}"), both, false);
        }
        let (took, shadow_took) = (took(&main), took(&shadow));
        let time_ratio = (!took.is_zero()).then(|| shadow_took.as_secs_f64() / took.as_secs_f64());
        let is_slow = shadow_took > took.mul_f64(limits.max_time_ratio.clamp(0.0, 1e6))
            && shadow_took >= took + NOISE;
        differences.seconds(took, shadow_took, is_slow && is_comparable);
        Self {
            main,
            shadow,
            is_comparable,
            time_ratio,
            differences: differences.0,
        }
    }
}

/// From its begin to its end.
pub(crate) fn took(run: &Run) -> Duration {
    let ended = run.completed_at.unwrap_or(run.created_at);
    ended.since(run.created_at)
}

fn union<'a, V>(
    one: &'a BTreeMap<String, V>,
    other: &'a BTreeMap<String, V>,
) -> BTreeSet<&'a String> {
    one.keys().chain(other.keys()).collect()
}

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn note(&mut self, name: String, (main, shadow): (u64, u64), is_beyond: bool) {
        if main != shadow {
            self.0.push(Difference {
                name,
                main: main as f64,
                shadow: shadow as f64,
                is_beyond,
            });
        }
    }

    fn jobs(&mut self, kind: &str, main: Jobs, shadow: Jobs, is_beyond: impl Fn(&str) -> bool) {
        let numbers = [
            ("total", main.total, shadow.total),
            ("succeeded", main.succeeded, shadow.succeeded),
            ("failed", main.failed, shadow.failed),
            ("unavailable", main.unavailable, shadow.unavailable),
        ];
        for (name, main, shadow) in numbers {
            self.note(
                format!("jobs.{kind}.{name}"),
                (main, shadow),
                is_beyond(name),
            );
        }
    }

    /// Never beyond the limits: a run that knows pages from before reads fewer.
    fn pages(&mut self, main: Pages, shadow: Pages) {
        let numbers = [
            ("fetched", main.fetched, shadow.fetched),
            ("not_modified", main.not_modified, shadow.not_modified),
            ("skipped", main.skipped, shadow.skipped),
            ("documents", main.documents, shadow.documents),
            ("removed", main.removed, shadow.removed),
        ];
        for (name, main, shadow) in numbers {
            self.note(format!("pages.{name}"), (main, shadow), false);
        }
    }

    fn seconds(&mut self, main: Duration, shadow: Duration, is_beyond: bool) {
        if main != shadow {
            self.0.push(Difference {
                name: "seconds".to_owned(),
                main: main.as_secs_f64(),
                shadow: shadow.as_secs_f64(),
                is_beyond,
            });
        }
    }
}

impl Collector {
    /// Compares a user's latest completed shadow run with the latest completed real one.
    /// `NotFound`: one of them does not exist.
    pub async fn compare_runs(&self, login: &str, limits: &CompareLimits) -> Result<RunComparison> {
        let login = login.to_ascii_lowercase();
        let missing = |message: String| Error::new(ErrorKind::NotFound, message);
        let Some(shadow) = self.latest_completed(&login, Space::Shadow).await? else {
            return Err(missing(format!(
                "there is no completed shadow run of {login:?}; begin one with `clinch github run \
                 {login} --shadow`"
            )));
        };
        let Some(main) = self.latest_completed(&login, Space::Main).await? else {
            return Err(missing(format!(
                "there is no completed run of {login:?} to compare the shadow with"
            )));
        };
        let mut comparison = RunComparison::between(main, shadow, limits);
        let figures = |space| self.figures(Some(&login), space);
        let (main, shadow) = (figures(Space::Main).await?, figures(Space::Shadow).await?);
        if let Some((main, shadow)) = main.zip(shadow) {
            let mut differences = Differences(comparison.differences);
            for kind in union(&main.documents, &shadow.documents) {
                let of = |all: &BTreeMap<String, u64>| all.get(kind).copied().unwrap_or(0);
                let both = (of(&main.documents), of(&shadow.documents));
                differences.note(format!("statistics.{kind}"), both, true);
            }
            comparison.differences = differences.0;
        }
        Ok(comparison)
    }

    /// The latest run of a user that completed.
    async fn latest_completed(&self, login: &str, space: Space) -> Result<Option<Run>> {
        let records = &self.inner.records;
        let Some(latest) = records.latest(login, space).await? else {
            return Ok(None);
        };
        let newest = latest.run_id.number;
        let oldest = newest.saturating_sub(LOOKED_AT_MAX).max(1);
        for number in (oldest..=newest).rev() {
            let id = RunId {
                number,
                ..latest.run_id.clone()
            };
            let run = records.run(&id).await?;
            if let Some(run) = run.filter(|run| run.status == RunStatus::Completed) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use clinch::types::Timestamp;

    use super::*;
    use crate::model::Trigger;
    use crate::streams::JobKind;

    fn run(name: &str, seconds: u64, jobs: u64, failed: u64) -> Run {
        let at = Timestamp::default();
        let counts = Jobs {
            total: jobs,
            succeeded: jobs - failed,
            failed,
            unavailable: 0,
        };
        let errors = match failed {
            0 => BTreeMap::new(),
            failed => [("http_500".to_owned(), failed)].into(),
        };
        Run {
            is_full: true,
            completed_at: Some(at + Duration::from_secs(seconds)),
            jobs: counts,
            kinds: [(JobKind::USER_REPOS, counts)].into(),
            errors,
            ..Run::new(name.parse().expect("a name"), Trigger::Manual, at)
        }
    }

    fn beyond(main: Run, shadow: Run, limits: &CompareLimits) -> Vec<String> {
        let compared = RunComparison::between(main, shadow, limits);
        let beyond = compared.differences.into_iter().filter(|one| one.is_beyond);
        beyond.map(|one| one.name).collect()
    }

    #[test]
    fn col_18_a_shadow_run_may_take_twice_as_long_and_fail_no_more_jobs() {
        let limits = CompareLimits::default();
        let main = || run("a.1", 100, 50, 0);
        let none = [""; 0];
        assert_eq!(beyond(main(), run("a.shadow.1", 200, 50, 0), &limits), none);
        let slow = run("a.shadow.1", 201, 50, 0);
        assert_eq!(beyond(main(), slow.clone(), &limits), ["seconds"]);
        let patient = CompareLimits {
            max_time_ratio: 3.0,
            ..limits
        };
        assert_eq!(beyond(main(), slow, &patient), none);
        let failing = run("a.shadow.1", 100, 50, 2);
        assert_eq!(beyond(main(), failing.clone(), &limits), ["jobs.failed"]);
        let lenient = CompareLimits {
            max_failed: Some(2),
            ..limits
        };
        assert_eq!(beyond(main(), failing.clone(), &lenient), none);
        assert_eq!(beyond(run("a.1", 100, 50, 2), failing, &limits), none);
        let more = run("a.shadow.1", 100, 51, 0);
        let total = format!("jobs.{}.total", JobKind::USER_REPOS.as_str());
        assert_eq!(beyond(main(), more, &limits), [total]);
    }

    #[test]
    fn col_18_short_times_and_runs_that_read_less_are_not_judged() {
        let limits = CompareLimits::default();
        let none = [""; 0];
        let (one, other) = (run("a.1", 1, 50, 0), run("a.shadow.1", 9, 50, 0));
        assert_eq!(beyond(one, other, &limits), none);
        let mut changes = run("a.2", 5, 3, 0);
        changes.is_full = false;
        let compared = RunComparison::between(changes, run("a.shadow.1", 100, 50, 0), &limits);
        assert!(!compared.is_comparable && compared.is_within_limits());
        let named = compared.differences.iter().map(|one| one.name.as_str());
        assert!(named.clone().any(|name| name == "seconds"), "{compared:?}");
    }
}
