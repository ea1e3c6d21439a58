//! Liveness, readiness and metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use clinch_core::WorkerId;
use clinch_core::ports::{Clock, Filter, Ids, Inspect, LockManager};
use clinch_system::SystemIds;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::caller::Caller;
use super::problem::{Problem, ProblemDocument};
use super::time;
use crate::serve::Look;
use crate::telemetry::STALE;

/// A store that takes longer counts as not answering.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a result of the readiness check is reused: frequent checks cause no more writes than
/// this.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The lock that the readiness check writes, and its owner.
const LOCK: &str = "ready";

/// Whether the store works: its files are in place, rows can be read, and a lock that only this
/// check uses can be written.
pub(crate) struct Readiness {
    locks: Option<Arc<dyn LockManager>>,
    look: Option<Arc<Look>>,
    /// One check at a time; concurrent requests wait for its result.
    found: Mutex<Option<(Duration, Checked)>>,
}

/// The part that fails, if one does.
type Found = Result<(), String>;
/// How long a whole check took, or the part that fails.
type Checked = Result<Duration, String>;

impl Readiness {
    /// Without locks the check does not write.
    pub(crate) fn new(locks: Option<Arc<dyn LockManager>>, look: Option<Arc<Look>>) -> Self {
        Self {
            locks,
            look,
            found: Mutex::new(None),
        }
    }

    /// The result of a check, at most [`GOOD_FOR`] old.
    pub(super) async fn check(&self, clock: &dyn Clock, inspect: &dyn Inspect) -> Checked {
        let mut found = self.found.lock().await;
        let now = clock.monotonic();
        let fresh = found
            .take()
            .filter(|(at, _)| now.saturating_sub(*at) < GOOD_FOR);
        let (at, checked) = match fresh {
            Some(fresh) => fresh,
            None => {
                let ready = self.find(inspect).await;
                let ended = clock.monotonic();
                (ended, ready.map(|()| ended.saturating_sub(now)))
            }
        };
        *found = Some((at, checked.clone()));
        checked
    }

    async fn find(&self, inspect: &dyn Inspect) -> Found {
        if let Some(look) = &self.look {
            look().map_err(|error| error.message().to_owned())?;
        }
        within("the store cannot be read", is_readable(inspect)).await?;
        within("the store takes no writes", self.is_writable()).await
    }

    async fn is_writable(&self) -> clinch::Result<()> {
        let Some(locks) = &self.locks else {
            return Ok(());
        };
        // Every process uses the same owner, so the lock is always free for the check to write.
        let owner = WorkerId::new(LOCK)?;
        locks.take(LOCK, &owner, GOOD_FOR).await.map(|_| ())
    }
}

/// One row by its id, and a page of rows: a store may read them in different ways.
async fn is_readable(inspect: &dyn Inspect) -> clinch::Result<()> {
    inspect.now().await?;
    inspect.get(&[SystemIds.op_id()]).await?;
    inspect.list(&Filter::default(), None, 1).await?;
    Ok(())
}

/// The result of a check with a timeout; the error starts with `what`.
async fn within(what: &str, look: impl Future<Output = clinch::Result<()>>) -> Found {
    match tokio::time::timeout(STORE_TIMEOUT, look).await {
        Ok(found) => found.map_err(|error| format!("{what}: {}", error.message())),
        Err(_) => Err(format!("{what}: no answer in time")),
    }
}

/// The process is alive.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthDocument {
    /// Always ok while the process answers.
    status: &'static str,
}

/// Ask whether the process is alive.
///
/// Answers 200 as long as the process answers, whatever the state of the store. For a supervisor
/// that restarts processes; no key is needed.
#[utoipa::path(get, path = "/healthz", tag = "system", operation_id = "get_health",
    responses((status = 200, body = HealthDocument, description = "The process answers")))]
pub(crate) async fn healthz() -> Answer {
    json(StatusCode::OK, &HealthDocument { status: "ok" })
}

/// The server is ready; warnings are for an operator.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadyDocument {
    /// Always ok: a server that is not ready answers 503.
    status: &'static str,
    /// What an operator should check; empty: nothing.
    warnings: Vec<WarningDocument>,
}

/// A condition that an operator should check.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WarningDocument {
    /// clock_ahead or undeclared_routes.
    code: &'static str,
    /// What was found, in one sentence.
    message: String,
}

/// Warnings of this process. The route needs no key, so no domain is named.
fn warnings(app: &App) -> Vec<WarningDocument> {
    let (time, undeclared) = app.orchestrator().concerns();
    let jumped = time.filter(|time| time.is_held_back());
    let jumped = jumped.map(|jumped| WarningDocument {
        code: "clock_ahead",
        message: format!(
            "the store's clock shows {} and {} was the last time seen: nothing is pruned; if the \
             clock is right, run `clinch retention confirm`",
            time::write(jumped.now),
            time::write(jumped.seen_at)
        ),
    });
    let open: u64 = undeclared.values().sum();
    let undeclared = (open > 0).then(|| WarningDocument {
        code: "undeclared_routes",
        message: format!(
            "{open} open operations have no route in this configuration; the metric \
             orchestrator.undeclared names their domains"
        ),
    });
    jumped.into_iter().chain(undeclared).collect()
}

