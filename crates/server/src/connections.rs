//! Connections, and what keeps some of them from starving the others.
//!
//! - A connection that does not finish its handshake or its headers in time is closed, and so
//!   is one that is idle for as long.
//! - One whose caller stopped reading an answer is closed.
//! - At the limit, or when the process runs out of descriptors, another connection makes room:
//!   see [`guests`].

mod guests;
mod stalled;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use clinch_core::ports::Clock;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use guests::Admission;
use guests::{Busy, Guest, Guests};
use stalled::Stalled;

/// How long to wait after a failed accept: the next one would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Longest head of a request, and what is read ahead of a body.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// What is allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) header_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) connections_max: usize,
}

/// Where callers come in.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    /// https, if there is one.
    pub(crate) tls: Option<TlsAcceptor>,
}

/// Accepts until `stop`, then lets running requests finish: see [`TaskTracker::wait`].
pub(crate) async fn accept(
    door: Door,
    limits: Limits,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let guests = Guests::new(limits.connections_max);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = door.listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            guests.evict_one();
            clock.sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let guest = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            guest = guests.admit() => guest,
        };
        let Some(guest) = guest else { break };
        let connection = Connection {
            guest: Arc::new(guest),
            router: door.router.clone(),
            tls: door.tls.clone(),
            limits,
            clock: clock.clone(),
            stop: stop.clone(),
        };
        connections.spawn(connection.open(stream));
    }
    connections.close();
}

struct Connection {
    guest: Arc<Guest>,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
}

impl Connection {
    async fn open(self, stream: TcpStream) {
        // Answers are written whole; waiting for more to send helps nobody.
        let _ = stream.set_nodelay(true);
        let stream = Stalled::new(stream, self.limits.write_timeout, self.clock.clone());
        let Some(tls) = self.tls.clone() else {
            return self.serve(stream).await;
        };
        let shaken = tokio::time::timeout(self.limits.header_timeout, tls.accept(stream));
        let shaken = tokio::select! {
            biased;
            shaken = shaken => shaken,
            () = self.guest.evicted() => return,
            () = self.stop.cancelled() => return,
        };
        if let Ok(Ok(stream)) = shaken {
            self.serve(stream).await;
        }
    }

    async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self {
            guest,
            router,
            limits,
            stop,
            ..
        } = self;
        let inner = TowerToHyperService::new(router);
        let caller = guest.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let busy = caller.request();
            request.extensions_mut().insert(caller.admission());
            let answer = inner.call(request);
            async move {
                let answer = answer.await?;
                Ok::<_, std::convert::Infallible>(
                    answer.map(|body| Answering { body, _busy: busy }),
                )
            }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            biased;
            _ = serving.as_mut() => {}
            () = guest.evicted() => {}
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                let _ = serving.await;
            }
        }
    }
}

/// The body of an answer. The request lasts until all of it was taken.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
