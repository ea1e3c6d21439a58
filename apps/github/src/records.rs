//! The collector's typed records: runs, cursors, known pages, accounts and statistics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clinch::ports::{Expected, Record, RecordList, RecordWrite, Records};
use clinch::types::{ErrorKind, Timestamp};
use clinch::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::{FirstPage, JobKind, PageJob, Repository, Run, RunId, Space};

/// How often a change is retried after a lost race; each time another change succeeded.
const TRIES_MAX: usize = 100;

/// The number of a user's latest run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Latest {
    number: u64,
}

/// Where the next run continues with a resource (COL-4).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Id of the newest item.
    pub last_cursor: Option<String>,
    /// Time of the latest change: the next `since`.
    pub last_timestamp: Option<String>,
    /// ETag of the first page, for the token that read it last.
    pub last_etag: Option<String>,
    /// Number of the run that stored the resource's last page.
    pub run: u64,
    /// Number of pages that the resource had then.
    pub pages: u32,
    /// When the cursor was written.
    pub updated_at: Timestamp,
    /// When every page was last read, not only the newest.
    #[serde(default)]
    pub full_at: Option<Timestamp>,
}

/// How far back changes of commits are read again: a commit has the date of its making, and may be
/// pushed or merged later.
const COMMITS_OVERLAP: jiff::SignedDuration = jiff::SignedDuration::from_hours(30 * 24);

/// How often a repository whose commits have changed is read as a whole: commits that are older than
/// the overlap when they are merged are found then.
const COMMITS_FULL_EVERY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Cursor {
    /// Whether the newest changes are not enough this time.
    pub(crate) fn needs_all(&self, kind: JobKind, now: Timestamp) -> bool {
        let is_old = |at: Timestamp| now.since(at) >= COMMITS_FULL_EVERY;
        kind == JobKind::RepoCommits && self.full_at.is_none_or(is_old)
    }

    /// The time since which changes of this kind are read.
    pub(crate) fn since(&self, kind: JobKind) -> Option<String> {
        let latest = self.last_timestamp.as_ref()?;
        if kind != JobKind::RepoCommits {
            return Some(latest.clone());
        }
        let at: jiff::Timestamp = latest.parse().ok()?;
        let since = at.checked_sub(COMMITS_OVERLAP).ok()?;
        Some(since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

/// A page as it was last read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct KnownPage {
    pub(crate) url: String,
    /// ETags by the hash of the token that read the page: each token gets its own ETag.
    pub(crate) etags: BTreeMap<String, String>,
    pub(crate) next: Option<String>,
    pub(crate) repositories: Vec<Repository>,
    pub(crate) seen: FirstPage,
    /// Time of the oldest change on the page.
    pub(crate) oldest: Option<String>,
    pub(crate) run: u64,
}

/// Statistics of a user, or of all users.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Number of documents by kind.
    pub documents: BTreeMap<String, u64>,
    /// The run or repair that they were last computed for.
    pub made_for: String,
    /// Number of runs and repairs that they were computed for.
    pub runs: u64,
    /// When they were computed.
    pub updated_at: Timestamp,
}

/// Typed records. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CollectorRecords {
    records: Arc<dyn Records>,
}

/// Parses the JSON of a record.
fn parse<T: DeserializeOwned>(record: &Record) -> Result<T> {
    serde_json::from_str(&record.body).map_err(|_| {
        let message =
            "a record of the collector cannot be read; was it written by a newer version?";
        Error::new(ErrorKind::Invalid, message).with("record", &record.key)
    })
}

fn text<T: Serialize>(value: &T) -> Result<String> {
    let failed = |_| Error::new(ErrorKind::Invalid, "a record cannot be written as JSON");
    serde_json::to_string(value).map_err(failed)
}

fn write<T: Serialize>(key: String, expected: Expected, value: &T) -> Result<RecordWrite> {
    Ok(RecordWrite {
        key,
        expected,
        body: Some(text(value)?),
    })
}

