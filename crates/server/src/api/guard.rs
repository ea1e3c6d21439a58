//! Authentication and authorization of every request.
//!
//! Without any API key the server is for this machine only: it listens on loopback, and a request
//! must name a loopback host (so that no web page can rebind its own name to the server) and must
//! not come from another origin. From the first key on, every request needs a key, also after the
//! last key was revoked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clinch_core::ports::{ApiKey, ApiKeys, Clock, Scope};

use super::access::{self, Coverage, Needs};
use super::app::{Shared, drop_body};
use super::caller::Caller;
use super::problem::Problem;
use super::watch::WatchedRequests;
use crate::auth;
use crate::connections::Admission;

/// How long a key that was read is trusted: a revoked key is refused at most this much later.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// Bytes that are read from the body of a refused caller; a longer body ends with its connection.
const REFUSED_BYTES_MAX: usize = 64 * 1024;
/// The longest time for reading the body of a refused caller.
const REFUSED_WAIT: Duration = Duration::from_secs(1);
/// Keys that are cached at once.
const REMEMBERED_MAX: usize = 1_024;

pub(crate) struct Authenticator {
    pub(super) keys: Arc<dyn ApiKeys>,
    pub(super) clock: Arc<dyn Clock>,
    /// The store has keys: every request needs one.
    is_locked: AtomicBool,
    looked_at: Mutex<Option<Duration>>,
    remembered: Mutex<BTreeMap<[u8; 32], (ApiKey, Duration)>>,
    /// Requests in flight, by key.
    pub(super) watched: Mutex<WatchedRequests>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Authenticator {
    pub(crate) fn new(keys: Arc<dyn ApiKeys>, clock: Arc<dyn Clock>, is_locked: bool) -> Self {
        Self {
            keys,
            clock,
            is_locked: AtomicBool::new(is_locked),
            looked_at: Mutex::default(),
            remembered: Mutex::default(),
            watched: Mutex::default(),
        }
    }

    /// True from the first key on. Another process may create keys at any time.
    pub(crate) async fn is_locked(&self) -> Result<bool, Problem> {
        if self.is_locked.load(Ordering::SeqCst) {
            return Ok(true);
        }
        let now = self.clock.monotonic();
        let is_fresh = lock(&self.looked_at).is_some_and(|at| now.saturating_sub(at) < GOOD_FOR);
        if !is_fresh && !self.keys.list().await?.is_empty() {
            self.is_locked.store(true, Ordering::SeqCst);
            return Ok(true);
        }
        if !is_fresh {
            *lock(&self.looked_at) = Some(now);
        }
        Ok(false)
    }

    async fn find(&self, hash: [u8; 32]) -> Result<Option<ApiKey>, Problem> {
        let now = self.clock.monotonic();
        let fresh = |(key, at): &(ApiKey, Duration)| {
            (now.saturating_sub(*at) < GOOD_FOR).then(|| key.clone())
        };
        if let Some(key) = lock(&self.remembered).get(&hash).and_then(fresh) {
            return Ok(Some(key));
        }
        let found = self.keys.find(&[hash]).await?.into_iter().next().flatten();
        let found = found.filter(|key| auth::same(&key.hash, &hash));
        let mut remembered = lock(&self.remembered);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        match &found {
            Some(key) => remembered.insert(hash, (key.clone(), now)),
            None => remembered.remove(&hash),
        };
        Ok(found)
    }

    /// Every key, without its secret, the oldest first.
    pub(crate) async fn keys(&self) -> Result<Vec<ApiKey>, Problem> {
        Ok(self.keys.list().await?)
    }

    /// The caller with this key; `None`: the key is unknown, revoked or expired.
    pub(crate) async fn check_secret(&self, secret: &str) -> Result<Option<Caller>, Problem> {
        match auth::is_well_formed(secret) {
            true => self.holder(auth::hash(secret)).await,
            false => Ok(None),
        }
    }

    /// The caller whose key has this hash; `None`: the key is unknown, revoked or expired.
    pub(crate) async fn holder(&self, hash: [u8; 32]) -> Result<Option<Caller>, Problem> {
        let key = self.find(hash).await?;
        let key = key.filter(|key| key.is_active(self.clock.now()));
        Ok(key.as_ref().map(Caller::of))
    }

    async fn check_key(&self, needs: &Needs, headers: &HeaderMap) -> Result<Caller, Problem> {
        let secret = bearer(headers).ok_or_else(|| {
            Problem::unauthenticated("send an API key: Authorization: Bearer clk_…")
        })?;
        if !auth::is_well_formed(secret) {
            let detail = "this is not a complete API key";
            return Err(Problem::unauthenticated(detail));
        }
        let key = self.find(auth::hash(secret)).await?;
        let key = key.filter(|key| key.is_active(self.clock.now()));
        let unknown = || Problem::unauthenticated("the API key is unknown, revoked or expired");
        let key = key.ok_or_else(unknown)?;
        let covers = |wanted: &Scope| key.scopes.iter().any(|scope| scope.covers(*wanted));
        if !needs.scopes.iter().any(covers) {
            let names: Vec<&str> = needs.scopes.iter().map(|scope| scope.as_str()).collect();
            let names = names.join(" or ");
            return Err(Problem::forbidden(format!(
                "this needs a key with the scope {names}"
            )));
        }
        let allowed = key.restriction();
        let covers_it = match &needs.coverage {
            Coverage::Nothing => true,
            Coverage::Domain(domain) => allowed.allows_all_of(domain),
            Coverage::Everything => allowed.is_none(),
        };
        match covers_it {
            true => Ok(Caller::of(&key)),
            false => Err(Problem::not_found("there is nothing at this path")),
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Whether the host is loopback, with or without a port.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if is_port(port) => host,
            _ => return false,
        },
        None => match authority.split_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            Some(_) => return false,
            None => authority,
        },
    };
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "::1"
}

