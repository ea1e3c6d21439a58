//! Stores a page, and decides what comes next.

use std::collections::BTreeSet;

use clinch::ports::{DOCUMENTS_MAX, Document, DocumentFilter};
use clinch::types::ErrorKind;
use clinch::{Call, Done, Fail, Refusal, Retry};

use super::search;
use super::spawn::{continuing, priority, with_children};
use super::{GrantedRequest, JobResult, SINK_PAUSE, SavedAnswer, bad_answer, ended, not_stored};
use crate::ApiAnswer;
use crate::answer;
use crate::collector::Inner;
use crate::items::parts::{self, DOCUMENT_BYTES_MAX, NotJoined};
use crate::items::{self, Items};
use crate::model::{History, Listed, PageDone, PageEnd, PageJob, Run};
use crate::plan::is_permanent;
use crate::records::{Before, KnownPage};
use crate::streams::{JobKind, Walk};
use crate::walk::{Next, Page, Traversal};

/// Documents that are read to find one whose id is known: ids of commits that differ in their last
/// digit.
const NEIGHBORS_MAX: usize = 16;

impl Inner {
    fn traversal<'a>(&'a self, job: &'a PageJob, before: &'a Before) -> Traversal<'a> {
        Traversal {
            api: &self.settings.api_url,
            page_size: self.page_size(before.run.as_ref(), job.kind),
            now: self.clock.now(),
            job,
            cursor: before.start(job),
            item_streams: before.item_streams(job),
            seen: job.seen.clone(),
        }
    }

    /// Stores a page, and spawns the jobs that follow from it.
    pub(super) async fn store(
        &self,
        call: &Call<PageJob>,
        run: &Run,
        job: &PageJob,
        before: &Before,
        kept: SavedAnswer,
        is_again: bool,
    ) -> JobResult {
        let items = items::read(job, kept.body.as_bytes());
        let mut items = items.map_err(bad_answer)?;
        let size = self.page_size(Some(run), job.kind);
        search::check(job, &items, kept.next.as_deref(), size)?;
        still_holds(call)?;
        let joined = self.join_parts(job, &mut items.documents).await;
        if let Err(NotJoined::TooLong) = joined.map_err(not_stored)? {
            return Ok(too_long(job, &kept));
        }
        if let Err(error) = self.put(job, &items.documents).await {
            return Err(self.keep(call, &kept, is_again, error).await);
        }
        let mut traversal = self.traversal(job, before);
        traversal.see(&items);
        let ids = hashes(job, &items);
        let page = Page::read(&items, &ids, kept.next.as_deref());
        let page = page.compared(job, before.known.as_ref());
        // Must come before the page is recorded as known: if it fails, the next run must read the
        // page again.
        let next = traversal.next(&page)?;
        let known = KnownPage::is_kept(job)
            .then(|| known_page(job, &kept, &items, &traversal, &page, &next));
        let cursor = match next {
            Next::End => {
                traversal.moved_cursor(before.last(job), end_tag(&kept, &traversal, &page))
            }
            Next::Job(_) => None,
        };
        let children = self.children(run, &traversal, &items, &next, before);
        still_holds(call)?;
        let noted = self
            .records
            .note(job, before, known.as_ref(), cursor.as_ref(), &children);
        noted.await.map_err(not_stored)?;
        let documents = items.documents.len() as u64;
        crate::metrics::documents(job.kind, documents);
        let done = PageDone {
            end: PageEnd::Stored,
            documents,
            skipped: traversal.skipped(&next),
            token: kept.token.clone(),
            reason: None,
            listed: listed(&traversal, &next, &page),
        };
        let done = as_cut(done, traversal.cut(&next, &page));
        let priority = priority(call);
        let done = continuing(Done::new(done), next, priority);
        let done = with_children(done, &children, priority);
        let is_organization = items.is_organization;
        Ok(self.spawned(
            run,
            job,
            done,
            &items.repositories,
            is_organization,
            priority,
        ))
    }

    /// Puts the first parts of a document before the one of this page: the job of the page before has
    /// stored them.
    async fn join_parts(
        &self,
        job: &PageJob,
        documents: &mut [Document],
    ) -> clinch::Result<Result<(), NotJoined>> {
        let list = job.kind.stream().parts.filter(|_| job.page > 1);
        let (Some(list), [document]) = (list, documents) else {
            return Ok(Ok(()));
        };
        let before = usize::try_from(job.reading.items).unwrap_or(usize::MAX);
        let stored = self.stored(job, document).await?;
        let missing = || {
            let message = "the first part of a document is not stored any more";
            clinch::Error::new(ErrorKind::Unavailable, message).with("document", &document.id)
        };
        let stored = stored.ok_or_else(missing)?;
        match parts::joined(&stored.body, &document.body, list, before) {
            Ok(body) => document.body = body,
            Err(NotJoined::TooLong) => return Ok(Err(NotJoined::TooLong)),
            Err(NotJoined::NoList) => return Err(missing()),
        }
        Ok(Ok(()))
    }

    /// The document of this id, as it is stored.
    async fn stored(&self, job: &PageJob, document: &Document) -> clinch::Result<Option<Document>> {
        let filter = DocumentFilter {
            user: Some(document.user.clone()),
            kind: Some(document.kind.clone()),
            resource: Some(document.resource.clone()),
        };
        let mut after = document.id.clone();
        after.pop();
        let space = job.run_id.space;
        let sink = self.sink(space);
        let near = sink.scan(space.collection(), &filter, Some(&after), NEIGHBORS_MAX);
        Ok(near.await?.into_iter().find(|one| one.id == document.id))
    }

    /// Stores documents, and notes whether the sink takes them.
    async fn put(&self, job: &PageJob, documents: &[Document]) -> clinch::Result<()> {
        let space = job.run_id.space;
        for documents in documents.chunks(DOCUMENTS_MAX) {
            let stored = self.sink(space).upsert(space.collection(), documents).await;
            let now = self.clock.monotonic();
            self.outage.note(space, stored.as_ref().copied(), now);
            stored?;
        }
        Ok(())
    }

    /// The sink refused the documents: saves the answer with the operation.
    async fn keep(
        &self,
        call: &Call<PageJob>,
        kept: &SavedAnswer,
        is_again: bool,
        error: clinch::Error,
    ) -> Refusal {
        let op = call.op_id();
        tracing::warn!(target: "clinch::github", %op, %error, "documents cannot be stored");
        crate::metrics::sink_failed();
        if is_permanent(&error) {
            return Fail::new("sink_refused", error.to_string()).into();
        }
        if is_again {
            return Retry::not_called("the documents cannot be stored")
                .after(SINK_PAUSE)
                .into();
        }
        let saved = match serde_json::to_vec(kept) {
            Ok(bytes) => call.save(&bytes).await.is_ok(),
            Err(_) => false,
        };
        let reason = match saved {
            true => "the documents cannot be stored; the answer is kept",
            false => "the documents cannot be stored, and the answer is too long to be kept",
        };
        Retry::not_applied(reason).after(SINK_PAUSE).into()
    }

    /// The page has not changed: continues with the links that are known from before.
    pub(super) async fn not_modified(
        &self,
        call: &Call<PageJob>,
        run: &Run,
        job: &PageJob,
        before: &Before,
        asked: &GrantedRequest,
        answer: &ApiAnswer,
    ) -> JobResult {
        let is_updated = job.kind.stream().walk == Walk::Updated;
        let mut known = before.known.clone().unwrap_or_default();
        if before.known.is_none() && !is_updated {
            return Err(bad_answer(
                "the API answered 304, but the page is not known",
            ));
        }
        if answer.header("link").is_some() {
            known.next = answer::next_page(answer);
        }
        let mut traversal = self.traversal(job, before);
        if job.page == 1 && !is_updated && !job.reading.by_creation {
            traversal.seen = known.seen.clone();
        }
        let is_all_known = is_updated || tells_all(&traversal, &known);
        let page = Page::known(&known);
        let next = match is_all_known {
            true => Next::End,
            false => traversal.next(&page)?,
        };
        let mut cursor = match next {
            Next::End => {
                let etag = asked.request.if_none_match.clone();
                let token = asked.grant.token_hash().unwrap_or_default();
                let etag = etag.map(|etag| (token, etag));
                traversal.moved_cursor(before.last(job), etag)
            }
            Next::Job(_) => None,
        };
        if let (Some(cursor), Some(last), true) = (&mut cursor, before.last(job), is_all_known) {
            cursor.item_streams.clone_from(&last.item_streams);
        }
        let done = PageDone {
            end: PageEnd::NotModified,
            documents: 0,
            skipped: traversal.skipped(&next),
            token: asked.grant.token_hash(),
            reason: None,
            listed: listed(&traversal, &next, &page),
        };
        let done = as_cut(done, traversal.cut(&next, &page));
        let (repositories, is_organization) = (known.repositories.clone(), known.is_organization);
        known.run = job.run_id.number;
        known.pass = job.pass.number;
        (known.has_changed, known.has_moved) = (false, false);
        let known = (!is_updated).then_some(&known);
        let noted = self
            .records
            .note(job, before, known, cursor.as_ref(), &[])
            .await;
        noted.map_err(not_stored)?;
        let done = Done::new(done);
        let priority = priority(call);
        let done = self.spawned(run, job, done, &repositories, is_organization, priority);
        Ok(continuing(done, next, priority))
    }

    /// There is nothing at this address: the pages end here.
    pub(super) async fn nothing(
        &self,
        job: &PageJob,
        before: &Before,
        asked: &GrantedRequest,
    ) -> JobResult {
        let traversal = self.traversal(job, before);
        let cursor = traversal.moved_cursor(before.last(job), None);
        let noted = self
            .records
            .note(job, before, None, cursor.as_ref(), &[])
            .await;
        noted.map_err(not_stored)?;
        Ok(Done::new(ended(PageEnd::Nothing, asked)))
    }

    /// The API gives no more pages of the list.
    pub(super) async fn cut(
        &self,
        job: &PageJob,
        before: &Before,
        asked: &GrantedRequest,
        reason: String,
    ) -> JobResult {
        let mut done = self.nothing(job, before, asked).await?;
        done.value = as_cut(done.value, Some(reason));
        Ok(done)
    }

    /// The last run's newest commit is gone, or has nothing in common with the newest one now:
    /// reads everything.
    pub(super) fn not_comparable(
        &self,
        call: &Call<PageJob>,
        job: &PageJob,
        asked: &GrantedRequest,
    ) -> Done<PageDone> {
        let before = Before::default();
        let done = Done::new(ended(PageEnd::Nothing, asked));
        match &job.history {
            Some(History::Between { head, .. }) => {
                let next = self.traversal(job, &before).all_commits(head);
                continuing(done, next, priority(call))
            }
            _ => done,
        }
    }
}

