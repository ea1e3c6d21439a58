//! Who waits for what until when, over all runs. Jobs of one run that wait for the same thing are
//! one row, so that a run with thousands of them hides no other.
//!
//! The cost is bounded: the newest waiting jobs are looked at, and if there are more, some jobs of
//! each active run that was not among them.

use std::collections::{BTreeMap, BTreeSet};

use clinch::Result;
use clinch::ports::{DomainView, Filter};
use clinch::types::{Phase, Status, Timestamp};

use crate::collector::Inner;
use crate::hold::{Hold, Wait};
use crate::model::Job;
use crate::queries::{domain, of_batch};

/// Newest waiting jobs that are looked at.
const JOBS_MAX: u64 = 2_000;
/// Rows that are read at once.
const PAGE: usize = 500;
/// Reads of one look: a search may find few rows in each.
const READS_MAX: usize = 8;
/// Active runs that are looked at by themselves, and the newest jobs of each.
const RUNS_MAX: usize = 50;
const JOBS_OF_RUN: usize = 200;
/// Reasons of one run that are told apart; jobs with any other reason are one row.
const REASONS_MAX: usize = 5;
/// The reason of that row.
const OTHER_REASONS: &str = "other reasons";
/// Rows of the overview.
const LISTED: usize = 200;

/// Jobs of one run that wait for the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJobs {
    /// The run that they belong to.
    pub run: Option<String>,
    /// What they wait for.
    pub waits_for: Option<String>,
    /// How many there are, among those that were looked at.
    pub jobs: u64,
    /// When the first of them may begin. `None`: nothing says when.
    pub next_at: Option<Timestamp>,
    /// The first of them.
    pub first: Job,
}

/// What waits, and whether something was left out.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The row whose first job may begin next comes first.
    pub(super) rows: Vec<WaitingJobs>,
    /// There are more rows, or more jobs than were looked at.
    pub(super) is_cut: bool,
}

/// Rows by run and reason.
#[derive(Default)]
struct Rows {
    by_reason: BTreeMap<(Option<String>, Option<String>), WaitingJobs>,
    reasons: BTreeMap<Option<String>, BTreeSet<Option<String>>>,
}

impl Rows {
    fn see(&mut self, job: Job, hold: Option<&Hold>) {
        let Some(wait) = Wait::of(&job, hold) else {
            return;
        };
        let reasons = self.reasons.entry(job.run.clone()).or_default();
        let is_told = reasons.len() < REASONS_MAX || reasons.contains(&wait.reason);
        let reason = match is_told {
            true => wait.reason.clone(),
            false => Some(OTHER_REASONS.to_owned()),
        };
        if is_told {
            reasons.insert(reason.clone());
        }
        let key = (job.run.clone(), reason.clone());
        let row = self.by_reason.entry(key).or_insert_with(|| WaitingJobs {
            run: job.run.clone(),
            waits_for: reason,
            jobs: 0,
            next_at: wait.until,
            first: job.clone(),
        });
        row.jobs += 1;
        let first = Wait {
            reason: None,
            until: row.next_at,
        };
        if wait.is_before(&first) {
            (row.next_at, row.first) = (wait.until, job);
        }
    }

    fn has(&self, run: &str) -> bool {
        self.reasons.contains_key(&Some(run.to_owned()))
    }

    fn listed(self, is_whole: bool) -> Waiting {
        let mut rows: Vec<WaitingJobs> = self.by_reason.into_values().collect();
        // Rows without a time come last.
        rows.sort_by_key(|row| (row.next_at.is_none(), row.next_at));
        let is_cut = !is_whole || rows.len() > LISTED;
        rows.truncate(LISTED);
        Waiting { rows, is_cut }
    }
}

impl Inner {
    /// The jobs that wait, of all runs. `view`: the collector's domain.
    pub(super) async fn waiting(
        &self,
        view: Option<&DomainView>,
        hold: Option<&Hold>,
    ) -> Result<Waiting> {
        let Some(view) = view else {
            return Ok(Waiting::default());
        };
        let mut rows = Rows::default();
        let in_pause = Filter {
            domains: vec![domain()?],
            phase: Some(Phase::Waiting),
            ..Filter::default()
        };
        let all = view.counts.waiting;
        let mut is_whole = self.see_newest(&in_pause, all, hold, &mut rows).await?;
        if hold.is_some() {
            let not_begun = Filter {
                domains: vec![domain()?],
                status: Some(Status::Pending),
                ..Filter::default()
            };
            let all = view.counts.pending;
            is_whole &= self.see_newest(&not_begun, all, hold, &mut rows).await?;
        }
        if !is_whole {
            self.see_other_runs(hold, &mut rows).await?;
        }
        Ok(rows.listed(is_whole))
    }

