//! A page job: one request to the API.

use clinch::types::{OpId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Bounds, InvalidText, Reading, RunId, login};
use crate::streams::JobKind;

/// A repository. Its id stays the same when it is renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// GitHub's id.
    pub id: u64,
    /// `owner/name`.
    pub full_name: String,
    /// Its default branch, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
}

/// Longest name of a repository, in bytes: GitHub's limit.
const NAME_BYTES_MAX: usize = 100;

impl Repository {
    /// Owner and name, if both are names that GitHub allows: nothing that could change the path of
    /// an address.
    pub(crate) fn names(&self) -> Result<(&str, &str), InvalidText> {
        let wrong = || {
            let message = "a repository is OWNER/NAME: letters, digits, '-', '_' and in its name \
                           '.'";
            InvalidText(message.to_owned())
        };
        let (owner, name) = self.full_name.split_once('/').ok_or_else(wrong)?;
        login(owner).map_err(|_| wrong())?;
        match repository_name(name) {
            true => Ok((owner, name)),
            false => Err(wrong()),
        }
    }
}

/// Whether GitHub allows this name of a repository.
pub(crate) fn repository_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(fits);
    is_name && name != "." && name != ".."
}

/// One request: the payload of its operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageJob {
    /// The run that it belongs to.
    pub run_id: RunId,
    /// The stream that it reads.
    pub kind: JobKind,
    /// The repository, if it reads one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    /// The item that it reads something of: a pull request's number, a workflow run's id, a
    /// commit's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// What it searches for, if it searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Number of the page in its resource, from 1.
    pub page: u32,
    /// Redirects that led to this job.
    #[serde(default)]
    pub hops: u32,
    /// The address that the previous answer gave; `None`: the first page, or the first page of
    /// changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Read only the changes since this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The newest items on the first page.
    #[serde(default)]
    pub seen: FirstPage,
    /// The time that its list is bounded to.
    #[serde(default, skip_serializing_if = "Bounds::is_all")]
    pub bounds: Bounds,
    /// Every page is read, whatever the last run has read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_full: bool,
    /// An earlier run did not read it, although the list of its items went on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_owed: bool,
    /// Which commits are read; `None`: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// How often the list was read because it changed in between.
    #[serde(default, skip_serializing_if = "Pass::is_first")]
    pub pass: Pass,
    /// How far the list has been read.
    #[serde(default, skip_serializing_if = "Reading::is_nothing")]
    pub reading: Reading,
}

/// The newest items on the first page: the cursor moves there when the last page is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FirstPage {
    /// Time of the latest change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<String>,
    /// Id of the newest item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
}

/// Commits other than the newest. Both forms name commits by hash, so that a list does not change
/// while it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Everything that this commit is made of.
    Of(String),
    /// What `head` has and `base` has not.
    Between {
        /// The newest commit of the last run.
        base: String,
        /// The newest commit now.
        head: String,
        /// Commits on the pages before this one.
        read: u64,
    },
}

/// A list moves while it is read: items appear, go and change places. So its pages are read again,
/// with their ETags, until nothing has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pass {
    /// Passes before this one.
    pub number: u32,
    /// Pages in the pass before.
    pub pages: u32,
    /// Whether a page of this pass differs from what was known of it.
    pub has_changed: bool,
}

impl Pass {
    fn is_first(&self) -> bool {
        *self == Self::default()
    }
}

/// The page keys of what an earlier run owes begin so.
const OWED: &str = "owed-";

impl PageJob {
    pub(crate) fn first(run_id: &RunId, kind: JobKind, repository: Option<Repository>) -> Self {
        Self {
            run_id: run_id.clone(),
            kind,
            repository,
            item: None,
            search: None,
            page: 1,
            hops: 0,
            url: None,
            since: None,
            seen: FirstPage::default(),
            bounds: Bounds::default(),
            is_full: false,
            is_owed: false,
            history: None,
            pass: Pass::default(),
            reading: Reading::default(),
        }
    }

    /// Where its documents belong: `user:octocat` or `repo:owner/name`.
    pub fn place(&self) -> String {
        match &self.repository {
            Some(repository) => format!("repo:{}", repository.full_name),
            None => format!("user:{}", self.run_id.login),
        }
    }

