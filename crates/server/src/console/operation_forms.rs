//! What a person can do with one operation.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use clinch_core::ports::Scope;
use clinch_core::protocol::Phase;
use clinch_core::{Status, code};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::call;
use super::form::Sent;
use super::gate::{Visitor, require};
use super::operation::{Looked, Revealed, show};
use super::page::{PageProblem, Shown, token};
use crate::api::{App, Problem, Shared, actions};

/// The actions that the operation's state and the visitor's key allow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Possible {
    may_act: bool,
    cancel: bool,
    retry_now: bool,
    resolve: bool,
    redrive: bool,
    dismiss: bool,
}

impl Possible {
    pub(super) fn of(app: &App, visitor: &Visitor, shown: &Looked<'_>) -> Self {
        let state = &shown.row.state;
        let keys = &shown.row.keys;
        let is_internal = app
            .orchestrator()
            .is_internal(&keys.domain, &keys.event_type);
        let is_letter = state.status == Status::Failed
            && state
                .failure
                .as_ref()
                .is_none_or(|one| one.code != code::CANCELED);
        let awaits = state.awaits_begin() && state.next_attempt_at.is_some_and(|at| at > shown.now);
        Self {
            may_act: visitor.may(Scope::Operate),
            cancel: !state.is_terminal() && !state.cancel_requested,
            retry_now: awaits,
            resolve: state.phase == Some(Phase::Held),
            redrive: is_letter && shown.row.redriven_by.is_none() && !state.late_ok && !is_internal,
            dismiss: is_letter && shown.row.redriven_by.is_none(),
        }
    }

    fn is_nothing(self) -> bool {
        !(self.cancel || self.retry_now || self.resolve || self.redrive || self.dismiss)
    }
}

/// The sentence after an action; the address names it, so the text is never a caller's.
pub(super) fn note(done: &str) -> Option<&'static str> {
    match done {
        "canceled" => Some("Canceled: no further call is made."),
        "cancel-requested" => Some(
            "Cancel requested: a call is running or may have been applied, so its answer decides.",
        ),
        "retry-now" => Some("The next attempt is due now."),
        "resolved" => Some("Settled as you said."),
        "redriven" => {
            Some("Redriven: a new operation makes the call again, with the same outbound key.")
        }
        "dismissed" => Some("Dismissed: the dead letter is no longer open."),
        "reopened" => Some("Opened again: the dead letter is in the list of open ones."),
        _ => None,
    }
}

pub(super) fn forms(visitor: &Visitor, shown: &Looked<'_>, possible: &Possible) -> Markup {
    if possible.is_nothing() {
        return html! { p class="muted" { "Nothing: the operation has ended, and what is final never changes." } };
    }
    if !possible.may_act {
        return html! { p class="muted" { "Acting needs a key with the scope operate." } };
    }
    let path = |action: &str| format!("/operations/{}/{action}", shown.row.op_id);
    html! {
        @if possible.resolve { (resolve_form(visitor, &path("resolve"))) }
        @if possible.retry_now {
            (simple(visitor, &path("retry-now"), "retry", "Retry now", "Makes the next attempt due at once. Every guard still applies."))
        }
        @if possible.redrive {
            (redrive_form(visitor, &path("redrive")))
        }
        @if possible.dismiss {
            (simple(visitor, &path("dismiss"), "dismiss", "Dismiss", "Takes the dead letter off the list of open ones. The operation stays FAILED."))
        }
        @if possible.cancel {
            (simple(visitor, &path("cancel"), "cancel", "Cancel", "No further call is made. A call that is running still decides by its answer."))
        }
    }
}

/// A button with a reason, folded away so that no page is a wall of fields.
fn simple(visitor: &Visitor, action: &str, id: &str, verb: &str, what: &str) -> Markup {
    let field = format!("why-{id}");
    html! {
        details class="act" {
            summary { (verb) }
            p class="muted" { (what) }
            form class="inline" method="post" action=(action) {
                (token(visitor))
                label for=(field) { "Reason" }
                input id=(field) name="reason" required maxlength="200" autocomplete="off";
                button class="main" type="submit" { (verb) }
            }
        }
    }
}

/// A redrive needs no reason: the new operation says what it redrives, and who asked for it.
fn redrive_form(visitor: &Visitor, action: &str) -> Markup {
    html! {
        details class="act" {
            summary { "Redrive" }
            p class="muted" { "Makes a new operation with the same payload and outbound key." }
            form class="inline" method="post" action=(action) {
                (token(visitor))
                button class="main" type="submit" { "Redrive" }
            }
        }
    }
}

fn resolve_form(visitor: &Visitor, action: &str) -> Markup {
    let choice = |id: &str, value: &str, text: &str, what: &str| {
        html! {
            div class="choice" {
                input type="radio" name="as" id=(id) value=(value) required;
                label for=(id) { strong { (text) } " " span class="muted" { (what) } }
            }
        }
    };
    html! {
        details class="act" open data-open {
            summary { "Settle it" }
            p { "Ask the provider by the outbound key first. What you choose here is final." }
            form class="stack" method="post" action=(action) {
                (token(visitor))
                fieldset {
                    legend { "What became of the call?" }
                    (choice("as-completed", "completed", "It was applied.", "COMPLETED, with the provider's transaction id if you have it."))
                    (choice("as-failed-none", "failed_none", "It was not applied.", "FAILED, effect none."))
                    (choice("as-failed", "failed_unknown", "Nobody knows.", "FAILED, effect unknown."))
                    (choice("as-retry", "retry", "Call once more.", "Only after the provider said that it was not applied."))
                }
                label for="txn" { "Provider transaction id, if it was applied" }
                input id="txn" name="provider_txn_id" autocomplete="off" maxlength="256";
                label for="why-resolve" { "Reason" }
                input id="why-resolve" name="reason" required maxlength="200" autocomplete="off";
                button class="main" type="submit" { "Settle" }
            }
        }
    }
}