    /// Looks at the newest of these rows, of which the store counts so many. False: there are more.
    async fn see_newest(
        &self,
        filter: &Filter,
        all: u64,
        hold: Option<&Hold>,
        rows: &mut Rows,
    ) -> Result<bool> {
        let (mut cursor, mut looked_at) = (None::<String>, 0_u64);
        for _ in 0..READS_MAX {
            // Beyond the last of them a search would read every other operation in vain.
            if looked_at >= all {
                return Ok(true);
            }
            if looked_at >= JOBS_MAX {
                return Ok(false);
            }
            let page = self.inspect.list(filter, cursor.as_deref(), PAGE).await?;
            looked_at += page.items.len() as u64;
            let jobs = self.jobs_of(page.items)?.into_iter();
            jobs.for_each(|job| rows.see(job, hold));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(true);
            }
        }
        Ok(looked_at >= all)
    }

    /// Looks at the newest jobs of each active run that has no row yet.
    async fn see_other_runs(&self, hold: Option<&Hold>, rows: &mut Rows) -> Result<()> {
        let (mut after, mut looked_at) = (None, 0);
        loop {
            let (runs, next) = self.records.active_runs(after, PAGE).await?;
            for run in runs {
                let id = run.run_id;
                if run.status.is_terminal() || rows.has(&id.to_string()) {
                    continue;
                }
                if looked_at >= RUNS_MAX {
                    return Ok(());
                }
                looked_at += 1;
                let jobs = of_batch(id.batch("jobs", 0));
                let page = self.inspect.list(&jobs, None, JOBS_OF_RUN).await?;
                let jobs = self.jobs_of(page.items)?.into_iter();
                jobs.for_each(|job| rows.see(job, hold));
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobState;
    use crate::streams::JobKind;

    fn job(run: &str, reason: &str, at: i64) -> Job {
        Job {
            op_id: "01917f5e-0000-7000-8000-000000000001"
                .parse()
                .expect("an id"),
            kind: JobKind::USER_BASIC,
            run: Some(run.to_owned()),
            resource: format!("{reason} at {at}"),
            page: String::new(),
            state: JobState::Ready,
            attempts: 1,
            not_before: Some(Timestamp::from_millis(at)),
            done: None,
            error: Some(reason.to_owned()),
        }
    }

    #[test]
    fn col_15_jobs_are_counted_by_run_and_reason_and_the_next_comes_first() {
        let mut rows = Rows::default();
        for n in 0..300 {
            rows.see(job("octocat.1", "budget", 5_000 - n), None);
        }
        rows.see(job("octocat.1", "token", 9_000), None);
        rows.see(job("hubot.1", "budget", 40), None);
        let waiting = rows.listed(true);
        assert!(!waiting.is_cut);
        let shown: Vec<_> = waiting
            .rows
            .iter()
            .map(|row| {
                let (run, reason) = (row.run.as_deref(), row.waits_for.as_deref());
                let at = row.next_at.map(Timestamp::as_millis);
                (run, reason, row.jobs, at, row.first.resource.as_str())
            })
            .collect();
        let (octocat, hubot) = (Some("octocat.1"), Some("hubot.1"));
        let (budget, token) = (Some("budget"), Some("token"));
        let expected = [
            (hubot, budget, 1, Some(40), "budget at 40"),
            (octocat, budget, 300, Some(4_701), "budget at 4701"),
            (octocat, token, 1, Some(9_000), "token at 9000"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn col_15_a_run_with_many_reasons_has_few_rows() {
        let mut rows = Rows::default();
        for n in 0..40 {
            rows.see(job("octocat.1", &format!("HTTP {n}"), 1_000 - n), None);
        }
        let waiting = rows.listed(true);
        assert_eq!(waiting.rows.len(), REASONS_MAX + 1);
        let others = &waiting.rows[0];
        assert_eq!(others.waits_for.as_deref(), Some(OTHER_REASONS));
        assert_eq!(others.jobs, 40 - REASONS_MAX as u64);
        assert_eq!(others.next_at, Some(Timestamp::from_millis(961)));
    }

    #[test]
    fn col_15_rows_are_bounded() {
        let mut rows = Rows::default();
        for n in 0..=LISTED {
            rows.see(job(&format!("user{n}.1"), "budget", 1), None);
        }
        let waiting = rows.listed(true);
        assert!(waiting.is_cut && waiting.rows.len() == LISTED);
    }
}
