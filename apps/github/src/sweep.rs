//! Documents that are gone at GitHub are put aside.
//!
//! A list that was read as a whole holds everything of its kind and place. What is stored and not in
//! the list is gone: it moves to another collection, with its content, and nothing is thrown away.

use std::collections::{BTreeMap, BTreeSet};

use clinch::Result;
use clinch::ports::{DOCUMENTS_MAX, DocumentFilter, DocumentName};

use crate::collector::Inner;
use crate::items::id_hash;
use crate::model::{Job, JobState, Listed, PageJob, Run};
use crate::streams::JobKind;

/// Digits of the hash of a document's id.
const HASH_DIGITS: usize = 16;

/// The pages of one list, by number: the pass that read the page last, and its items.
#[derive(Default)]
struct Pages {
    by_number: BTreeMap<u32, (u32, String)>,
    /// Number of pages, told by the last request.
    total: Option<u32>,
    has_changed: bool,
}

/// What the jobs of a run say of the lists that they read as a whole.
#[derive(Default)]
pub(crate) struct Lists {
    /// By stream and place; the pages of each of its resources.
    whole: BTreeMap<(JobKind, String), BTreeMap<String, Pages>>,
    /// Streams and places of which a job did not succeed.
    broken: BTreeSet<(JobKind, String)>,
    /// Items of which something was read, and whether all of it succeeded.
    items: BTreeMap<(JobKind, String), bool>,
    /// Places that a job of the run reads.
    places: BTreeSet<String>,
    /// Number of jobs.
    pub(crate) jobs: u64,
    /// Whether some job of a list did not succeed.
    is_incomplete: bool,
}

/// The documents of a list.
fn of_list(run: &Run, (kind, place): &(JobKind, String)) -> DocumentFilter {
    DocumentFilter {
        user: Some(run.run_id.login.clone()),
        kind: Some(kind.document().to_owned()),
        resource: Some(place.clone()),
    }
}

/// The place of a resource: `repo:octocat/hello` of `repo:octocat/hello#7`.
fn place(resource: &str) -> &str {
    resource
        .split_once('#')
        .map_or(resource, |(place, _)| place)
}

impl Lists {
    pub(crate) fn see(&mut self, job: &Job) {
        let list = (job.kind, place(&job.resource).to_owned());
        let is_read = job.state == JobState::Succeeded;
        self.jobs += 1;
        self.places.insert(list.1.clone());
        let is_of_item = list.1 != job.resource;
        if is_of_item {
            let item = self.items.entry((job.kind, job.resource.clone()));
            // What the API gives of it, if it does not give all.
            let done = job.done.as_ref();
            let is_cut =
                job.state == JobState::Unavailable && done.is_some_and(|done| done.documents > 0);
            *item.or_insert(true) &= is_read || is_cut;
        }
        if !is_read {
            self.is_incomplete |= !is_of_item;
            self.broken.insert(list);
            return;
        }
        let listed = job.done.as_ref().and_then(|done| done.listed.as_ref());
        let Some(Listed {
            page,
            pass,
            ids,
            pages: total,
            has_changed,
        }) = listed
        else {
            return;
        };
        let resources = self.whole.entry(list).or_default();
        let pages = resources.entry(job.resource.clone()).or_default();
        pages.has_changed |= has_changed;
        // Of two readings of the same, the longer one holds what the other does.
        pages.total = pages.total.max(*total);
        let known = pages.by_number.get(page);
        match known {
            Some((before, _)) if before > pass => {}
            // Something of an item was read again because the item had changed again.
            Some((before, known)) if before == pass => {
                let both = format!("{known}{ids}");
                pages.by_number.insert(*page, (*pass, both));
            }
            _ => {
                pages.by_number.insert(*page, (*pass, ids.clone()));
            }
        }
    }

    /// Items of which everything was read that belongs to them: stream and resource.
    pub(crate) fn read_items(&self) -> impl Iterator<Item = (JobKind, &str)> {
        let read = self.items.iter().filter(|(_, is_read)| **is_read);
        read.map(|((kind, resource), _)| (*kind, resource.as_str()))
    }

