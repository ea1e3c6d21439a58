//! A page job: one request to the API.

use std::fmt;

use clinch::types::{OpId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{InvalidText, RunId, login};

/// What a job reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// The user.
    UserBasic,
    /// The user's events.
    UserEvents,
    /// The repositories that the user owns.
    UserRepos,
    /// Issues of a repository.
    RepoIssues,
    /// Pull requests of a repository.
    RepoPrs,
    /// Commits of a repository.
    RepoCommits,
}

impl JobKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::UserBasic,
        Self::UserEvents,
        Self::UserRepos,
        Self::RepoIssues,
        Self::RepoPrs,
        Self::RepoCommits,
    ];

    /// The kinds that are read for each repository.
    pub const OF_REPOSITORY: [Self; 3] = [Self::RepoIssues, Self::RepoPrs, Self::RepoCommits];

    /// The event type of its operations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserBasic => "user_basic",
            Self::UserEvents => "user_events",
            Self::UserRepos => "user_repos",
            Self::RepoIssues => "repo_issues",
            Self::RepoPrs => "repo_prs",
            Self::RepoCommits => "repo_commits",
        }
    }

    /// The kind of its documents.
    pub fn document(self) -> &'static str {
        match self {
            Self::UserBasic => "user",
            Self::UserEvents => "event",
            Self::UserRepos => "repository",
            Self::RepoIssues => "issue",
            Self::RepoPrs => "pull_request",
            Self::RepoCommits => "commit",
        }
    }

    /// Whether the endpoint accepts `since`.
    pub(crate) fn has_since(self) -> bool {
        matches!(self, Self::RepoIssues | Self::RepoCommits)
    }

    /// Whether the newest items come first, so that reading can stop at the first known item.
    pub(crate) fn is_newest_first(self) -> bool {
        matches!(self, Self::UserEvents | Self::RepoIssues | Self::RepoPrs)
    }

    /// Whether items older than its cursor need not be read again.
    pub(crate) fn has_cursor(self) -> bool {
        self.has_since() || self.is_newest_first()
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A repository. Its id stays the same when it is renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// GitHub's id.
    pub id: u64,
    /// `owner/name`.
    pub full_name: String,
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
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(fits);
        match is_name && name != "." && name != ".." {
            true => Ok((owner, name)),
            false => Err(wrong()),
        }
    }
}

/// One request: the payload of its operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageJob {
    /// The run that it belongs to.
    pub run_id: RunId,
    /// What it reads.
    pub kind: JobKind,
    /// The repository, if it reads one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    /// Number of the page in its resource, from 1.
    pub page: u32,
    /// Redirects that led to this job.
    #[serde(default)]
    pub hops: u32,
    /// The address that the previous answer gave; `None`: the first page, or the first page of
    /// changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Read only the changes since this time. These pages are separate from the resource's own
    /// pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The newest items on the first page.
    #[serde(default)]
    pub seen: FirstPage,
    /// Every page is read, whatever the last run has read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_full: bool,
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

impl PageJob {
    pub(crate) fn first(run_id: &RunId, kind: JobKind, repository: Option<Repository>) -> Self {
        Self {
            run_id: run_id.clone(),
            kind,
            repository,
            page: 1,
            hops: 0,
            url: None,
            since: None,
            seen: FirstPage::default(),
            is_full: false,
        }
    }

    /// `user:octocat` or `repo:owner/name`.
    pub fn resource(&self) -> String {
        match &self.repository {
            Some(repository) => format!("repo:{}", repository.full_name),
            None => format!("user:{}", self.run_id.login),
        }
    }

    /// Identifies the page within its resource and run.
    pub fn page_key(&self) -> String {
        let since = if self.since.is_some() { "since-" } else { "" };
        match self.hops {
            0 => format!("{since}{}", self.page),
            hops => format!("{since}{}-moved-{hops}", self.page),
        }
    }

    /// Whether this is the first page of the resource's own address. Its ETag tells whether
    /// anything is new.
    pub(crate) fn is_head(&self) -> bool {
        self.page == 1 && self.since.is_none()
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
    /// There is nothing to read: an empty repository, disabled issues, a page past the end.
    Nothing,
    /// The resource has moved; another job reads it there.
    Moved,
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
}

/// A job and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    /// The id of its operation.
    pub op_id: OpId,
    /// What it reads.
    pub kind: JobKind,
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
    /// Why it failed: code and message.
    pub error: Option<String>,
}
