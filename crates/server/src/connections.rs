//! Connections, and the limits that keep some callers from starving the others.
//!
//! - A connection that does not finish its handshake or its headers in time is closed, and so is a
//!   connection that is idle for as long.
//! - A connection whose caller stopped reading an answer is closed.
//! - At the connection limit, or when the process runs out of file descriptors, an open connection
//!   is closed for a new one: see [`guests`].

mod guests;
mod stalled;

use std::net::IpAddr;
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

/// The address of the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);
use guests::{ActiveRequest, OpenConnection, OpenConnections};
use stalled::Stalled;

/// The delay after a failed accept: the next accept would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The longest head of a request, and the read buffer of a body.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) header_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) connections_max: usize,
}

/// Where the server accepts connections.
pub(crate) struct Endpoint {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    /// Set for https.
    pub(crate) tls: Option<TlsAcceptor>,
}

/// Accepts connections until `stop`, then lets running requests finish: see [`TaskTracker::wait`].
pub(crate) async fn accept(
    endpoint: Endpoint,
    limits: Limits,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let open = OpenConnections::new(limits.connections_max);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = endpoint.listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            open.evict_one();
            clock.sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let registration = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            registration = open.admit() => registration,
        };
        let Some(registration) = registration else {
            break;
        };
        let connection = Connection {
            registration: Arc::new(registration),
            peer: Peer(peer.ip()),
            router: endpoint.router.clone(),
            tls: endpoint.tls.clone(),
            limits,
            clock: clock.clone(),
            stop: stop.clone(),
        };
        connections.spawn(connection.open(stream));
    }
    connections.close();
}

struct Connection {
    registration: Arc<OpenConnection>,
    peer: Peer,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
}

impl Connection {
    async fn open(self, stream: TcpStream) {
        // Answers are written whole: Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let stream = Stalled::new(stream, self.limits.write_timeout, self.clock.clone());
        let Some(tls) = self.tls.clone() else {
            return self.serve(stream).await;
        };
        let shaken = tokio::time::timeout(self.limits.header_timeout, tls.accept(stream));
        let shaken = tokio::select! {
            biased;
            shaken = shaken => shaken,
            () = self.registration.evicted() => return,
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
            registration,
            peer,
            router,
            limits,
            stop,
            ..
        } = self;
        let inner = TowerToHyperService::new(router);
        let caller = registration.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let busy = caller.request();
            request.extensions_mut().insert(caller.admission());
            request.extensions_mut().insert(peer);
            let answer = inner.call(request);
            async move {
                let answer = answer.await?;
                Ok::<_, std::convert::Infallible>(
                    answer.map(|body| AnswerBody { body, _busy: busy }),
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
            () = registration.evicted() => {}
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                let _ = serving.await;
            }
        }
    }
}

/// The body of an answer. The request lasts until the whole body was taken.
struct AnswerBody {
    body: Body,
    _busy: ActiveRequest,
}

impl HttpBody for AnswerBody {
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
