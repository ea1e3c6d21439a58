//! How a remote worker says that its attempt ended.
//!
//! A yes is kept whatever else is wrong with it: the call was made, and refusing the report
//! would turn it into a lost attempt. A part of an ok that cannot be read or stored is left
//! out, and the answer names it. Everything else is refused as in any other request.

use std::time::Duration;

use axum::http::StatusCode;
use clinch_core::{
    Command, Fail, Outcome, Payload, Retry, SPAWN_MAX, Success, TXN_ID_BYTES_MAX, WorkerId,
};

use super::app::App;
use super::caller::Caller;
use super::commands::{Around, payload_of};
use super::fields::Fields;
use super::leases::{nameless, worker};
use super::problem::Problem;

/// Parts that an answer names at most: the page says the rest.
const LEFT_OUT_MAX: usize = 20;

/// What a report says.
pub(crate) struct Heard {
    pub(crate) worker: WorkerId,
    pub(crate) outcome: Outcome,
    /// The payload of an ok was cut, which its result says too.
    pub(crate) truncated: Option<String>,
    /// Parts of an ok that could not be read.
    pub(crate) left_out: Vec<String>,
}

/// A body that cannot be taken as a whole, with the way to say yes all the same.
pub(crate) fn say_how_to_send_less(problem: Problem) -> Problem {
    let detail = format!(
        "{}; an ok may leave out payload and spawn: send it without them, and the yes is kept",
        problem.detail
    );
    match problem.status {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(detail),
        _ => problem,
    }
}

/// Reads the outcome: its fields may also stand in `outcome`.
pub(crate) fn read(mut around: Fields<'_>, app: &App, caller: &Caller) -> Result<Heard, Problem> {
    let inner = match around.has("outcome") {
        true => around.object("outcome")?,
        false => None,
    };
    // In either form: who reports, then how it ended.
    let who = worker(&mut around);
    let (mut fields, around) = match inner {
        Some(inner) => (inner, Some(around)),
        None => (around, None),
    };
    let kind = fields.required("type")?;
    if kind == "ok" {
        let unnamed = who.is_err().then(|| "worker".to_owned());
        let worker = who.or_else(|_| nameless())?;
        let mut heard = ok(fields, worker, app, caller);
        heard.left_out.extend(unnamed);
        let more = around.map(Fields::names).unwrap_or_default();
        heard.left_out.extend(more);
        return Ok(heard);
    }
    let outcome = match kind.as_str() {
        "retry" => retry(&mut fields)?,
        "fail" => fail(&mut fields)?,
        _ => return Err(fields.refuse("type", "must be ok, retry or fail")),
    };
    fields.finish()?;
    around.map_or(Ok(()), Fields::finish)?;
    Ok(Heard {
        worker: who?,
        outcome,
        truncated: None,
        left_out: Vec::new(),
    })
}

fn ok(mut fields: Fields<'_>, worker: WorkerId, app: &App, caller: &Caller) -> Heard {
    let mut left_out = Vec::new();
    let max = app.config.server.response_max.0;
    let mut truncated = None;
    let payload = match fields.raw("payload") {
        None => Payload::null(),
        Some(raw) => payload_of(raw, max).unwrap_or_else(|_| {
            let is_cut = raw.get().len() > max;
            truncated = is_cut.then(|| "payload".to_owned());
            Payload::of_answer(raw.get(), false, max)
        }),
    };
    let around = Around {
        payload_max: app.payload_max(),
        ..Around::default()
    };
    let mut spawn: Vec<Command> = Vec::new();
    match fields.list("spawn") {
        Ok(list) => {
            for (number, one) in list.unwrap_or_default().into_iter().enumerate() {
                // The engine leaves out what is too much, and says so.
                if number > SPAWN_MAX {
                    break;
                }
                match app.command(caller, one.get(), &around) {
                    Ok(command) => spawn.push(command),
                    Err(_) => left_out.push(format!("spawn[{number}]")),
                }
            }
        }
        Err(_) => left_out.push("spawn".to_owned()),
    }
    let txn_id = fields.text("provider_txn_id");
    let is_whole =
        matches!(&txn_id, Ok(id) if id.as_ref().is_none_or(|id| id.len() <= TXN_ID_BYTES_MAX));
    if !is_whole {
        left_out.push("provider_txn_id".to_owned());
    }
    let success = Success {
        provider_txn_id: txn_id.ok().flatten(),
        payload,
        spawn,
    };
    left_out.extend(fields.names());
    left_out.truncate(LEFT_OUT_MAX);
    Heard {
        worker,
        outcome: Outcome::Ok(success),
        truncated,
        left_out,
    }
}

fn fail(fields: &mut Fields<'_>) -> Result<Outcome, Problem> {
    let code = fields.required("code")?;
    let message = fields.text("message")?.unwrap_or_default();
    let fail = Fail::new(code, message);
    Ok(Outcome::Fail(match fields.text("cause")? {
        Some(cause) => fail.because(cause),
        None => fail,
    }))
}

fn retry(fields: &mut Fields<'_>) -> Result<Outcome, Problem> {
    let reason = fields.text("reason")?.unwrap_or_default();
    let mut retry = match fields.text("applied")?.as_deref() {
        Some("no") => Retry::not_applied(reason),
        None | Some("unknown") => Retry::unknown(reason),
        Some(_) => return Err(fields.refuse("applied", "must be no or unknown")),
    };
    retry.after = fields.number("after_ms")?.map(Duration::from_millis);
    Ok(Outcome::Retry(retry))
}