    /// What it reads: its place, or an item there: `repo:owner/name#7`.
    pub fn resource(&self) -> String {
        match &self.item {
            Some(item) => format!("{}#{item}", self.place()),
            None => self.place(),
        }
    }

    /// Identifies what it reads, whatever its name is: `repo:1296269#7`.
    pub fn id(&self) -> String {
        let place = match &self.repository {
            Some(repository) => format!("repo:{}", repository.id),
            None => self.place(),
        };
        match &self.item {
            Some(item) => format!("{place}#{item}"),
            None => place,
        }
    }

    /// Identifies the page within its resource and run.
    pub fn page_key(&self) -> String {
        let since = if self.since.is_some() { "since-" } else { "" };
        let history = match &self.history {
            Some(History::Of(_)) => "all-",
            Some(History::Between { .. }) => "new-",
            None => "",
        };
        let order = if self.reading.by_creation {
            "created-"
        } else {
            ""
        };
        let owed = if self.is_owed { OWED } else { "" };
        let mut key = format!("{owed}{since}{history}{order}{}", self.page);
        if self.pass.number > 0 {
            key.push_str(&format!("-again-{}", self.pass.number));
        }
        // What belongs to an item is read again if the item has changed again.
        if let (Some(_), Some(changed_at)) = (&self.item, &self.seen.latest) {
            key.push_str(&format!("@{changed_at}"));
        }
        if self.hops > 0 {
            key.push_str(&format!("-moved-{}", self.hops));
        }
        key
    }
}

/// How a page ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageEnd {
    /// The page was read and stored.
    Stored,
    /// The page has not changed.
    NotModified,
    /// There is nothing to read: disabled issues, a page past the end.
    Nothing,
    /// The resource has moved; another job reads it there.
    Moved,
    /// The API does not give the resource: it is gone or blocked.
    Unavailable,
    /// The repository is empty: unavailable too, and known to have nothing.
    Empty,
}

impl PageEnd {
    /// Whether the API does not give the resource.
    pub(crate) fn is_unavailable(self) -> bool {
        matches!(self, Self::Unavailable | Self::Empty)
    }
}

/// The result of a page job's operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageDone {
    /// How it ended.
    pub end: PageEnd,
    /// Documents stored.
    pub documents: u64,
    /// Pages known from an earlier run that did not have to be requested.
    #[serde(default)]
    pub skipped: u64,
    /// The hash of the token that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why the resource is unavailable: status and message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a page of a list that is read as a whole holds: documents that no page holds are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Listed>,
}

/// The items of one page of a list that is read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Number of the page.
    pub page: u32,
    /// Number of the pass that read it.
    pub pass: u32,
    /// Hashes of the documents' ids, 16 hex digits each.
    pub ids: String,
    /// Number of pages, if this was the last request for the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// Whether the page differs from what the last run knew of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_changed: bool,
}

/// The state of a job, derived from its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// Waits for its next attempt.
    Ready,
    /// Due, and not begun.
    Enqueued,
    /// A worker is running it.
    Running,
    /// Succeeded.
    Succeeded,
    /// Failed permanently.
    Failed,
    /// The API does not give the resource.
    Unavailable,
}

/// A job and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    /// The id of its operation.
    pub op_id: OpId,
    /// What it reads.
    pub kind: JobKind,
    /// The run that it belongs to.
    pub run: Option<String>,
    /// The resource that it reads.
    pub resource: String,
    /// The page that it reads.
    pub page: String,
    /// Its state.
    pub state: JobState,
    /// Attempts so far that count against the maximum.
    pub attempts: u32,
    /// Time of its next attempt.
    pub not_before: Option<Timestamp>,
    /// Its result.
    pub done: Option<PageDone>,
    /// Why it failed: code and message; or why its resource is unavailable; or what an open job
    /// waits for.
    pub error: Option<String>,
}

impl Job {
    /// Whether it reads what an earlier run owes: see [`PageJob::page_key`].
    pub(crate) fn is_owed(&self) -> bool {
        self.page.starts_with(OWED)
    }
}
