//! A provider that does what a script says, and what stands around an executor.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Safety;
use clinch_core::ports::{Attempt, Clock, Executor};
use clinch_core::{Command, Envelope, Keys, Outcome, Payload, Timestamp};
use clinch_http::{Egress, HttpClient, HttpExecutor, HttpRoute, Network, Secrets, SystemNetwork};
use clinch_system::SystemClock;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

pub(crate) const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What the provider does once it has read a request whole.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Writes this and reads on.
    Raw(Vec<u8>),
    /// Writes this and closes.
    Last(Vec<u8>),
    /// Resets the connection.
    Reset,
    /// Says nothing until the other side closes.
    Silent,
}

pub(crate) fn status(line: &str, headers: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Raw(
        format!("HTTP/1.1 {line}\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes(),
    )
}

/// What the provider saw.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A request, on the n-th connection.
    Request { on: usize, text: String },
    /// A connection ended.
    Closed,
}

pub(crate) struct Provider {
    pub address: SocketAddr,
    seen: mpsc::UnboundedReceiver<Seen>,
    script: Arc<Mutex<VecDeque<Reply>>>,
}

impl Provider {
    /// Answers as scripted, then `200 {}`.
    pub(crate) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (tell, seen) = mpsc::unbounded_channel();
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let replies = script.clone();
        tokio::spawn(async move {
            for on in 0.. {
                let Ok((stream, _)) = listener.accept().await else {
                    break;
                };
                let (tell, replies) = (tell.clone(), replies.clone());
                tokio::spawn(async move {
                    let _ = serve(stream, on, &tell, &replies).await;
                    let _ = tell.send(Seen::Closed);
                });
            }
        });
        Self {
            address,
            seen,
            script,
        }
    }

    pub(crate) fn then(&self, reply: Reply) {
        self.script.lock().expect("not poisoned").push_back(reply);
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        format!("http://{}{rest}", self.address)
    }

    /// The next request, with the number of its connection.
    pub(crate) async fn request(&mut self) -> (usize, String) {
        loop {
            match self.seen.recv().await.expect("the provider runs") {
                Seen::Request { on, text } => return (on, text),
                Seen::Closed => {}
            }
        }
    }

    /// Returns when a connection has ended.
    pub(crate) async fn closed(&mut self) {
        while let Seen::Request { .. } = self.seen.recv().await.expect("the provider runs") {}
    }

    /// Requests seen so far that nobody took.
    pub(crate) fn requests(&mut self) -> usize {
        let mut count = 0;
        while let Ok(seen) = self.seen.try_recv() {
            count += usize::from(matches!(seen, Seen::Request { .. }));
        }
        count
    }
}

async fn serve(
    mut stream: TcpStream,
    on: usize,
    tell: &mpsc::UnboundedSender<Seen>,
    replies: &Mutex<VecDeque<Reply>>,
) -> io::Result<()> {
    while let Some(text) = read_request(&mut stream).await? {
        let _ = tell.send(Seen::Request { on, text });
        let reply = replies.lock().expect("not poisoned").pop_front();
        match reply.unwrap_or_else(|| status("200 OK", "", "{}")) {
            Reply::Raw(bytes) => stream.write_all(&bytes).await?,
            Reply::Last(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            Reply::Reset => return stream.set_zero_linger(),
            Reply::Silent => {
                let _ = stream.read(&mut [0]).await?;
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").map_or(0, |n| n.parse().expect("a length"));
            if body.len() >= length {
                return Ok(Some(text));
            }
        }
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(None);
        }
        text.push_str(std::str::from_utf8(&buffer[..count]).expect("text"));
    }
}

/// A header of a request by its name in lower case.
pub(crate) fn header<'r>(request: &'r str, name: &str) -> Option<&'r str> {
    let mut lines = request.lines().take_while(|line| !line.is_empty());
    lines.find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

pub(crate) fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").expect("a head").1
}

/// Which addresses names have, one answer after the other; and what was dialled. Every dial
/// ends at the provider, whatever the address.
#[derive(Default)]
pub(crate) struct FakeNetwork {
    pub answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    pub resolved: Mutex<Vec<String>>,
    pub dialled: Mutex<Vec<SocketAddr>>,
    /// Where dials end; without it they are refused.
    pub provider: Option<SocketAddr>,
    /// What happens at a dial.
    pub on_dial: Option<Box<dyn Fn() + Send + Sync>>,
}

impl FakeNetwork {
    pub(crate) fn to(provider: &Provider) -> Self {
        Self {
            provider: Some(provider.address),
            ..Self::default()
        }
    }

    /// The last answer is repeated.
    pub(crate) fn name(self, name: &str, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| {
            answer
                .iter()
                .map(|ip| ip.parse().expect("an address"))
                .collect()
        };
        let answers = answers.iter().map(parse).collect();
        self.answers
            .lock()
            .expect("not poisoned")
            .insert(name.to_owned(), answers);
        self
    }

