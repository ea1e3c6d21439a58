//! Encrypted calls: whom to trust, and HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clinch_core::{Outcome, Retry};
use clinch_http::{HttpClient, HttpExecutor};
use clinch_system::SystemClock;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::support::{FakeNetwork, Provider, call, executor_on, keyed, route};

/// A provider behind TLS that says how it was called; `/silent` never answers.
struct Encrypted {
    network: Arc<FakeNetwork>,
    /// The authority that vouches for it.
    authority: Vec<u8>,
    connections: Arc<AtomicUsize>,
    called: Arc<Notify>,
}

impl Encrypted {
    async fn start(name: &str, protocols: &[&[u8]]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .expect("a certificate");
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let network = FakeNetwork {
            provider: listener.local_addr().ok(),
            ..FakeNetwork::default()
        };
        let this = Self {
            network: Arc::new(network.name("psp.example", &[&["1.1.1.1"]])),
            authority: issuer.der().to_vec(),
            connections: Arc::default(),
            called: Arc::default(),
        };
        let (connections, called) = (this.connections.clone(), this.called.clone());
        tokio::spawn(accept(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            connections,
            called,
        ));
        this
    }

    fn executor(&self, url: &str, is_trusted: bool) -> HttpExecutor {
        let mut builder =
            HttpClient::builder(Arc::new(SystemClock::new())).network(self.network.clone());
        if is_trusted {
            builder = builder.trust(self.authority.clone());
        }
        executor_on(&builder.build().expect("a client"), route(url))
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    connections: Arc<AtomicUsize>,
    called: Arc<Notify>,
) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, connections, called) =
            (acceptor.clone(), connections.clone(), called.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(tcp).await else {
                return;
            };
            connections.fetch_add(1, Ordering::SeqCst);
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let io = TokioIo::new(stream);
            let service = service_fn(|request| answer(request, called.clone()));
            if is_http2 {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(io, service).await;
            } else {
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(io, service).await;
            }
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    called: Arc<Notify>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    called.notify_one();
    let (head, body) = request.into_parts();
    if head.uri.path() == "/silent" {
        std::future::pending::<()>().await;
    }
    let sent = body.collect().await.expect("a body").to_bytes();
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let said = json!({
        "version": format!("{:?}", head.version),
        "uri": head.uri.to_string(),
        "host": text("host"),
        "attempt": text("x-clinch-attempt"),
        "body": serde_json::from_slice::<Value>(&sent).expect("JSON"),
    });
    Ok(Response::new(Full::from(said.to_string())))
}

async fn said(executor: &HttpExecutor) -> Value {
    let done = call(executor).await;
    let Outcome::Ok(success) = done else {
        panic!("{done:?}")
    };
    success.payload.value()
}

#[tokio::test]
async fn http_1_and_2_are_spoken_as_the_provider_likes() {
    let provider = Encrypted::start("psp.example", &[b"http/1.1"]).await;
    let told = said(&provider.executor("https://psp.example/v1?a=b", true)).await;
    let expected = json!({"version": "HTTP/1.1", "uri": "/v1?a=b", "host": "psp.example",
        "attempt": "3", "body": {"amount": 5_000}});
    assert_eq!(told, expected);
    let provider = Encrypted::start("psp.example", &[b"h2", b"http/1.1"]).await;
    let told = said(&provider.executor("https://psp.example:8443/v1?a=b", true)).await;
    let expected = json!({"version": "HTTP/2.0", "uri": "https://psp.example:8443/v1?a=b",
        "host": null, "attempt": "3", "body": {"amount": 5_000}});
    assert_eq!(told, expected);
    // No word about versions.
    let provider = Encrypted::start("psp.example", &[]).await;
    let told = said(&provider.executor("https://psp.example/", true)).await;
    assert_eq!(told["version"], "HTTP/1.1");
}

#[tokio::test]
async fn calls_share_an_http_2_connection() {
    let provider = Encrypted::start("psp.example", &[b"h2"]).await;
    let executor = provider.executor("https://psp.example/{payload.amount}", true);
    let executor = executor.safety(keyed());
    said(&executor).await;
    let mut calls = Vec::new();
    for _ in 0..20 {
        let executor = executor.clone();
        calls.push(tokio::spawn(async move { said(&executor).await }));
    }
    for call in calls {
        call.await.expect("an answer");
    }
    assert_eq!(provider.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_http_2_connection_that_left_a_call_without_answer_is_not_used_again() {
    let provider = Encrypted::start("psp.example", &[b"h2"]).await;
    let client = HttpClient::builder(Arc::new(SystemClock::new()));
    let client = client
        .network(provider.network.clone())
        .trust(provider.authority.clone());
    let client = client.build().expect("a client");
    let fine = executor_on(&client, route("https://psp.example/")).safety(keyed());
    let silent = executor_on(&client, route("https://psp.example/silent")).safety(keyed());
    said(&fine).await;
    provider.called.notified().await;
    tokio::select! {
        outcome = call(&silent) => panic!("answered: {outcome:?}"),
        () = provider.called.notified() => {}
    }
    assert_eq!(provider.connections.load(Ordering::SeqCst), 1);
    said(&fine).await;
    assert_eq!(provider.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn whom_we_cannot_trust_gets_nothing() {
    let failed = |reason: &str| Outcome::Retry(Retry::not_applied(format!("tls_failed: {reason}")));
    let provider = Encrypted::start("psp.example", &[b"h2"]).await;
    let unknown = call(&provider.executor("https://psp.example/", false)).await;
    assert_eq!(unknown, failed("certificate of an unknown issuer"));
    let provider = Encrypted::start("other.example", &[b"h2"]).await;
    let other = call(&provider.executor("https://psp.example/", true)).await;
    assert_eq!(other, failed("certificate of another host"));
    assert_eq!(provider.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_port_that_speaks_no_tls_is_not_applied() {
    let mut provider = Provider::start([]).await;
    // It answers our greeting with something else.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let _ = stream.read(&mut [0; 64]).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.shutdown().await;
    });
    let outcome = call(&executor_on(
        &crate::support::client(),
        route(format!("https://{address}/")),
    ))
    .await;
    let Outcome::Retry(retry) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(retry, Retry::not_applied("tls_failed: not a TLS answer"));
    assert_eq!(provider.requests(), 0);
}

#[test]
fn a_certificate_that_cannot_be_read_is_refused() {
    let builder = HttpClient::builder(Arc::new(SystemClock::new()));
    let error = builder
        .trust(b"not a certificate".to_vec())
        .build()
        .expect_err("refused");
    assert!(error.to_string().contains("certificate"), "{error}");
}