fn expected(version: Option<u64>) -> Expected {
    version.map_or(Expected::Absent, Expected::Version)
}

fn user_key(space: Space, login: &str) -> String {
    format!("{}/user/{login}", space.collection())
}

fn run_key(run: &RunId) -> String {
    let RunId {
        login,
        space,
        number,
    } = run;
    format!("{}/run/{login}/{number:010}", space.collection())
}

/// The key that lists the runs of all users in order of time.
fn recent_key(run: &Run) -> String {
    let at = run.created_at.as_millis().max(0);
    format!("github-recent/{at:015}/{}", run.run_id)
}

/// The key that lists the runs that have not ended.
fn active_key(run: &RunId) -> String {
    format!("github-active/{run}")
}

fn cursor_key(job: &PageJob) -> String {
    let (space, login) = (job.run_id.space.collection(), &job.run_id.login);
    format!("{space}/cursor/{login}/{}/{}", job.kind, job.resource())
}

fn page_key(job: &PageJob) -> String {
    let (space, login) = (job.run_id.space.collection(), &job.run_id.login);
    let (kind, resource, page) = (job.kind, job.resource(), job.page);
    format!("{space}/page/{login}/{kind}/{resource}/{page:06}")
}

impl CollectorRecords {
    pub(crate) fn new(records: Arc<dyn Records>) -> Self {
        Self { records }
    }

    async fn read<T: DeserializeOwned>(&self, key: String) -> Result<Option<(T, u64)>> {
        let found = self.records.read_records(&[key]).await?;
        let found = found.into_iter().next().flatten();
        let typed = |record: Record| Ok((parse(&record)?, record.version));
        found.map(typed).transpose()
    }

    /// Reads, changes and writes a record until no other change comes in between. `None` from
    /// `change`: leave the record as it is.
    async fn change<T, R>(
        &self,
        key: String,
        mut change: impl FnMut(Option<T>) -> Option<(T, R)>,
    ) -> Result<Option<R>>
    where
        T: DeserializeOwned + Serialize,
    {
        for _ in 0..TRIES_MAX {
            let (before, version) = match self.read::<T>(key.clone()).await? {
                Some((value, version)) => (Some(value), Some(version)),
                None => (None, None),
            };
            let Some((after, result)) = change(before) else {
                return Ok(None);
            };
            let write = write(key.clone(), expected(version), &after)?;
            if self.records.write_records(&[write]).await? {
                return Ok(Some(result));
            }
        }
        Err(contended(&key))
    }

    /// Records a new run; the inner `Err` holds the run that is still active.
    pub(crate) async fn create_run(
        &self,
        login: &str,
        space: Space,
        make: impl Fn(RunId) -> Run,
    ) -> Result<std::result::Result<Run, Run>> {
        let key = user_key(space, login);
        for _ in 0..TRIES_MAX {
            let latest = self.read::<Latest>(key.clone()).await?;
            let run_id = |number| RunId {
                login: login.to_owned(),
                space,
                number,
            };
            let mut number = 1;
            if let Some((latest, _)) = &latest {
                let before = self.run(&run_id(latest.number)).await?;
                if let Some(active) = before.filter(|run| !run.status.is_terminal()) {
                    return Ok(Err(active));
                }
                number = latest.number + 1;
            }
            let run = make(run_id(number));
            let version = latest.map(|(_, version)| version);
            let writes = [
                write(key.clone(), expected(version), &Latest { number })?,
                write(run_key(&run.run_id), Expected::Absent, &run)?,
                write(recent_key(&run), Expected::Anything, &run.run_id)?,
                write(active_key(&run.run_id), Expected::Anything, &run.run_id)?,
            ];
            if self.records.write_records(&writes).await? {
                return Ok(Ok(run));
            }
        }
        Err(contended(&key))
    }

