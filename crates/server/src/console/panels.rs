//! Pages of applications.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};
use clinch_core::ports::Scope;
use maud::{Markup, html};

use super::form::Sent;
use super::gate::{Visitor, require};
use super::page::{Page, PageProblem, Shown, token};
use super::view;
use crate::api::{App, Problem, Shared};
use crate::panel::{Panel, PanelAction, PanelCell, PanelMark, PanelPage, PanelSection};

impl App {
    /// Pages of applications that the visitor may see: title and path.
    pub(super) fn panels(&self, visitor: &Visitor) -> Vec<(String, String)> {
        let allowed = visitor.caller.restriction();
        let panels = self.console.pages.iter();
        let panels = panels.filter(|(domain, _)| allowed.allows_all_of(domain));
        let entry = |(domain, panel): &(&'static str, std::sync::Arc<dyn Panel>)| {
            (panel.title().to_owned(), format!("/apps/{domain}"))
        };
        panels.map(entry).collect()
    }

    fn panel(&self, visitor: &Visitor, domain: &str) -> Result<&dyn Panel, Problem> {
        let allowed = visitor.caller.restriction();
        let mut panels = self.console.pages.iter();
        let found = panels.find(|(of, _)| *of == domain && allowed.allows_all_of(of));
        let missing = || Problem::not_found("there is nothing at this path");
        found.map(|(_, panel)| &**panel).ok_or_else(missing)
    }
}

pub(super) async fn first(app: State<Shared>, visitor: Visitor, domain: Path<String>) -> Shown {
    get(app, visitor, Path((domain.0, String::new()))).await
}

pub(super) async fn get(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((domain, path)): Path<(String, String)>,
) -> Shown {
    let read = async { Ok(app.panel(&visitor, &domain)?.page(&path).await?) };
    let read: Result<PanelPage, PageProblem> = read.await;
    let page = read.map_err(|problem| problem.to(&visitor))?;
    let here = format!("/apps/{domain}");
    let body = html! {
        div class="head" { h1 { (page.title) } }
        @if !page.lead.is_empty() { p class="lead" { (page.lead) } }
        @if !page.actions.is_empty() && visitor.may(Scope::Operate) {
            div class="card" { @for one in &page.actions { (action(&visitor, &domain, &path, one)) } }
        }
        @for (i, one) in page.sections.iter().enumerate() { (section(one, i)) }
    };
    let frame = Page {
        visitor: &visitor,
        title: &page.title,
        here: &here,
        panels: &app.panels(&visitor),
        is_live: true,
    };
    Ok(frame.show(body))
}

fn action(visitor: &Visitor, domain: &str, path: &str, one: &PanelAction) -> Markup {
    let field = format!("why-{}", one.name);
    html! {
        details class="act" {
            summary { (one.title) }
            p class="muted" { (one.what) }
            form class="inline" method="post" action={ "/apps/" (domain) } {
                (token(visitor))
                input type="hidden" name="path" value=(path);
                input type="hidden" name="action" value=(one.name);
                label for=(field) { "Reason" }
                input id=(field) name="reason" required maxlength="200" autocomplete="off";
                button class="main" type="submit" { (one.title) }
            }
        }
    }
}

fn section(one: &PanelSection, number: usize) -> Markup {
    let id = format!("s-{number}");
    html! {
        section class="card" aria-labelledby=(id) {
            h2 id=(id) { (one.title) }
            @if one.rows.is_empty() { p class="muted" { (one.empty) } }
            @else {
                div class="scroll" tabindex="0" role="region" aria-labelledby=(id) {
                    table class="rows" {
                        thead { tr { @for column in &one.columns { th scope="col" { (column) } } } }
                        tbody {
                            @for row in &one.rows {
                                tr { @for (cell, column) in row.iter().zip(&one.columns) { td data-label=(column) { (show(cell)) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn show(cell: &PanelCell) -> Markup {
    let marked = cell.mark.map(|mark| match mark {
        PanelMark::Good => view::badge("ok", "✓", &cell.text),
        PanelMark::Bad => view::badge("bad", "✕", &cell.text),
        PanelMark::Waiting => view::badge("waiting", "◔", &cell.text),
        PanelMark::Running => view::badge("running", "▶", &cell.text),
    });
    // A link of an application stays on this server.
    let link = cell
        .link
        .as_deref()
        .filter(|link| link.starts_with('/') && !link.starts_with("//"));
    match (marked, link) {
        (Some(marked), _) => marked,
        (None, Some(link)) => html! { a href=(link) { (cell.text) } },
        (None, None) => html! { span { (cell.text) } },
    }
}

pub(super) async fn act(
    State(app): State<Shared>,
    Path(domain): Path<String>,
    sent: Sent,
) -> Shown {
    let visitor = &sent.visitor;
    let path = sent.text("path").unwrap_or_default();
    let done = async {
        require(visitor, Scope::Operate)?;
        let reason = sent.required("reason", "the reason")?;
        let action = sent.required("action", "what to do")?;
        let panel = app.panel(visitor, &domain)?;
        panel
            .act(path, action, reason)
            .await
            .map_err(Problem::from)?;
        let by = visitor.caller.name();
        tracing::info!(target: "clinch", by, domain, action, "done in the console");
        Ok::<_, Problem>(())
    };
    let to = |problem: Problem| PageProblem::from(problem).to(visitor);
    done.await.map_err(to)?;
    let back = format!("/apps/{domain}/{path}");
    Ok(Redirect::to(back.trim_end_matches('/')).into_response())
}
