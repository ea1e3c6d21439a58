//! What the jobs of a run say of the lists that they read.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Job, JobState, Listed, PageEnd, Run};
use crate::streams::JobKind;

/// Digits of the hash of a document's id.
const HASH_DIGITS: usize = 16;

/// The pages of one list, by number: the pass that read the page last, and its items.
#[derive(Default)]
pub(super) struct Pages {
    by_number: BTreeMap<u32, (u32, String)>,
    /// Number of pages, told by the last request.
    pub(super) total: Option<u32>,
    pub(super) has_changed: bool,
}

/// How the jobs ended that read something of an item.
#[derive(Clone, Copy)]
struct ItemRead {
    /// All of them succeeded.
    is_whole: bool,
    /// The API has no such item.
    is_absent: bool,
}

/// What the jobs of a run say of the lists that they read as a whole.
#[derive(Default)]
pub(crate) struct Lists {
    /// By stream and place; the pages of each of its resources.
    pub(super) whole: BTreeMap<(JobKind, String), BTreeMap<String, Pages>>,
    /// Streams and places of which a job did not succeed.
    broken: BTreeSet<(JobKind, String)>,
    /// Items of which something was read.
    items: BTreeMap<(JobKind, String), ItemRead>,
    /// Places of which a job of the run reads a list. What belongs to one item may still be owed under
    /// an earlier name of its repository.
    pub(super) places: BTreeSet<String>,
    /// Number of jobs.
    pub(crate) jobs: u64,
    /// Streams of which a job of some list did not succeed.
    incomplete: BTreeSet<JobKind>,
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
        let done = job.done.as_ref();
        let is_empty = done.is_some_and(|done| done.end == PageEnd::Empty);
        let is_read = job.state == JobState::Succeeded || is_empty;
        self.jobs += 1;
        let is_of_item = list.1 != job.resource;
        if !is_of_item {
            self.places.insert(list.1.clone());
        }
        if is_of_item {
            let item = self.items.entry((job.kind, job.resource.clone()));
            // What the API gives of it, if it does not give all.
            let is_cut =
                job.state == JobState::Unavailable && done.is_some_and(|done| done.documents > 0);
            let item = item.or_insert(ItemRead {
                is_whole: true,
                is_absent: false,
            });
            // What was owed under an earlier name of the repository is read by another job, if that can.
            let is_elsewhere = job.is_owed() && done.is_some_and(|done| done.end == PageEnd::Moved);
            item.is_whole &= (is_read && !is_elsewhere) || is_cut;
            item.is_absent |= done.is_some_and(|done| done.end == PageEnd::Nothing);
        }
        if !is_read {
            if !is_of_item {
                self.incomplete.insert(job.kind);
            }
            self.broken.insert(list);
            return;
        }
        let listed = done.and_then(|done| done.listed.as_ref());
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

    /// Items of which everything was read that belongs to them: stream and resource. That there is
    /// no such item counts only if the repository was well: it may have been away for a moment.
    pub(crate) fn read_items(&self) -> impl Iterator<Item = (JobKind, &str)> {
        let is_gone = |kind: JobKind, place: &str| {
            let is_broken = |parent| self.broken.contains(&(parent, place.to_owned()));
            self.places.contains(place) && !kind.parents().any(is_broken)
        };
        let read = self.items.iter().filter(move |((kind, resource), read)| {
            read.is_whole && (!read.is_absent || is_gone(*kind, place(resource)))
        });
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
    pub(super) fn without_items(&self, run: &Run) -> BTreeSet<(JobKind, String)> {
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
    pub(super) fn is_whole(&self, list: &(JobKind, String)) -> bool {
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

    /// Whether every list of the stream was read, in every place, and those of its items: what is
    /// stored of it has the name that its repository has now.
    pub(super) fn were_read(&self, kind: JobKind) -> bool {
        let mut all = kind.parents().chain([kind]);
        all.all(|kind| !self.incomplete.contains(&kind))
    }

    /// The items of a list, as hashes; `None`: not every page of it was read.
    pub(super) fn items(&self, list: &(JobKind, String)) -> Option<BTreeSet<&str>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PageDone;

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
    fn col_9_an_item_of_an_earlier_name_does_not_keep_its_repository() {
        let reviews = JobKind::named("review").expect("a stream");
        let mut lists = Lists::default();
        lists.see(&job(reviews, "repo:a/old#7", None));
        lists.see(&job(JobKind::REPO_PRS, "repo:a/new", None));
        let places: Vec<&str> = lists.places.iter().map(String::as_str).collect();
        assert_eq!(places, ["repo:a/new"]);
    }

    #[test]
    fn col_9_an_absent_item_is_settled_only_by_a_repository_that_is_well() {
        let reviews = JobKind::named("review").expect("a stream");
        let absent = job(reviews, "repo:a/b#7", None);
        let absent = Job {
            done: absent.done.map(|done| PageDone {
                end: PageEnd::Nothing,
                ..done
            }),
            ..absent
        };
        let settled = |list: Option<JobState>| {
            let mut lists = Lists::default();
            lists.see(&absent);
            if let Some(state) = list {
                let list = job(JobKind::REPO_PRS, "repo:a/b", None);
                lists.see(&Job { state, ..list });
            }
            lists.read_items().count()
        };
        assert_eq!(settled(None), 0);
        assert_eq!(settled(Some(JobState::Unavailable)), 0);
        assert_eq!(settled(Some(JobState::Succeeded)), 1);
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
