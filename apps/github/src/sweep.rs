//! Documents that are gone at GitHub are put aside.
//!
//! A list that was read as a whole holds everything of its kind and place. What is stored and not in
//! the list is gone: it moves to another collection, with its content, and nothing is thrown away.

mod lists;

use std::collections::BTreeSet;

use clinch::Result;
use clinch::ports::{DOCUMENTS_MAX, DocumentFilter, DocumentName};
use serde::Deserialize;

use crate::collector::Inner;
use crate::items::id_hash;
use crate::model::{PageJob, Run};
use crate::streams::JobKind;
pub(crate) use lists::Lists;

/// Repositories that are read at once, with their content.
const READ_AT_ONCE: usize = 100;

/// The documents of a list.
fn of_list(run: &Run, (kind, place): &(JobKind, String)) -> DocumentFilter {
    DocumentFilter {
        user: Some(run.run_id.login.clone()),
        kind: Some(kind.document().to_owned()),
        resource: Some(place.clone()),
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
                if !gone.is_empty() || run.is_full || !was_whole {
                    let owned = self.listed_names(run, lists, &owns_all).await?;
                    removed += self.sweep_gone(run, list, &gone, &owned).await?;
                    removed += self.sweep_former_names(run, lists, &owned).await?;
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

    /// Names of the repositories that the list holds.
    async fn listed_names(
        &self,
        run: &Run,
        lists: &Lists,
        owns_all: &(JobKind, String),
    ) -> Result<BTreeSet<String>> {
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
        Ok(owned)
    }

    /// Puts aside everything of these repositories, whatever the run collects: no later run would
    /// notice that they went. What has the name of another one by now is told by its lists.
    async fn sweep_gone(
        &self,
        run: &Run,
        list: &(JobKind, String),
        gone: &[String],
        owned: &BTreeSet<String>,
    ) -> Result<u64> {
        let mut removed = 0;
        for name in self.names_of(run, list, gone).await?.difference(owned) {
            let kinds = JobKind::all().filter(|kind| kind.is_of_repository());
            for kind in kinds {
                let of_repository = of_list(run, &(kind, format!("repo:{name}")));
                removed += self.put_aside(run, &of_repository, |_, _| true).await?;
            }
        }
        Ok(removed)
    }

    /// Names of repositories by their ids, as they were last seen.
    async fn names_of(
        &self,
        run: &Run,
        list: &(JobKind, String),
        ids: &[String],
    ) -> Result<BTreeSet<String>> {
        #[derive(Deserialize)]
        struct Named {
            full_name: String,
        }
        let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let (space, filter) = (run.run_id.space, of_list(run, list));
        let (mut after, mut names, sink) = (None::<String>, BTreeSet::new(), self.sink(space));
        while !ids.is_empty() {
            let page = sink
                .scan(space.collection(), &filter, after.as_deref(), READ_AT_ONCE)
                .await?;
            for one in &page {
                let id = one.id.strip_prefix("repository:");
                if id.is_some_and(|id| ids.contains(id)) {
                    let named = serde_json::from_str::<Named>(&one.body);
                    names.extend(named.ok().map(|named| named.full_name));
                }
            }
            after = page.last().map(|one| one.id.clone());
            if page.len() < READ_AT_ONCE {
                break;
            }
        }
        Ok(names)
    }

    /// Puts aside what has the name of no repository of the user: it was gone before its repository
    /// was renamed. Not of streams of which a list was not read, whose documents may have an earlier
    /// name of a repository that is there.
    async fn sweep_former_names(
        &self,
        run: &Run,
        lists: &Lists,
        owned: &BTreeSet<String>,
    ) -> Result<u64> {
        let is_gone = |_: &str, resource: &str| {
            let name = resource.strip_prefix("repo:");
            name.is_some_and(|name| !owned.contains(name)) && !lists.places.contains(resource)
        };
        let mut removed = 0;
        // Kind by kind: that is an order in which every store can list a user's documents.
        let collected = run.streams.iter().filter(|kind| kind.is_of_repository());
        for kind in collected.filter(|kind| lists.were_read(**kind)) {
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
