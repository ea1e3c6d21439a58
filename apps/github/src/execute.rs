//! Runs one page job: send the request, store the page, spawn the next jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch::ports::DOCUMENTS_MAX;
use clinch::types::{ErrorKind, Request};
use clinch::{Call, Done, Error, Fail, Refusal, Retry};
use serde::{Deserialize, Serialize};

use crate::answer::{self, Meaning};
use crate::collector::Inner;
use crate::items::{self, Items};
use crate::model::{FirstPage, JobKind, PageDone, PageEnd, PageJob, RunStatus};
use crate::records::{Cursor, KnownPage};
use crate::routes::page_route;
use crate::tokens::{Grant, Throttled};
use crate::traversal::{Next, Traversal};
use crate::{ApiAnswer, ApiRequest, Broken};

/// Redirects in a row that count as a loop.
const HOPS_MAX: u32 = 5;

/// Pause of a job whose documents cannot be stored. It costs no attempt: the answer is kept, and
/// the API is not called again.
const SINK_PAUSE: Duration = Duration::from_secs(5);

/// Longest answer that is kept with its operation while its documents cannot be stored. An engine
/// that runs the collector must allow checkpoints of this size. A page of 100 items is well below
/// it.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

type JobResult = Result<Done<PageDone>, Refusal>;

/// An answer with its request: saved as a checkpoint while the documents cannot be stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedAnswer {
    pub(crate) url: String,
    token: Option<String>,
    etag: Option<String>,
    next: Option<String>,
    since: Option<String>,
    body: String,
}

/// What is known of a resource before its page is requested.
struct KnownState {
    known: Option<KnownPage>,
    cursor: Option<Cursor>,
}

impl KnownState {
    /// Every page is read: what the last run has read does not matter.
    fn forget_if(&mut self, is_full: bool) {
        self.cursor = self.cursor.take().filter(|_| !is_full);
    }
}

/// A request with a grant of budget.
struct GrantedRequest {
    grant: Grant,
    request: ApiRequest,
    /// Request only the changes since this time.
    since: Option<String>,
}

impl Inner {
    pub(crate) async fn page(&self, kind: JobKind, call: Call<PageJob>) -> JobResult {
        let mut job = call.input.clone();
        let run = self.records.run(&job.run_id).await.map_err(not_called)?;
        if run.is_none_or(|run| run.status == RunStatus::Canceled) {
            return Err(Fail::new("canceled", "its run was canceled").into());
        }
        let saved: Option<SavedAnswer> = call
            .saved()
            .and_then(|bytes| serde_json::from_slice(bytes).ok());
        let url = self.address(kind, &call, saved.as_ref()).await?;
        let mut before = self.known_state(&job).await.map_err(not_called)?;
        let now = self.clock.now();
        let needs_all = |cursor: &Cursor| job.is_head() && cursor.needs_all(job.kind, now);
        job.is_full |= job.since.is_none() && before.cursor.as_ref().is_some_and(needs_all);
        if let Some(kept) = saved {
            before.forget_if(job.is_full);
            return self.store(&call, &job, before, kept, true).await;
        }
        let asked = match self.ask(&job, &before, url).await.map_err(not_called)? {
            Ok(asked) => asked,
            Err(throttled) => return Err(wait(throttled)),
        };
        let answer = match self.transport.get(&asked.request).await {
            Ok(answer) => answer,
            Err(broken) => {
                drop(asked);
                self.tokens.wake_waiters();
                return Err(no_answer(broken));
            }
        };
        crate::metrics::request(job.kind, answer.status);
        // The budget comes first: other jobs need it whatever goes wrong with this one.
        self.tokens
            .record_budget(&asked.grant, &answer)
            .await
            .map_err(unknown)?;
        match answer::meaning(job.kind, &answer) {
            Meaning::Page => {
                before.forget_if(job.is_full);
                let kept = kept(&asked, answer)?;
                self.store(&call, &job, before, kept, false).await
            }
            Meaning::NotModified => {
                // If the first page has not changed, there is nothing to read as a whole.
                before.forget_if(call.input.is_full);
                self.not_modified(&job, before, &asked, &answer).await
            }
            Meaning::Nothing => self.nothing(&job, before, &asked).await,
            Meaning::Moved(location) => self.moved(&job, &asked, &location),
            Meaning::Limited => Err(wait(shortly("the API's rate limit refused the request"))),
            Meaning::BadToken => {
                // Another token may do, and this one may have been refused by mistake.
                self.tokens.refuse(&asked.grant);
                Err(wait(shortly("the API refused the token")))
            }
            Meaning::Pending(pause) => Err(Retry::not_applied("the answer is not ready")
                .after(pause)
                .into()),
            Meaning::Broken(reason) => Err(Retry::unknown(reason).into()),
            Meaning::Refused(message) => {
                Err(Fail::new(format!("http_{}", answer.status), message).into())
            }
        }
    }

