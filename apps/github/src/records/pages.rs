//! Cursors, known pages and what is owed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use clinch::Result;
use clinch::ports::{Expected, RecordList, RecordWrite};
use clinch::types::Timestamp;
use serde::{Deserialize, Serialize};

use super::{CollectorRecords, TRIES_MAX, contended, expected, parse, run_key, write};
use crate::items::id_hash;
use crate::model::{FirstPage, PageJob, Repository, Run, RunId, Space};
use crate::seal::SealedToken;
use crate::streams::{JobKind, Walk};
use crate::user_tokens::{self, tokens_key};

/// Owed jobs that are written or read at once.
const OWED_AT_ONCE: usize = 200;

/// Pages and cursors that are listed at once.
const LISTED_AT_ONCE: usize = 500;

/// Where the next run continues with a list (COL-4).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// The list's resource. A list that has another name now is read as a whole.
    #[serde(default)]
    pub resource: String,
    /// Id of the newest item; of commits: the head of the default branch.
    pub last_cursor: Option<String>,
    /// Time of the latest change.
    pub last_timestamp: Option<String>,
    /// ETag of the first page, for the token that read it last.
    pub last_etag: Option<String>,
    /// `since` of the last request, which the next run repeats.
    #[serde(default)]
    pub since: Option<String>,
    /// ETags of that request by the hash of the token.
    #[serde(default)]
    pub etags: BTreeMap<String, String>,
    /// Number of the run that stored the list's last page.
    pub run: u64,
    /// Number of pages that the list had then.
    pub pages: u32,
    /// Streams that have read something of each item up to here.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub item_streams: BTreeSet<JobKind>,
    /// When the cursor was written.
    pub updated_at: Timestamp,
    /// Where this run began: a job that is executed again begins there too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Cursor>>,
}

/// A page as it was last read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct KnownPage {
    pub(crate) url: String,
    /// What it is a page of. If that has another name now, its documents are stored again.
    #[serde(default)]
    pub(crate) resource: String,
    /// ETags by the hash of the token that read the page: each token gets its own ETag.
    pub(crate) etags: BTreeMap<String, String>,
    pub(crate) next: Option<String>,
    pub(crate) repositories: Vec<Repository>,
    pub(crate) seen: FirstPage,
    /// Time of the oldest change on the page.
    pub(crate) oldest: Option<String>,
    /// Number of its items.
    #[serde(default)]
    pub(crate) count: usize,
    /// Hashes of its documents' ids; `None`: an earlier release wrote this.
    #[serde(default)]
    pub(crate) ids: Option<String>,
    /// The newest commits of the branches on the page: of a branch that has not moved, nothing is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) heads: Vec<String>,
    /// Streams that have read something of each of its items.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) item_streams: BTreeSet<JobKind>,
    /// Whether the user is an organization.
    #[serde(default)]
    pub(crate) is_organization: bool,
    pub(crate) run: u64,
    /// The pass of the run that wrote this.
    #[serde(default)]
    pub(crate) pass: u32,
    /// Whether that pass found other items than were known.
    #[serde(default)]
    pub(crate) has_changed: bool,
    /// Whether it found items in other places.
    #[serde(default)]
    pub(crate) has_moved: bool,
}

impl KnownPage {
    /// Whether this job has written it: the job was executed before, and its end was not recorded.
    pub(crate) fn is_of(&self, job: &PageJob) -> bool {
        self.run == job.run_id.number && self.pass == job.pass.number
    }

    /// Whether the page of this job is remembered, with its ETag. Other lists are asked for by what
    /// they hold.
    pub(crate) fn is_kept(job: &PageJob) -> bool {
        // A bounded list stores a part of its items: its pages are not known to the next run.
        if !job.bounds.is_all() {
            return false;
        }
        match job.kind.stream().walk {
            Walk::Whole | Walk::Newest(_) | Walk::Events => job.item.is_none(),
            Walk::Commits => job.history.is_none() && job.page == 1,
            Walk::Updated => false,
        }
    }
}

/// What is known before a page is requested, read at once.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) run: Option<Run>,
    /// The page, if it is remembered.
    pub(crate) known: Option<KnownPage>,
    /// Where the last run ended.
    pub(crate) cursor: Option<Cursor>,
    /// The user's own tokens.
    pub(crate) tokens: Option<Vec<SealedToken>>,
    page_version: Option<u64>,
    cursor_version: Option<u64>,
}

