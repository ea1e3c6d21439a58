//! The frame of every page.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use clinch_core::ports::Scope;
use maud::{DOCTYPE, Markup, html};

use super::assets;
use super::form::CSRF;
use super::gate::Visitor;
use crate::api::Problem;

/// What a handler of the console answers.
pub(crate) type Shown = Result<Response, PageProblem>;

/// A problem, and the visitor whose page shows it.
pub(crate) struct PageProblem {
    visitor: Option<Visitor>,
    problem: Problem,
}

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        Self {
            visitor: None,
            problem,
        }
    }
}

impl From<clinch::Error> for PageProblem {
    fn from(error: clinch::Error) -> Self {
        Problem::from(error).into()
    }
}

impl PageProblem {
    /// Shows the navigation of the visitor around the problem.
    pub(crate) fn to(mut self, visitor: &Visitor) -> Self {
        self.visitor = Some(visitor.clone());
        self
    }
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        problem(self.visitor.as_ref(), &self.problem)
    }
}

/// Pages in the navigation: title, path, and the scope that a visitor needs to see it.
const PAGES: [(&str, &str, Scope); 6] = [
    ("Overview", "/", Scope::Read),
    ("Operations", "/operations", Scope::Read),
    ("Dead letters", "/dead-letters", Scope::Read),
    ("Destinations", "/destinations", Scope::Read),
    ("Domains", "/domains", Scope::Read),
    ("Keys", "/keys", Scope::Admin),
];

/// A page.
pub(crate) struct Page<'a> {
    pub(crate) visitor: &'a Visitor,
    pub(crate) title: &'a str,
    /// The path of its entry in the navigation.
    pub(crate) here: &'a str,
    /// Pages of applications: title and path.
    pub(crate) panels: &'a [(String, String)],
    /// Whether the page follows what happens.
    pub(crate) is_live: bool,
}

impl Page<'_> {
    pub(crate) fn show(&self, body: Markup) -> Response {
        self.show_as(StatusCode::OK, body)
    }

    pub(crate) fn show_as(&self, status: StatusCode, body: Markup) -> Response {
        let frame = html! {
            (DOCTYPE)
            html lang="en" {
                (head(self.title))
                body {
                    a class="skip" href="#main" { "Skip to content" }
                    header class="bar" {
                        a class="brand" href="/" { (assets::mark()) span { "Clinch" } }
                        (self.navigation())
                        (find())
                        (self.account())
                    }
                    main id="main" tabindex="-1" data-live[self.is_live] { (body) }
                    footer class="foot" {
                        span class="live" role="status" data-live-state { }
                        noscript { "Live updates need JavaScript; reload the page to see what is new." }
                    }
                }
            }
        };
        (status, Html(frame.into_string())).into_response()
    }

    fn navigation(&self) -> Markup {
        let is_here = |path: &str| (path == self.here).then_some("page");
        html! {
            nav class="nav" aria-label="Console" {
                ul {
                    @for (title, path, scope) in PAGES {
                        @if self.visitor.may(scope) {
                            li { a href=(path) aria-current=[is_here(path)] { (title) } }
                        }
                    }
                    @for (title, path) in self.panels {
                        li { a href=(path) aria-current=[is_here(path)] { (title) } }
                    }
                }
            }
        }
    }

    fn account(&self) -> Markup {
        html! {
            @if self.visitor.is_signed_in {
                form class="account" method="post" action="/sign-out" {
                    (token(self.visitor))
                    span class="who" title="Signed in as" { (self.visitor.caller.name()) }
                    button class="quiet" type="submit" { "Sign out" }
                }
            } @else {
                p class="account" title="The server has no API keys" { "this machine" }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Clinch" }
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href=(assets::path("console.css"));
            script src=(assets::path("console.js")) defer { }
        }
    }
}

fn find() -> Markup {
    html! {
        form class="find" method="get" action="/find" role="search" {
            label class="hidden" for="find" { "Operation id or business key" }
            input id="find" name="q" type="search" placeholder="Id or business key"
                autocomplete="off" spellcheck="false";
        }
    }
}

/// The hidden field of every form.
pub(crate) fn token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(CSRF) value=(visitor.csrf); }
}

/// A page without navigation, for people who are not signed in.
pub(super) fn bare(status: StatusCode, title: &str, body: &Markup) -> Response {
    let frame = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body class="bare" {
                main id="main" {
                    p class="brand" { (assets::mark()) span { "Clinch" } }
                    (body)
                }
            }
        }
    };
    (status, Html(frame.into_string())).into_response()
}

/// A page that says what went wrong and what to do.
pub(super) fn problem(visitor: Option<&Visitor>, problem: &Problem) -> Response {
    let title = match problem.status.as_u16() {
        404 => "Not found",
        401 => "Signed out",
        403 => "Not allowed",
        400 | 409 | 413 | 422 => "That did not work",
        503 => "The store does not answer",
        _ => "Something went wrong",
    };
    let body = html! {
        h1 { (title) }
        p class="lead" { (sentence(&problem.detail)) }
        p { a href="/" { "Go to the overview" } " · " a href="/sign-in" { "Sign in" } }
        p class="muted" { "Code: " code { (problem.code) } }
    };
    match visitor {
        None => bare(problem.status, title, &body),
        Some(visitor) => {
            let page = Page {
                visitor,
                title,
                here: "",
                panels: &[],
                is_live: false,
            };
            page.show_as(problem.status, body)
        }
    }
}

/// A detail of the API as a sentence of its own.
pub(super) fn sentence(detail: &str) -> String {
    let mut chars = detail.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    let end = if detail.ends_with('.') { "" } else { "." };
    format!("{}{}{end}", first.unwrap_or_default(), chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_read_as_sentences() {
        assert_eq!(sentence("there is nothing"), "There is nothing.");
        assert_eq!(sentence(""), ".");
    }
}