    pub(crate) async fn run(&self, id: &RunId) -> Result<Option<Run>> {
        Ok(self.read(run_key(id)).await?.map(|(run, _)| run))
    }

    /// The latest run of a user.
    pub(crate) async fn latest(&self, login: &str, space: Space) -> Result<Option<Run>> {
        let Some((latest, _)) = self.read::<Latest>(user_key(space, login)).await? else {
            return Ok(None);
        };
        let id = RunId {
            login: login.to_owned(),
            space,
            number: latest.number,
        };
        self.run(&id).await
    }

    /// Changes a run; `None`: there is no such run, or `change` left it as it was.
    pub(crate) async fn change_run(
        &self,
        id: &RunId,
        mut change: impl FnMut(&mut Run) -> bool,
    ) -> Result<Option<Run>> {
        for _ in 0..TRIES_MAX {
            let Some((mut run, version)) = self.read::<Run>(run_key(id)).await? else {
                return Ok(None);
            };
            if !change(&mut run) {
                return Ok(None);
            }
            let is_active = !run.status.is_terminal();
            let writes = [
                write(run_key(id), expected(Some(version)), &run)?,
                RecordWrite {
                    key: active_key(id),
                    expected: Expected::Anything,
                    body: is_active.then(|| text(id)).transpose()?,
                },
            ];
            if self.records.write_records(&writes).await? {
                return Ok(Some(run));
            }
        }
        Err(contended(&run_key(id)))
    }

    /// Lists a run as active. Runs are listed by themselves; those that an older release created
    /// are not.
    pub(crate) async fn note_active(&self, id: &RunId) -> Result<()> {
        let write = write(active_key(id), Expected::Anything, id)?;
        self.records.write_records(&[write]).await?;
        Ok(())
    }

    /// Runs that have not ended, and the cursor of the next page.
    pub(crate) async fn active_runs(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Run>, Option<String>)> {
        let list = RecordList {
            prefix: "github-active/".to_owned(),
            descending: false,
            after,
            limit,
        };
        self.listed_runs(&list).await
    }

    /// Runs, newest first, and the cursor of the next page.
    pub(crate) async fn runs(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Run>, Option<String>)> {
        let list = RecordList {
            prefix: "github-recent/".to_owned(),
            descending: true,
            after,
            limit,
        };
        self.listed_runs(&list).await
    }

    /// The runs that are named by listed records.
    async fn listed_runs(&self, list: &RecordList) -> Result<(Vec<Run>, Option<String>)> {
        let recent = self.records.list_records(list).await?;
        let next = (recent.len() == list.limit).then(|| recent.last().map(|one| one.key.clone()));
        let mut keys = Vec::with_capacity(recent.len());
        for record in &recent {
            keys.push(run_key(&parse::<RunId>(record)?));
        }
        let found = self.records.read_records(&keys).await?;
        let runs: Result<Vec<Run>> = found.iter().flatten().map(parse).collect();
        Ok((runs?, next.flatten()))
    }

    pub(crate) async fn cursor(&self, job: &PageJob) -> Result<Option<Cursor>> {
        let found = self.read(cursor_key(job)).await?;
        Ok(found.map(|(cursor, _)| cursor))
    }

