//! A run: one collection of all data of one user.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use clinch::types::{OpId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Bounds, InvalidText, JobState, PageJob, Repository, RunId, Selection, Trigger};
use crate::streams::JobKind;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStatus {
    /// Recorded, not planned.
    Created,
    /// Its first jobs are being created.
    Planning,
    /// Its jobs are running.
    Running,
    /// All jobs have ended; the statistics are being computed.
    Finalizing,
    /// Done, even if some jobs failed.
    Completed,
    /// The run could not be planned.
    Failed,
    /// An operator canceled the run.
    Canceled,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Planning,
        Self::Running,
        Self::Finalizing,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
    ];

    /// The status as it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Planning => "PLANNING",
            Self::Running => "RUNNING",
            Self::Finalizing => "FINALIZING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// Whether the status never changes again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// Whether a run may change from this status to `next`.
    pub fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Created, Self::Planning)
            | (Self::Planning, Self::Running)
            // A small run can end before its planner records that it is running.
            | (Self::Planning | Self::Running, Self::Finalizing)
            | (Self::Finalizing, Self::Completed) => true,
            (from, Self::Failed | Self::Canceled) => !from.is_terminal(),
            _ => false,
        }
    }
}

impl FromStr for RunStatus {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let named = |one: &&Self| one.as_str().eq_ignore_ascii_case(text);
        let names = Self::ALL.map(Self::as_str).join(", ");
        let wrong = || InvalidText(format!("there is no status {text:?}; use one of {names}"));
        Self::ALL.iter().find(named).copied().ok_or_else(wrong)
    }
}

/// The state of a run's statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistics {
    /// Not computed yet.
    #[default]
    Pending,
    /// Computed.
    Done,
    /// Failed permanently; there is a dead letter.
    Failed,
}

/// Numbers of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Jobs {
    /// All jobs so far.
    pub total: u64,
    /// Succeeded jobs.
    pub succeeded: u64,
    /// Jobs that failed permanently.
    pub failed: u64,
    /// Jobs whose resource the API does not give. While a run is active, its total may count them
    /// as succeeded.
    #[serde(default)]
    pub unavailable: u64,
}

impl Jobs {
    /// Counts a job.
    pub(crate) fn count(&mut self, state: JobState) {
        self.total += 1;
        match state {
            JobState::Succeeded => self.succeeded += 1,
            JobState::Failed => self.failed += 1,
            JobState::Unavailable => self.unavailable += 1,
            JobState::Ready | JobState::Enqueued | JobState::Running => {}
        }
    }

    /// Jobs that have not ended.
    pub fn open(&self) -> u64 {
        let ended = self.succeeded + self.failed + self.unavailable;
        self.total.saturating_sub(ended)
    }

    /// Counts jobs apart that ended because their resources are unavailable: for the engine they
    /// are completed operations.
    #[must_use]
    pub(crate) fn without_unavailable(self, unavailable: u64) -> Self {
        Self {
            succeeded: self.succeeded.saturating_sub(unavailable),
            unavailable,
            ..self
        }
    }
}

/// Unavailable resources that a run names.
const UNAVAILABLE_MAX: usize = 100;

/// A resource that the API does not give: it is gone, blocked or empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// Such as `repo:octocat/hello`.
    pub resource: String,
    /// Status and message of the API.
    pub reason: String,
}

impl Unavailable {
    /// Adds a resource to a list, once, unless the list is full.
    pub(crate) fn note(list: &mut Vec<Self>, resource: String, reason: String) {
        let is_known = list.iter().any(|one| one.resource == resource);
        if !is_known && list.len() < UNAVAILABLE_MAX {
            list.push(Self { resource, reason });
        }
    }
}

impl From<clinch::ports::Batch> for Jobs {
    fn from(batch: clinch::ports::Batch) -> Self {
        Self {
            total: batch.total,
            succeeded: batch.completed,
            failed: batch.failed,
            unavailable: 0,
        }
    }
}

/// Results of a run's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pages {
    /// Pages that were read.
    pub fetched: u64,
    /// Requests that were answered with "not modified".
    pub not_modified: u64,
    /// Pages known from an earlier run that did not have to be requested.
    pub skipped: u64,
    /// Documents stored.
    pub documents: u64,
    /// Documents that are gone at GitHub, and were put aside.
    #[serde(default)]
    pub removed: u64,
}

