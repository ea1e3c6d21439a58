//! Connections, and what keeps the slow ones from starving the others.
//!
//! - A connection that does not finish its handshake or its headers in time is closed.
//! - At the limit, or when the process runs out of descriptors, the oldest connection that has
//!   sent no whole request yet makes room: callers that say something come first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use clinch_core::ports::Clock;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long to wait after a failed accept: the next one would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Longest head of a request, and what is read ahead of a body.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// What is allowed.
pub(crate) struct Limits {
    pub(crate) header_timeout: Duration,
    pub(crate) connections_max: usize,
}

/// Where callers come in.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    /// https, if there is one.
    pub(crate) tls: Option<TlsAcceptor>,
}

/// Connections that have sent no whole request yet, oldest first.
#[derive(Default)]
struct Silent(Mutex<BTreeMap<u64, CancellationToken>>);

impl Silent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, id: u64) -> CancellationToken {
        let token = CancellationToken::new();
        self.lock().insert(id, token.clone());
        token
    }

    fn leave(&self, id: u64) {
        self.lock().remove(&id);
    }

    fn evict_oldest(&self) {
        if let Some((_, token)) = self.lock().pop_first() {
            token.cancel();
        }
    }
}

/// Accepts until `stop`, then lets running requests finish: see [`TaskTracker::wait`].
pub(crate) async fn accept(
    door: Door,
    limits: Limits,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let silent = Arc::new(Silent::default());
    let room = Arc::new(Semaphore::new(limits.connections_max));
    for id in 0_u64.. {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = door.listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                silent.evict_oldest();
                clock.sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if room.available_permits() == 0 {
            silent.evict_oldest();
        }
        let permit = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            permit = room.clone().acquire_owned() => permit,
        };
        let connection = Connection {
            id,
            router: door.router.clone(),
            tls: door.tls.clone(),
            silent: silent.clone(),
            header_timeout: limits.header_timeout,
            stop: stop.clone(),
        };
        connections.spawn(async move {
            let _permit = permit;
            connection.open(stream).await;
        });
    }
    connections.close();
}

struct Connection {
    id: u64,
    router: Router,
    tls: Option<TlsAcceptor>,
    silent: Arc<Silent>,
    header_timeout: Duration,
    stop: CancellationToken,
}

impl Connection {
    async fn open(self, stream: TcpStream) {
        // Answers are written whole; waiting for more to send helps nobody.
        let _ = stream.set_nodelay(true);
        let evicted = self.silent.enter(self.id);
        let (id, silent) = (self.id, self.silent.clone());
        match self.tls.clone() {
            None => self.serve(stream, evicted).await,
            Some(tls) => {
                let shaken = tokio::time::timeout(self.header_timeout, tls.accept(stream));
                let shaken = tokio::select! {
                    biased;
                    shaken = shaken => shaken,
                    () = evicted.cancelled() => return,
                    () = self.stop.cancelled() => return silent.leave(id),
                };
                if let Ok(Ok(stream)) = shaken {
                    self.serve(stream, evicted).await;
                }
            }
        }
        silent.leave(id);
    }

    async fn serve<S>(self, stream: S, evicted: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self {
            id,
            router,
            silent,
            header_timeout,
            stop,
            ..
        } = self;
        let inner = TowerToHyperService::new(router);
        let heard = silent.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            heard.leave(id);
            inner.call(request)
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            biased;
            _ = serving.as_mut() => {}
            () = evicted.cancelled() => {}
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                let _ = serving.await;
            }
        }
    }
}