    /// Cursors of a user with their keys.
    pub(crate) async fn cursors(
        &self,
        login: &str,
        space: Space,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<(JobKind, String, Cursor)>> {
        let prefix = format!("{}/cursor/{login}/", space.collection());
        let list = RecordList {
            prefix: prefix.clone(),
            descending: false,
            after: after.map(|after| format!("{prefix}{after}")),
            limit,
        };
        let mut cursors = Vec::new();
        for record in self.records.list_records(&list).await? {
            let name = record.key.strip_prefix(&prefix).unwrap_or_default();
            let (kind, resource) = name.split_once('/').unwrap_or_default();
            let kind = JobKind::ALL.into_iter().find(|one| one.as_str() == kind);
            if let Some(kind) = kind {
                cursors.push((kind, resource.to_owned(), parse(&record)?));
            }
        }
        Ok(cursors)
    }

    pub(crate) async fn page(&self, job: &PageJob) -> Result<Option<KnownPage>> {
        let found = self.read(page_key(job)).await?;
        Ok(found.map(|(page, _)| page))
    }

    /// Records a page and, if it was the last, the resource's cursor, in one commit. Does not
    /// overwrite what a later run wrote.
    pub(crate) async fn note(
        &self,
        job: &PageJob,
        page: Option<&KnownPage>,
        cursor: Option<&Cursor>,
    ) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let mut writes = Vec::with_capacity(2);
            if let Some(page) = page {
                let before = self.read::<KnownPage>(page_key(job)).await?;
                let (known, version) = split(before);
                if known.is_none_or(|known| known.run <= page.run) {
                    writes.push(write(page_key(job), expected(version), page)?);
                }
            }
            if let Some(cursor) = cursor {
                let before = self.read::<Cursor>(cursor_key(job)).await?;
                let (known, version) = split(before);
                if known.is_none_or(|known| known.run <= cursor.run) {
                    writes.push(write(cursor_key(job), expected(version), cursor)?);
                }
            }
            if writes.is_empty() || self.records.write_records(&writes).await? {
                return Ok(());
            }
        }
        Err(contended(&page_key(job)))
    }

    /// The account that a token belongs to.
    pub(crate) async fn account(&self, token: &str) -> Result<Option<String>> {
        let found = self.read(format!("github-token/{token}")).await?;
        Ok(found.map(|(account, _)| account))
    }

    pub(crate) async fn note_account(&self, token: &str, account: &str) -> Result<()> {
        let key = format!("github-token/{token}");
        let write = write(key, Expected::Anything, &account)?;
        self.records.write_records(&[write]).await?;
        Ok(())
    }

    /// Notes the tokens that are in use, by their hashes. True: they are others than before.
    pub(crate) async fn note_tokens(&self, hashes: &[String]) -> Result<bool> {
        let changed = self.change("github-tokens".to_owned(), |before: Option<Vec<String>>| {
            let is_new = before.as_deref() != Some(hashes);
            is_new.then(|| (hashes.to_vec(), before.is_some()))
        });
        Ok(changed.await?.unwrap_or(false))
    }

    /// Statistics of a user, or of all users.
    pub(crate) async fn figures(
        &self,
        space: Space,
        login: Option<&str>,
    ) -> Result<Option<Figures>> {
        let found = self.read(figures_key(space, login)).await?;
        Ok(found.map(|(figures, _)| figures))
    }

    /// Records statistics. A run that they were computed for already is not counted again.
    pub(crate) async fn note_figures(
        &self,
        space: Space,
        login: Option<&str>,
        figures: &Figures,
    ) -> Result<()> {
        let next = |before: Option<Figures>| {
            let before = before.unwrap_or_default();
            let again = before.made_for == figures.made_for;
            let runs = before.runs + u64::from(!again);
            let figures = Figures {
                runs,
                ..figures.clone()
            };
            Some((figures, ()))
        };
        self.change(figures_key(space, login), next).await?;
        Ok(())
    }
}

fn figures_key(space: Space, login: Option<&str>) -> String {
    let space = space.collection();
    match login {
        Some(login) => format!("{space}/figures/user/{login}"),
        None => format!("{space}/figures/all"),
    }
}

fn split<T>(found: Option<(T, u64)>) -> (Option<T>, Option<u64>) {
    match found {
        Some((value, version)) => (Some(value), Some(version)),
        None => (None, None),
    }
}

fn contended(key: &str) -> Error {
    let message = "too many concurrent changes of a record; try again";
    Error::new(ErrorKind::Unavailable, message).with("record", key)
}
