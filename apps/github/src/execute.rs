//! One page job: ask, store, and say what comes next.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch::ports::DOCUMENTS_MAX;
use clinch::types::{ErrorKind, Request};
use clinch::{Call, Done, Error, Fail, Refusal, Retry};
use serde::{Deserialize, Serialize};

use crate::answer::{self, Meaning};
use crate::collector::Inner;
use crate::items::{self, Items};
use crate::model::{JobKind, PageDone, PageEnd, PageJob, RunStatus, Seen};
use crate::reading::{Next, Reading};
use crate::routes::page_route;
use crate::shelf::{Cursor, KnownPage};
use crate::tokens::{Grant, Hold};
use crate::{ApiAnswer, ApiRequest, Broken};

/// Redirects in a row before they are taken for a circle.
const HOPS_MAX: u32 = 5;

/// How long a job waits whose documents cannot be stored. It costs no attempt: the answer is
/// kept, and the API is not asked again.
const SINK_PAUSE: Duration = Duration::from_secs(5);

/// Longest answer that is kept with its operation when its documents cannot be stored: the
/// limit for an engine that runs the collector. A page of 100 is well below it.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

type Ended = Result<Done<PageDone>, Refusal>;

/// An answer with what was asked: what is kept when the documents cannot be stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) url: String,
    token: Option<String>,
    etag: Option<String>,
    next: Option<String>,
    since: Option<String>,
    body: String,
}

/// What is known of a resource before its page is asked for.
struct Before {
    known: Option<KnownPage>,
    cursor: Option<Cursor>,
}

/// A request that has leave to be sent.
struct Asked {
    grant: Grant,
    request: ApiRequest,
    /// Only what changed since then is asked for.
    since: Option<String>,
}

