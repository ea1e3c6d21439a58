//! A page job: one request to the API.

use std::fmt;

use clinch::types::{OpId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{RunId, Unknown, login};

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

    /// Those that a repository has.
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

    /// What its documents are called.
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

    /// The endpoint takes `since`.
    pub(crate) fn has_since(self) -> bool {
        matches!(self, Self::RepoIssues | Self::RepoCommits)
    }

    /// The newest come first, so that reading can end at what is known.
    pub(crate) fn is_newest_first(self) -> bool {
        matches!(self, Self::UserEvents | Self::RepoIssues | Self::RepoPrs)
    }

    /// What is older than its cursor need not be read again.
    pub(crate) fn has_cursor(self) -> bool {
        self.has_since() || self.is_newest_first()
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A repository, by the id that outlives a rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// GitHub's id.
    pub id: u64,
    /// `owner/name`.
    pub full_name: String,
}

/// Longest name of a repository, in bytes: GitHub's own bound.
const NAME_BYTES_MAX: usize = 100;

impl Repository {
    /// Owner and name, if they are such as GitHub gives: nothing that a path could be led
    /// astray by.
    pub(crate) fn names(&self) -> Result<(&str, &str), Unknown> {
        let wrong = || {
            let message = "a repository is OWNER/NAME: letters, digits, '-', '_' and in its name \
                           '.'";
            Unknown(message.to_owned())
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
    /// The run it belongs to.
    pub run_id: RunId,
    /// What it reads.
    pub kind: JobKind,
    /// The repository, where it reads of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    /// Counts the pages of the resource, from 1.
    pub page: u32,
    /// Redirects that led here.
    #[serde(default)]
    pub hops: u32,
    /// As the answer before gave it; `None`: the first page, or the first of those since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Only what changed since then: these pages are apart from the resource's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What the first page of this reading showed.
    #[serde(default)]
    pub seen: Seen,
}

/// What the first page showed: where the cursor will stand when the last page is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The latest change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<String>,
    /// The id of the newest item.
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
            seen: Seen::default(),
        }
    }

    /// `user:octocat` or `repo:owner/name`.
    pub fn resource(&self) -> String {
        match &self.repository {
            Some(repository) => format!("repo:{}", repository.full_name),
            None => format!("user:{}", self.run_id.login),
        }
    }

    /// Tells the pages of one resource and run apart.
    pub fn page_key(&self) -> String {
        let since = if self.since.is_some() { "since-" } else { "" };
        match self.hops {
            0 => format!("{since}{}", self.page),
            hops => format!("{since}{}-moved-{hops}", self.page),
        }
    }

    /// The first page of the resource's own address, whose ETag tells whether anything is new.
    pub(crate) fn is_head(&self) -> bool {
        self.page == 1 && self.since.is_none()
    }
}

/// How a page ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageEnd {
    /// Read and stored.
    Stored,
    /// Not modified.
    NotModified,
    /// There is nothing: an empty repository, issues that are switched off, a page past the end.
    Nothing,
    /// It is elsewhere; another job goes there.
    Moved,
}

/// What a page brought: the result of its operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageDone {
    /// How it ended.
    pub end: PageEnd,
    /// Documents stored.
    pub documents: u64,
    /// Pages known from before that need not be asked for.
    #[serde(default)]
    pub skipped: u64,
    /// Of the token that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Where a job stands: a view of its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// Waits for its time.
    Ready,
    /// Due, and not begun.
    Enqueued,
    /// A worker is at it.
    Running,
    /// Done.
    Succeeded,
    /// Given up.
    Failed,
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Its operation.
    pub op_id: OpId,
    /// What it reads.
    pub kind: JobKind,
    /// Of what.
    pub resource: String,
    /// Which page.
    pub page: String,
    /// Where it stands.
    pub state: JobState,
    /// Requests so far that counted.
    pub attempts: u32,
    /// Not before then.
    pub not_before: Option<Timestamp>,
    /// What it brought.
    pub done: Option<PageDone>,
    /// Why it failed: code and message.
    pub error: Option<String>,
}
