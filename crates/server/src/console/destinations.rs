//! Destinations: whether they take calls, what failed last, and what waits for them.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};
use clinch_core::Timestamp;
use clinch_core::ports::Scope;
use maud::{Markup, html};
use serde_json::json;

use super::form::Sent;
use super::gate::{Visitor, require};
use super::page::{Page, PageProblem, Shown, token};
use super::{call, link, view};
use crate::api::{App, DestinationDocument, Problem, Shared, actions, read_time};

pub(super) async fn list(State(app): State<Shared>, visitor: Visitor) -> Shown {
    let shown = show(&app, &visitor).await;
    shown.map_err(|problem| problem.to(&visitor))
}

async fn show(app: &App, visitor: &Visitor) -> Shown {
    let views = app.domain_views().await?;
    let destinations = app
        .destination_documents(&visitor.caller, Some(&views))
        .await;
    let all: Vec<&DestinationDocument> = destinations.iter().collect();
    let is_alone = all.iter().any(|one| !one.shared);
    let body = html! {
        div class="head" { h1 { "Destinations" } }
        @if is_alone {
            p class="note" { "The store does not answer: breakers and pauses are those of this process." }
        }
        @if all.is_empty() {
            (view::empty("This process makes no calls.", &html! {
                "A destination appears with a " code { "[[route]]" } " that has a " code { "url" } ", in a process with the role worker."
            }))
        } @else {
            (table(visitor, &all, app.clock.now(), true))
        }
    };
    let frame = Page {
        visitor,
        title: "Destinations",
        here: "/destinations",
        panels: &app.panels(visitor),
        is_live: true,
    };
    Ok(frame.show(body))
}

fn state(one: &DestinationDocument) -> Markup {
    let (class, sign) = match one.state {
        "ok" => ("ok", "✓"),
        "down" => ("bad", "✕"),
        "probing" => ("held", "?"),
        "throttled" => ("waiting", "‖"),
        "full" => ("running", "■"),
        _ => ("neutral", "·"),
    };
    view::badge(class, sign, one.state)
}

/// Since when, until when and why, as far as it is not well.
fn why(one: &DestinationDocument, now: Timestamp) -> Markup {
    let time = |text: &Option<String>| {
        let at = text.as_deref().and_then(read_time);
        at.map(|at| view::time(at, now))
    };
    let since = time(&one.breaker_since).filter(|_| one.breaker != "closed");
    html! {
        @if let Some(since) = since.or_else(|| time(&one.paused_since)) { "since " (since) " " }
        @if let Some(until) = time(&one.open_until) { "until " (until) " " }
        @if let Some(until) = time(&one.paused_until) { "asked to pause until " (until) " " }
        @if one.forced { strong { "opened by " (one.opened_by.as_deref().unwrap_or("a person")) " " } }
        @if let Some(reason) = &one.reason { (reason) " " }
        @if let Some(error) = &one.last_error {
            code { (error.code) } " " (error.message)
            @if let Some(at) = read_time(&error.at) { span class="muted" { " " (view::distance(at, now)) } }
        }
    }
}

fn limits(one: &DestinationDocument) -> Markup {
    let rate = one.limits.rate.as_ref().map(|rate| {
        format!(
            "{} / {}",
            rate.permits,
            view::length(Duration::from_millis(rate.per_ms))
        )
    });
    let calls = one.limits.concurrency.map(|most| format!("{most} at once"));
    let all: Vec<String> = rate.into_iter().chain(calls).collect();
    html! {
        @if all.is_empty() { span class="muted" { "none" } } @else { span { (all.join(", ")) } }
    }
}

pub(super) fn table(
    visitor: &Visitor,
    all: &[&DestinationDocument],
    now: Timestamp,
    with_forms: bool,
) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Destinations" {
            table class="rows" {
                thead { tr {
                    th scope="col" { "State" } th scope="col" { "Destination" }
                    th scope="col" { "Why, last error" } th scope="col" class="num" { "Waiting" }
                    th scope="col" { "Recent calls" } th scope="col" { "Limits" }
                    @if with_forms { th scope="col" { "Action" } }
                } }
                tbody { @for one in all { (row(visitor, one, now, with_forms)) } }
            }
        }
    }
}

fn row(visitor: &Visitor, one: &DestinationDocument, now: Timestamp, with_forms: bool) -> Markup {
    let waiting = link("/operations", &[("destination", one.destination.as_str())]);
    let recent = &one.recent;
    html! {
        tr {
            td data-label="State" { (state(one)) }
            td data-label="Destination" { span class="key" { (one.destination) } }
            td data-label="Why" class="why" { span { (why(one, now)) } }
            td data-label="Waiting" class="num" {
                @match one.backlog {
                    None => span class="muted" { "not known" },
                    Some(0) => span class="muted" { "0" },
                    Some(backlog) => a href=(waiting) { (view::number(backlog)) },
                }
            }
            td data-label="Recent calls" {
                span {
                    (view::number(recent.calls)) " in " (view::length(Duration::from_millis(recent.window_ms)))
                    @if recent.failed > 0 { ", " strong { (view::number(recent.failed)) " failed" } }
                }
            }
            td data-label="Limits" { (limits(one)) }
            @if with_forms {
                td data-label="Action" {
                    @if visitor.may(Scope::Operate) { (forms(visitor, one)) } @else { span class="muted" { "–" } }
                }
            }
        }
    }
}

fn forms(visitor: &Visitor, one: &DestinationDocument) -> Markup {
    let name = one.destination.as_str();
    let form = |verb: &str, title: &str, what: &str| {
        let field = format!("why-{verb}-{name}");
        let action = format!("{}/{verb}", path(name));
        html! {
            details class="act" {
                summary aria-label={ (title) " " (name) } { (title) }
                p class="muted" { (what) }
                form class="inline" method="post" action=(action) {
                    (token(visitor))
                    label for=(field) { "Reason" }
                    input id=(field) name="reason" required maxlength="200" autocomplete="off";
                    button class="main" type="submit" { (title) }
                }
            }
        }
    };
    html! {
        @if one.state != "ok" && one.state != "full" {
            (form("reset", "Reset", "Calls go out again at once."))
        }
        @if !one.forced {
            (form("open", "Stop calls", "No call goes out until you reset it. Work waits."))
        }
    }
}

/// The address of a destination; names may hold a port.
fn path(name: &str) -> String {
    let name = percent_encoding::utf8_percent_encode(name, super::PLAIN);
    format!("/destinations/{name}")
}

pub(super) async fn reset(app: State<Shared>, name: Path<String>, sent: Sent) -> Shown {
    let done = async {
        let request = call::with(&json!({ "reason": reason(&sent)? }));
        let caller = sent.visitor.caller.clone();
        call::document(actions::reset(app, caller, name, request).await).await
    };
    let to = |problem: Problem| PageProblem::from(problem).to(&sent.visitor);
    done.await.map_err(to)?;
    Ok(Redirect::to("/destinations").into_response())
}

pub(super) async fn open(app: State<Shared>, name: Path<String>, sent: Sent) -> Shown {
    let done = async {
        let request = call::with(&json!({ "reason": reason(&sent)? }));
        let caller = sent.visitor.caller.clone();
        call::document(actions::open(app, caller, name, request).await).await
    };
    let to = |problem: Problem| PageProblem::from(problem).to(&sent.visitor);
    done.await.map_err(to)?;
    Ok(Redirect::to("/destinations").into_response())
}

fn reason(sent: &Sent) -> Result<&str, Problem> {
    require(&sent.visitor, Scope::Operate)?;
    sent.required("reason", "the reason")
}
