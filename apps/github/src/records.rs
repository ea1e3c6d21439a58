//! The collector's typed records: runs, accounts and statistics; cursors and pages in `pages`.

mod pages;
mod pruning;

use std::collections::BTreeMap;
use std::sync::Arc;

use clinch::ports::{Expected, Record, RecordList, RecordWrite, Records};
use clinch::types::{ErrorKind, OpId, Timestamp};
use clinch::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::{Run, RunId, Space};
use crate::streams::JobKind;

pub use pages::Cursor;
pub(crate) use pages::{Before, KnownPage};

/// How often a change is retried after a lost race; each time another change succeeded.
pub(crate) const TRIES_MAX: usize = 100;

/// A user's latest run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Latest {
    number: u64,
    /// When the first run began that read everything; of an earlier release, the latest one.
    #[serde(default)]
    full_at: Option<Timestamp>,
    /// When the latest run began that read everything of a stream.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    full: BTreeMap<JobKind, Timestamp>,
}

impl Latest {
    /// When the latest run began that read everything of all these streams.
    fn full_at(&self, streams: &[JobKind]) -> Option<Timestamp> {
        let of_stream = |kind| self.full.get(kind).copied().or(self.full_at);
        streams.iter().map(of_stream).min().flatten()
    }
}

/// Typed records. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CollectorRecords {
    pub(crate) records: Arc<dyn Records>,
}

/// Parses the JSON of a record.
pub(crate) fn parse<T: DeserializeOwned>(record: &Record) -> Result<T> {
    serde_json::from_str(&record.body).map_err(|_| {
        let message =
            "a record of the collector cannot be read; was it written by a newer version?";
        Error::new(ErrorKind::Invalid, message).with("record", &record.key)
    })
}

pub(crate) fn text<T: Serialize>(value: &T) -> Result<String> {
    let failed = |_| Error::new(ErrorKind::Invalid, "a record cannot be written as JSON");
    serde_json::to_string(value).map_err(failed)
}

pub(crate) fn write<T: Serialize>(
    key: String,
    expected: Expected,
    value: &T,
) -> Result<RecordWrite> {
    Ok(RecordWrite {
        key,
        expected,
        body: Some(text(value)?),
    })
}