impl Before {
    /// Where to continue; `None`: everything is read. A cursor that a later run wrote does not
    /// apply to this run. A stream that reads something of items, and was not collected by the run
    /// that wrote the cursor, has to read something of all of them.
    pub(crate) fn start(&self, job: &PageJob) -> Option<&Cursor> {
        let item_streams = self.item_streams(job);
        let is_enough = |cursor: &&Cursor| item_streams.is_subset(&cursor.item_streams);
        let last = self.last(job).filter(is_enough);
        last.filter(|_| !job.is_full && job.bounds.is_all())
    }

    /// The streams of the run that read something of each item of the job's list.
    pub(crate) fn item_streams(&self, job: &PageJob) -> BTreeSet<JobKind> {
        let run = self.run.as_ref();
        run.map(|run| run.item_streams(job.kind))
            .unwrap_or_default()
    }

    /// The cursor as it was when the run began.
    pub(crate) fn last(&self, job: &PageJob) -> Option<&Cursor> {
        let cursor = self.cursor.as_ref()?;
        let cursor = match cursor.run.cmp(&job.run_id.number) {
            Ordering::Less => Some(cursor),
            Ordering::Equal => cursor.before.as_deref(),
            Ordering::Greater => None,
        };
        cursor.filter(|cursor| cursor.resource == job.resource())
    }
}

fn cursor_key(job: &PageJob) -> String {
    let (space, login) = (job.run_id.space.collection(), &job.run_id.login);
    fitting(format!("{space}/cursor/{login}/{}/{}", job.kind, job.id()))
}

/// What is owed of an item.
fn owed_key(run: &RunId, kind: JobKind, resource: &str) -> String {
    let (space, login) = (run.space.collection(), &run.login);
    fitting(format!("{space}/owed/{login}/{kind}/{resource}"))
}

fn page_key(job: &PageJob) -> String {
    let (space, login) = (job.run_id.space.collection(), &job.run_id.login);
    let (kind, resource, page) = (job.kind, job.id(), job.page);
    // A list that is read in two orders has pages of each.
    let order = if job.reading.by_creation {
        "created-"
    } else {
        ""
    };
    fitting(format!(
        "{space}/page/{login}/{kind}/{resource}/{order}{page:06}"
    ))
}

/// A key that is too long for a record ends in a hash: an enterprise's names may be long.
fn fitting(key: String) -> String {
    const BYTES_MAX: usize = 250;
    match key.get(..BYTES_MAX - 16) {
        Some(start) if key.len() > BYTES_MAX => format!("{start}{}", id_hash(&key)),
        _ => key,
    }
}

impl CollectorRecords {
    /// The run, the user's tokens, the page and the list's cursor.
    pub(crate) async fn before(&self, job: &PageJob) -> Result<Before> {
        let mut keys = vec![run_key(&job.run_id), tokens_key(&job.run_id.login)];
        keys.extend(KnownPage::is_kept(job).then(|| page_key(job)));
        keys.extend(job.kind.has_cursor().then(|| cursor_key(job)));
        let mut found = self.records.read_records(&keys).await?.into_iter();
        let mut next = |is_read: bool| match is_read {
            true => found.next().flatten(),
            false => None,
        };
        let (run, tokens) = (next(true), next(true));
        let (page, cursor) = (next(KnownPage::is_kept(job)), next(job.kind.has_cursor()));
        Ok(Before {
            run: run.as_ref().map(parse).transpose()?,
            known: page.as_ref().map(parse).transpose()?,
            cursor: cursor.as_ref().map(parse).transpose()?,
            tokens: user_tokens::stored(tokens.as_ref())?,
            page_version: page.map(|one| one.version),
            cursor_version: cursor.map(|one| one.version),
        })
    }

    /// The page as it was last read.
    pub(crate) async fn page(&self, job: &PageJob) -> Result<Option<KnownPage>> {
        Ok(self.before(job).await?.known)
    }

