//! How a remote worker reports the end of its attempt.
//!
//! An ok is kept whatever else is wrong with its report: the call was made, and refusing the
//! report would turn it into a lost attempt. A part of an ok that cannot be read or stored is left
//! out, and the answer names it. A retry or a fail is refused as any other request is.

use std::time::Duration;

use axum::http::StatusCode;
use clinch_core::{
    Command, Fail, Outcome, Payload, Retry, SPAWN_MAX, Success, TXN_ID_BYTES_MAX, WorkerId,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::App;
use super::body::{INVALID_REQUEST, Members, refuse};
use super::caller::Caller;
use super::commands::{CommandContext, payload_of};
use super::leases::worker;
use super::problem::Problem;
use super::submit::SubmitDocument;
use super::values::{Lenient, RawList};

/// Left-out parts that one answer names.
const LEFT_OUT_MAX: usize = 20;
/// The members that name the attempt and the worker; all others are about the outcome.
const REPORT: [&str; 3] = ["fence", "token", "worker"];

/// How an attempt ended. The members of the outcome, from `type` on, may also stand in an object
/// `outcome`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeDocument<'a> {
    /// The fence of the delivery.
    pub(super) fence: u64,
    /// The token of the delivery.
    pub(super) token: String,
    /// The worker's name in the ledger.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    worker: Lenient<String>,
    /// ok (the provider applied the call), retry (try again if that is allowed) or fail (the
    /// provider refused for good).
    #[schema(value_type = String)]
    r#type: OutcomeType,
    /// Only with ok: the provider's own id of the transaction, 255 bytes at most.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    provider_txn_id: Lenient<String>,
    /// Only with ok: the result for the caller, any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// Only with ok: operations to accept in the commit that settles this one.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<SubmitDocument>>)]
    spawn: Lenient<RawList<'a>>,
    /// Only with retry: why, for people.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    reason: Lenient<String>,
    /// Only with retry: no attempt before this many milliseconds have passed; by default the
    /// backoff of the route.
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    after_ms: Lenient<u64>,
    /// Only with retry: no, if the provider certainly did not apply the call; by default unknown,
    /// and then only a route that may be repeated is called again.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    applied: Lenient<Applied>,
    /// Required with fail, and only with fail: a short name for programs, 64 bytes at most.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    code: Lenient<String>,
    /// Only with fail: what happened, for people.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    message: Lenient<String>,
    /// Only with fail: what was behind it, such as the provider's own code.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    cause: Lenient<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeType {
    Ok,
    Retry,
    Fail,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Applied {
    No,
    Unknown,
}

/// A report, checked.
pub(crate) struct ReadOutcome {
    pub(crate) worker: WorkerId,
    pub(crate) outcome: Outcome,
    /// `payload`, if the payload of an ok was cut to its beginning.
    pub(crate) truncated: Option<String>,
    /// Parts of an ok that could not be read.
    pub(crate) left_out: Vec<String>,
}

/// Adds to the refusal of a body that is too large how an ok can be reported nevertheless.
pub(crate) fn say_how_to_send_less(problem: Problem) -> Problem {
    let detail = format!(
        "{}; an ok may leave out payload and spawn: send it without them, and the ok is kept",
        problem.detail
    );
    match problem.status {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(detail),
        _ => problem,
    }
}

/// A value that must be of its type.
fn strict<T>(name: &str, value: Lenient<T>) -> Result<Option<T>, Problem> {
    let Lenient(value) = value;
    value.map_err(|problem| refuse(INVALID_REQUEST, name, &problem))
}

/// A report with the names of its members.
pub(crate) struct Report<'a> {
    pub(crate) document: OutcomeDocument<'a>,
    given: Members<'a>,
    /// Members of the outcome beside the object `outcome`, and members of the report in it.
    misplaced: Members<'a>,
}

