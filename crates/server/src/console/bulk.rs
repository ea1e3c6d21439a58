//! Many operations at once: a plan, a confirmation, and the progress.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect};
use clinch_core::ports::Scope;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::form::Sent;
use super::gate::{Visitor, require};
use super::jobs::{Job, What, letters_body};
use super::operations::{Asked, table};
use super::page::{Page, PageProblem, Shown, token};
use super::{call, view};
use crate::api::{Problem, Shared, actions, find_operations};

/// Operations that a plan counts; beyond it says "more than".
const COUNTED_MAX: usize = 10_000;
/// Operations that a plan shows.
const SHOWN: usize = 10;
/// Fields of the forms that are not part of a filter.
const OWN: [&str; 5] = ["do", "reason", "csrf", "all", "confirm"];

type Pairs = Vec<(String, String)>;

/// What a plan would do.
struct Plan {
    matched: usize,
    is_more: bool,
    note: Option<String>,
    rows: Markup,
}

fn filter_of(pairs: &Pairs) -> Asked {
    let keep = pairs
        .iter()
        .filter(|(name, _)| !OWN.contains(&name.as_str()));
    Asked::of(keep.cloned().collect())
}

/// The filter of dead letters as the API reads it.
pub(super) fn letter_filter(filter: &Asked) -> Value {
    let pairs = filter.pairs.iter();
    let members = pairs.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Value::Object(members.collect::<Map<String, Value>>())
}

pub(super) async fn plan(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(pairs): Query<Pairs>,
) -> Shown {
    let shown = show(&app, &visitor, &pairs).await;
    shown.map_err(|problem| problem.to(&visitor))
}

fn asked_for(pairs: &Pairs) -> Result<What, Problem> {
    let what = pairs.iter().find(|(name, _)| name == "do");
    let what = what.and_then(|(_, value)| What::read(value));
    what.ok_or_else(|| Problem::request("this page needs to know what to do").field("do"))
}

async fn show(app: &Shared, visitor: &Visitor, pairs: &Pairs) -> Shown {
    require(visitor, Scope::Operate)?;
    let what = asked_for(pairs)?;
    let filter = filter_of(pairs);
    let plan = match what {
        What::Cancel | What::RetryNow => count(app, visitor, &filter).await?,
        What::Redrive | What::Dismiss | What::Reopen => {
            dry_run(app, visitor, what, &filter).await?
        }
    };
    let many = match plan.is_more {
        true => format!("more than {}", view::number(plan.matched as u64)),
        false => view::number(plan.matched as u64),
    };
    let body = html! {
        div class="head" { h1 { (what.title()) " " (many) " " (what.things()) } }
        p class="lead" { (what.consequence()) }
        @if let Some(note) = &plan.note { p class="note bad" { (note) } }
        section class="card" aria-labelledby="h-filter" {
            h2 id="h-filter" { "Chosen by" }
            @if filter.pairs.is_empty() { p { "Nothing: all of them." } }
            @else { (view::facts(&filter.pairs.iter().map(|(n, v)| (n.as_str(), Some(html! { code { (v) } }))).collect::<Vec<_>>())) }
        }
        (plan.rows)
        @if plan.matched == 0 { p { a href=(what.back()) { "Go back" } } }
        @else { (confirm(visitor, what, &filter, &many)) }
    };
    let frame = Page {
        visitor,
        title: what.title(),
        here: what.back(),
        panels: &app.panels(visitor),
        is_live: false,
    };
    Ok(frame.show(body))
}

fn confirm(visitor: &Visitor, what: What, filter: &Asked, many: &str) -> Markup {
    html! {
        form class="card stack" method="post" action="/bulk" {
            (token(visitor))
            input type="hidden" name="do" value=(what.name());
            @for (name, value) in &filter.pairs { input type="hidden" name=(name) value=(value); }
            label for="reason" { "Reason" }
            input id="reason" name="reason" required maxlength="200" autocomplete="off";
            p class="inline" {
                button class="main" type="submit" { (what.title()) " " (many) }
                a href=(what.back()) { "Do nothing" }
            }
        }
    }
}

/// Counts the operations that match, and shows the first.
async fn count(app: &Shared, visitor: &Visitor, filter: &Asked) -> Result<Plan, PageProblem> {
    let now = app.now().await?;
    let (mut matched, mut cursor, mut first) = (0, None, Vec::new());
    loop {
        let pairs = filter.for_api(now);
        let page = find_operations(app, &visitor.caller, pairs, cursor, 500).await?;
        let open = page.items.into_iter();
        let open: Vec<_> = open.filter(|(row, _)| !row.state.is_terminal()).collect();
        matched += open.len();
        first.extend(open.into_iter().take(SHOWN.saturating_sub(first.len())));
        cursor = page.next_cursor;
        if cursor.is_none() || matched >= COUNTED_MAX {
            break;
        }
    }
    Ok(Plan {
        matched,
        is_more: cursor.is_some(),
        note: None,
        rows: table(&first, now),
    })
}

