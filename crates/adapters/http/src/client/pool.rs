//! The pool of idle connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};

use crate::egress::Reach;
use crate::target::Target;

/// Maximum idle connections to one endpoint: twice the default bulkhead, so that a full bulkhead
/// finds its connections again.
const IDLE_MAX: usize = 32;
/// Age at which an idle connection is closed: below the 60 s that load balancers commonly allow.
const IDLE_AGE_MAX: Duration = Duration::from_secs(30);
/// Maximum concurrent calls on one HTTP/2 connection: below the 100 that servers commonly allow, so
/// that no request waits in a queue between its lease check and its first byte.
const STREAMS_MAX: usize = 64;

/// The host that is called, and the reach of the call. A connection that was checked for one reach
/// is not used for another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub target: Target,
    pub reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// Counts the calls on an HTTP/2 connection by its clones, and remembers whether one ended badly.
#[derive(Default)]
pub(super) struct Shared {
    is_doubtful: AtomicBool,
}

pub(super) enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>, Arc<Shared>),
}

impl Sender {
    fn is_usable(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_ready(),
            Self::Http2(sender, shared) => {
                sender.is_ready() && !shared.is_doubtful.load(Ordering::Acquire)
            }
        }
    }

    fn has_room(&self) -> bool {
        match self {
            Self::Http1(_) => true,
            // One reference is the pool's own.
            Self::Http2(_, shared) => Arc::strong_count(shared) <= STREAMS_MAX,
        }
    }
}

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<Endpoint, Vec<(Sender, Duration)>>>,
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, HashMap<Endpoint, Vec<(Sender, Duration)>>> {
        // A list of connections is never left half-changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, if it was used within `idle_max`. Also closes the
    /// connections of all endpoints that should no longer be used.
    pub(super) fn take(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        idle_max: Duration,
        now: Duration,
    ) -> Option<Connection> {
        let mut idle = self.idle();
        idle.retain(|_, list| {
            let is_young = |used: Duration| now.saturating_sub(used) <= IDLE_AGE_MAX;
            list.retain(|(sender, used)| sender.is_usable() && is_young(*used));
            !list.is_empty()
        });
        let list = idle.get_mut(endpoint)?;
        let fits = |(sender, used): &(Sender, Duration)| {
            sender.has_room() && now.saturating_sub(*used) < idle_max
        };
        let at = list.iter().rposition(fits)?;
        let sender = match list.get_mut(at)? {
            (Sender::Http2(sender, shared), used) => {
                *used = now;
                Sender::Http2(sender.clone(), shared.clone())
            }
            (Sender::Http1(_), _) => list.remove(at).0,
        };
        drop(idle);
        Some(Connection {
            is_pooled: matches!(sender, Sender::Http2(..)),
            sender: Some(sender),
            endpoint: endpoint.clone(),
            pool: self.clone(),
        })
    }

    fn put(&self, endpoint: Endpoint, sender: Sender, now: Duration) {
        let mut idle = self.idle();
        let list = idle.entry(endpoint).or_default();
        list.push((sender, now));
        if list.len() > IDLE_MAX {
            list.remove(0);
        }
    }
}

/// A connection in use. If it is dropped before `finish`, it is not used again: the exchange may
/// still be in progress.
pub(crate) struct Connection {
    sender: Option<Sender>,
    /// The pool already has a clone.
    is_pooled: bool,
    endpoint: Endpoint,
    pool: Arc<Pool>,
}

impl Connection {
    pub(super) fn new(sender: Sender, endpoint: &Endpoint, pool: &Arc<Pool>) -> Self {
        Self {
            sender: Some(sender),
            is_pooled: false,
            endpoint: endpoint.clone(),
            pool: pool.clone(),
        }
    }

    pub(super) fn version(&self) -> Version {
        match self.sender {
            Some(Sender::Http2(..)) => Version::Http2,
            _ => Version::Http1,
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        match &mut self.sender {
            Some(Sender::Http2(sender, _)) => sender.try_send_request(request).await,
            Some(Sender::Http1(sender)) => sender.try_send_request(request).await,
            // Only `finish` takes it, and that consumes the connection.
            None => std::future::pending().await,
        }
    }

    /// The exchange is over. `is_read`: the answer was read to its end, so that an HTTP/1.1
    /// connection can carry the next request.
    pub(crate) fn finish(mut self, is_read: bool, now: Duration) {
        let (pool, endpoint) = (self.pool.clone(), self.endpoint.clone());
        match self.sender.take() {
            Some(Sender::Http1(mut sender)) if is_read => {
                if sender.is_ready() {
                    return pool.put(endpoint, Sender::Http1(sender), now);
                }
                // The connection's task has not noticed the end of the exchange yet.
                tokio::spawn(async move {
                    if sender.ready().await.is_ok() {
                        pool.put(endpoint, Sender::Http1(sender), now);
                    }
                });
            }
            Some(sender @ Sender::Http2(..)) if !self.is_pooled => pool.put(endpoint, sender, now),
            _ => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(Sender::Http2(_, shared)) = &self.sender {
            // A connection that stopped answering must not swallow the next calls too.
            shared.is_doubtful.store(true, Ordering::Release);
        }
    }
}