impl<'a> Report<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Problem> {
        let mut given = Members::parse(text)?;
        let mut misplaced = Members::default();
        if let Some(outcome) = given.remove("outcome") {
            let not_an_object = |_| {
                let problem = "must be an object that names no member twice";
                refuse(INVALID_REQUEST, "outcome", problem)
            };
            let mut inner = Members::parse(outcome.get()).map_err(not_an_object)?;
            let report = given.split_off(&REPORT);
            misplaced.extend(given);
            misplaced.extend(inner.split_off(&REPORT));
            given = report;
            given.extend(inner);
        }
        Ok(Self {
            document: given.clone().take(INVALID_REQUEST)?,
            given,
            misplaced,
        })
    }

    /// Checks the outcome. An ok is never refused; its `left_out` says what could not be read.
    pub(crate) fn outcome(self, app: &App, caller: &Caller) -> Result<ReadOutcome, Problem> {
        let allowed = match self.document.r#type {
            OutcomeType::Ok => return self.ok(app, caller),
            OutcomeType::Retry => ["type", "reason", "after_ms", "applied"],
            OutcomeType::Fail => ["type", "code", "message", "cause"],
        };
        let allowed = [&REPORT[..], &allowed].concat();
        self.given.refuse_all_but(&allowed, INVALID_REQUEST)?;
        self.misplaced.refuse_all_but(&[], INVALID_REQUEST)?;
        let mut document = self.document;
        let name = strict("worker", std::mem::take(&mut document.worker))?;
        Ok(ReadOutcome {
            worker: worker(name)?,
            outcome: match document.r#type {
                OutcomeType::Retry => retry(document)?,
                _ => fail(document)?,
            },
            truncated: None,
            left_out: Vec::new(),
        })
    }

    fn ok(self, app: &App, caller: &Caller) -> Result<ReadOutcome, Problem> {
        const KNOWN: [&str; 4] = ["type", "provider_txn_id", "payload", "spawn"];
        let document = self.document;
        let (payload, truncated) = payload(document.payload, app.config.server.response_max.0);
        let (spawn, mut left_out) = spawn(document.spawn, app, caller);
        let txn_id = document.provider_txn_id.0;
        // The engine stores the beginning of an id that is too long.
        if !matches!(&txn_id, Ok(id) if id.as_ref().is_none_or(|id| id.len() <= TXN_ID_BYTES_MAX)) {
            left_out.push("provider_txn_id".to_owned());
        }
        let is_known = |name: &str| REPORT.contains(&name) || KNOWN.contains(&name);
        left_out.extend(self.given.names().filter(|name| !is_known(name)));
        left_out.extend(self.misplaced.names());
        left_out.truncate(LEFT_OUT_MAX);
        let named = document.worker.0.ok().and_then(|name| worker(name).ok());
        if named.is_none() {
            left_out.push("worker".to_owned());
        }
        let success = Success {
            provider_txn_id: txn_id.ok().flatten(),
            payload,
            spawn,
        };
        Ok(ReadOutcome {
            worker: named.map_or_else(|| worker(None), Ok)?,
            outcome: Outcome::Ok(success),
            truncated,
            left_out,
        })
    }
}

/// The payload of an ok, whatever it is, and `payload` if only its beginning is kept.
fn payload(raw: Option<&RawValue>, bytes_max: usize) -> (Payload, Option<String>) {
    let Some(raw) = raw else {
        return (Payload::null(), None);
    };
    match payload_of(raw, bytes_max) {
        Ok(payload) => (payload, None),
        Err(_) => {
            let is_cut = raw.get().len() > bytes_max;
            let payload = Payload::of_answer(raw.get(), false, bytes_max);
            (payload, is_cut.then(|| "payload".to_owned()))
        }
    }
}

/// The commands that an ok spawns, and the names of those that cannot be read.
fn spawn(spawn: Lenient<RawList<'_>>, app: &App, caller: &Caller) -> (Vec<Command>, Vec<String>) {
    let Ok(list) = spawn.0 else {
        return (Vec::new(), vec!["spawn".to_owned()]);
    };
    let context = CommandContext {
        payload_max: app.payload_max(),
        ..CommandContext::default()
    };
    let (mut commands, mut left_out) = (Vec::new(), Vec::new());
    // One more than allowed: the engine leaves out the excess and reports it.
    let items = list.unwrap_or_default().0.into_iter().take(SPAWN_MAX + 1);
    for (number, item) in items.enumerate() {
        match app.command(caller, item.get(), &context) {
            Ok(command) => commands.push(command),
            Err(_) => left_out.push(format!("spawn[{number}]")),
        }
    }
    (commands, left_out)
}

fn fail(document: OutcomeDocument<'_>) -> Result<Outcome, Problem> {
    let code = strict("code", document.code)?;
    let code = code.ok_or_else(|| refuse(INVALID_REQUEST, "code", "is missing"))?;
    let message = strict("message", document.message)?.unwrap_or_default();
    let fail = Fail::new(code, message);
    Ok(Outcome::Fail(match strict("cause", document.cause)? {
        Some(cause) => fail.because(cause),
        None => fail,
    }))
}

fn retry(document: OutcomeDocument<'_>) -> Result<Outcome, Problem> {
    let reason = strict("reason", document.reason)?.unwrap_or_default();
    let mut retry = match strict("applied", document.applied)? {
        Some(Applied::No) => Retry::not_applied(reason),
        None | Some(Applied::Unknown) => Retry::unknown(reason),
    };
    retry.after = strict("after_ms", document.after_ms)?.map(Duration::from_millis);
    Ok(Outcome::Retry(retry))
}