impl Inner {
    pub(crate) async fn page(&self, kind: JobKind, call: Call<PageJob>) -> Ended {
        let job = call.input.clone();
        let run = self.shelf.run(&job.run_id).await.map_err(not_called)?;
        if run.is_none_or(|run| run.status == RunStatus::Canceled) {
            return Err(Fail::new("canceled", "its run was canceled").into());
        }
        let saved: Option<Kept> = call
            .saved()
            .and_then(|bytes| serde_json::from_slice(bytes).ok());
        let url = self.address(kind, &call, saved.as_ref()).await?;
        let before = self.before(&job).await.map_err(not_called)?;
        if let Some(kept) = saved {
            return self.store(&call, &job, before, kept, true).await;
        }
        let asked = match self.ask(&job, &before, url).await.map_err(not_called)? {
            Ok(asked) => asked,
            Err(hold) => return Err(wait(hold)),
        };
        let answer = match self.transport.get(&asked.request).await {
            Ok(answer) => answer,
            Err(broken) => {
                drop(asked);
                self.tokens.ended();
                return Err(no_answer(broken));
            }
        };
        crate::metrics::request(job.kind, answer.status);
        // Its budget is told first: whatever else goes wrong, others must know.
        self.tokens
            .tell(&asked.grant, &answer)
            .await
            .map_err(unknown)?;
        match answer::meaning(job.kind, &answer) {
            Meaning::Page => {
                let kept = kept(&asked, answer)?;
                self.store(&call, &job, before, kept, false).await
            }
            Meaning::NotModified => self.not_modified(&job, before, &asked, &answer).await,
            Meaning::Nothing => self.nothing(&job, before, &asked).await,
            Meaning::Moved(location) => self.moved(&job, &asked, &location),
            Meaning::Limited => {
                let hold = Hold {
                    wait: Duration::from_secs(1),
                    reason: "the API's limit refused it".to_owned(),
                };
                Err(wait(hold))
            }
            Meaning::BadToken => {
                self.tokens.refuse(&asked.grant);
                let hold = Hold {
                    wait: Duration::from_secs(1),
                    reason: "the API refused the token".to_owned(),
                };
                Err(wait(hold))
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

    async fn before(&self, job: &PageJob) -> clinch::Result<Before> {
        let known = match job.since {
            None => self.shelf.page(job).await?,
            Some(_) => None,
        };
        let cursor = match job.kind.has_cursor() {
            true => self.shelf.cursor(job).await?,
            false => None,
        };
        // A cursor of a later run is none of ours.
        let cursor = cursor.filter(|cursor| cursor.run <= job.run_id.number);
        Ok(Before { known, cursor })
    }

    /// Chooses the token, and asks for what changed where that is enough.
    async fn ask(
        &self,
        job: &PageJob,
        before: &Before,
        own: String,
    ) -> clinch::Result<Result<Asked, Hold>> {
        let known = before.known.as_ref().filter(|known| known.url == own);
        let preferred: BTreeSet<String> = known
            .map(|known| known.etags.keys().cloned().collect())
            .unwrap_or_default();
        let grant = match self.tokens.acquire(&preferred).await? {
            Ok(grant) => grant,
            Err(hold) => return Ok(Err(hold)),
        };
        let holder = grant.token_hash().unwrap_or_default();
        let etag = known.and_then(|known| known.etags.get(&holder)).cloned();
        // Without an ETag of this token the first page says nothing new: ask for what changed.
        let since = match &before.cursor {
            Some(cursor)
                if job.is_head() && job.url.is_none() && job.kind.has_since() && etag.is_none() =>
            {
                cursor.last_timestamp.clone()
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
        Ok(Ok(Asked {
            grant,
            request,
            since,
        }))
    }

    /// Stores a page that was read, and goes on.
    async fn store(
        &self,
        call: &Call<PageJob>,
        job: &PageJob,
        before: Before,
        kept: Kept,
        is_again: bool,
    ) -> Ended {
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
        let reading = Reading {
            job,
            cursor: before.cursor,
            since: kept.since.clone(),
            seen,
        };
        let next = reading.next(&items, kept.next.clone());
        // Before the page is noted as known: the next run must read it again.
        let following = self.following(&reading, &next)?;
        let page = kept
            .since
            .is_none()
            .then(|| known_page(job, &kept, &items, &reading.seen));
        let cursor = match next {
            Next::End => reading.moved_cursor(kept.etag.clone(), self.clock.now()),
            _ => None,
        };
        let noted = self.shelf.note(job, page.as_ref(), cursor.as_ref()).await;
        noted.map_err(unknown)?;
        let documents = items.documents.len() as u64;
        crate::metrics::documents(job.kind, documents);
        let done = PageDone {
            end: PageEnd::Stored,
            documents,
            skipped: reading.skipped(&next),
            token: kept.token,
        };
        let done = self.spawned(job, Done::new(done), &items.repositories);
        Ok(following.into_iter().fold(done, Done::then))
    }

    /// The sink did not take the documents: the answer stays with the operation.
    async fn keep(
        &self,
        call: &Call<PageJob>,
        kept: &Kept,
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

    /// The page is as it was: what it led to is known.
    async fn not_modified(
        &self,
        job: &PageJob,
        before: Before,
        asked: &Asked,
        answer: &ApiAnswer,
    ) -> Ended {
        let Some(mut known) = before.known else {
            return Err(Retry::unknown("not modified, but nothing is known of it").into());
        };
        // A full page stays the same when another is added after it; only the link tells.
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
        let reading = Reading {
            job,
            cursor: before.cursor,
            since: None,
            seen,
        };
        let next = reading.next_unmodified(is_current, &known);
        let following = self.following(&reading, &next)?;
        let run = job.run_id.number;
        known.run = run;
        let cursor = match next {
            Next::End => {
                reading.moved_cursor(asked.request.if_none_match.clone(), self.clock.now())
            }
            _ => None,
        };
        let noted = self.shelf.note(job, Some(&known), cursor.as_ref()).await;
        noted.map_err(unknown)?;
        let done = PageDone {
            end: PageEnd::NotModified,
            documents: 0,
            skipped: reading.skipped(&next),
            token: asked.grant.token_hash(),
        };
        let done = self.spawned(job, Done::new(done), &known.repositories);
        Ok(following.into_iter().fold(done, Done::then))
    }

    /// The end of the pages, if it is not the only one.
    async fn nothing(&self, job: &PageJob, before: Before, asked: &Asked) -> Ended {
        let reading = Reading {
            job,
            cursor: before.cursor,
            since: asked.since.clone(),
            seen: job.seen.clone(),
        };
        let cursor = reading.moved_cursor(None, self.clock.now());
        let noted = self.shelf.note(job, None, cursor.as_ref()).await;
        noted.map_err(unknown)?;
        Ok(Done::new(PageDone {
            end: PageEnd::Nothing,
            documents: 0,
            skipped: 0,
            token: asked.grant.token_hash(),
        }))
    }

    /// Another job goes where it is now.
    fn moved(&self, job: &PageJob, asked: &Asked, location: &str) -> Ended {
        if job.hops >= HOPS_MAX {
            return Err(Fail::new("redirects", "the API redirects in a circle").into());
        }
        let Ok(url) = self.settings.api_url.own(location) else {
            let message = "the API redirects to another place; a token is not sent there";
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

    /// The jobs that a user and repositories bring with them.
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

fn known_page(job: &PageJob, kept: &Kept, items: &Items, seen: &Seen) -> KnownPage {
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

fn kept(asked: &Asked, answer: ApiAnswer) -> Result<Kept, Refusal> {
    let etag = answer.header("etag").map(str::to_owned);
    let next = answer::next_page(&answer);
    let no_text = |_| Refusal::from(Retry::unknown("the answer is no UTF-8"));
    Ok(Kept {
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

/// A limit is no fault of the job: it waits, and keeps its attempts.
fn wait(hold: Hold) -> Refusal {
    Retry::not_called(hold.reason).after(hold.wait).into()
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

/// Our own store failed before anything was sent.
fn not_called(error: clinch::Error) -> Refusal {
    Retry::not_called(format!("not asked: {error}"))
        .after(SINK_PAUSE)
        .into()
}

/// Our own store failed after the answer: asking again is harmless.
fn unknown(error: clinch::Error) -> Refusal {
    Retry::unknown(format!("noted nowhere: {error}")).into()
}