/// Failed jobs that were retried after the run had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// Number of the repair for this run, from 1.
    pub number: u32,
    /// Jobs of the repair, including jobs that they spawned.
    pub jobs: Jobs,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub run_id: RunId,
    /// Its status.
    pub status: RunStatus,
    /// Why it began.
    pub trigger: Trigger,
    /// Everything is read, not only what changed, so that what is gone is noticed.
    #[serde(default)]
    pub is_full: bool,
    /// It begins from the beginning, into documents that are not live, to be compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trial: bool,
    /// What it collects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<JobKind>,
    /// Which repositories it reads.
    #[serde(default, skip_serializing_if = "Selection::is_all")]
    pub selection: Selection,
    /// The time that it is bounded to.
    #[serde(default, skip_serializing_if = "Bounds::is_all")]
    pub bounds: Bounds,
    /// It was asked to read a part only: it does not count as a run that read everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// Selected repositories that the user's list does not hold: `OWNER/NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What is gone at GitHub was put aside.
    #[serde(default)]
    pub has_swept: bool,
    /// Counts of its jobs when the record was last written.
    pub jobs: Jobs,
    /// Results of its requests, known when it is finalized.
    pub pages: Pages,
    /// The state of its statistics.
    pub statistics: Statistics,
    /// Repairs since it ended.
    pub repairs: Vec<Repair>,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When its jobs began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Why it failed or was canceled.
    pub error: Option<String>,
    /// The operation that began it, if it was scheduled or another service requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<OpId>,
    /// The first resources that are unavailable, at most 100; the counts have all.
    #[serde(default)]
    pub unavailable: Vec<Unavailable>,
    /// Jobs by kind, known when all have ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<JobKind, Jobs>,
    /// Failed jobs by the code of their error, known when all have ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

impl Run {
    pub(crate) fn new(run_id: RunId, trigger: Trigger, now: Timestamp) -> Self {
        Self {
            run_id,
            status: RunStatus::Created,
            trigger,
            is_full: false,
            is_trial: false,
            streams: Vec::new(),
            selection: Selection::default(),
            bounds: Bounds::default(),
            is_partial: false,
            missing: Vec::new(),
            has_swept: false,
            jobs: Jobs::default(),
            pages: Pages::default(),
            statistics: Statistics::default(),
            repairs: Vec::new(),
            created_at: now,
            started_at: None,
            completed_at: None,
            error: None,
            begun_by: None,
            unavailable: Vec::new(),
            kinds: BTreeMap::new(),
            errors: BTreeMap::new(),
        }
    }

    /// The streams that read something of each item of this one.
    pub(crate) fn item_streams(&self, of: JobKind) -> BTreeSet<JobKind> {
        let is_of_items = |kind: &&JobKind| kind.parents().any(|parent| parent == of);
        self.streams.iter().filter(is_of_items).copied().collect()
    }

    /// The first job of a list.
    pub(crate) fn first_job(&self, kind: JobKind, repository: Option<Repository>) -> PageJob {
        let bounds = match kind.is_dated() {
            true => self.bounds.clone(),
            false => Bounds::default(),
        };
        PageJob {
            is_full: self.is_full,
            bounds,
            ..PageJob::first(&self.run_id, kind, repository)
        }
    }

    /// Whether it goes through everything that the user has: nothing is left out.
    pub(crate) fn reads_all(&self) -> bool {
        self.selection.is_all() && self.bounds.is_all()
    }

    /// Changes the status; false: this change is not allowed, and nothing happens.
    pub(crate) fn become_status(&mut self, next: RunStatus, now: Timestamp) -> bool {
        if !self.status.may_become(next) {
            return false;
        }
        self.status = next;
        if next == RunStatus::Running {
            self.started_at.get_or_insert(now);
        }
        if next.is_terminal() {
            self.completed_at = Some(now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn col_2_a_run_goes_forward_and_ends_once() {
        use RunStatus::{Canceled, Completed, Created, Failed, Finalizing, Planning, Running};
        let legal = [
            (Created, Planning),
            (Planning, Running),
            (Planning, Finalizing),
            (Running, Finalizing),
            (Finalizing, Completed),
        ];
        for from in RunStatus::ALL {
            for next in RunStatus::ALL {
                let ends = matches!(next, Failed | Canceled) && !from.is_terminal();
                let expected = legal.contains(&(from, next)) || ends;
                assert_eq!(from.may_become(next), expected, "{from:?} to {next:?}");
            }
        }
    }
}
