//! What an operator sees first: what is wrong and what to do, then figures.

use axum::extract::State;
use clinch_core::Timestamp;
use maud::{Markup, html};

use super::chart::{self, Ended, Took};
use super::gate::Visitor;
use super::page::{Page, Shown};
use super::{destinations, link, view};
use crate::api::{
    App, DomainDocument, NodeDocument, OverviewDocument, Severity, Shared, Warning, read_time,
};

/// Domains with work that the page shows; the domains page has all.
const DOMAINS_MAX: usize = 12;

pub(super) async fn show(State(app): State<Shared>, visitor: Visitor) -> Shown {
    let overview = app.overview(&visitor.caller).await;
    Ok(page(&app, &visitor, &overview))
}

fn page(app: &App, visitor: &Visitor, overview: &OverviewDocument) -> axum::response::Response {
    let now = read_time(&overview.now).unwrap_or_else(|| app.clock.now());
    let body = html! {
        div class="head" {
            h1 { (headline(&overview.warnings)) }
            p class="muted" {
                "Clinch " (overview.version) " on " (overview.store) ", up for "
                (view::length(std::time::Duration::from_millis(overview.uptime_ms)))
            }
        }
        (warnings(&overview.warnings, now))
        (tiles(overview))
        div class="halves" {
            section class="card" aria-labelledby="h-ended" {
                h2 id="h-ended" { "Ended in the last hour" span class="muted" { " by this process" } }
                (chart::ended(&ended(overview)))
            }
            section class="card" aria-labelledby="h-took" {
                h2 id="h-took" { "Time from acceptance to the end" span class="muted" { " by this process" } }
                (chart::took(&took(overview)))
            }
        }
        (destinations_card(visitor, overview, now))
        div class="halves" {
            (domains_card(&overview.domains))
            @if !overview.nodes.is_empty() { (nodes_card(&overview.nodes, now)) }
        }
    };
    let frame = Page {
        visitor,
        title: "Overview",
        here: "/",
        panels: &app.panels(visitor),
        is_live: true,
    };
    frame.show(body)
}

fn headline(warnings: &[Warning]) -> Markup {
    let critical = warnings
        .iter()
        .filter(|one| one.severity == Severity::Critical)
        .count();
    match (warnings.len(), critical) {
        (0, _) => html! { "Overview " (view::badge("ok", "✓", "All is well")) },
        (1, 0) => html! { "Overview " (view::badge("waiting", "!", "1 thing to look at")) },
        (many, 0) => {
            let text = format!("{many} things to look at");
            html! { "Overview " (view::badge("waiting", "!", &text)) }
        }
        (_, 1) => html! { "Overview " (view::badge("bad", "✕", "1 thing needs you now")) },
        (_, many) => {
            let text = format!("{many} things need you now");
            html! { "Overview " (view::badge("bad", "✕", &text)) }
        }
    }
}

fn warnings(warnings: &[Warning], now: Timestamp) -> Markup {
    html! {
        @if !warnings.is_empty() {
            ul class="warnings" aria-label="Warnings" {
                @for warning in warnings {
                    @let is_critical = warning.severity == Severity::Critical;
                    li class=[is_critical.then_some("critical")] {
                        @if is_critical { (view::badge("bad", "✕", "critical")) }
                        @else { (view::badge("waiting", "!", "warning")) }
                        p { a href=(warning.link) { (super::page::sentence(&warning.message)) } }
                        p class="muted since" {
                            @if let Some(since) = warning.since.as_deref().and_then(read_time) {
                                "since " (view::moment(since, now))
                            }
                        }
                        p class="next" { "Next: " code { (warning.command) } }
                    }
                }
            }
        }
    }
}

fn tiles(overview: &OverviewDocument) -> Markup {
    let totals = &overview.operations;
    let tile = |name: &str, figure: String, sub: String, path: String, is_alert: bool| {
        let class = if is_alert { "tile alert" } else { "tile" };
        html! {
            li {
                a class=(class) href=(path) {
                    span class="name" { (name) }
                    span class="figure" { (figure) }
                    span class="sub" { (sub) }
                }
            }
        }
    };
    let of = |pairs: &[(&str, &str)]| link("/operations", pairs);
    let oldest = totals.oldest_due_ms.map(std::time::Duration::from_millis);
    let oldest_in = totals.oldest_due_domain.clone();
    html! {
        ul class="tiles" aria-label="Operations" {
            (tile("Pending", view::number(totals.pending), "accepted, not begun".into(), of(&[("state", "PENDING")]), false))
            (tile("Running", view::number(totals.live + totals.recorded), format!("{} waiting", view::number(totals.waiting)), of(&[("phase", "live")]), false))
            (tile("Held", view::number(totals.held), "effect unknown".into(), of(&[("phase", "held")]), totals.held > 0))
            (tile("Completed", view::number(totals.completed), "kept".into(), of(&[("state", "COMPLETED")]), false))
            (tile("Failed", view::number(totals.failed), "kept".into(), of(&[("state", "FAILED")]), false))
            (tile("Dead letters", view::number(overview.dead_letters_open), "open".into(), "/dead-letters".into(), overview.dead_letters_open > 0))
            (tile("Oldest due", oldest.map_or_else(|| "none".into(), view::length), oldest_in.unwrap_or_else(|| "nothing waits".into()), of(&[("phase", "waiting")]), false))
        }
    }
}

