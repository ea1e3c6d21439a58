//! An unreliable payment provider. It remembers idempotency keys, and its books are the truth about
//! who was charged.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::SplitMix;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::error::CliError;

/// The provider and its books.
pub(crate) struct Provider {
    books: Mutex<Books>,
}

struct Books {
    chance: SplitMix,
    /// The result of each key.
    by_key: HashMap<String, PaymentResult>,
    /// How often each payment was charged, under any key.
    charges: HashMap<u64, usize>,
    dropped: usize,
    /// Keys with a running call.
    running: HashSet<String>,
    overlapped: usize,
    is_gone: bool,
}

/// Counts one call as running from its first byte to its last, however it ends.
struct Running<'a> {
    provider: &'a Provider,
    key: String,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.provider.books().running.remove(&self.key);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PaymentResult {
    Charged,
    Refused,
}

/// The reaction to one request.
enum Reaction {
    /// Sends an answer.
    Answer(StatusCode, serde_json::Value, Option<&'static str>),
    /// Closes the connection: the caller cannot know what was done.
    Drop,
}

impl Provider {
    pub(crate) fn new(seed: u64) -> Self {
        let books = Books {
            chance: SplitMix::new(seed),
            by_key: HashMap::new(),
            charges: HashMap::new(),
            dropped: 0,
            running: HashSet::new(),
            overlapped: 0,
            is_gone: false,
        };
        Self {
            books: Mutex::new(books),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of charged payments.
    pub(crate) fn charged(&self) -> usize {
        self.books().charges.len()
    }

    /// Number of payments that were charged more than once.
    pub(crate) fn charged_twice(&self) -> usize {
        let books = self.books();
        books.charges.values().filter(|times| **times > 1).count()
    }

    /// Number of refused payments.
    pub(crate) fn refused(&self) -> usize {
        let books = self.books();
        let refused = books
            .by_key
            .values()
            .filter(|entry| **entry == PaymentResult::Refused);
        refused.count()
    }

    /// Number of answers that were dropped after the charge.
    pub(crate) fn dropped(&self) -> usize {
        self.books().dropped
    }

    /// Number of calls that came while another call with the same key was running.
    pub(crate) fn overlapped(&self) -> usize {
        self.books().overlapped
    }

    /// While it is down, it does nothing and answers no request.
    pub(crate) fn gone(&self, is_gone: bool) {
        self.books().is_gone = is_gone;
    }

    fn running(&self, key: &str) -> Running<'_> {
        let mut books = self.books();
        let is_first = books.running.insert(key.to_owned());
        books.overlapped += usize::from(!is_first);
        Running {
            provider: self,
            key: key.to_owned(),
        }
    }

    /// How often this payment was charged.
    pub(crate) fn charges(&self, payment: u64) -> usize {
        self.books().charges.get(&payment).copied().unwrap_or(0)
    }

    /// Serves on a free loopback port until the demo ends.
    pub(crate) async fn listen(self: Arc<Self>) -> Result<SocketAddr, CliError> {
        let failed = |error| CliError::failed(format!("the provider cannot listen: {error}"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(self.clone().serve(stream));
            }
        });
        Ok(address)
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let answer = service_fn(move |request| {
            let this = self.clone();
            async move { this.answer(request).await }
        });
        let http = hyper::server::conn::http1::Builder::new();
        // A dropped answer ends the connection with an error, as intended.
        let _ = http.serve_connection(TokioIo::new(stream), answer).await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let header = request.headers().get("idempotency-key");
        let key = header.and_then(|key| key.to_str().ok()).unwrap_or_default();
        let key = key.to_owned();
        let body = request.into_body().collect().await;
        let body = body.map_err(std::io::Error::other)?.to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let payment = body["amount"].as_u64().unwrap_or_default();
        let _running = self.running(&key);
        let (mood, latency) = self.decide(&key, payment);
        crate::clock::pause(latency).await;
        match mood {
            Reaction::Drop => Err(std::io::Error::other("the provider hangs up")),
            Reaction::Answer(status, body, retry_after) => {
                let mut response = Response::builder().status(status);
                if let Some(seconds) = retry_after {
                    response = response.header("retry-after", seconds);
                }
                let body = Full::new(Bytes::from(body.to_string()));
                response.body(body).map_err(std::io::Error::other)
            }
        }
    }

    fn decide(&self, key: &str, payment: u64) -> (Reaction, Duration) {
        let mut books = self.books();
        if books.is_gone {
            return (Reaction::Drop, Duration::ZERO);
        }
        let latency = Duration::from_millis(books.chance.next_u64() % 40);
        let roll = books.chance.next_u64() % 1_000;
        if roll < 30 {
            let busy = json!({"error": "unavailable"});
            let answer = Reaction::Answer(StatusCode::SERVICE_UNAVAILABLE, busy, None);
            return (answer, latency);
        }
        if roll < 33 {
            let busy = json!({"error": "too many requests"});
            let answer = Reaction::Answer(StatusCode::TOO_MANY_REQUESTS, busy, Some("1"));
            return (answer, latency);
        }
        let entry = match books.by_key.get(key) {
            Some(entry) => *entry,
            None => books.enter(key, payment),
        };
        if roll < 70 {
            books.dropped += usize::from(entry == PaymentResult::Charged);
            return (Reaction::Drop, latency);
        }
        let (status, body) = match entry {
            PaymentResult::Charged => (StatusCode::OK, json!({"id": format!("tx_{payment}")})),
            PaymentResult::Refused => {
                let declined = json!({"error": "card_declined"});
                (StatusCode::PAYMENT_REQUIRED, declined)
            }
        };
        (Reaction::Answer(status, body, None), latency)
    }
}

impl Books {
    /// Processes a payment: one in fifty is declined, the others are charged.
    fn enter(&mut self, key: &str, payment: u64) -> PaymentResult {
        let entry = if payment % 50 == 13 {
            PaymentResult::Refused
        } else {
            *self.charges.entry(payment).or_default() += 1;
            PaymentResult::Charged
        };
        self.by_key.insert(key.to_owned(), entry);
        entry
    }
}
