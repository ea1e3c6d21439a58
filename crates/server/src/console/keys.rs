//! API keys with their scopes. Secrets are not stored, so no page can show one.

use axum::extract::State;
use clinch_core::Timestamp;
use clinch_core::ports::{ApiKey, Scope};
use maud::{Markup, html};

use super::gate::{Visitor, require};
use super::page::{Page, PageProblem, Shown};
use super::view;
use crate::api::{App, Shared};

/// Keys that the page shows, the newest first.
const KEYS_MAX: usize = 500;

pub(super) async fn list(State(app): State<Shared>, visitor: Visitor) -> Shown {
    let shown = show(&app, &visitor).await;
    shown.map_err(|problem| problem.to(&visitor))
}

async fn show(app: &App, visitor: &Visitor) -> Shown {
    require(visitor, Scope::Admin).map_err(PageProblem::from)?;
    let keys = app.authenticator.keys().await?;
    let now = app.now().await?;
    let body = html! {
        div class="head" { h1 { "API keys" } }
        @if keys.is_empty() {
            (view::empty("No key yet.", &html! {
                "Everyone on this machine may do everything. The first key ends that: "
                code { "clinch keys create NAME --scopes admin" }
            }))
        } @else {
            (table(&keys, now))
            p class="muted" {
                "Create and revoke keys on the server: " code { "clinch keys create|revoke" }
                ". A revoked key is refused within about two seconds."
            }
        }
    };
    let frame = Page {
        visitor,
        title: "API keys",
        here: "/keys",
        panels: &app.panels(visitor),
        is_live: false,
    };
    Ok(frame.show(body))
}

fn table(keys: &[ApiKey], now: Timestamp) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="API keys" {
            table class="rows" {
                thead { tr {
                    th scope="col" { "State" } th scope="col" { "Name" } th scope="col" { "Id" }
                    th scope="col" { "Scopes" } th scope="col" { "Domains" } th scope="col" { "Event types" }
                    th scope="col" { "Created" } th scope="col" { "Ends" }
                } }
                tbody { @for key in keys.iter().rev().take(KEYS_MAX) { (row(key, now)) } }
            }
        }
    }
}

fn row(key: &ApiKey, now: Timestamp) -> Markup {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let names = |names: Vec<&str>| match names.is_empty() {
        true => "all".to_owned(),
        false => names.join(", "),
    };
    let domains = key.domains.iter().map(|one| one.as_str()).collect();
    let types = key.event_types.iter().map(|one| one.as_str()).collect();
    html! {
        tr {
            td data-label="State" {
                @if key.revoked_at.is_some() { (view::badge("bad", "✕", "revoked")) }
                @else if key.is_active(now) { (view::badge("ok", "✓", "active")) }
                @else { (view::badge("waiting", "○", "expired")) }
            }
            td data-label="Name" { span { (key.name) } }
            td data-label="Id" { code { (key.id) } }
            td data-label="Scopes" { span { (scopes.join(", ")) } }
            td data-label="Domains" { span { (names(domains)) } }
            td data-label="Event types" { span { (names(types)) } }
            td data-label="Created" { (view::time(key.created_at, now)) }
            td data-label="Ends" {
                @match key.revoked_at.or(key.expires_at) {
                    Some(at) => (view::time(at, now)),
                    None => span class="muted" { "never" },
                }
            }
        }
    }
}
