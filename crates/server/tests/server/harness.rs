//! A server, a client that sends exactly the given bytes, and providers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::routing::get;
use clinch::{Backend, Result};
use clinch_core::ports::{ApiKeys, Attempt, Executor};
use clinch_core::{Envelope, Fail, Outcome, Payload, Retry, Success};
use clinch_memory::Memory;
use clinch_server::config::{RouteConfig, Sources};
use clinch_server::{Application, Built, Config, Facts, Parts, Role, Server};
use clinch_system::SystemClock;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use utoipa::openapi::OpenApi;

/// Routes for every kind of answer. The URL names the provider's behavior.
pub(crate) const ROUTES: &str = r#"
[store]
url = "memory:"
[server]
listen = "127.0.0.1:0"
[[route]]
name = "ok"
domain = "pay"
event_type = "ok"
url = "test://psp/ok"
safety = "natural"
[[route]]
name = "fail"
domain = "pay"
event_type = "fail"
url = "test://psp/fail"
[[route]]
name = "unsure"
domain = "pay"
event_type = "unsure"
url = "test://psp/unknown"
[[route]]
name = "long"
domain = "pay"
event_type = "long"
url = "test://psp/long"
safety = "natural"
[[route]]
name = "gated"
domain = "pay"
event_type = "gated"
url = "test://gated/gated"
safety = "natural"
[[route]]
name = "busy"
domain = "pay"
event_type = "busy"
url = "test://busy/busy"
safety = "natural"
retry = { base = "1h", cap = "1h" }
[[route]]
name = "throttled"
domain = "pay"
event_type = "throttled"
url = "test://throttled/throttled"
safety = "natural"
[[route]]
name = "ordered"
domain = "lane"
event_type = "step"
url = "test://gated/gated"
order = "key"
safety = "natural"
[[route]]
name = "panics"
domain = "pay"
event_type = "panics"
url = "test://psp/panics"
[[route]]
name = "remote"
domain = "away"
event_type = "*"
remote = true
"#;

/// The answer of `long`.
pub(crate) const LONG_BYTES: usize = 200 * 1024;

/// The calls that the providers saw, and the gate at which `gated` calls wait.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) calls: Arc<AtomicUsize>,
    pub(crate) order: Arc<Mutex<Vec<String>>>,
    pub(crate) arrived: Arc<Semaphore>,
    pub(crate) gate: Arc<Semaphore>,
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            calls: Arc::default(),
            order: Arc::default(),
            arrived: Arc::new(Semaphore::new(0)),
            gate: Arc::new(Semaphore::new(0)),
        }
    }
}

impl Provider {
    /// Lets one gated call through.
    pub(crate) fn open_gate(&self, calls: usize) {
        self.gate.add_permits(calls);
    }

    /// Returns when one more gated call waits at the gate.
    pub(crate) async fn arrival(&self) {
        self.arrived.acquire().await.expect("open").forget();
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

struct Told {
    what: String,
    provider: Provider,
}

fn ok(envelope: &Envelope) -> Outcome {
    Outcome::Ok(Success {
        provider_txn_id: Some("tx_9".to_owned()),
        payload: Payload::from_value(&json!({ "key": envelope.outbound_key.as_str() }), 1_000)
            .expect("small"),
        spawn: Vec::new(),
    })
}

#[async_trait]
impl Executor for Told {
    async fn execute(&self, envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        self.provider.calls.fetch_add(1, Ordering::SeqCst);
        let key = envelope.command.keys.idem_key.to_string();
        self.provider.order.lock().expect("order").push(key);
        match self.what.as_str() {
            "ok" => ok(envelope),
            "long" => {
                let text = "x".repeat(LONG_BYTES - 2);
                let payload = Payload::from_value(&json!(text), LONG_BYTES);
                Outcome::Ok(Success::new(payload.expect("fits")))
            }
            "fail" => Outcome::Fail(Fail::new("card_declined", "the card was declined")),
            "unknown" => Outcome::Retry(Retry::unknown("timeout")),
            "busy" => Outcome::Retry(Retry::not_applied("busy")),
            "throttled" => {
                let hour = std::time::Duration::from_secs(3_600);
                Outcome::Retry(Retry::not_applied("throttled").retry_after(hour))
            }
            "gated" => {
                self.provider.arrived.add_permits(1);
                self.provider.gate.acquire().await.expect("open").forget();
                ok(envelope)
            }
            _ => panic!("told to"),
        }
    }
}

/// A running server.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) memory: Memory,
    pub(crate) provider: Provider,
    pub(crate) clinch: clinch::Clinch,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<bool>,
}

pub(crate) fn config(text: &str) -> Config {
    Config::parse(text, &Sources::default(), &[]).expect("a valid configuration")
}

pub(crate) fn parts(memory: &Memory, provider: &Provider) -> Parts {
    let provider = provider.clone();
    let executors = move |route: &RouteConfig, _: &Facts| -> Result<Built> {
        let what = route.url.rsplit('/').next().unwrap_or_default().to_owned();
        let provider = provider.clone();
        Ok(Built {
            executor: Arc::new(Told { what, provider }),
            probe: None,
        })
    };
    let keys: Arc<dyn ApiKeys> = Arc::new(memory.clone());
    Parts::new(Backend::new(memory.clone()), keys, executors)
}

pub(crate) fn store() -> Memory {
    Memory::new(Arc::new(SystemClock::new()))
}

impl Running {
    pub(crate) async fn new() -> Self {
        Self::with(ROUTES, store(), &Role::ALL).await
    }

