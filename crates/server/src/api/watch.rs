//! Ends long polls and streams when their API key ends.
//!
//! One task checks the keys of all requests in flight with one read of the store, and runs only
//! while there is such a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use super::guard::{Authenticator, lock};
use super::problem::Problem;

/// How often keys are checked: a revoked key ends its requests at most this much later.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// A store that takes longer counts as not answering.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// A request ends too when its key could not be checked for this long.
const UNCHECKED_MAX: Duration = Duration::from_secs(10);

/// The hash of a caller's key; `None` while there are no keys.
type KeyHash = Option<[u8; 32]>;

/// Requests in flight, by key.
#[derive(Default)]
pub(super) struct WatchedRequests {
    is_running: bool,
    callers: BTreeMap<KeyHash, (usize, CancellationToken)>,
}

/// One request in flight.
struct WatchedRequest {
    authenticator: Arc<Authenticator>,
    caller: KeyHash,
    ended: CancellationToken,
}

impl WatchedRequest {
    fn take(authenticator: &Arc<Authenticator>, caller: KeyHash) -> Self {
        let mut watched = lock(&authenticator.watched);
        let (requests, ended) = watched.callers.entry(caller).or_default();
        *requests += 1;
        let ended = ended.clone();
        if !std::mem::replace(&mut watched.is_running, true) {
            tokio::spawn(check_keys(authenticator.clone()));
        }
        drop(watched);
        Self {
            authenticator: authenticator.clone(),
            caller,
            ended,
        }
    }
}

impl Drop for WatchedRequest {
    fn drop(&mut self) {
        let mut watched = lock(&self.authenticator.watched);
        if let Some((requests, _)) = watched.callers.get_mut(&self.caller) {
            *requests -= 1;
            if *requests == 0 {
                watched.callers.remove(&self.caller);
            }
        }
    }
}

impl Authenticator {
    /// Completes when the caller loses access: its key was revoked or expired, or the caller has no
    /// key and keys exist now.
    async fn ended(self: Arc<Self>, caller: Caller) {
        let request = WatchedRequest::take(&self, caller.key_hash());
        request.ended.cancelled().await;
    }

    /// The answer to a request, unless the caller loses access before.
    pub(crate) async fn while_authorized(
        self: &Arc<Self>,
        caller: Caller,
        answer: impl Future<Output = Response>,
    ) -> Result<Response, Problem> {
        let response = tokio::select! {
            biased;
            response = answer => response,
            () = self.clone().ended(caller.clone()) => return Err(self.why_ended(&caller).await),
        };
        let is_whole = response.body().size_hint().exact().is_some();
        if is_whole {
            return Ok(response);
        }
        let ended = self.clone().ended(caller);
        Ok(response.map(|body| Body::from_stream(body.into_data_stream().take_until(ended))))
    }

    /// The answer to a request that was ended. It is 503 if the store did not confirm that the key
    /// ended, so that the caller retries.
    async fn why_ended(&self, caller: &Caller) -> Problem {
        let callers = [caller.key_hash()];
        let check = tokio::time::timeout(CHECK_TIMEOUT, self.without_access(&callers)).await;
        match check {
            Ok(Ok(ended)) if !ended.is_empty() => {
                Problem::unauthenticated("the API key ended while the request waited")
            }
            _ => Problem::unavailable("the API key could not be checked while the request waited"),
        }
    }

    /// The callers that lost access.
    async fn without_access(&self, callers: &[KeyHash]) -> Result<Vec<KeyHash>, Problem> {
        let hashes: Vec<[u8; 32]> = callers.iter().copied().flatten().collect();
        let now = self.clock.now();
        let found = self.keys.find(&hashes).await?;
        let active = found
            .into_iter()
            .map(|key| key.is_some_and(|key| key.is_active(now)));
        let ended = hashes.iter().zip(active).filter(|(_, active)| !active);
        let mut ended: Vec<KeyHash> = ended.map(|(hash, _)| Some(*hash)).collect();
        if callers.contains(&None) && self.is_locked().await? {
            ended.push(None);
        }
        Ok(ended)
    }
}

async fn check_keys(authenticator: Arc<Authenticator>) {
    let mut checked_at = authenticator.clock.monotonic();
    loop {
        authenticator.clock.sleep(CHECK_EVERY).await;
        let callers: Vec<KeyHash> = {
            let mut watched = lock(&authenticator.watched);
            watched.is_running = !watched.callers.is_empty();
            if !watched.is_running {
                return;
            }
            watched.callers.keys().copied().collect()
        };
        let check = tokio::time::timeout(CHECK_TIMEOUT, authenticator.without_access(&callers));
        let ended = match check.await {
            Ok(Ok(ended)) => {
                checked_at = authenticator.clock.monotonic();
                ended
            }
            _ if authenticator.clock.monotonic().saturating_sub(checked_at) >= UNCHECKED_MAX => {
                callers
            }
            _ => continue,
        };
        let watched = lock(&authenticator.watched);
        for (_, token) in ended
            .iter()
            .filter_map(|caller| watched.callers.get(caller))
        {
            token.cancel();
        }
    }
}
