//! A run: one collection of all data of one user.

use std::fmt;
use std::str::FromStr;

use clinch::types::{BatchId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest login, in bytes: GitHub's own limit is 39; enterprise installations append a name.
const LOGIN_BYTES_MAX: usize = 64;

/// The collection and the records that a run uses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// The real documents and cursors.
    #[default]
    Main,
    /// Those of a trial: collected from the beginning, to be compared.
    Shadow,
}

impl Space {
    /// Name of the collection of documents, and prefix of the records.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Main => "github",
            Self::Shadow => "github-shadow",
        }
    }
}

/// Identifies a run: `octocat.7`, or `octocat.shadow.2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunId {
    /// Login of the user, in lower case.
    pub login: String,
    /// Where its documents go.
    pub space: Space,
    /// Number of the run for this user, from 1.
    pub number: u64,
}

/// A text that cannot be parsed, with an explanation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidText(pub(crate) String);

/// Parses a login and converts it to lower case: GitHub ignores case in logins.
pub(crate) fn login(text: &str) -> Result<String, InvalidText> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || text.len() > LOGIN_BYTES_MAX || !text.chars().all(fits) {
        return Err(InvalidText(
            "a login is 1 to 64 letters, digits, '-' and '_'".to_owned(),
        ));
    }
    Ok(text.to_ascii_lowercase())
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            Space::Main => write!(f, "{}.{}", self.login, self.number),
            Space::Shadow => write!(f, "{}.shadow.{}", self.login, self.number),
        }
    }
}

impl FromStr for RunId {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let wrong = || InvalidText("a run is named LOGIN.NUMBER, such as octocat.7".to_owned());
        let parts: Vec<&str> = text.split('.').collect();
        let (name, space, number) = match parts.as_slice() {
            [name, number] => (*name, Space::Main, *number),
            [name, "shadow", number] => (*name, Space::Shadow, *number),
            _ => return Err(wrong()),
        };
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| digits && *number > 0);
        Ok(Self {
            login: login(name)?,
            space,
            number: number.ok_or_else(wrong)?,
        })
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidText;

    fn try_from(text: String) -> Result<Self, InvalidText> {
        text.parse()
    }
}

impl RunId {
    /// The batch of its jobs (`part` 0) or of a repair (from 1). The ids depend only on the run, so
    /// planning it twice creates one batch.
    pub fn batch(&self, what: &str, part: u32) -> BatchId {
        let digest = Sha256::digest(format!("clinch-github\n{self}\n{what}\n{part}").as_bytes());
        let mut hex: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
        // UUID version 8: an id with a format of our own.
        hex.replace_range(12..13, "8");
        hex.replace_range(16..17, "8");
        match hex.parse() {
            Ok(batch_id) => batch_id,
            Err(_) => unreachable!("32 hex digits are a UUID"),
        }
    }
}

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

/// Why a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Trigger {
    /// A person or a program requested it.
    #[default]
    Manual,
    /// The schedule started it.
    Scheduled,
    /// Another service requested it, after a signup for example.
    Event,
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
}

impl Jobs {
    /// Jobs that have neither succeeded nor failed.
    pub fn open(&self) -> u64 {
        self.total.saturating_sub(self.succeeded + self.failed)
    }
}

impl From<clinch::ports::Batch> for Jobs {
    fn from(batch: clinch::ports::Batch) -> Self {
        Self {
            total: batch.total,
            succeeded: batch.completed,
            failed: batch.failed,
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
}

impl Run {
    pub(crate) fn new(run_id: RunId, trigger: Trigger, now: Timestamp) -> Self {
        Self {
            run_id,
            status: RunStatus::Created,
            trigger,
            jobs: Jobs::default(),
            pages: Pages::default(),
            statistics: Statistics::default(),
            repairs: Vec::new(),
            created_at: now,
            started_at: None,
            completed_at: None,
            error: None,
        }
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
    fn a_run_is_named_and_found_by_its_name() {
        for text in ["octocat.7", "octo-cat.shadow.12"] {
            let id: RunId = text.parse().expect("a name");
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "octocat",
            "octocat.0",
            "octocat.x",
            "a.b.c",
            "a/b.1",
            "octocat.+1",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        let one: RunId = "OctoCat.7".parse().expect("a name");
        assert_eq!(one.login, "octocat");
    }

    #[test]
    fn batches_of_a_run_differ_and_stay() {
        let id: RunId = "octocat.7".parse().expect("a name");
        let other: RunId = "octocat.8".parse().expect("a name");
        assert_eq!(id.batch("jobs", 0), id.batch("jobs", 0));
        assert_ne!(id.batch("jobs", 0), id.batch("jobs", 1));
        assert_ne!(id.batch("jobs", 0), other.batch("jobs", 0));
    }

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