    async fn known_state(&self, job: &PageJob) -> clinch::Result<KnownState> {
        let known = match job.since {
            None => self.records.page(job).await?,
            Some(_) => None,
        };
        let cursor = match job.kind.has_cursor() {
            true => self.records.cursor(job).await?,
            false => None,
        };
        // A cursor that a later run wrote does not apply to this run.
        let cursor = cursor.filter(|cursor| cursor.run <= job.run_id.number);
        Ok(KnownState { known, cursor })
    }

    /// Chooses the token, and requests only changes if that is enough.
    async fn ask(
        &self,
        job: &PageJob,
        before: &KnownState,
        own: String,
    ) -> clinch::Result<Result<GrantedRequest, Throttled>> {
        let known = before.known.as_ref().filter(|known| known.url == own);
        let preferred: BTreeSet<String> = known
            .map(|known| known.etags.keys().cloned().collect())
            .unwrap_or_default();
        let grant = match self.tokens.acquire(&preferred).await? {
            Ok(grant) => grant,
            Err(throttled) => return Ok(Err(throttled)),
        };
        let holder = grant.token_hash().unwrap_or_default();
        let etag = known.and_then(|known| known.etags.get(&holder)).cloned();
        // Without an ETag of this token the first page would be read in full: request the changes
        // instead.
        let since = match &before.cursor {
            Some(cursor)
                if job.is_head()
                    && job.url.is_none()
                    && job.kind.has_since()
                    && etag.is_none()
                    && !job.is_full =>
            {
                cursor.since(job.kind)
            }
            _ => None,
        };
        let url = match &since {
            Some(since) => {
                let size = self.settings.page_size;
                let page = self.settings.api_url.first_page(job, Some(since), size);
                page.map_err(|unknown| Error::new(ErrorKind::Invalid, unknown.to_string()))?
            }
            None => own,
        };
        let request = ApiRequest {
            url,
            token: grant.token.clone(),
            if_none_match: etag,
        };
        let since = since.or_else(|| job.since.clone());
        Ok(Ok(GrantedRequest {
            grant,
            request,
            since,
        }))
    }

