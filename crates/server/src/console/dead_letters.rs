//! Dead letters: grouped by what went wrong, or one by one.

use axum::extract::{Query, State};
use clinch_core::Timestamp;
use clinch_core::ports::Scope;
use maud::{Markup, html};
use serde_json::Value;

use super::gate::Visitor;
use super::operations::Asked;
use super::page::{Page, Shown};
use super::{call, link, view};
use crate::api::{App, Problem, Shared, actions, read_time};

/// The states of a letter, as tabs.
const TABS: [(&str, &str); 3] = [
    ("open", "Open"),
    ("redriven", "Redriven"),
    ("dismissed", "Dismissed"),
];

pub(super) async fn list(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Shown {
    let asked = Asked::of(pairs);
    let shown = show(app.clone(), &visitor, &asked).await;
    shown.map_err(|problem| problem.to(&visitor))
}

/// A member of a JSON document as text.
fn text<'a>(document: &'a Value, name: &str) -> &'a str {
    document[name].as_str().unwrap_or_default()
}

async fn show(app: Shared, visitor: &Visitor, asked: &Asked) -> Shown {
    let now = app.now().await?;
    let status = asked.value("status");
    let status = if status.is_empty() { "open" } else { status };
    let is_list = asked.value("view") == "list" || !asked.value("fingerprint").is_empty();
    let mut pairs = asked.for_api(now);
    pairs.retain(|(name, _)| name != "view" && name != "status");
    pairs.push(("status".to_owned(), status.to_owned()));
    pairs.push(match is_list {
        true => ("limit".to_owned(), "50".to_owned()),
        false => ("group".to_owned(), "true".to_owned()),
    });
    pairs.extend(
        asked
            .cursor
            .clone()
            .map(|cursor| ("cursor".to_owned(), cursor)),
    );
    let caller = visitor.caller.clone();
    let answer = actions::dead_letters(State(app.clone()), caller, Query(pairs)).await;
    let (found, wrong) = match call::document(answer).await {
        Ok(found) => (found, None),
        Err(problem) if problem.status.is_client_error() => (Value::Null, Some(problem)),
        Err(problem) => return Err(problem.into()),
    };
    let body = html! {
        div class="head" { h1 { "Dead letters" } p class="muted" { "Operations that failed for good, other than by cancel." } }
        (tabs(asked, status, is_list))
        @if let Some(problem) = &wrong { (refused(problem)) }
        @else if is_list { (letters(visitor, asked, &found, status, now)) }
        @else { (groups(visitor, asked, &found, status, now)) }
    };
    Ok(frame(&app, visitor, body))
}

fn frame(app: &App, visitor: &Visitor, body: Markup) -> axum::response::Response {
    let frame = Page {
        visitor,
        title: "Dead letters",
        here: "/dead-letters",
        panels: &app.panels(visitor),
        is_live: true,
    };
    frame.show(body)
}

fn refused(problem: &Problem) -> Markup {
    html! { p class="note bad" role="alert" { "The filter cannot be read: " (problem.detail) "." } }
}

fn tabs(asked: &Asked, status: &str, is_list: bool) -> Markup {
    let with = |status: &str, view: &str| {
        let keep = asked.pairs.iter();
        let keep = keep.filter(|(name, _)| name != "status" && name != "view");
        let mut pairs: Vec<(&str, &str)> = keep.map(|(n, v)| (n.as_str(), v.as_str())).collect();
        pairs.push(("status", status));
        if !view.is_empty() {
            pairs.push(("view", view));
        }
        link("/dead-letters", &pairs)
    };
    let shape = if is_list { "list" } else { "" };
    html! {
        nav class="tabs" aria-label="Status" {
            @for (name, title) in TABS {
                a href=(with(name, shape)) aria-current=[(name == status).then_some("true")] { (title) }
            }
            span class="gap" {}
            a href=(link("/dead-letters", &[("status", status)])) aria-current=[(!is_list).then_some("true")] { "By error" }
            a href=(with(status, "list")) aria-current=[is_list.then_some("true")] { "One by one" }
        }
    }
}

fn nothing(status: &str) -> Markup {
    match status {
        "open" => view::empty(
            "No open dead letter.",
            &html! { "Nothing failed for good, or everything was dealt with." },
        ),
        "redriven" => view::empty(
            "None was redriven.",
            &html! { "A redrive makes the call again as a new operation." },
        ),
        _ => view::empty(
            "None was dismissed.",
            &html! { "Dismissing takes a letter off the list of open ones." },
        ),
    }
}

fn groups(visitor: &Visitor, asked: &Asked, found: &Value, status: &str, now: Timestamp) -> Markup {
    let counted = found["counted"].as_u64().unwrap_or(0);
    let groups = found["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let next = found["next_cursor"].as_str();
    if groups.is_empty() && next.is_none() {
        return nothing(status);
    }
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Dead letters by error" {
            table class="rows" {
                thead { tr {
                    th scope="col" class="num" { "Letters" } th scope="col" { "Error" }
                    th scope="col" { "Domain / type" } th scope="col" { "First" } th scope="col" { "Last" }
                    th scope="col" { "Action" }
                } }
                tbody { @for group in groups { (group_row(visitor, group, status, now)) } }
            }
        }
        @if next.is_some() || asked.cursor.is_some() {
            p class="muted" { "Counted for this page: " (view::number(counted)) " dead letters." }
        }
        (pages(asked, next))
    }
}

