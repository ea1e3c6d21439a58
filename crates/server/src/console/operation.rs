//! One operation: why it is not running, what a person can do, and everything that happened to it.

use axum::extract::{Path, Query, State};
use clinch_core::policy::Rules;
use clinch_core::ports::{LedgerLine, Operation, Scope};
use clinch_core::protocol::{HoldThen, Phase};
use clinch_core::{Effect, Status, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;

use super::gate::Visitor;
use super::operation_forms::{self, Possible};
use super::page::{Page, Shown};
use super::{link, timeline, view};
use crate::api::{App, HoldDocument, Shared};

/// What was done before the page is shown again.
#[derive(Debug, Default, Deserialize)]
pub(super) struct After {
    done: Option<String>,
}

/// An operation with what the page shows of it.
pub(super) struct Looked<'a> {
    pub(super) row: &'a Operation,
    pub(super) hold: Option<&'a HoldDocument>,
    pub(super) rules: Option<&'a Rules>,
    pub(super) destination: Option<&'a str>,
    pub(super) now: Timestamp,
}

pub(super) async fn get(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(after): Query<After>,
) -> Shown {
    let shown = show(&app, &visitor, &id, after.done.as_deref(), None).await;
    shown.map_err(|problem| problem.to(&visitor))
}

/// Payload and result in clear text.
pub(super) struct Revealed {
    pub(super) payload: String,
    pub(super) result: Option<String>,
}

pub(super) async fn show(
    app: &App,
    visitor: &Visitor,
    id: &str,
    done: Option<&str>,
    revealed: Option<Revealed>,
) -> Shown {
    let id = app.op_id(&visitor.caller, id).await?;
    let row = app.visible(&visitor.caller, id).await?.operation;
    let lines = app.inspect.ledger(id).await?;
    let hold = app.hold_of(&row).await;
    let now = app.now().await?;
    let keys = &row.keys;
    let shown = Looked {
        row: &row,
        hold: hold.as_ref(),
        rules: app.clinch.routes().find(&keys.domain, &keys.event_type),
        destination: app.destination_name(keys),
        now,
    };
    let title = format!("{} / {}", keys.domain, keys.event_type);
    let possible = Possible::of(app, visitor, &shown);
    let body = html! {
        (heading(&shown))
        @if let Some(done) = done.and_then(operation_forms::note) {
            p class="note good" role="status" { (done) }
        }
        p class="lead" { (sentence(&shown, &lines)) }
        div class="columns" {
            section class="card" aria-labelledby="h-facts" {
                h2 id="h-facts" { "Facts" }
                (facts(&shown))
            }
            section class="card" aria-labelledby="h-act" {
                h2 id="h-act" { "What you can do" }
                (operation_forms::forms(visitor, &shown, &possible))
            }
        }
        section class="card" aria-labelledby="h-line" {
            h2 id="h-line" { "What happened" }
            (timeline::show(&lines, row.accepted_at, now))
        }
        section class="card" aria-labelledby="h-data" {
            h2 id="h-data" { "Payload and result" }
            (data(visitor, &shown, revealed.as_ref()))
        }
        section class="card" aria-labelledby="h-again" {
            h2 id="h-again" { "The same request" }
            p class="muted" { "Sent again, it names this operation and calls nobody twice." }
            pre tabindex="0" { code { (curl(&row)) } }
        }
    };
    let frame = Page {
        visitor,
        title: &title,
        here: "/operations",
        panels: &app.panels(visitor),
        // A page with clear text must not fetch itself again without it.
        is_live: !row.state.is_terminal() && revealed.is_none(),
    };
    Ok(frame.show(body))
}

fn heading(shown: &Looked<'_>) -> Markup {
    let row = shown.row;
    html! {
        div class="head" {
            h1 {
                (view::state(row.state.status, row.state.phase)) " "
                (row.keys.domain) " / " (row.keys.event_type)
            }
            p class="id whole" { (row.op_id) }
        }
    }
}

