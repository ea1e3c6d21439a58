//! What goes wrong on the way: before the first byte, and after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Attempt, Executor, Probe, ProbeVerdict};
use clinch_core::{Outcome, Retry};
use clinch_http::{HttpClient, Network, SystemNetwork};
use clinch_protect::{Chain, Destination, DestinationConfig};
use clinch_system::SystemClock;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::probe::probing;
use crate::support::{
    FakeNetwork, Lease, Provider, Reply, Told, call, client_on, envelope, executor, executor_on,
    lease, route, status,
};

#[tokio::test]
async fn what_fails_before_the_first_byte_is_not_applied() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let refused = call(&executor(route(format!("http://{address}/")))).await;
    let expected = Retry::not_applied("connect_failed: connection refused");
    assert_eq!(refused, Outcome::Retry(expected));

    let network = Arc::new(FakeNetwork::default().name("empty.example", &[&[]]));
    for name in ["missing.example", "empty.example"] {
        let executor = executor_on(&client_on(&network), route(format!("https://{name}/")));
        assert_eq!(
            call(&executor).await,
            Outcome::Retry(Retry::not_applied("dns_failed"))
        );
    }
    assert!(network.dials().is_empty());
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_not_applied_on_the_real_resolver_too() {
    // Reserved never to exist (RFC 6761). Which way it fails depends on the machine's resolver.
    let outcome = call(&executor(route("https://clinch.invalid/"))).await;
    let Outcome::Retry(retry) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(retry.applied, clinch_core::Applied::No);
}

/// Dials go nowhere.
struct Silence(Arc<Told>);

#[async_trait]
impl Network for Silence {
    async fn resolve(&self, _: &str, _: u16) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(vec!["1.1.1.1".parse().expect("an address")])
    }
    async fn connect(&self, _: std::net::SocketAddr) -> std::io::Result<TcpStream> {
        self.0.go.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_connection_that_does_not_come_up_in_time_is_not_applied() {
    let clock = Told::new(Duration::from_millis(1_234));
    let builder = HttpClient::builder(clock.clone());
    let client = builder
        .network(Arc::new(Silence(clock)))
        .build()
        .expect("a client");
    let executor = executor_on(&client, route("https://psp.example/"));
    let outcome = call(&executor.connect_timeout(Duration::from_millis(1_234))).await;
    assert_eq!(
        outcome,
        Outcome::Retry(Retry::not_applied("connect_timeout"))
    );
}

/// Dials end at somebody who closes at once, and the news of it is here before the stream is.
struct Closing(std::net::SocketAddr, AtomicUsize);

#[async_trait]
impl Network for Closing {
    async fn resolve(&self, _: &str, _: u16) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(vec!["1.1.1.1".parse().expect("an address")])
    }
    async fn connect(&self, _: std::net::SocketAddr) -> std::io::Result<TcpStream> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let stream = SystemNetwork.connect(self.0).await?;
        stream.readable().await?;
        Ok(stream)
    }
}