/// Whether nothing of the list has changed if its first page has not: the run that stored the last
/// page also saw the first one, and no item changes in its place.
fn tells_all(traversal: &Traversal<'_>, known: &KnownPage) -> bool {
    let job = traversal.job;
    let is_current = traversal.cursor.is_some_and(|one| one.run == known.run);
    let is_head = job.page == 1 && job.pass.number == 0;
    let is_still = !matches!(job.kind.stream().walk, Walk::Newest(later) if !later.is_zero());
    is_current && is_head && is_still
}

/// The ETag of a list that ends with this page, and the token that it belongs to. A full page of
/// changes has none: it would not tell of a second page.
fn end_tag(
    kept: &SavedAnswer,
    traversal: &Traversal<'_>,
    page: &Page<'_>,
) -> Option<(String, String)> {
    let is_full_page = page.count >= traversal.page_size as usize;
    let tells_all = traversal.job.kind.stream().walk != Walk::Updated || !is_full_page;
    let etag = kept.etag.clone().filter(|_| tells_all)?;
    Some((kept.token.clone().unwrap_or_default(), etag))
}

/// What a canceled attempt, or one that lost its lease, stores might be forgotten already.
fn still_holds(call: &Call<PageJob>) -> Result<(), Refusal> {
    if call.is_canceled() {
        return Err(Fail::new("canceled", "its run was canceled").into());
    }
    match call.holds_lease() {
        true => Ok(()),
        false => Err(Retry::not_applied("the lease was lost").own().into()),
    }
}

