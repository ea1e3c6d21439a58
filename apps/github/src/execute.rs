//! Runs one page job: send the request, store the page, spawn the next jobs.

mod search;
mod spawn;
mod store;

use std::collections::BTreeSet;
use std::time::Duration;

use clinch::types::{ErrorKind, Request};
use clinch::{Call, Done, Error, Fail, Refusal, Retry};
use serde::{Deserialize, Serialize};

pub(crate) use self::spawn::of_child;
use self::spawn::priority;
use crate::answer::{self, Meaning};
use crate::collector::Inner;
use crate::credentials::Page;
use crate::model::{History, PageDone, PageEnd, PageJob, Run, RunStatus};
use crate::records::{Before, Cursor, KnownPage};
use crate::routes::page_route;
use crate::streams::{JobKind, Walk};
use crate::tokens::{Grant, Throttled};
use crate::walk::{earlier, known_until};
use crate::{ApiAnswer, ApiRequest, Broken};

/// The API's answer to a page past the last one that it gives.
const PAST_THE_END: u16 = 422;

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

/// A request with a grant of budget.
struct GrantedRequest {
    grant: Grant,
    request: ApiRequest,
}

impl Inner {
    pub(crate) async fn page(&self, kind: JobKind, call: Call<PageJob>) -> JobResult {
        let mut job = call.input.clone();
        let saved: Option<SavedAnswer> = call
            .saved()
            .and_then(|bytes| serde_json::from_slice(bytes).ok());
        let mut url = self.address(kind, &call, saved.as_ref()).await?;
        let before = self.records.before(&job).await.map_err(not_called)?;
        let run = before.run.as_ref();
        let Some(run) = run.filter(|run| run.status != RunStatus::Canceled) else {
            return Err(Fail::new("canceled", "its run was canceled").into());
        };
        if let Some(kept) = saved {
            job.since = kept.since.clone();
            return self.store(&call, run, &job, &before, kept, true).await;
        }
        if job.url.is_none() {
            let since = continued(&job, before.start(&job));
            job.since = since.or(job.since).or_else(|| bounded(&call.input));
            let size = self.page_size(Some(run), kind);
            let first = self.settings.api_url.first_page(&job, size);
            let invalid = |unknown| Error::new(ErrorKind::Invalid, format!("{unknown}"));
            url = first.map_err(invalid).map_err(not_called)?;
        }
        let tokens = self.tokens_for(&job.run_id, &before).await;
        let tokens = tokens.map_err(not_called)?.map_err(wait)?;
        let size = self.page_size(Some(run), kind);
        let page = self.page_of(&job, size, url, tokens).await?.map_err(wait)?;
        let asked = self.ask(&job, &before, page).await.map_err(not_called)?;
        let asked = asked.map_err(wait)?;
        let answer = match self.transport.get(&asked.request).await {
            Ok(answer) => answer,
            Err(broken) => {
                drop(asked);
                self.tokens.wake_waiters();
                return Err(no_answer(broken));
            }
        };
        self.answered(&call, run, &job, &before, &asked, answer)
            .await
    }

    /// Acts on the API's answer.
    async fn answered(
        &self,
        call: &Call<PageJob>,
        run: &Run,
        job: &PageJob,
        before: &Before,
        asked: &GrantedRequest,
        answer: ApiAnswer,
    ) -> JobResult {
        crate::metrics::request(job.kind, answer.status);
        self.tally.note_request(&job.run_id);
        // The budget comes first: other jobs need it whatever goes wrong with this one.
        self.tokens
            .record_budget(&asked.grant, &answer)
            .await
            .map_err(not_stored)?;
        match answer::meaning(job.kind, &answer) {
            Meaning::Page => {
                let kept = kept(job, asked, answer)?;
                self.store(call, run, job, before, kept, false).await
            }
            Meaning::NotModified if asked.request.if_none_match.is_none() => Err(bad_answer(
                "the API answered 304 to a request without a condition",
            )),
            Meaning::NotModified => {
                self.not_modified(call, run, job, before, asked, &answer)
                    .await
            }
            // A list that ended before it was read to its end was not read.
            Meaning::Nothing if answer.status != PAST_THE_END && !is_first(job) => {
                let reason = format!("HTTP {} after the first page", answer.status);
                Ok(Done::new(unavailable(asked, reason)))
            }
            Meaning::Nothing => self.nothing(job, before, asked).await,
            Meaning::Empty(reason) if is_first(job) => {
                let mut done = self.nothing(job, before, asked).await?;
                (done.value.end, done.value.reason) = (PageEnd::Empty, Some(reason));
                Ok(done)
            }
            Meaning::Moved(_) if job.is_owed && matches!(answer.status, 301 | 308) => {
                Ok(Done::new(renamed(run, asked)))
            }
            Meaning::Moved(location) => self.moved(call, job, asked, &location),
            Meaning::Limited => Err(wait(shortly("the API's rate limit refused the request"))),
            Meaning::BadToken => Err(self.refused(&asked.grant).await),
            Meaning::Pending(pause) => Err(Retry::not_applied("the answer is not ready")
                .after(pause)
                .into()),
            Meaning::Broken(reason) => Err(bad_answer(reason)),
            Meaning::Refused(reason) if answer::is_cut(job, &answer) => {
                self.cut(job, before, asked, reason).await
            }
            Meaning::Refused(_) | Meaning::Unavailable(_) | Meaning::Empty(_)
                if is_comparison(job) =>
            {
                Ok(self.not_comparable(call, job, asked))
            }
            Meaning::Unavailable(reason) | Meaning::Empty(reason) => {
                not_given(call, job, asked, &answer, reason)
            }
            Meaning::Refused(message) => {
                Err(Fail::new(format!("http_{}", answer.status), message).into())
            }
        }
    }