    /// Repositories that were selected by name and that the user's list does not hold. Empty also if
    /// the list was not read to its end, which a failed job says, or if retention has deleted jobs.
    pub(crate) fn missing(&self, run: &Run, jobs: u64) -> Vec<String> {
        let login = &run.run_id.login;
        let owns_all = (JobKind::USER_REPOS, format!("user:{login}"));
        let reads_some = run.streams.iter().any(|kind| kind.is_of_repository());
        if !reads_some || self.broken.contains(&owns_all) || self.jobs < jobs {
            return Vec::new();
        }
        let read: BTreeSet<String> = self.places.iter().map(|one| one.to_lowercase()).collect();
        let selected = run.selection.repositories().iter();
        let names = selected.map(|name| format!("{login}/{name}"));
        names
            .filter(|name| !read.contains(&format!("repo:{name}")))
            .collect()
    }

    /// What belongs to items, where a run that reads everything has found no item: no job was made, and
    /// whatever is stored is gone.
    fn without_items(&self, run: &Run) -> BTreeSet<(JobKind, String)> {
        let is_read = |list: &(JobKind, String)| !self.broken.contains(list);
        let lists = self.whole.keys().filter(|_| run.is_full).flat_map(|list| {
            let children = run.streams.iter();
            let children = children.filter(|kind| kind.parents().any(|parent| parent == list.0));
            children.map(|kind| (*kind, list.1.clone()))
        });
        let is_empty = |list: &(JobKind, String)| {
            let mut parents = list.0.parents().map(|kind| (kind, list.1.clone()));
            let are_read = parents.all(|parent| match self.whole.contains_key(&parent) {
                true => is_read(&parent) && self.items(&parent).is_some(),
                false => is_read(&parent),
            });
            !self.whole.contains_key(list) && is_read(list) && are_read
        };
        lists.filter(is_empty).collect()
    }

    /// Whether everything of this stream was read in this place: what belongs to items, only if
    /// the lists of the items were read as a whole too.
    fn is_whole(&self, list: &(JobKind, String)) -> bool {
        let is_read =
            |list: &(JobKind, String)| !self.broken.contains(list) && self.items(list).is_some();
        // A list that the API does not have, as that of disabled issues, has no items.
        let is_read_or_empty = |list: (JobKind, String)| match self.whole.contains_key(&list) {
            true => is_read(&list),
            false => !self.broken.contains(&list),
        };
        let mut parents = list.0.parents().map(|kind| (kind, list.1.clone()));
        is_read(list) && parents.all(is_read_or_empty)
    }

    /// The items of a list, as hashes; `None`: not every page of it was read.
    fn items(&self, list: &(JobKind, String)) -> Option<BTreeSet<&str>> {
        let mut items = BTreeSet::new();
        for pages in self.whole.get(list)?.values() {
            for page in 1..=pages.total? {
                let (_, ids) = pages.by_number.get(&page)?;
                let starts = (0..ids.len()).step_by(HASH_DIGITS);
                items.extend(starts.filter_map(|at| ids.get(at..at + HASH_DIGITS)));
            }
        }
        Some(items)
    }
}

impl Inner {
    /// Puts aside what is gone; returns how many documents.
    pub(crate) async fn sweep(&self, run: &Run, lists: &Lists) -> Result<u64> {
        let id = &run.run_id;
        // A run that is bounded by time puts nothing aside: the next one looks at all lists.
        if id.number <= 1 || !run.bounds.is_all() {
            return Ok(0);
        }
        // A list that has not changed was swept by the run that read it, if that run got so far.
        let before = crate::model::RunId {
            number: id.number - 1,
            ..id.clone()
        };
        let before = self.records.run(&before).await?;
        let was_whole = before.is_some_and(|run| run.has_swept);
        let owns_all = (JobKind::USER_REPOS, format!("user:{}", id.login));
        let mut removed = 0;
        for (list, resources) in &lists.whole {
            let has_changed = resources.values().any(|pages| pages.has_changed);
            let is_due = has_changed || run.is_full || !was_whole;
            let items = lists.items(list).filter(|_| is_due && lists.is_whole(list));
            let Some(items) = items else {
                continue;
            };
            // A repository that was not selected may have another name now, and is not gone. The next
            // run through all repositories looks.
            if *list == owns_all && !run.selection.is_all() {
                continue;
            }
            if *list == owns_all {
                let gone = self.gone_repositories(run, list, &items).await?;
                // First: when a repository is put aside, nothing tells that it went.
                let is_due = !gone.is_empty() || run.is_full || !was_whole;
                if is_due && !lists.is_incomplete {
                    removed += self.sweep_repositories(run, lists, &owns_all).await?;
                }
                // Should one come back, it is read from the beginning.
                self.records.forget_lists(id, &gone).await?;
            }
            removed += self.sweep_list(run, list, &items).await?;
        }
        for list in lists.without_items(run) {
            removed += self.sweep_list(run, &list, &BTreeSet::new()).await?;
        }
        Ok(removed)
    }