    pub(crate) async fn with(text: &str, memory: Memory, roles: &[Role]) -> Self {
        let provider = Provider::default();
        let parts = parts(&memory, &provider);
        Self::of(text, parts, memory, provider, roles).await
    }

    pub(crate) async fn of(
        text: &str,
        parts: Parts,
        memory: Memory,
        provider: Provider,
        roles: &[Role],
    ) -> Self {
        let server = Server::bind(config(text), parts, roles)
            .await
            .expect("it binds");
        let addr = server.local_addr().expect("it listens");
        let clinch = server.clinch().clone();
        let (stop, told) = oneshot::channel::<()>();
        let ended = tokio::spawn(server.run(async {
            let _ = told.await;
        }));
        Self {
            addr,
            memory,
            provider,
            clinch,
            stop: Some(stop),
            ended,
        }
    }

    /// Stops the server; true: everything ended in time.
    pub(crate) async fn stop(mut self) -> bool {
        drop(self.stop.take());
        self.ended.await.expect("it ends")
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &json, &body.to_string()).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            text.push_str("host: localhost\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut stream = TcpStream::connect(self.addr).await.expect("it answers");
        stream.write_all(text.as_bytes()).await.expect("written");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("read");
        Reply::parse(&String::from_utf8(answer).expect("text"))
    }

    /// Submits an operation and returns the answer.
    pub(crate) async fn submit(&self, event_type: &str, key: &str, wait: &str) -> Reply {
        self.post(
            &format!("/v1/operations?wait={wait}"),
            &command("pay", event_type, key),
        )
        .await
    }

    /// Long-polls until the operation is settled.
    pub(crate) async fn settled(&self, op_id: &str) -> Value {
        self.get(&format!("/v1/operations/{op_id}?wait=60s"))
            .await
            .body
    }

    /// Returns when the operation is in this phase; checks after every change of the row.
    pub(crate) async fn phase(&self, op_id: &str, phase: &str) -> Value {
        loop {
            let body = self.get(&format!("/v1/operations/{op_id}")).await.body;
            if body["phase"] == phase {
                return body;
            }
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) fn command(domain: &str, event_type: &str, key: &str) -> Value {
    json!({"domain": domain, "event_type": event_type, "biz_key": "order-1", "idem_key": key, "payload": {"amount": 5000}})
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn parse(answer: &str) -> Self {
        let (head, text) = answer.split_once("\r\n\r\n").expect("a whole head");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status
            .and_then(|status| status.parse().ok())
            .expect("a status");
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        Self {
            status,
            headers: lines.filter_map(header).collect(),
            text: text.to_owned(),
            body: serde_json::from_str(text).unwrap_or(Value::Null),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn op_id(&self) -> String {
        self.body["op_id"].as_str().expect("an op_id").to_owned()
    }

    /// A problem document with this status and code.
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.body["code"], code, "{}", self.text);
        assert_eq!(self.body["status"], status);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        self
    }
}

/// Applications with routes in and outside of their domains.
pub(crate) fn applications() -> Vec<Application> {
    let pay = Router::new().route("/v1/pay/report", get(async || "pay"));
    let lane = Router::new()
        .route("/v1/lane/report", get(async || "lane"))
        .route("/v1/away/report", get(async || "away"))
        .route("/unknown", get(async || "pay"));
    let application = |(domain, router)| Application {
        domain,
        router,
        described: OpenApi::default(),
        examples: "",
        panel: None,
    };
    [("pay", pay), ("lane", lane)].map(application).into()
}