/// Why it is where it is, in one sentence.
fn sentence(shown: &Looked<'_>, lines: &[LedgerLine]) -> Markup {
    let Looked { row, hold, now, .. } = shown;
    let state = &row.state;
    match (state.status, state.phase) {
        (Status::Completed, _) => html! {
            "It is done: the provider applied the call"
            @if let Some(txn) = row.result.as_ref().and_then(|one| one.provider_txn_id.as_ref()) {
                " as " code { (txn) }
            }
            @if let Some(at) = row.finished_at { ", settled " (view::moment(at, *now)) }
            "."
        },
        (Status::Failed, _) => failed(shown),
        (_, Some(Phase::Live)) => html! {
            "A call is running"
            @if let Some(line) = lines.iter().rev().find(|line| line.event == "Begin") {
                " since " (view::moment(line.at, *now))
                @if let Some(by) = &line.by { " on " code { (by) } }
            }
            @if let Some(until) = state.lease_until { "; its lease lasts until " (view::time(until, *now)) }
            "."
        },
        _ => match hold {
            Some(hold) => held(shown, hold),
            None => html! { "It is due: the next free worker takes it." },
        },
    }
}

fn failed(shown: &Looked<'_>) -> Markup {
    let state = &shown.row.state;
    let Some(failure) = &state.failure else {
        return html! { "It failed." };
    };
    html! {
        "It failed with " code { (failure.code) } ": " (failure.message) ". "
        @match failure.effect {
            Effect::None => "The provider did not apply the call.",
            Effect::Unknown => strong { "Whether the provider applied the call is unknown." },
        }
        @if state.late_ok {
            " " strong { "A late answer says that the call was applied." }
        }
    }
}

fn held(shown: &Looked<'_>, hold: &HoldDocument) -> Markup {
    let row = shown.row;
    let destination = shown.destination.unwrap_or("the destination");
    let until = html! {
        @if let Some(until) = &hold.until { " until " time datetime=(until) { (until.get(11..19).unwrap_or(until)) } }
    };
    match hold.reason {
        "effect_unknown" => effect_unknown(shown),
        "paused" => {
            html! { "The domain " a href="/domains" { (row.keys.domain) } " is paused: no attempt begins until it is resumed." }
        }
        "breaker_open" => {
            html! { a href="/destinations" { (destination) } " keeps failing, so nobody calls it" (until) "." }
        }
        "rate_limited" => {
            html! { a href="/destinations" { (destination) } " takes no more calls" (until) "." }
        }
        "bulkhead_full" => {
            html! { "All concurrent calls to " a href="/destinations" { (destination) } " are in use; it is next when one ends." }
        }
        "key_order" => html! {
            "An earlier operation with the same business key is still open. "
            a href=(link("/operations", &[("domain", row.keys.domain.as_str()), ("biz_key", row.keys.biz_key.as_str())])) { "See them" } "."
        },
        "no_executor" => {
            html! { "No process that makes these calls is known here: start a worker for " (row.keys.domain) "." }
        }
        "backoff" => html! {
            "It waits for its next attempt" (until)
            @if let Some(rules) = shown.rules { " (attempt " (row.state.attempts + 1) " of " (rules.retry.max_attempts) ")" }
            "."
        },
        "delayed" => html! { "It is scheduled: no attempt" (until) "." },
        other => html! { "It waits: " (other) (until) "." },
    }
}

fn effect_unknown(shown: &Looked<'_>) -> Markup {
    let hold = shown.row.state.hold.as_ref();
    let probe_at = hold.and_then(|hold| hold.probe_at);
    let stays = hold.is_some_and(|hold| hold.then == HoldThen::Stay);
    html! {
        "The last call may have been applied, so it is not repeated. "
        @match probe_at {
            Some(at) => { "The provider is asked again " (view::moment(at, shown.now)) "." }
            None if stays => { strong { "A person has to decide" } ": ask the provider, then settle it here." }
            None => { "It waits for a late answer." }
        }
    }
}