/// A page that the API gives although it does not give the whole list.
fn as_cut(done: PageDone, cut: Option<String>) -> PageDone {
    match cut {
        Some(reason) => PageDone {
            end: PageEnd::Unavailable,
            reason: Some(reason),
            ..done
        },
        None => done,
    }
}

/// A document of which the first parts are stored, and no more.
fn too_long(job: &PageJob, kept: &SavedAnswer) -> Done<PageDone> {
    let (list, items) = (
        job.kind.stream().parts.unwrap_or_default(),
        job.reading.items,
    );
    let reason = format!(
        "a document has at most {} MiB: the first {items} {list} are kept",
        DOCUMENT_BYTES_MAX >> 20
    );
    Done::new(PageDone {
        end: PageEnd::Unavailable,
        documents: 1,
        skipped: 0,
        token: kept.token.clone(),
        reason: Some(reason),
        listed: None,
    })
}

/// Hashes of the documents' ids, if they are needed: to tell whether a page changed, or what is gone.
fn hashes(job: &PageJob, items: &Items) -> String {
    let found = || items.rows.iter().map(|row| items::id_hash(&row.id));
    match KnownPage::is_kept(job) || job.run_id.number > 1 {
        true if job.kind == JobKind::SEARCH => found().collect(),
        true => items
            .documents
            .iter()
            .map(|one| items::id_hash(&one.id))
            .collect(),
        false => String::new(),
    }
}

