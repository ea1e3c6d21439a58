//! A bound on the bytes of request bodies and answers in memory, over all callers.
//!
//! A request reserves the bytes that it may need before its body is read, and waits a short time
//! for them. Its answer keeps the reservation until the caller has read the answer. Short requests
//! and answers reserve nothing: the number of connections bounds them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clinch_core::ports::PAGE_BYTES_MAX;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::app::{DROPPED_BYTES_MAX, ENVELOPE_BYTES, Shared, drop_body};
use super::problem::Problem;
use crate::application::domain_of;
use crate::config::ServerConfig;

/// Requests and answers up to this length reserve nothing: a connection buffers about as much
/// anyway.
const SHORT_BYTES_MAX: usize = 64 * 1024;
/// An answer is handed to its connection in pieces of this size, the next piece when the caller has
/// read the last.
const PIECE_BYTES: usize = 64 * 1024;
/// How long a request waits for other requests to release bytes.
const WAIT: Duration = Duration::from_secs(5);
/// The number of bytes of one semaphore permit.
const UNIT: usize = 1_024;

/// The bytes that all requests and answers together may hold.
pub(crate) struct InFlight {
    free: Arc<Semaphore>,
    units: u32,
}

impl InFlight {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let units = u32::try_from(bytes_max.div_ceil(UNIT)).unwrap_or(u32::MAX);
        Self {
            free: Arc::new(Semaphore::new(units as usize)),
            units,
        }
    }

    fn units(&self, bytes: usize) -> u32 {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        units.min(self.units)
    }

    /// Reserves bytes; a request for more than the limit reserves the whole limit.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let taken = self.free.clone().acquire_many_owned(self.units(bytes));
        match tokio::time::timeout(WAIT, taken).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Problem::unavailable(
                "requests and answers in flight have reached server.in_flight_max; try again",
            )),
        }
    }

    /// Adjusts the reservation to the length of the answer.
    async fn fit(&self, taken: &mut OwnedSemaphorePermit, bytes: usize) -> Result<(), Problem> {
        let (had, wanted) = (taken.num_permits(), self.units(bytes) as usize);
        if had < wanted {
            taken.merge(self.take((wanted - had) * UNIT).await?);
        } else {
            drop(taken.split(had - wanted));
        }
        Ok(())
    }
}

/// The middleware.
pub(super) async fn bound(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let needed = needed(
        &method,
        request.uri().path(),
        request.headers(),
        &app.config.server,
        &app.applications,
    );
    let mut taken = match app.in_flight.take(needed).await {
        Ok(taken) => taken,
        Err(problem) => {
            let wait = app.config.server.body_timeout.0;
            drop_body(request.into_body(), DROPPED_BYTES_MAX, wait).await;
            return problem.into_response();
        }
    };
    let (parts, body) = next.run(request).await.into_parts();
    let Some(bytes) = HttpBody::size_hint(&body).exact() else {
        // A stream is bounded where it is created.
        return Response::from_parts(parts, body);
    };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes <= SHORT_BYTES_MAX {
        return Response::from_parts(parts, body);
    }
    if let Err(problem) = app.in_flight.fit(&mut taken, bytes).await
        // The operation is done: the answer is sent even without a reservation.
        && is_read(&method)
    {
        return problem.into_response();
    }
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(left) => Response::from_parts(
            parts,
            Body::new(ReservedBody {
                left,
                _taken: taken,
            }),
        ),
        Err(_) => Problem::internal().into_response(),
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Bytes that the request and its answer may need.
fn needed(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    config: &ServerConfig,
    applications: &[&'static str],
) -> usize {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    if is_read(method) {
        return match parts.as_slice() {
            ["v1", "operations" | "dead-letters"] | ["v1", "operations", _, "attempts"] => {
                PAGE_BYTES_MAX
            }
            _ if domain_of(path, applications).is_some() => PAGE_BYTES_MAX,
            _ => 0,
        };
    }
    let many = matches!(
        parts.as_slice(),
        ["v1", "operations", "bulk"]
            | ["v1", "batches", _, "operations"]
            | ["v1", "dead-letters", "redrive"]
    );
    let (longest, answer) = match many {
        true => (config.bulk_max.0, PAGE_BYTES_MAX),
        false => (config.payload_max.0.saturating_add(ENVELOPE_BYTES), 0),
    };
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
    let body = match length {
        Some(length) => longest.min(length),
        None if is_chunked => longest,
        None => 0,
    };
    match body {
        0..=SHORT_BYTES_MAX => answer,
        body => body.saturating_add(answer),
    }
}

/// An answer that is handed over piece by piece, with its reservation.
struct ReservedBody {
    left: Bytes,
    _taken: OwnedSemaphorePermit,
}

impl HttpBody for ReservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(next);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_long_bodies_take_room_and_short_requests_do_not() {
        let config = ServerConfig::default();
        let of = |method: &Method, path: &str, length: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(length) = length {
                headers.insert(header::CONTENT_LENGTH, length.parse().expect("a header"));
            }
            needed(method, path, &headers, &config, &["reports"])
        };
        let (get, post) = (&Method::GET, &Method::POST);
        assert_eq!(of(get, "/v1/operations", None), PAGE_BYTES_MAX);
        assert_eq!(of(get, "/v1/reports/weekly", None), PAGE_BYTES_MAX);
        assert_eq!(of(get, "/v1/unknown/weekly", None), 0);
        assert_eq!(of(get, "/v1/operations/x", None), 0);
        assert_eq!(of(get, "/v1/events", None), 0);
        assert_eq!(of(post, "/v1/operations", Some("1000")), 0);
        assert_eq!(of(post, "/v1/operations", Some("200000")), 200_000);
        let longest = 256 * 1024 + ENVELOPE_BYTES;
        assert_eq!(of(post, "/v1/operations", Some("999999999")), longest);
        let bulk = |length| of(post, "/v1/operations/bulk", Some(length));
        assert_eq!(bulk("1000000"), 1_000_000 + PAGE_BYTES_MAX);
        assert_eq!(bulk("10"), PAGE_BYTES_MAX);
        assert_eq!(bulk("999999999"), (16 * 1024 * 1024) + PAGE_BYTES_MAX);
    }

    #[tokio::test]
    async fn what_was_taken_fits_the_answer_and_comes_back() {
        let in_flight = InFlight::new(64 * UNIT);
        let mut taken = in_flight.take(40 * UNIT).await.expect("room");
        in_flight.fit(&mut taken, 10 * UNIT).await.expect("less");
        assert_eq!(in_flight.free.available_permits(), 54);
        in_flight.fit(&mut taken, 20 * UNIT).await.expect("more");
        assert_eq!(in_flight.free.available_permits(), 44);
        drop(taken);
        // More than the limit reserves the whole limit.
        let all = in_flight.take(usize::MAX).await.expect("all");
        assert_eq!(in_flight.free.available_permits(), 0);
        drop(all);
        assert_eq!(in_flight.free.available_permits(), 64);
    }
}