    async fn sweep_list(
        &self,
        run: &Run,
        list: &(JobKind, String),
        items: &BTreeSet<&str>,
    ) -> Result<u64> {
        let is_gone = |id: &str, _: &str| !items.contains(id_hash(id).as_str());
        self.put_aside(run, &of_list(run, list), is_gone).await
    }

    /// Ids of repositories that are not in the list any more.
    async fn gone_repositories(
        &self,
        run: &Run,
        list: &(JobKind, String),
        items: &BTreeSet<&str>,
    ) -> Result<Vec<String>> {
        let (from, filter) = (run.run_id.space.collection(), of_list(run, list));
        let (mut after, mut gone) = (None, Vec::new());
        let sink = self.sink(run.run_id.space);
        loop {
            let page = sink
                .list(from, &filter, after.as_deref(), DOCUMENTS_MAX)
                .await?;
            let names = page.iter().map(|one| one.id.as_str());
            let absent = names.filter(|id| !items.contains(id_hash(id).as_str()));
            let ids = absent.filter_map(|id| id.strip_prefix("repository:"));
            gone.extend(ids.map(str::to_owned));
            after = page.last().map(|one| one.id.clone());
            if page.len() < DOCUMENTS_MAX {
                return Ok(gone);
            }
        }
    }

    /// Puts aside the documents of repositories that the user does not own any more.
    async fn sweep_repositories(
        &self,
        run: &Run,
        lists: &Lists,
        owns_all: &(JobKind, String),
    ) -> Result<u64> {
        let pages = lists
            .whole
            .get(owns_all)
            .and_then(|one| one.values().next());
        let mut owned = BTreeSet::new();
        for page in 1..=pages.and_then(|pages| pages.total).unwrap_or(0) {
            let job = PageJob {
                page,
                ..PageJob::first(&run.run_id, JobKind::USER_REPOS, None)
            };
            let known = self.records.page(&job).await?.unwrap_or_default();
            owned.extend(known.repositories.into_iter().map(|one| one.full_name));
        }
        let is_gone = |_: &str, resource: &str| {
            let name = resource.strip_prefix("repo:");
            name.is_some_and(|name| !owned.contains(name)) && !lists.places.contains(resource)
        };
        let mut removed = 0;
        // Kind by kind: that is an order in which every store can list a user's documents.
        let collected = run.streams.iter().filter(|kind| kind.is_of_repository());
        for kind in collected {
            let filter = DocumentFilter {
                user: Some(run.run_id.login.clone()),
                kind: Some(kind.document().to_owned()),
                resource: None,
            };
            removed += self.put_aside(run, &filter, is_gone).await?;
        }
        Ok(removed)
    }

