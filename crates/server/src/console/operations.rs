//! The list of operations, with its filters in the address.

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect};
use clinch_core::Timestamp;
use clinch_core::ports::{Operation, Scope};
use maud::{Markup, html};

use super::gate::Visitor;
use super::page::{Page, Shown};
use super::{link, view};
use crate::api::{App, HoldDocument, Problem, Shared, find_operations};
use crate::config::Span;

/// Operations of one page.
const PAGE: usize = 50;

/// Fields of the filter form: name, label, and what it looks like.
const FIELDS: [(&str, &str, Field); 13] = [
    (
        "state",
        "State",
        Field::OneOf(&["PENDING", "IN_PROGRESS", "COMPLETED", "FAILED"]),
    ),
    ("phase", "Phase", Field::OneOf(&["live", "waiting", "held"])),
    ("domain", "Domain", Field::Domain),
    ("event_type", "Event type", Field::Text("")),
    ("biz_key", "Business key", Field::Text("")),
    ("idem_key", "Idempotency key", Field::Text("")),
    ("provider_txn_id", "Provider transaction", Field::Text("")),
    ("destination", "Destination", Field::Text("")),
    ("code", "Error code", Field::Text("")),
    ("label", "Label", Field::Text("name=value")),
    ("batch_id", "Batch", Field::Text("")),
    (
        "from",
        "Accepted from",
        Field::Text("1h, or 2026-11-18T03:00Z"),
    ),
    ("to", "Accepted before", Field::Text("10m")),
];

/// Fields that most searches need; the others are folded away.
const FIRST: usize = 5;

#[derive(Clone, Copy)]
enum Field {
    Text(&'static str),
    OneOf(&'static [&'static str]),
    Domain,
}

type Pairs = Vec<(String, String)>;

/// A filter as it stands in the address.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Without the cursor and without empty values.
    pub(super) pairs: Pairs,
    pub(super) cursor: Option<String>,
}

impl Asked {
    pub(super) fn of(pairs: Pairs) -> Self {
        let (cursor, mut pairs): (Pairs, Pairs) =
            pairs.into_iter().partition(|(name, _)| name == "cursor");
        pairs.retain(|(_, value)| !value.trim().is_empty());
        let mut cursor = cursor.into_iter().map(|(_, value)| value).rev();
        Self {
            pairs,
            cursor: cursor.find(|value| !value.is_empty()),
        }
    }

    pub(super) fn value(&self, name: &str) -> &str {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub(super) fn path(&self, path: &str, more: &[(&str, &str)]) -> String {
        let pairs = self.pairs.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let pairs: Vec<(&str, &str)> = pairs.chain(more.iter().copied()).collect();
        link(path, &pairs)
    }

    /// The pairs as the API reads them: a duration such as `1h` counts back from now.
    pub(super) fn for_api(&self, now: Timestamp) -> Pairs {
        let read = |(name, value): &(String, String)| {
            let value = value.trim();
            let back = match name.as_str() {
                "from" | "to" => value.parse::<Span>().ok(),
                _ => None,
            };
            let value = back.map_or_else(|| value.to_owned(), |back| view::iso(now - back.0));
            (name.clone(), value)
        };
        self.pairs.iter().map(read).collect()
    }
}

pub(super) async fn list(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(pairs): Query<Pairs>,
) -> Shown {
    let asked = Asked::of(pairs);
    let shown = show(&app, &visitor, &asked).await;
    shown.map_err(|problem| problem.to(&visitor))
}

async fn show(app: &App, visitor: &Visitor, asked: &Asked) -> Shown {
    let now = app.now().await?;
    let cursor = asked.cursor.clone();
    let page = find_operations(app, &visitor.caller, asked.for_api(now), cursor, PAGE).await;
    let (page, wrong) = match page {
        Ok(page) => (Some(page), None),
        Err(problem) if problem.status.is_client_error() => (None, Some(problem)),
        Err(problem) => return Err(problem.into()),
    };
    let domains = app.domain_names(&visitor.caller).await?;
    let is_narrow = !asked.pairs.is_empty();
    let body = html! {
        div class="head" {
            h1 { "Operations" }
            @if visitor.may(Scope::Operate) && is_narrow {
                (bulk_links(asked))
            }
        }
        (filter_form(asked, &domains))
        @if let Some(problem) = &wrong { (refused(problem)) }
        @if let Some(page) = &page {
            (table(&page.items, now))
            (more(asked, page.next_cursor.as_deref(), page.items.len()))
        }
    };
    let frame = Page {
        visitor,
        title: "Operations",
        here: "/operations",
        panels: &app.panels(visitor),
        is_live: asked.cursor.is_none(),
    };
    Ok(frame.show(body))
}

fn refused(problem: &Problem) -> Markup {
    html! { p class="note bad" role="alert" { "The filter cannot be read: " (problem.detail) "." } }
}

fn bulk_links(asked: &Asked) -> Markup {
    html! {
        p class="acts" {
            "All that match: "
            a href=(asked.path("/bulk", &[("do", "cancel")])) { "cancel…" } " "
            a href=(asked.path("/bulk", &[("do", "retry-now")])) { "retry now…" }
        }
    }
}

fn filter_form(asked: &Asked, domains: &[String]) -> Markup {
    let (first, rest) = FIELDS.split_at(FIRST);
    let is_open = rest.iter().any(|(name, ..)| !asked.value(name).is_empty());
    html! {
        form class="filter" method="get" action="/operations" {
            @for (name, label, field) in first { (field_of(asked, domains, name, label, *field)) }
            details class="rest" open[is_open] {
                summary { "More filters" }
                div class="fields" {
                    @for (name, label, field) in rest { (field_of(asked, domains, name, label, *field)) }
                }
            }
            div class="go" {
                button class="main" type="submit" { "Filter" }
                @if !asked.pairs.is_empty() { a href="/operations" { "Clear" } }
            }
        }
    }
}

fn field_of(asked: &Asked, domains: &[String], name: &str, label: &str, field: Field) -> Markup {
    let value = asked.value(name);
    let id = format!("f-{name}");
    let choices: Vec<&str> = match field {
        Field::Text(_) => Vec::new(),
        Field::OneOf(choices) => choices.to_vec(),
        Field::Domain => domains.iter().map(String::as_str).collect(),
    };
    let is_unknown = !value.is_empty() && !choices.contains(&value);
    html! {
        div class="field" {
            label for=(id) { (label) }
            @match field {
                Field::Text(hint) => {
                    input id=(id) name=(name) value=(value) placeholder=(hint) autocomplete="off";
                }
                Field::OneOf(_) | Field::Domain => {
                    select id=(id) name=(name) {
                        option value="" { "any" }
                        @if is_unknown { option value=(value) selected { (value) } }
                        @for choice in &choices {
                            option value=(choice) selected[*choice == value] { (choice) }
                        }
                    }
                }
            }
        }
    }
}

/// The table of operations.
pub(super) fn table(rows: &[(Operation, Option<HoldDocument>)], now: Timestamp) -> Markup {
    if rows.is_empty() {
        let to_do = html! { "Change the filter, or submit an operation with " code { "clinch submit" } "." };
        return view::empty("No operation matches.", &to_do);
    }
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Operations" {
            table class="rows" {
                thead { tr {
                    th scope="col" { "State" } th scope="col" { "Operation" }
                    th scope="col" { "Domain / type" } th scope="col" { "Business key" }
                    th scope="col" { "Why, last error" } th scope="col" class="num" { "Attempts" }
                    th scope="col" { "Accepted" }
                } }
                tbody {
                    @for (row, hold) in rows { (line(row, hold.as_ref(), now)) }
                }
            }
        }
    }
}