    pub(crate) fn dials(&self) -> Vec<String> {
        let dialled = self.dialled.lock().expect("not poisoned");
        dialled
            .iter()
            .map(|address| address.ip().to_string())
            .collect()
    }
}

#[async_trait]
impl Network for FakeNetwork {
    async fn resolve(&self, name: &str, _: u16) -> io::Result<Vec<IpAddr>> {
        self.resolved
            .lock()
            .expect("not poisoned")
            .push(name.to_owned());
        let mut answers = self.answers.lock().expect("not poisoned");
        let list = answers.get_mut(name);
        let list = list.ok_or_else(|| io::Error::other("no such name"))?;
        match list.len() {
            0 | 1 => list.front().cloned(),
            _ => list.pop_front(),
        }
        .ok_or_else(|| io::Error::other("no answer"))
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialled.lock().expect("not poisoned").push(address);
        if let Some(on_dial) = &self.on_dial {
            on_dial();
        }
        match self.provider {
            Some(provider) => SystemNetwork.connect(provider).await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// An attempt that holds its lease until it is told otherwise.
#[derive(Default)]
pub(crate) struct Lease {
    pub is_lost: AtomicBool,
    pub is_canceled: AtomicBool,
}

#[async_trait]
impl Attempt for Lease {
    fn holds_lease(&self) -> bool {
        !self.is_lost.load(Ordering::SeqCst)
    }
    fn is_canceled(&self) -> bool {
        self.is_canceled.load(Ordering::SeqCst)
    }
    async fn checkpoint(&self, _: &[u8]) -> clinch_core::Result<()> {
        Ok(())
    }
}

pub(crate) struct Vault;

impl Secrets for Vault {
    fn env(&self, name: &str) -> Option<String> {
        (name == "PSP_KEY").then(|| "canary-secret".to_owned())
    }
    fn file(&self, _: &str) -> Option<String> {
        None
    }
}

pub(crate) fn envelope(biz_key: &str, payload: &Value) -> Envelope {
    let keys = Keys {
        domain: "payments".parse().expect("a domain"),
        event_type: "charge".parse().expect("an event type"),
        biz_key: biz_key.parse().expect("a key"),
        idem_key: "c0ffee".parse().expect("a key"),
    };
    Envelope {
        op_id: "01917f5e-0000-7000-8000-000000000001"
            .parse()
            .expect("an id"),
        outbound_key: keys.outbound_key(),
        command: Command::new(
            keys,
            Payload::from_value(payload, 1 << 20).expect("a payload"),
        ),
        seq: 7,
        attempt: 3,
        fence: 5,
        deadline: None,
        checkpoint: None,
        trace: Some(TRACE.to_owned()),
    }
}

pub(crate) fn client() -> HttpClient {
    let clock = Arc::new(SystemClock::new());
    HttpClient::builder(clock).build().expect("a client")
}

pub(crate) fn client_on(network: &Arc<FakeNetwork>) -> HttpClient {
    let builder = HttpClient::builder(Arc::new(SystemClock::new()));
    builder.network(network.clone()).build().expect("a client")
}

/// A route to this URL on loopback.
pub(crate) fn route(url: impl Into<String>) -> HttpRoute {
    HttpRoute {
        url: url.into(),
        ..HttpRoute::default()
    }
}

pub(crate) fn executor(route: HttpRoute) -> HttpExecutor {
    executor_on(&client(), route)
}

pub(crate) fn executor_on(client: &HttpClient, route: HttpRoute) -> HttpExecutor {
    let egress = Egress::default().loopback_allowed(true);
    HttpExecutor::new(client, route, egress, &Vault).expect("a valid route")
}

pub(crate) fn lease() -> Arc<dyn Attempt> {
    Arc::new(Lease::default())
}

pub(crate) fn keyed() -> Safety {
    Safety::Keyed {
        ttl: Duration::from_secs(86_400),
        remembers_refusals: false,
    }
}

/// Calls with a payload of little interest.
pub(crate) async fn call(executor: &HttpExecutor) -> Outcome {
    executor
        .execute(&envelope("order-123", &json!({"amount": 5_000})), &lease())
        .await
}

/// A clock whose sleeps of one length end when they are told to.
pub(crate) struct Told {
    length: Duration,
    pub go: Notify,
    /// Monotonic time: it stands still.
    pub ahead: Mutex<Duration>,
    real: SystemClock,
}

impl Told {
    pub(crate) fn new(length: Duration) -> Arc<Self> {
        Arc::new(Self {
            length,
            go: Notify::new(),
            ahead: Mutex::default(),
            real: SystemClock::new(),
        })
    }
}

#[async_trait]
impl Clock for Told {
    fn now(&self) -> Timestamp {
        self.real.now()
    }
    fn monotonic(&self) -> Duration {
        *self.ahead.lock().expect("not poisoned")
    }
    async fn sleep(&self, duration: Duration) {
        match duration == self.length {
            true => self.go.notified().await,
            false => std::future::pending().await,
        }
    }
}