    /// Another token may do, and this one may have been refused by mistake.
    async fn refused(&self, grant: &Grant) -> Refusal {
        self.tokens.refuse(grant);
        let hash = grant.token_hash().unwrap_or_default();
        self.installations.drop_token(&hash);
        self.look_for_new_tokens().await;
        wait(shortly("the API refused the token"))
    }

    /// Chooses the token, and the ETag of the answer that is known.
    async fn ask(
        &self,
        job: &PageJob,
        before: &Before,
        (url, tokens): Page,
    ) -> clinch::Result<Result<GrantedRequest, Throttled>> {
        let size = self.page_size(before.run.as_ref(), job.kind) as usize;
        // A full page does not change when a page is added after it.
        let tells = |known: &&KnownPage| known.next.is_some() || known.count < size;
        // A full run reads what belongs to each item, also of a page that has not changed; and so does
        // the first run of a stream that reads something of items.
        let item_streams = before.item_streams(job);
        let is_changed_enough =
            !job.is_full || (job.kind.stream().walk == Walk::Whole && item_streams.is_empty());
        let may_skip = |known: &&KnownPage| {
            let has_items = item_streams.is_subset(&known.item_streams);
            let is_of_run = known.run == job.run_id.number;
            // A job that is executed again gets the same answer as before.
            let is_own = known.is_of(job);
            known.ids.is_some() && !is_own && (is_of_run || (is_changed_enough && has_items))
        };
        // Of a page that holds older items too, a 304 does not tell which ones. It matters only in a
        // pass that must be compared with another one.
        let until = known_until(job, before.start(job)).filter(|_| job.pass.has_changed);
        let is_edge = |known: &&KnownPage| {
            let ends = known.oldest.as_deref().zip(until.as_deref());
            ends.is_some_and(|(oldest, until)| oldest < until)
        };
        let known = before
            .known
            .as_ref()
            .filter(|known| known.url == url && known.resource == job.resource());
        let etags = match job.kind.stream().walk {
            Walk::Updated => before
                .start(job)
                .filter(|cursor| job.url.is_none() && job.page == 1 && cursor.since == job.since)
                .map(|cursor| &cursor.etags),
            _ => known
                .filter(tells)
                .filter(may_skip)
                .filter(|known| !is_edge(known))
                .map(|known| &known.etags),
        };
        let preferred: BTreeSet<String> = etags
            .map(|etags| etags.keys().cloned().collect())
            .unwrap_or_default();
        let bucket = job.kind.bucket();
        let grant = match self.tokens.acquire(bucket, &tokens, &preferred).await? {
            Ok(grant) => grant,
            Err(refused) if refused.is_refused() && self.look_for_new_tokens().await => {
                return Ok(Err(shortly("the tokens have changed")));
            }
            Err(throttled) => return Ok(Err(throttled)),
        };
        let holder = grant.token_hash().unwrap_or_default();
        let request = ApiRequest {
            url,
            token: grant.token.clone(),
            accept: job.kind.stream().accept,
            if_none_match: etags.and_then(|etags| etags.get(&holder)).cloned(),
        };
        Ok(Ok(GrantedRequest { grant, request }))
    }

    /// Spawns a job for the new address.
    fn moved(
        &self,
        call: &Call<PageJob>,
        job: &PageJob,
        asked: &GrantedRequest,
        location: &str,
    ) -> JobResult {
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
            ..job.clone()
        };
        let there = request(&there).priority(priority(call));
        Ok(Done::new(ended(PageEnd::Moved, asked)).then(there))
    }
}

/// The API does not give the resource.
fn not_given(
    call: &Call<PageJob>,
    job: &PageJob,
    asked: &GrantedRequest,
    answer: &ApiAnswer,
    reason: String,
) -> JobResult {
    let is_of_item = job.item.is_some() && matches!(answer.status, 404 | 410);
    Ok(match is_of_item {
        true if job.history.is_none() && answer::is_unrelated(answer) => {
            unrelated(call, job, asked)
        }
        // The item is gone, with everything that belongs to it.
        true if answer::is_absent(answer) => Done::new(ended(PageEnd::Nothing, asked)),
        true => return Err(bad_answer(reason)),
        // The cursor stays: when the resource is back, the next run goes on from there.
        false => Done::new(unavailable(asked, reason)),
    })
}