/// `08:15`
fn clock(at: Timestamp) -> String {
    view::iso(at).get(11..16).unwrap_or_default().to_owned()
}

/// The label of each minute.
fn labels(overview: &OverviewDocument) -> impl Iterator<Item = String> {
    let from = read_time(&overview.history.from);
    let minute = std::time::Duration::from_secs(60);
    (0_u32..).map(move |i| from.map_or_else(String::new, |from| clock(from + minute * i)))
}

fn ended(overview: &OverviewDocument) -> Vec<Ended> {
    let minutes = overview.history.minutes.iter();
    let ended = minutes.zip(labels(overview)).map(|(minute, label)| Ended {
        label,
        completed: minute.completed,
        failed: minute.failed,
    });
    ended.collect()
}

fn took(overview: &OverviewDocument) -> Vec<Took> {
    let minutes = overview.history.minutes.iter();
    let took = minutes.zip(labels(overview)).map(|(minute, label)| {
        let all = &minute.end_to_end;
        let percentiles = all.p50_ms.zip(all.p95_ms).zip(all.p99_ms);
        Took {
            label,
            percentiles: percentiles.map(|((p50, p95), p99)| [p50, p95, p99].map(|one| one as f64)),
        }
    });
    took.collect()
}

/// Destinations that are not well; one line if all are.
fn destinations_card(visitor: &Visitor, overview: &OverviewDocument, now: Timestamp) -> Markup {
    let troubled = overview.destinations.iter().filter(|one| one.state != "ok");
    let troubled: Vec<_> = troubled.collect();
    html! {
        section class="card" aria-labelledby="h-dest" {
            h2 id="h-dest" { "Destinations" }
            @if overview.destinations.is_empty() {
                p class="muted" { "No destination: this process makes no calls. Declare a " code { "[[route]]" } " in clinch.toml." }
            } @else if troubled.is_empty() {
                p class="muted" {
                    (view::badge("ok", "✓", "ok")) " "
                    @match overview.destinations.len() {
                        1 => "The destination takes calls.",
                        many => { "All " (many) " destinations take calls." }
                    }
                    " " a href="/destinations" { "See them" }
                }
            } @else {
                (destinations::table(visitor, &troubled, now, false))
                p { a href="/destinations" { "All destinations" } }
            }
        }
    }
}

fn domains_card(domains: &[DomainDocument]) -> Markup {
    let mut busy: Vec<&DomainDocument> = domains
        .iter()
        .filter(|one| one.counts.pending + one.counts.in_progress > 0 || one.paused)
        .collect();
    busy.sort_by_key(|one| std::cmp::Reverse(one.counts.pending + one.counts.in_progress));
    html! {
        section class="card" aria-labelledby="h-domains" {
            h2 id="h-domains" { "Domains with open work" }
            @if busy.is_empty() {
                p class="muted" { "Nothing is open. " a href="/domains" { "All domains" } }
            } @else {
                table {
                    thead { tr {
                        th scope="col" { "Domain" } th scope="col" class="num" { "Pending" }
                        th scope="col" class="num" { "Running" } th scope="col" class="num" { "Waiting" }
                        th scope="col" class="num" { "Held" } th scope="col" { "Oldest due" }
                    } }
                    tbody {
                        @for one in busy.iter().take(DOMAINS_MAX) {
                            tr {
                                td {
                                    a href=(link("/operations", &[("domain", one.domain.as_str())])) { (one.domain) }
                                    @if one.paused { " " (view::badge("waiting", "‖", "paused")) }
                                }
                                td class="num" { (view::number(one.counts.pending)) }
                                td class="num" { (view::number(one.counts.live)) }
                                td class="num" { (view::number(one.counts.waiting)) }
                                td class="num" { (view::number(one.counts.held)) }
                                td {
                                    @match one.oldest_age_ms {
                                        Some(age) => (view::length(std::time::Duration::from_millis(age))),
                                        None => span class="muted" { "none" },
                                    }
                                }
                            }
                        }
                    }
                }
                @if busy.len() > DOMAINS_MAX { p { a href="/domains" { "All " (busy.len()) " domains" } } }
            }
        }
    }
}

fn nodes_card(nodes: &[NodeDocument], now: Timestamp) -> Markup {
    html! {
        section class="card" aria-labelledby="h-nodes" {
            h2 id="h-nodes" { "Nodes" }
            table {
                thead { tr {
                    th scope="col" { "State" } th scope="col" { "Process" } th scope="col" { "Roles" }
                    th scope="col" { "Started" } th scope="col" { "Seen" }
                } }
                tbody {
                    @for node in nodes {
                        tr {
                            td {
                                @if node.alive { (view::badge("ok", "✓", "alive")) }
                                @else { (view::badge("bad", "✕", "lost")) }
                            }
                            td class="key" { (node.name) span class="muted" { " " (node.version) } }
                            td { (node.roles.join(", ")) }
                            td { @if let Some(at) = read_time(&node.started_at) { (view::time(at, now)) } }
                            td { @if let Some(at) = read_time(&node.seen_at) { (view::distance(at, now)) } }
                        }
                    }
                }
            }
        }
    }
}
