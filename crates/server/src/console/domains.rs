//! Domains with their queues: pause and resume.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};
use clinch_core::Timestamp;
use clinch_core::ports::{DomainView, Scope};
use maud::{Markup, html};
use serde_json::json;

use super::form::Sent;
use super::gate::{Visitor, require};
use super::page::{Page, PageProblem, Shown, token};
use super::{call, link, view};
use crate::api::{App, Problem, Shared, actions};

pub(super) async fn list(State(app): State<Shared>, visitor: Visitor) -> Shown {
    let shown = show(&app, &visitor).await;
    shown.map_err(|problem| problem.to(&visitor))
}

async fn show(app: &App, visitor: &Visitor) -> Shown {
    let views = app.visible_domains(&visitor.caller).await?;
    let body = html! {
        div class="head" { h1 { "Domains" } }
        @if views.is_empty() {
            (view::empty("No domain yet.", &html! { "A domain appears with its first route or operation. Declare a route in " code { "clinch.toml" } "." }))
        } @else {
            (table(visitor, &views, app.clock.now()))
        }
    };
    let frame = Page {
        visitor,
        title: "Domains",
        here: "/domains",
        panels: &app.panels(visitor),
        is_live: true,
    };
    Ok(frame.show(body))
}

fn table(visitor: &Visitor, views: &[DomainView], now: Timestamp) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Domains" {
            table class="rows" {
                thead { tr {
                    th scope="col" { "Domain" } th scope="col" { "Queue" }
                    th scope="col" class="num" { "Pending" } th scope="col" class="num" { "Running" }
                    th scope="col" class="num" { "Waiting" } th scope="col" class="num" { "Held" }
                    th scope="col" class="num" { "Completed" } th scope="col" class="num" { "Failed" }
                    th scope="col" { "Oldest due" } th scope="col" { "Action" }
                } }
                tbody { @for view in views { (row(visitor, view, now)) } }
            }
        }
    }
}

fn row(visitor: &Visitor, view: &DomainView, now: Timestamp) -> Markup {
    let name = view.domain.as_str();
    let of = |count: u64, pairs: &[(&str, &str)]| {
        let mut all = vec![("domain", name)];
        all.extend_from_slice(pairs);
        let path = link("/operations", &all);
        html! { @if count == 0 { span class="muted" { "0" } } @else { a href=(path) { (view::number(count)) } } }
    };
    let counts = &view.counts;
    let may_act = visitor.may(Scope::Operate) && visitor.caller.restriction().allows_all_of(name);
    html! {
        tr {
            td data-label="Domain" { a href=(link("/operations", &[("domain", name)])) { (name) } }
            td data-label="Queue" {
                @if view.paused { (view::badge("waiting", "‖", "paused")) (paused_by(view, now)) }
                @else { (view::badge("ok", "▶", "open")) }
            }
            td data-label="Pending" class="num" { (of(counts.pending, &[("state", "PENDING")])) }
            td data-label="Running" class="num" { (of(counts.live + counts.recorded, &[("phase", "live")])) }
            td data-label="Waiting" class="num" { (of(counts.waiting, &[("phase", "waiting")])) }
            td data-label="Held" class="num" { (of(counts.held, &[("phase", "held")])) }
            td data-label="Completed" class="num" { (of(counts.completed, &[("state", "COMPLETED")])) }
            td data-label="Failed" class="num" { (of(counts.failed, &[("state", "FAILED")])) }
            td data-label="Oldest due" {
                @match view.oldest_due { Some(age) => span { (view::length(age)) }, None => span class="muted" { "none" } }
            }
            td data-label="Action" { @if may_act { (act(visitor, view)) } @else { span class="muted" { "–" } } }
        }
    }
}

/// Who paused it, when and why.
fn paused_by(view: &DomainView, now: Timestamp) -> Markup {
    html! {
        @if let Some(pause) = &view.pause {
            p class="muted" {
                "since " (view::time(pause.at, now)) " by " (pause.by)
                @if !pause.reason.is_empty() { ": " (pause.reason) }
            }
        }
    }
}

fn act(visitor: &Visitor, view: &DomainView) -> Markup {
    let verb = if view.paused { "resume" } else { "pause" };
    let title = if view.paused { "Resume" } else { "Pause…" };
    let field = format!("why-{}", view.domain);
    html! {
        details class="act" {
            summary aria-label={ (title) " " (view.domain) } { (title) }
            form class="inline" method="post" action={ "/domains/" (view.domain) "/" (verb) } {
                (token(visitor))
                label for=(field) { "Reason" }
                input id=(field) name="reason" required maxlength="200" autocomplete="off";
                button class="main" type="submit" { @if view.paused { "Resume" } @else { "Pause" } }
            }
        }
    }
}

pub(super) async fn pause(state: State<Shared>, path: Path<String>, sent: Sent) -> Shown {
    change(state, path, sent, true).await
}

pub(super) async fn resume(state: State<Shared>, path: Path<String>, sent: Sent) -> Shown {
    change(state, path, sent, false).await
}

async fn change(app: State<Shared>, domain: Path<String>, sent: Sent, paused: bool) -> Shown {
    let done = async {
        require(&sent.visitor, Scope::Operate)?;
        let reason = sent.required("reason", "the reason")?;
        let caller = sent.visitor.caller.clone();
        let request = call::with(&json!({ "reason": reason }));
        let answer = match paused {
            true => actions::pause(app, caller, domain, request).await,
            false => actions::resume(app, caller, domain, request).await,
        };
        call::document(answer).await
    };
    let to = |problem: Problem| PageProblem::from(problem).to(&sent.visitor);
    done.await.map_err(to)?;
    Ok(Redirect::to("/domains").into_response())
}