/// Ask whether the server is ready.
///
/// 200 while the store answers and takes writes, otherwise 503. For a load balancer; no key is
/// needed. The result is at most a second old.
#[utoipa::path(get, path = "/readyz", tag = "system", operation_id = "get_readiness",
    responses(
        (status = 200, body = ReadyDocument, description = "The store's files are in their place, rows can be read, and a write was taken; `detail` of a 503 names the part that fails"),
        (status = "4XX", body = ProblemDocument, description = "unavailable"),
    ))]
pub(crate) async fn readyz(State(app): State<Shared>) -> Answer {
    if app.stop.is_cancelled() {
        return Err(Problem::unavailable("the server is stopping"));
    }
    match app.readiness.check(&*app.clock, &*app.inspect).await {
        Ok(_) => {
            let warnings = warnings(&app);
            let status = "ok";
            json(StatusCode::OK, &ReadyDocument { status, warnings })
        }
        Err(what) => Err(Problem::unavailable(what)),
    }
}

/// Read the metrics.
///
/// Prometheus text: counters, gauges and histograms of this process and of its store. A restricted
/// key is refused, because metrics show every domain.
#[utoipa::path(get, path = "/metrics", tag = "system", operation_id = "get_metrics",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "Prometheus text"),
    ))]
pub(crate) async fn metrics(State(app): State<Shared>, caller: Caller) -> Answer {
    caller.everything()?;
    // Gauges that cannot be measured keep their last value; counters are always current.
    let engine = tokio::time::timeout(STORE_TIMEOUT, app.clinch.measure());
    let applications = async {
        let mut is_fresh = true;
        for gauges in &app.gauges {
            let measured = tokio::time::timeout(STORE_TIMEOUT, gauges.measure()).await;
            is_fresh &= matches!(measured, Ok(Ok(())));
        }
        is_fresh
    };
    // At the same time: a store that hangs delays neither the others nor the answer by more than
    // its timeout.
    let disks = tokio::time::timeout(STORE_TIMEOUT, app.disks.measure());
    let (engine, applications, disks) = tokio::join!(engine, applications, disks);
    let is_fresh = matches!(engine, Ok(Ok(()))) && applications && disks.is_ok();
    metrics::gauge!(STALE).set(if is_fresh { 0.0 } else { 1.0 });
    if !is_fresh {
        tracing::warn!(target: "clinch", "gauges could not be measured; /metrics shows their last values");
    }
    let mut response = app.metrics.render().into_response();
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use clinch_core::ports::{FoundId, Known, LedgerLine, Operation, Page};
    use clinch_core::{AttemptId, Error, ErrorKind, Keys, OpId, OpIdPrefix, Result, Timestamp};

    use super::*;

    /// Tells the time and fails every read.
    struct UnreadableStore;

    fn damaged<T>() -> Result<T> {
        Err(Error::new(ErrorKind::Corrupt, "the file is damaged"))
    }

    #[async_trait]
    impl Inspect for UnreadableStore {
        async fn get(&self, _: &[OpId]) -> Result<Vec<Option<Operation>>> {
            damaged()
        }
        async fn begun(&self, _: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
            damaged()
        }
        async fn find(&self, _: &[Keys]) -> Result<Vec<Option<Known>>> {
            damaged()
        }
        async fn list(&self, _: &Filter, _: Option<&str>, _: usize) -> Result<Page<Operation>> {
            damaged()
        }
        async fn by_prefix(&self, _: &OpIdPrefix, _: usize) -> Result<Vec<FoundId>> {
            damaged()
        }
        async fn long_in_progress(&self, _: Timestamp, _: usize) -> Result<Vec<OpId>> {
            damaged()
        }
        async fn ledger(&self, _: OpId) -> Result<Vec<LedgerLine>> {
            damaged()
        }
        async fn now(&self) -> Result<Timestamp> {
            Ok(Timestamp::from_millis(0))
        }
    }

    #[tokio::test]
    async fn core_19_a_store_that_cannot_be_read_is_not_ready_and_the_part_is_named() {
        let found = Readiness::new(None, None).find(&UnreadableStore).await;
        let expected = "the store cannot be read: the file is damaged";
        assert_eq!(found, Err(expected.to_owned()));
        let gone = || Error::new(ErrorKind::Unavailable, "the file is gone");
        let look: Arc<Look> = Arc::new(move || Err(gone()));
        let found = Readiness::new(None, Some(look))
            .find(&UnreadableStore)
            .await;
        assert_eq!(found, Err("the file is gone".to_owned()));
    }
}
