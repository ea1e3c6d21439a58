//! Work on many operations that a visitor began: it goes on after the page is closed, and ends with
//! the process. Every step is a call of the API, so a job that is begun again repeats nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, State};
use clinch_core::ports::Scope;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bulk::letter_filter;
use super::call;
use super::gate::Visitor;
use super::operations::Asked;
use crate::api::{Caller, Problem, Shared, actions, find_operations};

/// Jobs that run at once: each reads pages of the store.
const RUNNING_MAX: usize = 4;
/// Jobs that are remembered; the oldest ended one is forgotten first.
const KEPT_MAX: usize = 100;
/// Operations of one step.
const STEP: usize = 500;

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Cancel,
    RetryNow,
    Redrive,
    Dismiss,
    Reopen,
}

impl What {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Cancel, "cancel"),
        (Self::RetryNow, "retry-now"),
        (Self::Redrive, "redrive"),
        (Self::Dismiss, "dismiss"),
        (Self::Reopen, "reopen"),
    ];

    pub(super) fn read(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, name)| *name == text).map(|(what, _)| what)
    }

    pub(super) fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(what, _)| *what == self)
            .map_or("", |(_, name)| name)
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::RetryNow => "Retry now",
            Self::Redrive => "Redrive",
            Self::Dismiss => "Dismiss",
            Self::Reopen => "Open again",
        }
    }

    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Cancel => "canceled or told to",
            Self::RetryNow => "due now",
            Self::Redrive => "redriven",
            Self::Dismiss => "dismissed",
            Self::Reopen => "opened again",
        }
    }

    pub(super) fn things(self) -> &'static str {
        match self {
            Self::Cancel | Self::RetryNow => "open operations",
            Self::Redrive | Self::Dismiss | Self::Reopen => "dead letters",
        }
    }

    pub(super) fn back(self) -> &'static str {
        match self {
            Self::Cancel | Self::RetryNow => "/operations",
            Self::Redrive | Self::Dismiss | Self::Reopen => "/dead-letters",
        }
    }

    pub(super) fn consequence(self) -> &'static str {
        match self {
            Self::Cancel => {
                "No further call is made for them. A call that is running still decides by its answer."
            }
            Self::RetryNow => {
                "Those that wait for a time become due now. Breakers, rate limits, order and deadlines still apply."
            }
            Self::Redrive => {
                "Each becomes a new operation with the same payload and outbound key, the oldest first. Each is redriven once, however often you do this."
            }
            Self::Dismiss => {
                "They leave the list of open dead letters. The operations stay FAILED, and you can open the letters again."
            }
            Self::Reopen => "They return to the list of open dead letters.",
        }
    }
}

/// A job and how far it is.
pub(crate) struct Job {
    pub(super) what: What,
    pub(super) by: String,
    pub(super) reason: String,
    filter: Asked,
    caller: Caller,
    done: AtomicU64,
    refused: AtomicU64,
    looked_at: AtomicU64,
    refusal: Mutex<Option<String>>,
    outcome: Mutex<Option<String>>,
    stop: CancellationToken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The jobs of this process.
#[derive(Default)]
pub(crate) struct Jobs {
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Job>>>,
}

impl Jobs {
    pub(super) fn begin(
        &self,
        app: &Shared,
        visitor: &Visitor,
        what: What,
        filter: Asked,
        reason: &str,
    ) -> Result<u64, Problem> {
        let mut all = lock(&self.all);
        let running = all.values().filter(|job| !job.is_over()).count();
        if running >= RUNNING_MAX {
            return Err(Problem::unavailable(
                "four jobs are running; wait until one ends, or stop one",
            ));
        }
        if all.len() >= KEPT_MAX {
            let over = all.iter().find(|(_, job)| job.is_over()).map(|(id, _)| *id);
            over.map(|id| all.remove(&id));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Arc::new(Job {
            what,
            by: visitor.caller.name().to_owned(),
            reason: reason.to_owned(),
            filter,
            caller: visitor.caller.clone(),
            done: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            refusal: Mutex::default(),
            outcome: Mutex::default(),
            stop: app.stop.child_token(),
        });
        all.insert(id, job.clone());
        tracing::info!(target: "clinch", what = what.name(), by = %job.by, job = id, "job began");
        tokio::spawn(run(app.clone(), job, id));
        Ok(id)
    }

    /// The job, if the visitor began it or may see everything.
    pub(super) fn find(&self, id: u64, visitor: &Visitor) -> Option<Arc<Job>> {
        let job = lock(&self.all).get(&id).cloned()?;
        let is_own = job.caller.key_hash() == visitor.caller.key_hash();
        let sees_all = visitor.may(Scope::Admin) && visitor.caller.restriction().is_none();
        (is_own || sees_all).then_some(job)
    }
}

impl Job {
    /// Done, refused, looked at.
    pub(super) fn figures(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.done), read(&self.refused), read(&self.looked_at))
    }