/// The items of the page, if its list is read as a whole. Before the first run nothing was stored,
/// so nothing can be gone.
fn listed(traversal: &Traversal<'_>, next: &Next, page: &Page<'_>) -> Option<Listed> {
    let job = traversal.job;
    if job.run_id.number <= 1 || !traversal.is_whole(next, page) {
        return None;
    }
    Some(Listed {
        page: job.page,
        pass: job.pass.number,
        ids: page.ids.to_owned(),
        pages: (*next == Next::End).then(|| traversal.pages(page)),
        has_changed: page.has_changed,
    })
}

/// Whether the new commits of a page are read by a comparison, with what belongs to them.
fn is_compared(next: &Next) -> bool {
    let Next::Job(next) = next else { return false };
    matches!(next.history, Some(History::Between { .. }))
}

fn known_page(
    job: &PageJob,
    kept: &SavedAnswer,
    items: &Items,
    traversal: &Traversal<'_>,
    page: &Page<'_>,
    next: &Next,
) -> KnownPage {
    let etag = kept.etag.clone();
    let token = kept.token.clone().unwrap_or_default();
    KnownPage {
        url: kept.url.clone(),
        resource: job.resource(),
        etags: etag.map(|etag| (token, etag)).into_iter().collect(),
        next: kept.next.clone(),
        repositories: items.repositories.clone(),
        seen: traversal.seen.clone(),
        oldest: items.oldest.clone(),
        count: items.rows.len(),
        ids: Some(page.ids.to_owned()),
        heads: items.heads(job.kind),
        item_streams: match is_compared(next) {
            true => BTreeSet::new(),
            false => traversal.item_streams.clone(),
        },
        is_organization: items.is_organization,
        run: job.run_id.number,
        pass: job.pass.number,
        has_changed: page.has_changed,
        has_moved: page.has_moved,
    }
}
