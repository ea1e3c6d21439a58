//! Who looks at a page, and what every page of the console sends along.
//!
//! While the server has no API keys, a page is for people on this machine, as the API is. From the
//! first key on a person signs in with a key. A page shows and does what the key allows: the same
//! scopes, domains and event types as in the API.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use clinch_core::ports::Scope;
use futures_util::FutureExt;

use super::page;
use super::session::{COOKIE, Token};
use crate::api::{Caller, Problem, Shared, check_host, drop_refused};
use crate::connections::{Admission, Peer};

/// What a page may load and where its forms may go: this server only, no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The person who looks at a page.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) caller: Caller,
    /// Stands in every form of the visitor's pages.
    pub(crate) csrf: String,
    /// Whether the visitor signed in: a server without keys has no sign-in.
    pub(crate) is_signed_in: bool,
}

impl Visitor {
    /// Whether the visitor may do what needs this scope.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.caller.has(scope)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Problem;

    /// Fails closed: without the gate no page is shown.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let visitor = parts.extensions.get::<Self>().cloned();
        visitor.ok_or_else(Problem::internal)
    }
}

/// Why a request gets no page.
enum Turned {
    /// Nobody is signed in.
    Away,
    /// The page says why.
    Down(Problem),
}

impl From<Problem> for Turned {
    fn from(problem: Problem) -> Self {
        Self::Down(problem)
    }
}

/// The address of the caller, as far as the connection knows it.
pub(super) fn address(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<Peer>().map(|peer| peer.0)
}

/// The session token of the request's cookie.
pub(super) fn token(headers: &HeaderMap) -> Option<Token> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let texts = cookies.filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then(|| Token::read(value))?
    })
}

async fn visitor(app: &Shared, parts: &Parts) -> Result<Visitor, Turned> {
    let authenticator = &app.authenticator;
    if !authenticator.is_locked().await? {
        check_host(parts)?;
        return Ok(Visitor {
            caller: Caller::of_this_machine(),
            csrf: app.console.sessions.keyless_csrf(),
            is_signed_in: false,
        });
    }
    let token = token(&parts.headers).ok_or(Turned::Away)?;
    let key = app
        .console
        .sessions
        .key_of(&token)
        .await
        .map_err(Problem::from)?;
    let key = key.ok_or(Turned::Away)?;
    let caller = authenticator.holder(key).await?.ok_or(Turned::Away)?;
    if !caller.has(Scope::Read) {
        return Err(Turned::Away);
    }
    Ok(Visitor {
        caller,
        csrf: token.csrf(),
        is_signed_in: true,
    })
}

/// The middleware of every page that needs a visitor.
pub(super) async fn check(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let turned = match visitor(&app, &parts).await {
        Ok(visitor) => {
            if let Some(admission) = parts.extensions.get::<Admission>() {
                admission.grant();
            }
            let caller = visitor.caller.clone();
            parts.extensions.insert(visitor);
            let answer = next.run(Request::from_parts(parts, body));
            let answered = app.authenticator.while_authorized(caller, answer).await;
            return answered.unwrap_or_else(|_| Redirect::to("/sign-in").into_response());
        }
        Err(turned) => turned,
    };
    drop_refused(body).await;
    match turned {
        Turned::Away if is_read => {
            let path = parts.uri.path_and_query();
            let path = path.map_or("/", |path| path.as_str());
            let next = super::link("/sign-in", &[("next", path)]);
            Redirect::to(&next).into_response()
        }
        Turned::Away => page::problem(
            None,
            &Problem::unauthenticated("you are signed out; sign in and try again"),
        ),
        Turned::Down(problem) => page::problem(None, &problem),
    }
}

/// Whether a form came from a page of this server: its `Origin` names the host that it was sent to.
pub(super) fn is_own_form(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST);
    match text(header::ORIGIN) {
        Some(origin) => {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority.is_some() && authority == host
        }
        None => text(header::HeaderName::from_static("sec-fetch-site")) == Some("same-origin"),
    }
}

/// Headers of every answer of the console. A visitor gets a page even if a handler panics; the
/// panic's message is not logged, since it may quote a payload.
pub(super) async fn with_headers(request: Request, next: Next) -> Response {
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| {
        tracing::error!(target: "clinch", "a page of the console panicked");
        page::problem(None, &Problem::internal())
    });
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: browsers then send forms with `Origin: null`.
        (header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Refuses what the visitor's scopes do not allow.
pub(crate) fn require(visitor: &Visitor, scope: Scope) -> Result<(), Problem> {
    match visitor.may(scope) {
        true => Ok(()),
        false => {
            let status = StatusCode::FORBIDDEN;
            let detail = format!("this needs a key with the scope {}", scope.as_str());
            Err(Problem::new(status, "forbidden", detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                header::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn core_16_only_forms_of_this_server_are_taken() {
        let own = [
            ("host", "c.example:7070"),
            ("origin", "https://c.example:7070"),
        ];
        assert!(is_own_form(&headers(&own)));
        let fetched = [("host", "c.example"), ("sec-fetch-site", "same-origin")];
        assert!(is_own_form(&headers(&fetched)));
        for strange in [
            vec![("host", "c.example")],
            vec![("host", "c.example"), ("origin", "null")],
            vec![("host", "c.example"), ("origin", "https://evil.example")],
            vec![("host", "c.example"), ("origin", "https://c.example.evil")],
            vec![("host", "c.example"), ("sec-fetch-site", "same-site")],
            vec![("origin", "https://c.example")],
        ] {
            assert!(!is_own_form(&headers(&strange)), "{strange:?}");
        }
    }

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let token = "a".repeat(64);
        let cookies = format!("theme=dark; clinch_session={token}; x=1");
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, cookies.parse().expect("a header"));
        let found = super::token(&headers).expect("a token");
        assert_eq!(found.reveal(), token);
        headers.insert(header::COOKIE, HeaderValue::from_static("clinch_session=1"));
        assert!(super::token(&headers).is_none());
    }
}