    pub(super) fn refusal(&self) -> Option<String> {
        lock(&self.refusal).clone()
    }

    pub(super) fn outcome(&self) -> Option<String> {
        lock(&self.outcome).clone()
    }

    pub(super) fn is_over(&self) -> bool {
        lock(&self.outcome).is_some()
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    fn note(&self, done: u64, refused: u64, why: Option<&str>) {
        self.done.fetch_add(done, Ordering::Relaxed);
        self.refused.fetch_add(refused, Ordering::Relaxed);
        self.looked_at.fetch_add(done + refused, Ordering::Relaxed);
        if let Some(why) = why {
            *lock(&self.refusal) = Some(why.to_owned());
        }
    }

    /// A key that was revoked meanwhile ends the job.
    async fn is_allowed(&self, app: &Shared) -> Result<bool, Problem> {
        match self.caller.key_hash() {
            Some(hash) => {
                let holder = app.authenticator.holder(hash).await?;
                Ok(holder.is_some_and(|holder| holder.has(Scope::Operate)))
            }
            None => Ok(!app.authenticator.is_locked().await?),
        }
    }
}

async fn run(app: Shared, job: Arc<Job>, id: u64) {
    let ended = match job.what {
        What::Cancel | What::RetryNow => one_by_one(&app, &job).await,
        What::Redrive | What::Dismiss | What::Reopen => page_by_page(&app, &job).await,
    };
    let outcome = match ended {
        Ok(true) => "All of them were looked at.".to_owned(),
        Ok(false) => "It was stopped before the end; do it again to go on.".to_owned(),
        Err(problem) => format!("It ended early: {}. Do it again to go on.", problem.detail),
    };
    let (done, refused, _) = job.figures();
    tracing::info!(target: "clinch", what = job.what.name(), by = %job.by, job = id, done, refused, "job ended");
    *lock(&job.outcome) = Some(outcome);
}

/// True: the end was reached.
async fn one_by_one(app: &Shared, job: &Job) -> Result<bool, Problem> {
    let now = app.now().await?;
    let pairs = job.filter.for_api(now);
    let mut cursor = None;
    loop {
        if job.stop.is_cancelled() || !job.is_allowed(app).await? {
            return Ok(false);
        }
        let page = find_operations(app, &job.caller, pairs.clone(), cursor, STEP).await?;
        for (row, _) in page.items {
            if row.state.is_terminal() {
                continue;
            }
            if job.stop.is_cancelled() {
                return Ok(false);
            }
            let request = call::with(&json!({ "reason": job.reason }));
            let path = Path(row.op_id.to_string());
            let (state, caller) = (State(app.clone()), job.caller.clone());
            let answer = match job.what {
                What::Cancel => actions::cancel(state, caller, path, request).await,
                _ => actions::retry_now(state, caller, path, request).await,
            };
            match answer {
                Ok(_) => job.note(1, 0, None),
                Err(problem) if problem.status.is_client_error() => {
                    job.note(0, 1, Some(&problem.detail));
                }
                Err(problem) => return Err(problem),
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(true);
        }
    }
}

/// The body of a call of the API about dead letters. A redrive has no reason: the new operation says
/// what it redrives.
pub(super) fn letters_body(
    what: What,
    filter: &Asked,
    dry_run: bool,
    reason: &str,
    limit: usize,
    cursor: &Value,
) -> Value {
    let mut body = json!({ "filter": letter_filter(filter), "dry_run": dry_run, "limit": limit,
                           "cursor": cursor });
    if what != What::Redrive {
        body["reason"] = reason.into();
    }
    body
}

/// True: the end was reached.
async fn page_by_page(app: &Shared, job: &Job) -> Result<bool, Problem> {
    let mut cursor = Value::Null;
    loop {
        if job.stop.is_cancelled() || !job.is_allowed(app).await? {
            return Ok(false);
        }
        let body = letters_body(job.what, &job.filter, false, &job.reason, STEP, &cursor);
        let (state, caller) = (State(app.clone()), job.caller.clone());
        let request = call::with(&body);
        let answer = match job.what {
            What::Redrive => actions::redrive(state, caller, request).await,
            What::Dismiss => actions::dismiss(state, caller, request).await,
            _ => actions::reopen(state, caller, request).await,
        };
        let answer = call::document(answer).await?;
        let figure = |name: &str| answer[name].as_u64().unwrap_or(0);
        let refused = figure("refused");
        let results = answer["results"].as_array();
        let mut reasons = results
            .into_iter()
            .flatten()
            .filter_map(|one| one["reason"].as_str());
        let done = figure("matched").saturating_sub(refused);
        job.note(done, refused, reasons.next_back());
        cursor = answer["next_cursor"].clone();
        if cursor.is_null() {
            return Ok(true);
        }
    }
}