    /// Moves the documents that `is_gone` chooses, by id and resource. The details of a commit go
    /// with it.
    async fn put_aside(
        &self,
        run: &Run,
        filter: &DocumentFilter,
        is_gone: impl Fn(&str, &str) -> bool + Copy,
    ) -> Result<u64> {
        let space = run.run_id.space;
        let (from, to, sink) = (space.collection(), space.removed(), self.sink(space));
        let (mut after, mut removed) = (None, 0);
        loop {
            let page = sink
                .list(from, filter, after.as_deref(), DOCUMENTS_MAX)
                .await?;
            let is_last = page.len() < DOCUMENTS_MAX;
            after = page.last().map(|one| one.id.clone());
            let gone = page
                .into_iter()
                .filter(|one| is_gone(&one.id, &one.resource));
            let gone: Vec<DocumentName> = gone.collect();
            // First: when the documents are gone, nothing tells where they were.
            let places: BTreeSet<&str> = gone.iter().map(|one| one.resource.as_str()).collect();
            let login = &run.run_id.login;
            self.records.mark_places(space, login, places).await?;
            let mut gone: Vec<String> = gone.into_iter().map(|one| one.id).collect();
            let details = gone.iter().filter_map(|id| id.strip_prefix("commit:"));
            let details: Vec<String> = details.map(|id| format!("commit_detail:{id}")).collect();
            for ids in [&mut gone, &mut { details }] {
                for ids in ids.chunks(DOCUMENTS_MAX) {
                    removed += sink.relocate(from, to, ids).await?;
                }
            }
            if is_last {
                return Ok(removed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PageDone, PageEnd};

    fn job(kind: JobKind, resource: &str, listed: Option<Listed>) -> Job {
        Job {
            op_id: "00000000-0000-7000-8000-000000000001"
                .parse()
                .expect("an id"),
            kind,
            run: None,
            resource: resource.to_owned(),
            page: "1".to_owned(),
            state: JobState::Succeeded,
            attempts: 1,
            not_before: None,
            done: Some(PageDone {
                end: PageEnd::Stored,
                documents: 1,
                skipped: 0,
                token: None,
                reason: None,
                listed,
            }),
            error: None,
        }
    }

    fn page(page: u32, pass: u32, id: char, pages: Option<u32>) -> Option<Listed> {
        Some(Listed {
            page,
            pass,
            ids: id.to_string().repeat(HASH_DIGITS),
            pages,
            has_changed: true,
        })
    }

    fn names(lists: &Lists, list: &(JobKind, String)) -> Option<String> {
        let items = lists.items(list)?;
        Some(items.iter().filter_map(|id| id.chars().next()).collect())
    }

    #[test]
    fn col_9_a_list_is_whole_if_every_page_of_it_was_read() {
        let labels = JobKind::named("label").expect("a stream");
        let list = (labels, "repo:a/b".to_owned());
        let mut lists = Lists::default();
        lists.see(&job(labels, "repo:a/b", page(2, 0, 'b', Some(2))));
        assert_eq!(names(&lists, &list), None, "the first page is missing");
        lists.see(&job(labels, "repo:a/b", page(1, 0, 'a', None)));
        assert_eq!(names(&lists, &list).as_deref(), Some("ab"));
        // A later pass tells what a page holds now.
        lists.see(&job(labels, "repo:a/b", page(1, 1, 'c', None)));
        assert_eq!(names(&lists, &list).as_deref(), Some("bc"));
        let failed = Job {
            state: JobState::Failed,
            done: None,
            ..job(labels, "repo:a/b", None)
        };
        assert!(lists.is_whole(&list));
        lists.see(&failed);
        assert!(!lists.is_whole(&list));
    }

    #[test]
    fn col_9_what_was_read_twice_of_an_item_is_held_by_either_reading() {
        let reviews = JobKind::named("review").expect("a stream");
        let list = (reviews, "repo:a/b".to_owned());
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let readings = [
                page(1, 0, 'a', Some(1)),
                page(1, 0, 'b', None),
                page(2, 0, 'c', Some(2)),
            ];
            let mut lists = Lists::default();
            for at in order {
                lists.see(&job(reviews, "repo:a/b#7", readings[at].clone()));
            }
            assert_eq!(names(&lists, &list).as_deref(), Some("abc"), "{order:?}");
        }
    }

    #[test]
    fn col_9_reviews_are_whole_only_with_their_pull_requests() {
        let reviews = JobKind::named("review").expect("a stream");
        let list = (reviews, "repo:a/b".to_owned());
        let mut lists = Lists::default();
        lists.see(&job(reviews, "repo:a/b#7", page(1, 0, 'a', Some(1))));
        lists.see(&job(JobKind::REPO_PRS, "repo:a/b", page(1, 0, 'p', None)));
        assert!(!lists.is_whole(&list), "the second page is missing");
        lists.see(&job(
            JobKind::REPO_PRS,
            "repo:a/b",
            page(2, 0, 'q', Some(2)),
        ));
        assert!(lists.is_whole(&list));
    }
}