    /// Cursors of a user, with their streams and the ids of what they are of.
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
            let (kind, id) = name.split_once('/').unwrap_or_default();
            if let Ok(kind) = JobKind::named(kind) {
                cursors.push((kind, id.to_owned(), parse(&record)?));
            }
        }
        Ok(cursors)
    }

    /// Number of pages of every list of a user that a run has read, by stream and id.
    pub(crate) async fn known_lists(
        &self,
        login: &str,
        space: Space,
    ) -> Result<BTreeMap<(JobKind, String), u64>> {
        let mut lists: BTreeMap<(JobKind, String), u64> = BTreeMap::new();
        for sort in ["page", "cursor"] {
            let prefix = format!("{}/{sort}/{login}/", space.collection());
            let mut after = None;
            loop {
                let list = RecordList {
                    prefix: prefix.clone(),
                    descending: false,
                    after,
                    limit: LISTED_AT_ONCE,
                };
                let found = self.records.list_records(&list).await?;
                for record in &found {
                    let name = record.key.strip_prefix(&prefix).unwrap_or_default();
                    let (kind, id) = name.split_once('/').unwrap_or_default();
                    let Ok(kind) = JobKind::named(kind) else {
                        continue;
                    };
                    let (id, pages) = match sort {
                        "page" => (id.rsplit_once('/').unwrap_or_default().0, 1),
                        _ => (id, u64::from(parse::<Cursor>(record)?.pages)),
                    };
                    let known = lists.entry((kind, id.to_owned())).or_default();
                    // A cursor tells all pages; of its list, not every page is remembered.
                    *known = match sort {
                        "page" => *known + pages,
                        _ => pages.max(*known),
                    };
                }
                after = found.last().map(|record| record.key.clone());
                if found.len() < LISTED_AT_ONCE {
                    break;
                }
            }
        }
        Ok(lists)
    }

    /// Records a page and, if it was the last, the list's cursor, in one commit, after the jobs that
    /// are owed for its items: should they not succeed in this run, the next one has to read what
    /// the cursor passed. Does not overwrite what a later run wrote.
    pub(crate) async fn note(
        &self,
        job: &PageJob,
        before: &Before,
        page: Option<&KnownPage>,
        cursor: Option<&Cursor>,
        owed: &[PageJob],
    ) -> Result<()> {
        for owed in owed.chunks(OWED_AT_ONCE) {
            let writes = owed.iter().map(|job| {
                write(
                    owed_key(&job.run_id, job.kind, &job.resource()),
                    Expected::Anything,
                    job,
                )
            });
            let writes = writes.collect::<Result<Vec<_>>>()?;
            self.records.write_records(&writes).await?;
        }
        if self.note_once(job, before, page, cursor).await? {
            return Ok(());
        }
        for _ in 0..TRIES_MAX {
            let before = self.before(job).await?;
            if self.note_once(job, &before, page, cursor).await? {
                return Ok(());
            }
        }
        Err(contended(&page_key(job)))
    }

    /// False: another process has written meanwhile.
    async fn note_once(
        &self,
        job: &PageJob,
        before: &Before,
        page: Option<&KnownPage>,
        cursor: Option<&Cursor>,
    ) -> Result<bool> {
        let mut writes = Vec::with_capacity(2);
        let run = job.run_id.number;
        let is_later = before.known.as_ref().is_some_and(|known| known.run > run);
        if let Some(page) = page.filter(|_| !is_later) {
            writes.push(write(page_key(job), expected(before.page_version), page)?);
        }
        let is_later = before.cursor.as_ref().is_some_and(|known| known.run > run);
        if let Some(cursor) = cursor.filter(|_| !is_later) {
            writes.push(write(
                cursor_key(job),
                expected(before.cursor_version),
                cursor,
            )?);
        }
        Ok(writes.is_empty() || self.records.write_records(&writes).await?)
    }

    /// What earlier runs owe a user, and the cursor of the next page.
    pub(crate) async fn owed(
        &self,
        run: &RunId,
        after: Option<String>,
    ) -> Result<(Vec<PageJob>, Option<String>)> {
        let prefix = format!("{}/owed/{}/", run.space.collection(), run.login);
        let list = RecordList {
            prefix,
            descending: false,
            after,
            limit: OWED_AT_ONCE,
        };
        let found = self.records.list_records(&list).await?;
        let next = (found.len() == list.limit).then(|| found.last().map(|one| one.key.clone()));
        // One that cannot be read must not stop the run; a full run reads its item.
        let jobs = found.iter().filter_map(|record| parse(record).ok());
        Ok((jobs.collect(), next.flatten()))
    }

    /// What is owed of an item whose repository has another name now.
    pub(crate) async fn rename_owed(&self, before: &PageJob, now: &PageJob) -> Result<()> {
        let key = |job: &PageJob| owed_key(&job.run_id, job.kind, &job.resource());
        if key(before) == key(now) {
            return Ok(());
        }
        let old = RecordWrite {
            key: key(before),
            expected: Expected::Anything,
            body: None,
        };
        let new = write(key(now), Expected::Anything, now)?;
        self.records.write_records(&[new, old]).await?;
        Ok(())
    }

    /// These items, named by stream and resource, have been read.
    pub(crate) async fn settle_owed(
        &self,
        run: &RunId,
        items: impl Iterator<Item = (JobKind, &str)>,
    ) -> Result<()> {
        let settled = items.map(|(kind, resource)| RecordWrite {
            key: owed_key(run, kind, resource),
            expected: Expected::Anything,
            body: None,
        });
        let settled: Vec<RecordWrite> = settled.collect();
        for writes in settled.chunks(OWED_AT_ONCE) {
            self.records.write_records(writes).await?;
        }
        Ok(())
    }
}