/// Asks the API for its plan: dead letters are judged one by one.
async fn dry_run(
    app: &Shared,
    visitor: &Visitor,
    what: What,
    filter: &Asked,
) -> Result<Plan, PageProblem> {
    let (mut matched, mut refused, mut why, mut cursor) = (0, 0, None, Value::Null);
    loop {
        let body = letters_body(what, filter, true, "plan", 1_000, &cursor);
        let request = call::with(&body);
        let (state, caller) = (State(app.clone()), visitor.caller.clone());
        let answer = match what {
            What::Redrive => actions::redrive(state, caller, request).await,
            What::Dismiss => actions::dismiss(state, caller, request).await,
            _ => actions::reopen(state, caller, request).await,
        };
        let answer = call::document(answer).await?;
        let figure = |name: &str| answer[name].as_u64().unwrap_or(0);
        matched += figure("matched");
        refused += figure("refused");
        let results = answer["results"].as_array();
        let reasons = results
            .into_iter()
            .flatten()
            .filter_map(|one| one["reason"].as_str());
        why = why.or_else(|| reasons.map(str::to_owned).next());
        cursor = answer["next_cursor"].clone();
        if cursor.is_null() || matched as usize >= COUNTED_MAX {
            break;
        }
    }
    let note = why.filter(|_| refused > 0).map(|why| {
        format!(
            "{} of them will be refused, for example: {why}.",
            view::number(refused)
        )
    });
    Ok(Plan {
        matched: usize::try_from(matched).unwrap_or(usize::MAX),
        is_more: !cursor.is_null(),
        note,
        rows: html! {},
    })
}

pub(super) async fn begin(State(app): State<Shared>, sent: Sent) -> Shown {
    let visitor = &sent.visitor;
    let begun = || {
        require(visitor, Scope::Operate)?;
        let reason = sent.required("reason", "the reason")?;
        let what = sent.text("do").and_then(What::read);
        let what = what.ok_or_else(|| Problem::request("the form does not say what to do"))?;
        let filter = filter_of(&sent.others(&OWN));
        app.console.jobs.begin(&app, visitor, what, filter, reason)
    };
    let id = begun().map_err(|problem| PageProblem::from(problem).to(visitor))?;
    Ok(Redirect::to(&format!("/jobs/{id}")).into_response())
}

pub(super) async fn progress(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(id): Path<u64>,
) -> Shown {
    let job = app.console.jobs.find(id, &visitor);
    let missing = || Problem::not_found("there is no such job; jobs end with their process");
    let job = job.ok_or_else(|| PageProblem::from(missing()).to(&visitor))?;
    let frame = Page {
        visitor: &visitor,
        title: job.what.title(),
        here: job.what.back(),
        panels: &app.panels(&visitor),
        is_live: !job.is_over(),
    };
    Ok(frame.show(show_job(&visitor, &job, id)))
}

fn show_job(visitor: &Visitor, job: &Job, id: u64) -> Markup {
    let (done, refused, looked_at) = job.figures();
    let outcome = job.outcome();
    html! {
        div class="head" { h1 { (job.what.title()) ": " (if outcome.is_some() { "ended" } else { "running" }) } }
        @if outcome.is_none() { progress aria-label="Progress" {} }
        p class="lead" role="status" {
            (view::number(done)) " " (job.what.done()) ", " (view::number(refused)) " refused"
            @if let Some(outcome) = &outcome { ". " (outcome) }
        }
        (view::facts(&[
            ("By", Some(html! { (job.by) })),
            ("Reason", Some(html! { (job.reason) })),
            ("Looked at", Some(html! { (view::number(looked_at)) })),
            ("Last refusal", job.refusal().map(|why| html! { (why) })),
        ]))
        @if outcome.is_none() {
            form class="inline" method="post" action={ "/jobs/" (id) "/stop" } {
                (token(visitor)) button type="submit" { "Stop" }
            }
            noscript { p { a href={ "/jobs/" (id) } { "Refresh" } } }
        } @else {
            p { a href=(job.what.back()) { "Go back" } }
        }
    }
}

pub(super) async fn stop(State(app): State<Shared>, Path(id): Path<u64>, sent: Sent) -> Shown {
    if let Some(job) = app.console.jobs.find(id, &sent.visitor) {
        job.stop();
    }
    Ok(Redirect::to(&format!("/jobs/{id}")).into_response())
}
