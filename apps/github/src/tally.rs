//! What the jobs of active runs did so far.
//!
//! Each process counts its own jobs in memory and records the sums about once a second, under a key
//! of its own, so that no two processes wait for each other. The progress of a run is the sum of
//! these records: its cost does not grow with the number of jobs. A job that is executed again
//! after a crash counts twice here. The record of an ended run has the exact numbers, which are
//! counted job by job.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clinch::Result;
use clinch::ports::{Expected, RecordList, RecordWrite};
use serde::{Deserialize, Serialize};

use crate::collector::Inner;
use crate::model::{JobState, Jobs, Run, RunId, RunStatus};
use crate::records::{CollectorRecords, parse, write};
use crate::streams::JobKind;

/// Runs that a process counts at the same time; the one that was recorded longest ago makes room.
const RUNS_MAX: usize = 1_000;
/// A process records its sums no more often: one small write a second and run.
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// Processes whose records are added up; more have not worked on one run.
const PROCESSES_MAX: usize = 500;

/// What jobs of a run did so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RunTally {
    /// Requests that the API answered.
    pub(crate) requests: u64,
    /// Documents stored.
    pub(crate) documents: u64,
    /// Ended jobs by kind.
    pub(crate) kinds: BTreeMap<JobKind, Jobs>,
}

impl RunTally {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.documents += other.documents;
        for (kind, jobs) in other.kinds {
            let sum = self.kinds.entry(kind).or_default();
            sum.total += jobs.total;
            sum.succeeded += jobs.succeeded;
            sum.failed += jobs.failed;
            sum.unavailable += jobs.unavailable;
        }
    }
}

/// The runs that this process works on.
#[derive(Default)]
pub(crate) struct Tally {
    runs: Mutex<HashMap<RunId, Counted>>,
}

struct Counted {
    /// Tells this process from others, and from itself after it forgot the run.
    name: String,
    so_far: RunTally,
    recorded_at: Option<Duration>,
    /// A task will record the sums.
    is_scheduled: bool,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            name: format!("{:016x}", RandomState::new().hash_one(0)),
            so_far: RunTally::default(),
            recorded_at: None,
            is_scheduled: false,
        }
    }
}

impl Tally {
    /// The API answered a request of the run.
    pub(crate) fn note_request(&self, run: &RunId) {
        self.change(run, |counted| counted.so_far.requests += 1);
    }

    /// The sums that are to be recorded now, and the name of their record.
    fn taken(&self, run: &RunId, now: Duration) -> Option<(String, RunTally)> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = runs.get_mut(run)?;
        (counted.recorded_at, counted.is_scheduled) = (Some(now), false);
        Some((counted.name.clone(), counted.so_far.clone()))
    }

    fn forget(&self, run: &RunId) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.remove(run);
    }

    fn change<R>(&self, run: &RunId, change: impl FnOnce(&mut Counted) -> R) -> R {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= RUNS_MAX && !runs.contains_key(run) {
            let oldest = runs.iter().min_by_key(|(_, one)| one.recorded_at);
            if let Some(oldest) = oldest.map(|(run, _)| run.clone()) {
                runs.remove(&oldest);
            }
        }
        change(runs.entry(run.clone()).or_default())
    }
}

/// The state of a job that ended; `None`: it goes on.
fn ended(outcome: &str) -> Option<JobState> {
    match outcome {
        "succeeded" => Some(JobState::Succeeded),
        "failed" => Some(JobState::Failed),
        "unavailable" => Some(JobState::Unavailable),
        _ => None,
    }
}