fn back(id: &str, done: &str) -> Response {
    Redirect::to(&super::link(
        &format!("/operations/{id}"),
        &[("done", done)],
    ))
    .into_response()
}

fn reason(sent: &Sent) -> Result<&str, Problem> {
    require(&sent.visitor, Scope::Operate)?;
    sent.required("reason", "the reason")
}

/// Shows the problem inside the visitor's page.
fn to(visitor: &Visitor) -> impl FnOnce(Problem) -> PageProblem + '_ {
    |problem| PageProblem::from(problem).to(visitor)
}

pub(super) async fn cancel(State(app): State<Shared>, Path(id): Path<String>, sent: Sent) -> Shown {
    let done = async {
        let body = json!({ "reason": reason(&sent)? });
        let caller = sent.visitor.caller.clone();
        let answer = actions::cancel(State(app), caller, Path(id.clone()), call::with(&body));
        let document = call::document(answer.await).await?;
        Ok(match document["state"].as_str() {
            Some("FAILED") => "canceled",
            _ => "cancel-requested",
        })
    };
    let done = done.await.map_err(to(&sent.visitor))?;
    Ok(back(&id, done))
}

/// The body of the API's resolve.
fn resolution(sent: &Sent) -> Result<Value, Problem> {
    let reason = reason(sent)?;
    let txn = sent.text("provider_txn_id");
    let failed = |effect: &str| {
        json!({ "as": "failed", "effect": effect, "reason": reason,
                "message": "settled by an operator" })
    };
    match sent.required("as", "what became of the call")? {
        "completed" => Ok(match txn {
            Some(txn) => json!({ "as": "completed", "provider_txn_id": txn, "reason": reason }),
            None => json!({ "as": "completed", "reason": reason }),
        }),
        "failed_none" => Ok(failed("none")),
        "failed_unknown" => Ok(failed("unknown")),
        "retry" => Ok(json!({ "as": "retry", "reason": reason })),
        _ => Err(Problem::request("choose what became of the call").field("as")),
    }
}

pub(super) async fn resolve(
    State(app): State<Shared>,
    Path(id): Path<String>,
    sent: Sent,
) -> Shown {
    let done = async {
        let body = resolution(&sent)?;
        let caller = sent.visitor.caller.clone();
        let answer = actions::resolve(State(app), caller, Path(id.clone()), call::with(&body));
        call::document(answer.await).await
    };
    done.await.map_err(to(&sent.visitor))?;
    Ok(back(&id, "resolved"))
}

pub(super) async fn retry_now(
    State(app): State<Shared>,
    Path(id): Path<String>,
    sent: Sent,
) -> Shown {
    let done = async {
        let body = json!({ "reason": reason(&sent)? });
        let caller = sent.visitor.caller.clone();
        let answer = actions::retry_now(State(app), caller, Path(id.clone()), call::with(&body));
        call::document(answer.await).await
    };
    done.await.map_err(to(&sent.visitor))?;
    Ok(back(&id, "retry-now"))
}

pub(super) async fn redrive(
    State(app): State<Shared>,
    Path(id): Path<String>,
    sent: Sent,
) -> Shown {
    let done = async {
        require(&sent.visitor, Scope::Operate)?;
        let body = json!({ "filter": { "op_id": id }, "dry_run": false });
        let caller = sent.visitor.caller.clone();
        let answer = actions::redrive(State(app), caller, call::with(&body));
        let document = call::document(answer.await).await?;
        let result = &document["results"][0];
        match (result["redriven_by"].as_str(), result["reason"].as_str()) {
            (Some(by), _) => Ok(by.to_owned()),
            (None, Some(why)) => Err(Problem::conflict("refused", why)),
            (None, None) => Err(Problem::not_found("there is no such dead letter")),
        }
    };
    let by = done.await.map_err(to(&sent.visitor))?;
    Ok(back(&by, "redriven"))
}

pub(super) async fn dismiss(
    State(app): State<Shared>,
    Path(id): Path<String>,
    sent: Sent,
) -> Shown {
    let done = async {
        let reason = reason(&sent)?;
        let body = json!({ "filter": { "op_id": id }, "dry_run": false, "reason": reason });
        let caller = sent.visitor.caller.clone();
        let answer = actions::dismiss(State(app), caller, call::with(&body));
        let document = call::document(answer.await).await?;
        match (
            document["matched"].as_u64(),
            document["results"][0]["reason"].as_str(),
        ) {
            (Some(0), _) => Err(Problem::not_found("there is no such dead letter")),
            (_, Some(why)) => Err(Problem::conflict("refused", why)),
            _ => Ok(()),
        }
    };
    done.await.map_err(to(&sent.visitor))?;
    Ok(back(&id, "dismissed"))
}

/// Shows payload and result once, after the ledger has noted who looked and why.
pub(super) async fn reveal(State(app): State<Shared>, Path(id): Path<String>, sent: Sent) -> Shown {
    let revealed = async {
        let reason = reason(&sent)?;
        let (payload, result) = app.reveal(&sent.visitor.caller, &id, reason).await?;
        Ok::<_, Problem>(Revealed { payload, result })
    };
    let visitor = &sent.visitor;
    let revealed = revealed.await.map_err(to(visitor))?;
    let shown = show(&app, visitor, &id, None, Some(revealed)).await;
    shown.map_err(|problem| problem.to(visitor))
}