#[tokio::test]
async fn a_request_that_no_connection_took_is_not_applied() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let network = Arc::new(Closing(address, AtomicUsize::new(0)));
    let builder = HttpClient::builder(Arc::new(SystemClock::new()));
    let client = builder.network(network.clone()).build().expect("a client");
    let outcome = call(&executor_on(&client, route("http://psp.example/"))).await;
    let expected = Retry::not_applied("connect_failed: connection closed");
    assert_eq!(outcome, Outcome::Retry(expected));
    assert_eq!(network.1.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_breaks_after_the_request_was_read_is_unknown() {
    let lost = |reason: &str| Outcome::Retry(Retry::unknown(format!("connection_lost: {reason}")));
    let closed = "connection closed before the answer";
    let cases = [
        (Reply::Reset, lost("connection lost")),
        (Reply::Last(Vec::new()), lost(closed)),
        (Reply::Last(b"HTTP/1.1 200".to_vec()), lost(closed)),
        (
            Reply::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n".to_vec()),
            lost(closed),
        ),
        (
            Reply::Last(b"220 smtp.example ESMTP\r\n\r\n".to_vec()),
            lost("not an HTTP answer"),
        ),
    ];
    for (reply, expected) in cases {
        let provider = Provider::start([reply.clone()]).await;
        let outcome = call(&executor(route(provider.url("/")))).await;
        assert_eq!(outcome, expected, "{reply:?}");
    }
}

#[tokio::test]
async fn a_yes_that_ends_in_the_middle_is_unknown() {
    for cut in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{\"id\":\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n",
    ] {
        let provider = Provider::start([Reply::Last(cut.into())]).await;
        let outcome = call(&executor(route(provider.url("/")))).await;
        assert_eq!(
            outcome,
            Outcome::Retry(Retry::unknown("short_read")),
            "{cut:?}"
        );
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let mut provider = Provider::start([Reply::Silent]).await;
    let executor = executor(route(provider.url("/")));
    tokio::select! {
        outcome = call(&executor) => panic!("answered: {outcome:?}"),
        _ = provider.request() => {}
    }
    provider.closed().await;
    // The next call has a connection of its own.
    assert!(matches!(call(&executor).await, Outcome::Ok(_)));
    assert_eq!(provider.request().await.0, 1);
}

#[tokio::test]
async fn a_timeout_after_sending_is_unknown() {
    let mut provider = Provider::start([Reply::Silent]).await;
    let clock = Told::new(Duration::from_secs(3));
    let config = DestinationConfig::default();
    let destination = Destination::new("psp", clock.clone(), config);
    let inner = Arc::new(executor(route(provider.url("/"))));
    let destination = Arc::new(destination.expect("a destination"));
    let chain = Chain::new(inner, destination, clock.clone());
    let waits = async {
        provider.request().await;
        clock.go.notify_one();
        std::future::pending::<()>().await
    };
    let envelope = envelope("order-123", &json!({}));
    let attempt = lease();
    let outcome = tokio::select! {
        outcome = chain.execute(&envelope, &attempt) => outcome,
        () = waits => unreachable!(),
    };
    let Outcome::Retry(retry) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(retry.applied, clinch_core::Applied::Unknown);
}

#[tokio::test]
async fn the_lease_is_asked_for_after_connecting_and_before_the_first_byte() {
    for is_canceled in [false, true] {
        let mut provider = Provider::start([]).await;
        let attempt = Arc::new(Lease::default());
        let seen = attempt.clone();
        let mut network = FakeNetwork::to(&provider).name("psp.example", &[&["1.1.1.1"]]);
        // It goes while the connection comes up.
        network.on_dial = Some(Box::new(move || match is_canceled {
            true => seen.is_canceled.store(true, Ordering::SeqCst),
            false => seen.is_lost.store(true, Ordering::SeqCst),
        }));
        let network = Arc::new(network);
        let executor = executor_on(&client_on(&network), route("http://psp.example/"));
        let attempt: Arc<dyn Attempt> = attempt;
        let outcome = executor.execute(&envelope("k", &json!({})), &attempt).await;
        let reason = if is_canceled {
            "canceled"
        } else {
            "lease_lost"
        };
        assert_eq!(outcome, Outcome::Retry(Retry::not_called(reason)));
        assert_eq!(network.dials(), ["1.1.1.1"]);
        // Nothing was sent: the next is the first that the provider sees.
        assert!(matches!(call(&executor).await, Outcome::Ok(_)));
        assert_eq!(provider.requests(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_the_provider_closes_is_not_used_again() {
    let close = || status("200 OK", "Connection: close\r\n", "{}");
    let mut provider = Provider::start([close(), close()]).await;
    let executor = executor(route(provider.url("/")));
    for on in 0..3 {
        assert!(matches!(call(&executor).await, Outcome::Ok(_)));
        assert_eq!(provider.request().await.0, on);
    }
}

/// A machine that has run out of something.
struct Exhausted {
    errno: rustix::io::Errno,
    at_the_name: bool,
    /// Errors of the addresses that are dialled, the first first; then the machine's own.
    before: Vec<std::io::ErrorKind>,
    dialled: AtomicUsize,
}

impl Exhausted {
    fn new(errno: rustix::io::Errno) -> Self {
        Self {
            errno,
            at_the_name: false,
            before: Vec::new(),
            dialled: AtomicUsize::new(0),
        }
    }

    fn client(self) -> HttpClient {
        let builder = HttpClient::builder(Arc::new(SystemClock::new()));
        builder.network(Arc::new(self)).build().expect("a client")
    }

    async fn call(self) -> Outcome {
        call(&executor_on(&self.client(), route("https://psp.example/"))).await
    }
}

#[async_trait]
impl Network for Exhausted {
    async fn resolve(&self, _: &str, _: u16) -> std::io::Result<Vec<std::net::IpAddr>> {
        match self.at_the_name {
            true => Err(self.errno.into()),
            false => Ok(["1.1.1.1", "1.0.0.1"]
                .map(|ip| ip.parse().expect("an address"))
                .to_vec()),
        }
    }
    async fn connect(&self, _: std::net::SocketAddr) -> std::io::Result<TcpStream> {
        let at = self.dialled.fetch_add(1, Ordering::SeqCst);
        Err(match self.before.get(at) {
            Some(kind) => (*kind).into(),
            None => self.errno.into(),
        })
    }
}

#[tokio::test]
async fn a_machine_without_descriptors_or_ports_has_called_nobody() {
    use rustix::io::Errno;
    for (errno, what) in [
        (Errno::MFILE, "no file descriptor is free"),
        (Errno::NFILE, "no file descriptor is free"),
        (Errno::ADDRNOTAVAIL, "no port is free"),
        (Errno::NOBUFS, "no socket buffer is free"),
    ] {
        let not_called = Retry::not_called(format!("exhausted: {what}"));
        let expected = Outcome::Retry(not_called.after(Duration::from_secs(2)));
        assert_eq!(Exhausted::new(errno).call().await, expected, "{errno:?}");
        let at_the_name = Exhausted {
            at_the_name: true,
            ..Exhausted::new(errno)
        };
        assert_eq!(at_the_name.call().await, expected, "{errno:?} at the name");
    }
    // An address that was reached and refused tells more than one that was not.
    let refused = Exhausted {
        before: vec![std::io::ErrorKind::ConnectionRefused],
        ..Exhausted::new(Errno::ADDRNOTAVAIL)
    };
    let expected = Retry::not_applied("connect_failed: connection refused");
    assert_eq!(refused.call().await, Outcome::Retry(expected));
}

#[tokio::test]
async fn a_probe_that_cannot_be_sent_is_no_doubt() {
    let client = Exhausted::new(rustix::io::Errno::MFILE).client();
    let route = probing("https://psp.example/find?key={outbound_key}".to_owned());
    let probe = executor_on(&client, route).probe().expect("a probe");
    let verdict = probe.probe(&envelope("order-123", &json!({}))).await;
    assert_eq!(verdict, ProbeVerdict::NotAsked);
}