/// Counts an attempt of a job, and records the sums: now, or when a second has passed since the last
/// time. A record that cannot be written is no failure of the job.
pub(crate) async fn count(
    inner: &Arc<Inner>,
    run: &RunId,
    kind: JobKind,
    outcome: &str,
    documents: u64,
) {
    let now = inner.clock.monotonic();
    let due = inner.tally.change(run, |counted| {
        counted.so_far.documents += documents;
        if let Some(state) = ended(outcome) {
            counted.so_far.kinds.entry(kind).or_default().count(state);
        }
        let is_due = |at: Duration| now.saturating_sub(at) >= RECORD_EVERY;
        if counted.recorded_at.is_none_or(is_due) {
            return Due::Now;
        }
        match std::mem::replace(&mut counted.is_scheduled, true) {
            true => Due::Scheduled,
            false => Due::Later,
        }
    });
    match due {
        Due::Now => inner.record_tally(run).await,
        Due::Scheduled => {}
        // The last jobs before a long wait are seen too.
        Due::Later => {
            let (inner, run) = (inner.clone(), run.clone());
            tokio::spawn(async move {
                inner.clock.sleep(RECORD_EVERY).await;
                inner.record_tally(&run).await;
            });
        }
    }
}

/// When sums are recorded.
enum Due {
    Now,
    Later,
    Scheduled,
}

impl Inner {
    async fn record_tally(&self, run: &RunId) {
        let now = self.clock.monotonic();
        let Some((name, so_far)) = self.tally.taken(run, now) else {
            return;
        };
        if let Err(error) = self.note_tally(run, &name, &so_far).await {
            tracing::debug!(target: "clinch::github", %run, %error, "the progress was not recorded");
        }
    }

    async fn note_tally(&self, run: &RunId, name: &str, so_far: &RunTally) -> Result<()> {
        let is_active = |run: &Run| run.kinds.is_empty() && run.status != RunStatus::Failed;
        match self.records.run(run).await?.as_ref().is_some_and(is_active) {
            true => self.records.note_tally(run, name, so_far).await,
            // Its jobs have ended and were counted one by one, or it has failed.
            false => {
                self.tally.forget(run);
                Ok(())
            }
        }
    }
}

/// The records of all runs of a user.
fn prefix_of_user(run: &RunId) -> String {
    format!("{}/tally/{}/", run.space.collection(), run.login)
}

fn prefix(run: &RunId) -> String {
    format!("{}{:010}/", prefix_of_user(run), run.number)
}

impl CollectorRecords {
    async fn note_tally(&self, run: &RunId, process: &str, so_far: &RunTally) -> Result<()> {
        let key = format!("{}{process}", prefix(run));
        let write = write(key, Expected::Anything, so_far)?;
        self.records.write_records(&[write]).await?;
        Ok(())
    }

    /// What the jobs of a run did so far, in all processes.
    pub(crate) async fn tally(&self, run: &RunId) -> Result<RunTally> {
        let list = RecordList {
            prefix: prefix(run),
            descending: false,
            after: None,
            limit: PROCESSES_MAX,
        };
        let mut sum = RunTally::default();
        for record in self.records.list_records(&list).await? {
            sum.add(parse(&record)?);
        }
        Ok(sum)
    }

    /// Deletes these records: the run has the exact numbers.
    pub(crate) async fn delete_tally(&self, run: &RunId) -> Result<()> {
        self.delete_all(prefix(run)).await
    }

    /// Deletes the records of a user's earlier runs, some at a time: a run that failed leaves them, and so
    /// does a process that counts while the run is being finished.
    pub(crate) async fn delete_tallies_before(&self, run: &RunId) -> Result<()> {
        let list = RecordList {
            prefix: prefix_of_user(run),
            descending: false,
            after: None,
            limit: PROCESSES_MAX,
        };
        let found = self.records.list_records(&list).await?;
        let end = prefix(run);
        let earlier = found.into_iter().filter(|record| record.key < end);
        let deleted = earlier.map(|record| RecordWrite {
            key: record.key,
            expected: Expected::Anything,
            body: None,
        });
        let deleted: Vec<RecordWrite> = deleted.collect();
        if !deleted.is_empty() {
            self.records.write_records(&deleted).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_that_are_counted_are_bounded() {
        let tally = Tally::default();
        for number in 1..=RUNS_MAX as u64 + 10 {
            let run = format!("octocat.{number}").parse().expect("a name");
            tally.note_request(&run);
        }
        let runs = tally.runs.lock().expect("the runs");
        assert_eq!(runs.len(), RUNS_MAX);
    }
}