fn facts(shown: &Looked<'_>) -> Markup {
    let Looked { row, now, .. } = shown;
    let state = &row.state;
    let key_link = link(
        "/operations",
        &[
            ("domain", row.keys.domain.as_str()),
            ("biz_key", row.keys.biz_key.as_str()),
        ],
    );
    let text = |text: &str| Some(html! { (text) });
    let code = |text: &str| Some(html! { code { (text) } });
    let at = |at: Option<Timestamp>| at.map(|at| view::moment(at, *now));
    let other = |id: Option<clinch_core::OpId>| id.map(view::id_link);
    let trace = row
        .trace
        .as_deref()
        .and_then(|trace| trace.split('-').nth(1));
    let safety = shown
        .rules
        .map(|rules| format!("{:?}", rules.safety).to_lowercase());
    view::facts(&[
        (
            "Business key",
            Some(html! { a href=(key_link) { (row.keys.biz_key) } }),
        ),
        ("Idempotency key", code(row.keys.idem_key.as_str())),
        (
            "Outbound key, which the provider knows",
            code(row.outbound_key.as_str()),
        ),
        (
            "Destination",
            shown
                .destination
                .map(|name| html! { a href="/destinations" { (name) } }),
        ),
        ("May be repeated", safety.as_deref().and_then(text)),
        (
            "Effect",
            text(match state.effect {
                Effect::None => "none",
                Effect::Unknown => "unknown",
            }),
        ),
        ("Attempts", Some(html! { (state.attempts) })),
        (
            "Last error",
            state.last_error.as_ref().map(|error| {
                html! { (view::error(&error.code, &error.message)) " " span class="muted" { "(" (view::distance(error.at, *now)) ")" } }
            }),
        ),
        ("Accepted", at(Some(row.accepted_at))),
        ("Started", at(row.started_at)),
        ("Finished", at(row.finished_at)),
        ("Next attempt", at(state.next_attempt_at)),
        ("Deadline", at(row.options.deadline.or(state.deadline))),
        ("Sequence", Some(html! { (row.seq) })),
        ("Labels", labels(row)),
        ("Batch", batch(row)),
        ("Redrives", other(row.redrive_of)),
        ("Redriven by", other(row.redriven_by)),
        ("Trace", trace.and_then(code)),
    ])
}

fn labels(row: &Operation) -> Option<Markup> {
    let labels = row.options.labels.iter().map(|(n, v)| format!("{n}={v}"));
    let labels = labels.collect::<Vec<_>>().join(" ");
    (!labels.is_empty()).then(|| html! { (labels) })
}

/// The operation's batch, as a link to all its members.
fn batch(row: &Operation) -> Option<Markup> {
    let batch = row.batch_id?.to_string();
    let path = link("/operations", &[("batch_id", &batch)]);
    Some(html! { a href=(path) { (batch) } })
}

fn data(visitor: &Visitor, shown: &Looked<'_>, revealed: Option<&Revealed>) -> Markup {
    let row = shown.row;
    if let Some(revealed) = revealed {
        return html! {
            h3 { "Payload" } pre tabindex="0" { code { (revealed.payload) } }
            @if let Some(result) = &revealed.result {
                h3 { "Result" } pre tabindex="0" { code { (result) } }
            }
            p { a href={ "/operations/" (row.op_id) } { "Hide" } }
        };
    }
    let result = row.result.as_ref().and_then(|one| one.payload.as_ref());
    html! {
        p {
            "Payload of " (row.payload.as_bytes().len()) " bytes"
            @if let Some(result) = result { ", result of " (result.as_bytes().len()) " bytes" }
            ": hidden, because they may hold personal data."
        }
        @if visitor.may(Scope::Operate) {
            form class="inline" method="post" action={ "/operations/" (row.op_id) "/reveal" } {
                (super::page::token(visitor))
                label for="reveal-reason" { "Why do you need to see them?" }
                input id="reveal-reason" name="reason" required maxlength="200" autocomplete="off";
                button type="submit" { "Reveal" }
                span class="muted" { "Your name and reason are noted in the ledger." }
            }
        } @else {
            p class="muted" { "Revealing them needs a key with the scope operate." }
        }
    }
}

/// The command line that repeats the submission.
fn curl(row: &Operation) -> String {
    let keys = &row.keys;
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let body = format!(
        "{{\"domain\":{},\"event_type\":{},\"biz_key\":{},\"idem_key\":{},\"payload\":…}}",
        quoted(keys.domain.as_str()),
        quoted(keys.event_type.as_str()),
        quoted(keys.biz_key.as_str()),
        quoted(keys.idem_key.as_str()),
    );
    let body = body.replace('\'', "'\\''");
    format!(
        "curl -X POST \"$CLINCH_URL/v1/operations\" \\\n  -H \"Authorization: Bearer $CLINCH_API_KEY\" \\\n  -H 'Content-Type: application/json' \\\n  -d '{body}'"
    )
}
