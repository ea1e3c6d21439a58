//! Signing in with an API key, and out.

use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, RequestExt};
use clinch_core::ports::Scope;
use maud::html;
use serde::Deserialize;

use super::form::Sent;
use super::gate::{address, is_own_form, token};
use super::page;
use super::session::{COOKIE, LASTS, Token};
use crate::api::{Problem, Shared, secs};

/// Where to go after signing in.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Next {
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SignIn {
    key: String,
    next: Option<String>,
}

/// A path of this server: never another host.
fn own_path(next: Option<&str>) -> &str {
    let is_own = |next: &&str| {
        let mut chars = next.chars();
        let starts = chars.next() == Some('/') && !matches!(chars.next(), Some('/' | '\\'));
        starts && !next.chars().any(|c| c.is_control() || c == '\\')
    };
    next.filter(is_own).unwrap_or("/")
}

fn form(status: StatusCode, next: &str, wrong: Option<&str>) -> Response {
    let body = html! {
        h1 { "Sign in" }
        @if let Some(wrong) = wrong {
            p class="note bad" role="alert" id="wrong" { (wrong) }
        }
        form class="stack" method="post" action="/sign-in" {
            input type="hidden" name="next" value=(next);
            label for="key" { "API key" }
            input id="key" name="key" type="password" required autofocus autocomplete="current-password"
                spellcheck="false" placeholder="clk_…" aria-describedby=[wrong.map(|_| "wrong")];
            button class="main" type="submit" { "Sign in" }
        }
        p class="muted" {
            "A key with the scope read looks; operate also acts. Create one on the server: "
            code { "clinch keys create NAME --scopes operate" }
        }
    };
    page::bare(status, "Sign in", &body)
}

pub(super) async fn show(State(app): State<Shared>, Query(query): Query<Next>) -> Response {
    let next = own_path(query.next.as_deref());
    match app.authenticator.is_locked().await {
        // Without keys there is nothing to sign in to.
        Ok(false) => Redirect::to(next).into_response(),
        _ => form(StatusCode::OK, next, None),
    }
}

pub(super) async fn sign_in(State(app): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_own_form(&parts.headers) {
        let problem = Problem::forbidden("this form did not come from a page of this server");
        return page::problem(None, &problem);
    }
    let from = address(&parts);
    if let Some(pause) = app.console.sessions.pause(from) {
        let wait = secs(pause);
        let wrong = format!("Too many wrong keys. Try again in {wait} seconds.");
        let mut response = form(StatusCode::TOO_MANY_REQUESTS, "/", Some(&wrong));
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(wait));
        return response;
    }
    let request = Request::from_parts(parts, body);
    let Ok(Form(sent)) = request.extract::<Form<SignIn>, _>().await else {
        let problem = Problem::request("the form cannot be read");
        return page::problem(None, &problem);
    };
    let next = own_path(sent.next.as_deref());
    let found = app.authenticator.check_secret(sent.key.trim()).await;
    let caller = match found {
        Ok(Some(caller)) if caller.has(Scope::Read) => caller,
        Ok(Some(_)) => {
            let wrong = "This key may not look at operations: it needs the scope read.";
            return form(StatusCode::FORBIDDEN, next, Some(wrong));
        }
        Ok(None) => {
            app.console.sessions.failed(from);
            tracing::warn!(target: "clinch", address = ?from, "sign-in refused: unknown key");
            let wrong = "This key is unknown, revoked or expired.";
            return form(StatusCode::UNAUTHORIZED, next, Some(wrong));
        }
        Err(problem) => return page::problem(None, &problem),
    };
    let Some(key) = caller.key_hash() else {
        return Redirect::to(next).into_response();
    };
    match app.console.sessions.begin(key).await {
        Ok(session) => {
            app.console.sessions.succeeded(from);
            let by = caller.name();
            tracing::info!(target: "clinch", by, "signed in");
            let cookie = cookie(session.reveal(), LASTS.as_secs(), app.is_https());
            ([(header::SET_COOKIE, cookie)], Redirect::to(next)).into_response()
        }
        Err(error) => page::problem(None, &Problem::from(error)),
    }
}

pub(super) async fn sign_out(
    State(app): State<Shared>,
    headers: axum::http::HeaderMap,
    _sent: Sent,
) -> Response {
    let session: Option<Token> = token(&headers);
    if let Some(session) = session
        && let Err(error) = app.console.sessions.end(&session).await
    {
        return page::problem(None, &Problem::from(error));
    }
    let gone = cookie("", 0, app.is_https());
    ([(header::SET_COOKIE, gone)], Redirect::to("/sign-in")).into_response()
}

/// `Lax`: a link in a chat opens the page, and a form of another site is sent without the cookie.
fn cookie(value: &str, secs: u64, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/; Max-Age={secs}; HttpOnly; SameSite=Lax{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_signing_in_leads_to_this_server_only() {
        assert_eq!(
            own_path(Some("/operations?state=FAILED")),
            "/operations?state=FAILED"
        );
        for strange in [
            "//evil.example",
            "https://evil.example",
            "/\\evil",
            "",
            "/a\nb",
        ] {
            assert_eq!(own_path(Some(strange)), "/", "{strange}");
        }
    }

    #[test]
    fn core_16_the_cookie_is_for_this_server_and_not_for_scripts() {
        let cookie = cookie("t", 5, true);
        for part in ["HttpOnly", "SameSite=Lax", "Secure", "Path=/", "Max-Age=5"] {
            assert!(cookie.contains(part), "{part}");
        }
    }
}