fn unavailable(asked: &GrantedRequest, reason: String) -> PageDone {
    PageDone {
        reason: Some(reason),
        ..ended(PageEnd::Unavailable, asked)
    }
}

/// An item is owed of a repository that has another name now. A run that reads everything reads the item
/// by the new name as well.
fn renamed(run: &Run, asked: &GrantedRequest) -> PageDone {
    if run.is_full && !run.is_partial {
        return ended(PageEnd::Moved, asked);
    }
    let reason = "the repository has another name now; the next run reads this";
    unavailable(asked, reason.to_owned())
}

/// A branch that has nothing in common with the default branch: all of its commits are its own.
fn unrelated(call: &Call<PageJob>, job: &PageJob, asked: &GrantedRequest) -> Done<PageDone> {
    let whole = PageJob {
        history: job.item.clone().map(History::Of),
        url: None,
        page: 1,
        hops: 0,
        ..job.clone()
    };
    let whole = request(&whole).priority(priority(call));
    Done::new(ended(PageEnd::Moved, asked)).then(whole)
}

/// Whether a list begins with this job.
fn is_first(job: &PageJob) -> bool {
    job.page == 1 && job.history.is_none() && job.pass.number == 0
}

fn is_comparison(job: &PageJob) -> bool {
    matches!(job.history, Some(History::Between { .. }))
}

/// The time that a bounded list of changes begins at.
fn bounded(job: &PageJob) -> Option<String> {
    let is_updated = job.kind.stream().walk == Walk::Updated;
    job.bounds.since.clone().filter(|_| is_updated)
}

/// The time of the last request, which this one repeats.
fn continued(job: &PageJob, cursor: Option<&Cursor>) -> Option<String> {
    let is_head = job.page == 1 && job.url.is_none() && job.since.is_none();
    let cursor = cursor.filter(|_| is_head && job.kind.stream().walk == Walk::Updated)?;
    // Cursors of earlier releases hold the latest change only.
    let is_old = cursor.since.is_none() && cursor.etags.is_empty();
    let latest = cursor.last_timestamp.as_ref().filter(|_| is_old);
    let latest = latest.and_then(|at| earlier(at, Duration::from_secs(1)));
    cursor.since.clone().or(latest)
}

fn ended(end: PageEnd, asked: &GrantedRequest) -> PageDone {
    PageDone {
        end,
        documents: 0,
        skipped: 0,
        token: asked.grant.token_hash(),
        reason: None,
        listed: None,
    }
}

fn kept(job: &PageJob, asked: &GrantedRequest, answer: ApiAnswer) -> Result<SavedAnswer, Refusal> {
    let etag = answer.header("etag").map(str::to_owned);
    let next = answer::next_page(&answer);
    let no_text = |_| bad_answer("the answer is not UTF-8");
    Ok(SavedAnswer {
        url: asked.request.url.clone(),
        token: asked.grant.token_hash(),
        etag,
        next,
        since: job.since.clone(),
        body: String::from_utf8(answer.body).map_err(no_text)?,
    })
}

/// The operation of a job. A repository is named by its id, so that a rename during a run makes no
/// second job; labels hold its name.
pub(crate) fn request(job: &PageJob) -> Request<PageDone> {
    let idem_key = format!("{}:{}", job.run_id, job.page_key());
    let request = page_route(job.kind)
        .request(job.id(), idem_key, job)
        .label("github.run", job.run_id.to_string())
        .label("github.page", job.page_key());
    let names = job.repository.as_ref().and_then(|one| one.names().ok());
    match names {
        Some((owner, name)) => request
            .label("github.owner", owner)
            .label("github.repository", name),
        None => request,
    }
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

/// The API gave an answer that cannot be used. A GET changes nothing at the API.
fn bad_answer(reason: impl Into<String>) -> Refusal {
    Retry::not_applied(reason).own().into()
}

fn no_answer(broken: Broken) -> Refusal {
    match broken {
        Broken::NotSent(reason) => Retry::not_applied(reason).into(),
        Broken::Exhausted(what) => Retry::not_called(format!("exhausted: {what}"))
            .after(SINK_PAUSE)
            .into(),
        // It may be this resource that hangs. A GET changes nothing at the API.
        Broken::Lost(reason) => bad_answer(format!("no answer: {reason}")),
    }
}

/// The store failed before a request was sent.
pub(crate) fn not_called(error: clinch::Error) -> Refusal {
    Retry::not_called(format!("the request was not sent: {error}"))
        .after(SINK_PAUSE)
        .into()
}

/// The store failed after the answer, which is no failure of the API: repeating the request is
/// harmless.
fn not_stored(error: clinch::Error) -> Refusal {
    Retry::not_applied(format!("the result could not be stored: {error}"))
        .after(SINK_PAUSE)
        .into()
}