fn is_port(text: &str) -> bool {
    let port = text.strip_prefix(':').unwrap_or(text);
    port.bytes().all(|b| b.is_ascii_digit())
}

/// While there are no keys: allows programs on this machine only, and no web page of another origin.
pub(crate) fn check_host(request: &Parts) -> Result<(), Problem> {
    let headers = &request.headers;
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let target = request.uri.authority().map(|authority| authority.as_str());
    let all_loopback = host.is_some_and(is_loopback) && target.is_none_or(is_loopback);
    if !all_loopback || headers.get_all(header::HOST).iter().count() > 1 {
        let detail = "without API keys the server answers only localhost, 127.0.0.1 and [::1]; create a key with `clinch keys create`";
        return Err(Problem::forbidden(detail));
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        if origin.map(|(_, authority)| authority) != host {
            return Err(Problem::forbidden(
                "without API keys the server does not answer pages of another origin",
            ));
        }
    }
    Ok(())
}

/// Reads and drops the body of a refused caller.
pub(crate) async fn drop_refused(body: Body) {
    drop_body(body, REFUSED_BYTES_MAX, REFUSED_WAIT).await;
}

/// The middleware. Every request passes here, and handlers get their [`Caller`] from here.
pub(super) async fn check(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let route = parts.extensions.get::<MatchedPath>();
    let route = route.map(MatchedPath::as_str);
    let needs = access::needs(&parts.method, route, &app.applications);
    let is_public = needs.scopes.is_empty();
    let checked = match app.authenticator.is_locked().await {
        Ok(true) if is_public => Ok(None),
        Ok(true) => app
            .authenticator
            .check_key(&needs, &parts.headers)
            .await
            .map(Some),
        Ok(false) => check_host(&parts).map(|()| Some(Caller::of_this_machine())),
        // It is unknown whether there are keys: only routes that need no key are answered.
        Err(_) if is_public => check_host(&parts).map(|()| None),
        Err(problem) => Err(problem),
    };
    let caller = match checked {
        Ok(caller) => caller,
        Err(problem) => {
            drop_refused(body).await;
            return problem.into_response();
        }
    };
    let Some(caller) = caller.filter(|_| !is_public) else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    if let Some(admission) = parts.extensions.get::<Admission>() {
        admission.grant();
    }
    parts.extensions.insert(caller.clone());
    let answer = next.run(Request::from_parts(parts, body));
    let answered = app.authenticator.while_authorized(caller, answer).await;
    answered.unwrap_or_else(IntoResponse::into_response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_only_loopback_names_are_loopback() {
        for host in [
            "localhost",
            "LOCALHOST:7070",
            "127.0.0.1",
            "127.0.0.1:7070",
            "[::1]",
            "[::1]:7070",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "127.0.0.2",
            "localhost:80@evil",
            "[::1",
            "[::1]evil",
            "::1x",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