    /// Stores a page, and spawns the jobs that follow from it.
    async fn store(
        &self,
        call: &Call<PageJob>,
        job: &PageJob,
        before: KnownState,
        kept: SavedAnswer,
        is_again: bool,
    ) -> JobResult {
        let items = items::read(job, kept.body.as_bytes());
        let items = items.map_err(|reason| Refusal::from(Retry::unknown(reason)))?;
        let collection = job.run_id.space.collection();
        for documents in items.documents.chunks(DOCUMENTS_MAX) {
            if let Err(error) = self.documents.upsert(collection, documents).await {
                return Err(self.keep(call, &kept, is_again, error).await);
            }
        }
        let mut seen = job.seen.clone();
        if job.page == 1 {
            seen.latest = seen.latest.max(items.latest.clone());
            seen.newest = seen.newest.or_else(|| items.newest.clone());
        }
        let traversal = Traversal {
            job,
            cursor: before.cursor,
            since: kept.since.clone(),
            seen,
        };
        let next = traversal.next(&items, kept.next.clone());
        // Must come before the page is recorded as known: if it fails, the next run must read the
        // page again.
        let following = self.following(&traversal, &next)?;
        let page = kept
            .since
            .is_none()
            .then(|| known_page(job, &kept, &items, &traversal.seen));
        let cursor = match next {
            Next::End => traversal.moved_cursor(kept.etag.clone(), self.clock.now()),
            _ => None,
        };
        let noted = self.records.note(job, page.as_ref(), cursor.as_ref()).await;
        noted.map_err(unknown)?;
        let documents = items.documents.len() as u64;
        crate::metrics::documents(job.kind, documents);
        let done = PageDone {
            end: PageEnd::Stored,
            documents,
            skipped: traversal.skipped(&next),
            token: kept.token,
        };
        let done = self.spawned(job, Done::new(done), &items.repositories);
        Ok(following.into_iter().fold(done, Done::then))
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
    async fn not_modified(
        &self,
        job: &PageJob,
        before: KnownState,
        asked: &GrantedRequest,
        answer: &ApiAnswer,
    ) -> JobResult {
        let Some(mut known) = before.known else {
            return Err(Retry::unknown("the API answered 304, but the page is not known").into());
        };
        // A full page does not change when a page is added after it; only the link shows that.
        if answer.header("link").is_some() {
            known.next = answer::next_page(answer);
        }
        let is_current = match &before.cursor {
            Some(cursor) => cursor.run == known.run,
            None => false,
        };
        let mut seen = job.seen.clone();
        if job.page == 1 {
            seen = known.seen.clone();
        }
        let traversal = Traversal {
            job,
            cursor: before.cursor,
            since: None,
            seen,
        };
        let next = traversal.next_unmodified(is_current, &known);
        let following = self.following(&traversal, &next)?;
        let run = job.run_id.number;
        known.run = run;
        let cursor = match next {
            Next::End => {
                traversal.moved_cursor(asked.request.if_none_match.clone(), self.clock.now())
            }
            _ => None,
        };
        let noted = self.records.note(job, Some(&known), cursor.as_ref()).await;
        noted.map_err(unknown)?;
        let done = PageDone {
            end: PageEnd::NotModified,
            documents: 0,
            skipped: traversal.skipped(&next),
            token: asked.grant.token_hash(),
        };
        let done = self.spawned(job, Done::new(done), &known.repositories);
        Ok(following.into_iter().fold(done, Done::then))
    }

    /// There is nothing at this address: the pages end here.
    async fn nothing(
        &self,
        job: &PageJob,
        before: KnownState,
        asked: &GrantedRequest,
    ) -> JobResult {
        let traversal = Traversal {
            job,
            cursor: before.cursor,
            since: asked.since.clone(),
            seen: job.seen.clone(),
        };
        let cursor = traversal.moved_cursor(None, self.clock.now());
        let noted = self.records.note(job, None, cursor.as_ref()).await;
        noted.map_err(unknown)?;
        Ok(Done::new(PageDone {
            end: PageEnd::Nothing,
            documents: 0,
            skipped: 0,
            token: asked.grant.token_hash(),
        }))
    }

    /// Spawns a job for the new address.
    fn moved(&self, job: &PageJob, asked: &GrantedRequest, location: &str) -> JobResult {
        if job.hops >= HOPS_MAX {
            return Err(Fail::new("redirects", "the API redirects in a loop").into());
        }
        let Ok(url) = self.settings.api_url.own(location) else {
            let message = "the API redirects to another server; a token is not sent there";
            return Err(Fail::new("redirect_refused", message).into());
        };
        let there = PageJob {
            hops: job.hops + 1,
            url: Some(url),
            since: asked.since.clone(),
            ..job.clone()
        };
        let done = PageDone {
            end: PageEnd::Moved,
            documents: 0,
            skipped: 0,
            token: asked.grant.token_hash(),
        };
        Ok(Done::new(done).then(request(&there)))
    }

    /// Adds the jobs for a user's lists and for repositories.
    fn spawned(
        &self,
        job: &PageJob,
        mut done: Done<PageDone>,
        repositories: &[crate::model::Repository],
    ) -> Done<PageDone> {
        if job.kind == JobKind::UserBasic {
            let repositories = PageJob::first(&job.run_id, JobKind::UserRepos, None);
            done = done.then(request(&repositories));
        }
        for repository in repositories {
            for kind in JobKind::OF_REPOSITORY {
                let first = PageJob::first(&job.run_id, kind, Some(repository.clone()));
                done = done.then(request(&first));
            }
        }
        done
    }
}

fn known_page(job: &PageJob, kept: &SavedAnswer, items: &Items, seen: &FirstPage) -> KnownPage {
    let etag = kept.etag.clone();
    let token = kept.token.clone().unwrap_or_default();
    KnownPage {
        url: kept.url.clone(),
        etags: etag.map(|etag| (token, etag)).into_iter().collect(),
        next: kept.next.clone(),
        repositories: items.repositories.clone(),
        seen: seen.clone(),
        oldest: items.oldest.clone(),
        run: job.run_id.number,
    }
}

fn kept(asked: &GrantedRequest, answer: ApiAnswer) -> Result<SavedAnswer, Refusal> {
    let etag = answer.header("etag").map(str::to_owned);
    let next = answer::next_page(&answer);
    let no_text = |_| Refusal::from(Retry::unknown("the answer is not UTF-8"));
    Ok(SavedAnswer {
        url: asked.request.url.clone(),
        token: asked.grant.token_hash(),
        etag,
        next,
        since: asked.since.clone(),
        body: String::from_utf8(answer.body).map_err(no_text)?,
    })
}

/// The operation of a job.
pub(crate) fn request(job: &PageJob) -> Request<PageDone> {
    let idem_key = format!("{}:{}", job.run_id, job.page_key());
    page_route(job.kind)
        .request(job.resource(), idem_key, job)
        .label("github.run", job.run_id.to_string())
        .label("github.page", job.page_key())
}

/// The next attempt learns for how long there is no budget.
fn shortly(reason: &str) -> Throttled {
    Throttled {
        wait: Duration::from_secs(1),
        reason: reason.to_owned(),
    }
}

/// A rate limit is no failure of the job: it waits and keeps its attempts.
fn wait(throttled: Throttled) -> Refusal {
    Retry::not_called(throttled.reason)
        .after(throttled.wait)
        .into()
}

fn no_answer(broken: Broken) -> Refusal {
    match broken {
        Broken::NotSent(reason) => Retry::not_applied(reason).into(),
        Broken::Exhausted(what) => Retry::not_called(format!("exhausted: {what}"))
            .after(SINK_PAUSE)
            .into(),
        Broken::Lost(reason) => Retry::unknown(reason).into(),
    }
}

/// The store failed before a request was sent.
fn not_called(error: clinch::Error) -> Refusal {
    Retry::not_called(format!("the request was not sent: {error}"))
        .after(SINK_PAUSE)
        .into()
}

/// The store failed after the answer: repeating the request is harmless.
fn unknown(error: clinch::Error) -> Refusal {
    Retry::unknown(format!("the result could not be stored: {error}")).into()
}
