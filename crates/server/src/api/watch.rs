//! Keys of requests that are under way: a long answer ends with its key.
//!
//! One task looks at the keys of all requests that wait or stream, with one read of the store
//! for all of them, and runs only while there is such a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use super::guard::{Doorkeeper, lock};
use super::problem::Problem;

/// A key that was ended ends its requests that late.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A store that takes longer did not answer.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// A request whose key could not be looked at for so long ends too.
const UNSEEN_MAX: Duration = Duration::from_secs(10);

/// Whose requests: the hash of a key, or none while there are no keys.
type Who = Option<[u8; 32]>;

/// Requests that are under way, by their key.
#[derive(Default)]
pub(super) struct Watched {
    is_running: bool,
    callers: BTreeMap<Who, (usize, CancellationToken)>,
}

/// One request that is under way.
struct Place {
    door: Arc<Doorkeeper>,
    who: Who,
    ended: CancellationToken,
}

impl Place {
    fn take(door: &Arc<Doorkeeper>, who: Who) -> Self {
        let mut watched = lock(&door.watched);
        let (requests, ended) = watched.callers.entry(who).or_default();
        *requests += 1;
        let ended = ended.clone();
        if !std::mem::replace(&mut watched.is_running, true) {
            tokio::spawn(look_again_and_again(door.clone()));
        }
        drop(watched);
        Self {
            door: door.clone(),
            who,
            ended,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut watched = lock(&self.door.watched);
        if let Some((requests, _)) = watched.callers.get_mut(&self.who) {
            *requests -= 1;
            if *requests == 0 {
                watched.callers.remove(&self.who);
            }
        }
    }
}

impl Doorkeeper {
    /// Completes when the caller would no longer be let in: its key was revoked or expired, or it
    /// has none and there are keys now.
    async fn ended(self: Arc<Self>, caller: Caller) {
        let place = Place::take(&self, caller.key_hash());
        place.ended.cancelled().await;
    }

    /// The answer to a request, unless its caller's key ends before.
    pub(super) async fn while_welcome(
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

    /// The answer to a request that was ended: 503 where the store did not say that its key
    /// ended, so that the caller asks again.
    async fn why_ended(&self, caller: &Caller) -> Problem {
        let who = [caller.key_hash()];
        let look = tokio::time::timeout(LOOK_TIMEOUT, self.unwelcome(&who)).await;
        match look {
            Ok(Ok(ended)) if !ended.is_empty() => {
                Problem::unauthenticated("the API key ended while the request waited")
            }
            _ => Problem::unavailable("the API key could not be checked while the request waited"),
        }
    }

    /// Those who would no longer be let in.
    async fn unwelcome(&self, who: &[Who]) -> Result<Vec<Who>, Problem> {
        let hashes: Vec<[u8; 32]> = who.iter().copied().flatten().collect();
        let now = self.clock.now();
        let found = self.keys.find(&hashes).await?;
        let active = found
            .into_iter()
            .map(|key| key.is_some_and(|key| key.is_active(now)));
        let ended = hashes.iter().zip(active).filter(|(_, active)| !active);
        let mut ended: Vec<Who> = ended.map(|(hash, _)| Some(*hash)).collect();
        if who.contains(&None) && self.is_locked().await? {
            ended.push(None);
        }
        Ok(ended)
    }
}

async fn look_again_and_again(door: Arc<Doorkeeper>) {
    let mut seen_at = door.clock.monotonic();
    loop {
        door.clock.sleep(LOOK_EVERY).await;
        let who: Vec<Who> = {
            let mut watched = lock(&door.watched);
            watched.is_running = !watched.callers.is_empty();
            if !watched.is_running {
                return;
            }
            watched.callers.keys().copied().collect()
        };
        let look = tokio::time::timeout(LOOK_TIMEOUT, door.unwelcome(&who));
        let ended = match look.await {
            Ok(Ok(ended)) => {
                seen_at = door.clock.monotonic();
                ended
            }
            _ if door.clock.monotonic().saturating_sub(seen_at) >= UNSEEN_MAX => who,
            _ => continue,
        };
        let watched = lock(&door.watched);
        for (_, token) in ended.iter().filter_map(|who| watched.callers.get(who)) {
            token.cancel();
        }
    }
}
