//! A payment provider with a bad day. It remembers idempotency keys, and its books are the
//! truth about who was charged.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch::core::policy::SplitMix;
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
    /// How often each key was charged, or that it was refused.
    by_key: HashMap<String, Entry>,
    dropped: usize,
}

#[derive(Clone, Copy)]
enum Entry {
    Charged(usize),
    Refused,
}

/// What it does with one request.
enum Mood {
    /// Answers.
    Answer(StatusCode, serde_json::Value, Option<&'static str>),
    /// Breaks the connection: the caller cannot know what was done.
    Drop,
}

impl Provider {
    pub(crate) fn new(seed: u64) -> Self {
        let books = Books {
            chance: SplitMix::new(seed),
            by_key: HashMap::new(),
            dropped: 0,
        };
        Self {
            books: Mutex::new(books),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys that were charged.
    pub(crate) fn charged(&self) -> usize {
        self.count(|entry| matches!(entry, Entry::Charged(_)))
    }

    /// Keys that were charged more than once.
    pub(crate) fn charged_twice(&self) -> usize {
        self.count(|entry| matches!(entry, Entry::Charged(times) if *times > 1))
    }

    pub(crate) fn refused(&self) -> usize {
        self.count(|entry| matches!(entry, Entry::Refused))
    }

    fn count(&self, which: impl Fn(&Entry) -> bool) -> usize {
        self.books().by_key.values().filter(|entry| which(entry)).count()
    }

    /// Answers that were dropped after the charge.
    pub(crate) fn dropped(&self) -> usize {
        self.books().dropped
    }

    /// How often this key was charged.
    pub(crate) fn charges(&self, key: &str) -> usize {
        match self.books().by_key.get(key) {
            Some(Entry::Charged(times)) => *times,
            Some(Entry::Refused) | None => 0,
        }
    }

    /// Serves on a free port of loopback for as long as the demo lasts.
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
        // A dropped answer ends the connection with an error: that is the point.
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
        let amount = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
        let refuse = amount["amount"].as_u64().is_some_and(|amount| amount % 50 == 13);
        let (mood, latency) = self.decide(&key, refuse);
        tokio::time::sleep(latency).await;
        match mood {
            Mood::Drop => Err(std::io::Error::other("the provider hangs up")),
            Mood::Answer(status, body, retry_after) => {
                let mut response = Response::builder().status(status);
                if let Some(seconds) = retry_after {
                    response = response.header("retry-after", seconds);
                }
                let body = Full::new(Bytes::from(body.to_string()));
                response.body(body).map_err(std::io::Error::other)
            }
        }
    }

    fn decide(&self, key: &str, refuse: bool) -> (Mood, Duration) {
        let mut books = self.books();
        let latency = Duration::from_millis(books.chance.next_u64() % 40);
        let roll = books.chance.next_u64() % 1_000;
        if roll < 30 {
            let busy = json!({"error": "unavailable"});
            return (Mood::Answer(StatusCode::SERVICE_UNAVAILABLE, busy, None), latency);
        }
        if roll < 33 {
            let busy = json!({"error": "too many requests"});
            return (Mood::Answer(StatusCode::TOO_MANY_REQUESTS, busy, Some("1")), latency);
        }
        let known = books.by_key.get(key).copied();
        let entry = match known {
            Some(entry) => entry,
            None if refuse => Entry::Refused,
            None => Entry::Charged(1),
        };
        books.by_key.insert(key.to_owned(), entry);
        if roll < 70 {
            books.dropped += usize::from(matches!(entry, Entry::Charged(_)));
            return (Mood::Drop, latency);
        }
        let answer = match entry {
            Entry::Charged(_) => (StatusCode::OK, json!({"id": format!("tx_{}", books.by_key.len())})),
            Entry::Refused => (StatusCode::PAYMENT_REQUIRED, json!({"error": "card_declined"})),
        };
        (Mood::Answer(answer.0, answer.1, None), latency)
    }
}
