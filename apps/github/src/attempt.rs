//! One attempt of a page job: whose turn it is, what its end says of the API, and how it is counted.

use std::sync::Arc;
use std::time::Duration;

use clinch::types::Applied;
use clinch::{Call, Done, Fail, Refusal, Retry};

use crate::collector::{Collector, Inner};
use crate::health::{Health, Turn};
use crate::model::{PageDone, PageJob, RunId, Space};
use crate::routes::{PAGE_ATTEMPTS_MAX, PAGE_TIMEOUT};
use crate::streams::JobKind;
use crate::{metrics, tally};

/// An attempt is cut off here, before the engine does it: the engine cannot tell a slow sink from
/// an API that does not answer, and would count the attempt against the API.
const CUT_OFF: Duration = PAGE_TIMEOUT.saturating_sub(Duration::from_secs(1));

impl Inner {
    /// Runs one attempt of a page job, and counts it however it ends.
    pub(crate) async fn attempt(
        self: Arc<Self>,
        kind: JobKind,
        call: Call<PageJob>,
    ) -> Result<Done<PageDone>, Refusal> {
        let counted = Counted::begin(&self, kind, &call);
        let (run_id, began) = (call.input.run_id.clone(), self.clock.monotonic());
        let ended = self.in_turn(kind, call).await;
        let documents = ended.as_ref().map_or(0, |done| done.value.documents);
        let outcome = counted.end(&ended);
        if ended.is_err() && run_id.space == Space::Shadow {
            self.judge_sink(&run_id, began).await;
        }
        tally::count(&self, &run_id, kind, outcome, documents).await;
        ended
    }

    /// Waits for the turn of the job's resource, and runs the job.
    async fn in_turn(&self, kind: JobKind, call: Call<PageJob>) -> Result<Done<PageDone>, Refusal> {
        let resource = resource(call.biz_key()).to_owned();
        let run = call.input.run_id.to_string();
        let key = call.envelope().command.keys.idem_key.as_str();
        let is_redriven = key.starts_with("redrive:");
        let of_run = (!is_redriven).then_some(run.as_str());
        let _turn = self.turn(&resource, of_run).await?;
        let ended = tokio::select! {
            biased;
            ended = self.page(kind, call) => ended,
            () = self.clock.sleep(CUT_OFF) => return Err(cut_off()),
        };
        self.judged(&resource, &run, ended)
    }

    /// A turn at the resource. A job that does not get one soon gives its slot back.
    async fn turn(&self, resource: &str, run: Option<&str>) -> Result<InTurn<'_>, Refusal> {
        loop {
            let now = self.clock.monotonic();
            match self.health.turn(resource, run, now) {
                Turn::Now => {
                    return Ok(InTurn {
                        health: &self.health,
                        resource: resource.to_owned(),
                        began: now,
                    });
                }
                Turn::Soon { changed, within } => tokio::select! {
                    () = changed => {}
                    () = self.clock.sleep(within) => {}
                },
                Turn::Later(pause) => {
                    let reason = "an earlier request for the same resource is not answered yet";
                    return Err(Retry::not_called(reason).after(pause).into());
                }
                Turn::Never { times } => {
                    let message = format!("{times} requests in a row for this resource failed");
                    return Err(Fail::new("resource_fails", message).into());
                }
            }
        }
    }

    /// Notes what the end says of the resource and of the API.
    fn judged(
        &self,
        resource: &str,
        run: &str,
        mut ended: Result<Done<PageDone>, Refusal>,
    ) -> Result<Done<PageDone>, Refusal> {
        let now = self.clock.monotonic();
        match &mut ended {
            Ok(_) => self.health.note_good(resource, now),
            // A failure at one resource is not the API's, unless the others fare no better.
            Err(Refusal::Retry(retry)) if retry.own => {
                retry.own = !self.health.note_bad(resource, run, now);
            }
            Err(_) => {}
        }
        ended
    }

    async fn judge_sink(self: &Arc<Self>, run_id: &RunId, began: Duration) {
        let collector = Collector {
            inner: self.clone(),
        };
        if let Err(error) = collector.judge_sink(run_id, began).await {
            tracing::warn!(target: "clinch::github", run = %run_id, %error, "the sink cannot be judged");
        }
    }
}

/// What a job reads, by its key. The items of a repository are no resources of their own: they fail
/// together.
fn resource(biz_key: &str) -> &str {
    biz_key.split('#').next().unwrap_or(biz_key)
}

fn cut_off() -> Refusal {
    // A GET changes nothing at the API, and repeating what was stored is harmless.
    let reason = format!("no end within {} s", CUT_OFF.as_secs());
    Retry::not_applied(reason).own().into()
}

/// The turn of a job, until it is dropped.
struct InTurn<'a> {
    health: &'a Health,
    resource: String,
    began: Duration,
}

impl Drop for InTurn<'_> {
    fn drop(&mut self) {
        self.health.leave(&self.resource, self.began);
    }
}

/// Counts an attempt, also if it is dropped before its end: its lease is lost, or the process stops.
struct Counted {
    inner: Arc<Inner>,
    kind: JobKind,
    began: Duration,
    /// The engine makes no further attempt after this one.
    is_last: bool,
    is_counted: bool,
}

impl Counted {
    fn begin(inner: &Arc<Inner>, kind: JobKind, call: &Call<PageJob>) -> Self {
        Self {
            inner: inner.clone(),
            kind,
            began: inner.clock.monotonic(),
            is_last: call.attempt() >= PAGE_ATTEMPTS_MAX,
            is_counted: false,
        }
    }

    fn end(mut self, ended: &Result<Done<PageDone>, Refusal>) -> &'static str {
        let outcome = match ended {
            Ok(done) if done.value.end.is_unavailable() => "unavailable",
            Ok(_) => "succeeded",
            // A retry after the last attempt is a failure.
            Err(Refusal::Retry(retry)) if self.is_last && retry.applied != Applied::NotCalled => {
                "failed"
            }
            Err(Refusal::Retry(_)) => "retried",
            Err(Refusal::Fail(_)) => "failed",
        };
        self.count(outcome);
        outcome
    }

    fn count(&mut self, outcome: &'static str) {
        self.is_counted = true;
        let took = self.inner.clock.monotonic().saturating_sub(self.began);
        metrics::job(self.kind, took, outcome);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.is_counted {
            self.count(match self.is_last {
                true => "failed",
                false => "retried",
            });
        }
    }
}