pub(crate) fn expected(version: Option<u64>) -> Expected {
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

/// The key of the run that an operation began.
fn begun_key(op_id: OpId) -> String {
    format!("github-begun/{op_id}")
}

/// The keys of everything that is recorded of a run.
pub(crate) fn keys_of(run: &Run) -> Vec<String> {
    let mut keys = vec![
        run_key(&run.run_id),
        recent_key(run),
        active_key(&run.run_id),
    ];
    keys.extend(run.begun_by.map(begun_key));
    keys
}

impl CollectorRecords {
    pub(crate) fn new(records: Arc<dyn Records>) -> Self {
        Self { records }
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, key: String) -> Result<Option<(T, u64)>> {
        let found = self.records.read_records(&[key]).await?;
        let found = found.into_iter().next().flatten();
        let typed = |record: Record| Ok((parse(&record)?, record.version));
        found.map(typed).transpose()
    }

    /// Reads, changes and writes a record until no other change comes in between. `None` from
    /// `change`: leave the record as it is.
    pub(crate) async fn change<T, R>(
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

    /// Records a new run, made from its id and the time of the latest run that read everything of these
    /// streams; the inner `Err` holds the run that is still active.
    pub(crate) async fn create_run(
        &self,
        login: &str,
        space: Space,
        streams: &[JobKind],
        make: impl Fn(RunId, Option<Timestamp>) -> Run,
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
            let (latest, version) = split(latest);
            let full_at = latest.as_ref().and_then(|latest| latest.full_at(streams));
            let run = make(run_id(number), full_at);
            let mut latest = latest.unwrap_or_default();
            latest.number = number;
            // The lists of a stream that is added are read whole, without a full run.
            let is_noted = !latest.full.is_empty() && !run.is_partial;
            for kind in run.streams.iter().filter(|_| is_noted) {
                latest.full.entry(*kind).or_insert(run.created_at);
            }
            let mut writes = vec![
                write(key.clone(), expected(version), &latest)?,
                write(run_key(&run.run_id), Expected::Absent, &run)?,
                write(recent_key(&run), Expected::Anything, &run.run_id)?,
                write(active_key(&run.run_id), Expected::Anything, &run.run_id)?,
            ];
            if let Some(op_id) = run.begun_by {
                writes.push(write(begun_key(op_id), Expected::Absent, &run.run_id)?);
            }
            if self.records.write_records(&writes).await? {
                return Ok(Ok(run));
            }
        }
        Err(contended(&key))
    }

    /// The run that an operation began.
    pub(crate) async fn begun_by(&self, op_id: Option<OpId>) -> Result<Option<Run>> {
        let Some(op_id) = op_id else { return Ok(None) };
        match self.read::<RunId>(begun_key(op_id)).await? {
            Some((id, _)) => self.run(&id).await,
            None => Ok(None),
        }
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

    /// The latest run of a user; the inner `None`: its record is gone.
    pub(crate) async fn latest_or_forgotten(
        &self,
        login: &str,
        space: Space,
    ) -> Result<Option<Option<Run>>> {
        match self.read::<Latest>(user_key(space, login)).await? {
            Some(_) => Ok(Some(self.latest(login, space).await?)),
            None => Ok(None),
        }
    }

    /// The next run reads everything.
    pub(crate) async fn note_forgotten(&self, login: &str, space: Space) -> Result<()> {
        let next = |latest: Option<Latest>| {
            let next = Latest {
                number: latest?.number,
                ..Latest::default()
            };
            Some((next, ()))
        };
        self.change(user_key(space, login), next).await?;
        Ok(())
    }

    /// Notes that a run has read everything of its streams.
    pub(crate) async fn note_full(&self, run: &Run) -> Result<()> {
        let key = user_key(run.run_id.space, &run.run_id.login);
        let next = |latest: Option<Latest>| {
            let mut latest = latest?;
            latest.full_at.get_or_insert(run.created_at);
            for kind in &run.streams {
                let at = latest.full.entry(*kind).or_default();
                *at = run.created_at.max(*at);
            }
            Some((latest, ()))
        };
        self.change(key, next).await?;
        Ok(())
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

    pub(crate) async fn drop_account(&self, token: &str) -> Result<()> {
        let write = RecordWrite {
            key: format!("github-token/{token}"),
            expected: Expected::Anything,
            body: None,
        };
        self.records.write_records(&[write]).await?;
        Ok(())
    }

    /// Notes the tokens that are in use, by their hashes. True: they are others than before.
    pub(crate) async fn note_tokens(&self, hashes: &[String]) -> Result<bool> {
        let changed = self.change("github-tokens".to_owned(), |before: Option<Vec<String>>| {
            let is_new = before.as_deref() != Some(hashes);
            let gone = |before: &Vec<String>| {
                let gone = before.iter().filter(|one| !hashes.contains(one));
                gone.cloned().collect::<Vec<_>>()
            };
            is_new.then(|| (hashes.to_vec(), before.as_ref().map(gone)))
        });
        let Some(gone) = changed.await?.flatten() else {
            return Ok(false);
        };
        // Whose they were matters no more; should one come back, it is looked up again.
        for token in gone {
            self.drop_account(&token).await?;
        }
        Ok(true)
    }
}

fn split<T>(found: Option<(T, u64)>) -> (Option<T>, Option<u64>) {
    match found {
        Some((value, version)) => (Some(value), Some(version)),
        None => (None, None),
    }
}

pub(crate) fn contended(key: &str) -> Error {
    let message = "too many concurrent changes of a record; try again";
    Error::new(ErrorKind::Unavailable, message).with("record", key)
}
