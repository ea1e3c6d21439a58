//! The progress of a run, at a cost that does not grow with the number of its jobs.

use std::collections::BTreeMap;

use clinch::Result;
use clinch::types::Timestamp;
use serde::Serialize;

use crate::collector::{Collector, Inner};
use crate::hold::{Hold, Wait};
use crate::model::{Job, JobState, Jobs, Run, RunId, RunStatus, Unavailable};
use crate::queries::of_batch;
use crate::streams::JobKind;

/// Newest jobs that are looked at. Jobs are begun in the order of their creation, so the open ones
/// are among the newest.
const JOBS_MAX: usize = 2_000;
/// Jobs that are read at once.
const PAGE: usize = 500;
/// Reads of one look: a page with long results ends early.
const READS_MAX: usize = 8;

/// A run with its current jobs.
#[derive(Debug, Clone, Serialize)]
pub struct Progress {
    /// The run. While it is active, its documents are those that were stored so far.
    pub run: Run,
    /// Requests that the API answered so far.
    pub requests: u64,
    /// Jobs by kind.
    pub kinds: BTreeMap<JobKind, Jobs>,
    /// `kinds` has only jobs that have ended: the run has more jobs than one look reads.
    pub counts_ended_only: bool,
    /// Jobs that wait for their next attempt, among the newest 2,000. While the domain is paused or
    /// the API is not called, due jobs wait too.
    pub waiting: u64,
    /// Time of the first of these attempts. `None`: nothing waits, or nothing says for how long.
    pub next_at: Option<Timestamp>,
    /// What the job with that attempt waits for. Without such a job: what the next step of the run
    /// waits for.
    pub waits_for: Option<String>,
    /// Every open job waits, among the newest 2,000.
    pub all_wait: bool,
}

/// What the newest jobs of a run say.
#[derive(Default)]
struct Look {
    kinds: BTreeMap<JobKind, Jobs>,
    /// Every job was looked at.
    is_whole: bool,
    open: u64,
    waiting: u64,
    /// The wait that ends first.
    first: Option<Wait>,
    unavailable: Vec<Unavailable>,
}

impl Look {
    fn see(&mut self, job: Job, hold: Option<&Hold>) {
        self.kinds.entry(job.kind).or_default().count(job.state);
        if let Some(wait) = Wait::of(&job, hold) {
            self.waiting += 1;
            let is_first = self.first.as_ref().is_none_or(|one| wait.is_before(one));
            if is_first {
                self.first = Some(wait);
            }
        }
        match job.state {
            JobState::Succeeded | JobState::Failed => {}
            JobState::Unavailable => {
                let reason = job.error.unwrap_or_default();
                Unavailable::note(&mut self.unavailable, job.resource, reason);
            }
            JobState::Ready | JobState::Enqueued | JobState::Running => self.open += 1,
        }
    }
}

impl Collector {
    /// The progress of a run. It reads a bounded number of rows.
    pub async fn progress(&self, id: &RunId) -> Result<Progress> {
        let run = self.run(id).await?;
        let hold = match run.status.is_terminal() {
            true => None,
            false => {
                let view = self.inner.domain_view().await?;
                self.inner.hold(view.as_ref()).await?
            }
        };
        let of_steps = hold.as_ref().and_then(Hold::of_steps).map(str::to_owned);
        let has_ended = run.status.is_terminal() || run.status == RunStatus::Finalizing;
        if has_ended && !run.kinds.is_empty() {
            return Ok(Progress {
                requests: run.pages.fetched + run.pages.not_modified,
                kinds: run.kinds.clone(),
                run,
                counts_ended_only: false,
                waiting: 0,
                next_at: None,
                waits_for: of_steps,
                all_wait: false,
            });
        }
        let look = self.inner.look(id, hold.as_ref()).await?;
        let (next_at, waits_for) = match look.first {
            Some(first) => (first.until, first.reason),
            None => (None, of_steps),
        };
        let tally = self.inner.records.tally(id).await?;
        let mut progress = Progress {
            run,
            requests: tally.requests,
            counts_ended_only: !look.is_whole,
            kinds: match look.is_whole {
                true => look.kinds,
                false => tally.kinds,
            },
            waiting: look.waiting,
            next_at,
            waits_for,
            all_wait: look.waiting > 0 && look.waiting == look.open,
        };
        let run = &mut progress.run;
        if !run.status.is_terminal() {
            let unavailable = progress.kinds.values().map(|jobs| jobs.unavailable);
            run.jobs = run.jobs.without_unavailable(unavailable.sum());
            run.unavailable = look.unavailable;
            run.pages.documents = run.pages.documents.max(tally.documents);
        }
        Ok(progress)
    }
}

impl Inner {
    /// Looks at the newest jobs of a run.
    async fn look(&self, id: &RunId, hold: Option<&Hold>) -> Result<Look> {
        let filter = of_batch(id.batch("jobs", 0));
        let (mut look, mut cursor, mut looked_at) = (Look::default(), None::<String>, 0);
        for _ in 0..READS_MAX {
            let page = self.inspect.list(&filter, cursor.as_deref(), PAGE).await?;
            looked_at += page.items.len();
            self.jobs_of(page.items)?
                .into_iter()
                .for_each(|job| look.see(job, hold));
            cursor = page.next_cursor;
            if cursor.is_none() || looked_at >= JOBS_MAX {
                break;
            }
        }
        look.is_whole = cursor.is_none();
        Ok(look)
    }
}