fn pages(asked: &Asked, next: Option<&str>) -> Markup {
    html! {
        nav class="pages" aria-label="Pages" {
            @if asked.cursor.is_some() { a href=(asked.path("/dead-letters", &[])) { "First page" } }
            @if let Some(next) = next { a rel="next" href=(asked.path("/dead-letters", &[("cursor", next)])) { "Older" } }
        }
    }
}

fn group_row(visitor: &Visitor, group: &Value, status: &str, now: Timestamp) -> Markup {
    let print = text(group, "fingerprint");
    let list = link(
        "/dead-letters",
        &[("status", status), ("fingerprint", print)],
    );
    let at = |name: &str| read_time(text(group, name)).map(|at| view::time(at, now));
    html! {
        tr {
            td data-label="Letters" class="num" { a href=(list) { (view::number(group["count"].as_u64().unwrap_or(0))) } }
            td data-label="Error" class="why" { span { code { (text(group, "code")) } " " (text(group, "message")) } }
            td data-label="Domain / type" { span { (text(group, "domain")) span class="muted" { " / " } (text(group, "event_type")) } }
            td data-label="First" { @if let Some(at) = at("first_failed_at") { (at) } }
            td data-label="Last" { @if let Some(at) = at("last_failed_at") { (at) } }
            td data-label="Action" { (acts(visitor, &[("fingerprint", print)], status)) }
        }
    }
}

/// Links to the plans of what can be done with letters of this status.
fn acts(visitor: &Visitor, filter: &[(&str, &str)], status: &str) -> Markup {
    if !visitor.may(Scope::Operate) {
        return html! { span class="muted" { "–" } };
    }
    let plan = |what: &str| {
        let mut pairs = vec![("do", what)];
        pairs.extend_from_slice(filter);
        link("/bulk", &pairs)
    };
    html! {
        span class="acts" {
            @match status {
                "open" => { a href=(plan("redrive")) { "Redrive…" } " " a href=(plan("dismiss")) { "Dismiss…" } }
                "dismissed" => { a href=(plan("reopen")) { "Open again…" } }
                _ => span class="muted" { "–" }
            }
        }
    }
}

fn letters(
    visitor: &Visitor,
    asked: &Asked,
    found: &Value,
    status: &str,
    now: Timestamp,
) -> Markup {
    let letters = found["dead_letters"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let next = found["next_cursor"].as_str();
    let print = asked.value("fingerprint");
    html! {
        @if letters.is_empty() && next.is_none() { (nothing(status)) }
        @else {
            @if !print.is_empty() { p { "Letters of one error. " (acts(visitor, &[("fingerprint", print)], status)) } }
            @else { p { "All of this list: " (acts(visitor, &[("all", "yes")], status)) } }
            div class="scroll" tabindex="0" role="region" aria-label="Dead letters" {
                table class="rows" {
                    thead { tr {
                        th scope="col" { "Operation" } th scope="col" { "Domain / type" }
                        th scope="col" { "Business key" } th scope="col" { "Error" }
                        th scope="col" class="num" { "Attempts" } th scope="col" { "Failed" }
                        @if status != "open" { th scope="col" { "By" } }
                    } }
                    tbody { @for letter in letters { (letter_row(letter, status, now)) } }
                }
            }
            (pages(asked, next))
        }
    }
}

fn letter_row(letter: &Value, status: &str, now: Timestamp) -> Markup {
    let failure = &letter["failure"];
    let by = letter["redriven_by"]
        .as_str()
        .and_then(|id| id.parse().ok());
    html! {
        tr {
            td data-label="Operation" {
                @if let Ok(id) = text(letter, "op_id").parse() { (view::id_link(id)) }
            }
            td data-label="Domain / type" { span { (text(letter, "domain")) span class="muted" { " / " } (text(letter, "event_type")) } }
            td data-label="Business key" class="key" { span { (text(letter, "biz_key")) } }
            td data-label="Error" class="why" {
                span {
                    code { (text(failure, "code")) } " " (text(failure, "message"))
                    @if failure["effect"] == "unknown" { " " strong { "effect unknown" } }
                    @if letter["late_ok"] == true { " " strong { "a late answer says that it was applied" } }
                }
            }
            td data-label="Attempts" class="num" { span { (letter["attempts"]) } }
            td data-label="Failed" { @if let Some(at) = read_time(text(letter, "failed_at")) { (view::time(at, now)) } }
            @if status == "redriven" { td data-label="By" { @if let Some(by) = by { (view::id_link(by)) } } }
            @if status == "dismissed" {
                td data-label="By" { span { (text(&letter["dismissed"], "by")) ": " (text(&letter["dismissed"], "reason")) } }
            }
        }
    }
}