fn line(row: &Operation, hold: Option<&HoldDocument>, now: Timestamp) -> Markup {
    let keys = &row.keys;
    html! {
        tr {
            td data-label="State" { (view::state(row.state.status, row.state.phase)) }
            td data-label="Operation" { (view::id_link(row.op_id)) }
            td data-label="Domain / type" { (keys.domain) span class="muted" { " / " } (keys.event_type) }
            td data-label="Business key" class="key" { (keys.biz_key) }
            td data-label="Why" class="why" { (reason(row, hold)) }
            td data-label="Attempts" class="num" { (row.state.attempts) }
            td data-label="Accepted" { (view::time(row.accepted_at, now)) }
        }
    }
}

/// Why it is not running, and the last error.
fn reason(row: &Operation, hold: Option<&HoldDocument>) -> Markup {
    let failure = row.state.failure.as_ref();
    html! {
        @if let Some(hold) = hold { span { (view::why(hold)) } }
        @if let Some(failure) = failure {
            span { (view::error(&failure.code, &failure.message)) }
        } @else if let Some(error) = &row.state.last_error {
            span { @if hold.is_some() { "; " } (view::error(&error.code, &error.message)) }
        }
    }
}

/// The link to the next page.
fn more(asked: &Asked, next: Option<&str>, shown: usize) -> Markup {
    html! {
        nav class="pages" aria-label="Pages" {
            @if asked.cursor.is_some() { a href=(asked.path("/operations", &[])) { "First page" } }
            @if let Some(next) = next {
                @if shown == 0 { span class="muted" { "Nothing among the operations looked at so far. " } }
                a rel="next" href=(asked.path("/operations", &[("cursor", next)])) { "Older" }
            }
        }
    }
}

/// What somebody typed into the search field: an id leads to its operation, other text is a
/// business key.
#[derive(serde::Deserialize)]
pub(super) struct Find {
    q: Option<String>,
}

pub(super) async fn find(Query(find): Query<Find>) -> impl IntoResponse {
    let text = find.q.unwrap_or_default();
    let text = text.trim();
    let hex = text.bytes().filter(|byte| *byte != b'-');
    let is_id = hex.clone().count() >= 8 && hex.clone().all(|byte| byte.is_ascii_hexdigit());
    let path = match (text.is_empty(), is_id) {
        (true, _) => "/operations".to_owned(),
        (false, true) => format!("/operations/{text}"),
        (false, false) => link("/operations", &[("biz_key", text)]),
    };
    Redirect::to(&path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Asked {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Asked::of(pairs.iter().map(pair).collect())
    }

    #[test]
    fn a_filter_is_a_link_and_comes_back() {
        let asked = asked(&[("biz_key", "a&b=c"), ("state", ""), ("cursor", "7")]);
        assert_eq!(asked.pairs.len(), 1);
        assert_eq!(asked.cursor.as_deref(), Some("7"));
        let path = asked.path("/operations", &[("cursor", "8")]);
        assert_eq!(path, "/operations?biz_key=a%26b%3Dc&cursor=8");
    }

    #[test]
    fn durations_count_back_from_now() {
        let now = Timestamp::from_millis(1_794_729_600_000);
        let pairs = asked(&[("from", "1h"), ("to", "2026-11-15T08:00:00Z")]).for_api(now);
        let hour_ago = view::iso(now - Duration::from_secs(3_600));
        assert_eq!(pairs[0], ("from".to_owned(), hour_ago));
        assert_eq!(pairs[1].1, "2026-11-15T08:00:00Z");
    }
}
