//! `clinch doctor` checks the bus.

use std::net::TcpListener;
use std::path::Path;

use clinch_testbed::{Kind, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;

use crate::node::{Folder, clinch};

/// Exit code, and level and text of each line about the bus.
fn about_the_bus(bus: &str) -> (Option<i32>, Vec<(String, String)>) {
    about_the_bus_with(bus, None)
}

/// The same, with other trusted roots than those of the system.
fn about_the_bus_with(bus: &str, roots: Option<&Path>) -> (Option<i32>, Vec<(String, String)>) {
    let folder = Folder::with(&format!(
        "[server]\nlisten = \"127.0.0.1:1\"\n[bus]\nurl = \"{bus}\"\n"
    ));
    let mut command = clinch(&folder.0, &[]);
    command.args(["doctor", "-o", "json"]);
    if let Some(roots) = roots {
        command.env("SSL_CERT_FILE", roots);
    }
    let ran = command.output().expect("it runs");
    let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let word = |one: &Value, name: &str| one[name].as_str().expect("text").to_owned();
    let checks = report["checks"].as_array().expect("checks").iter();
    let lines = checks.filter(|one| one["area"] == "bus");
    let lines = lines.map(|one| (word(one, "level"), word(one, "what")));
    (ran.status.code(), lines.collect())
}

fn has(lines: &[(String, String)], level: &str, text: &str) -> bool {
    let mut lines = lines.iter();
    lines.any(|(of, what)| of == level && what.contains(text))
}

pub(crate) fn sees_how_redis_keeps_what_it_has() {
    let redis = Server::start(Kind::Redis).expect("a server");
    let (code, lines) = about_the_bus(&redis.url());
    assert_eq!(code, Some(0), "{lines:?}");
    assert!(has(&lines, "ok", "redis 7"), "its version: {lines:?}");
    assert!(has(&lines, "ok", "noeviction"), "{lines:?}");
    let everysec = "appendfsync everysec";
    assert!(
        lines.iter().any(|(_, what)| what.contains(everysec)),
        "{lines:?}"
    );
}

pub(crate) fn fails_a_redis_that_may_evict() {
    let cache = ["--maxmemory-policy", "allkeys-lru", "--appendonly", "no"];
    let redis = Server::start_with(Kind::Redis, &cache).expect("a server");
    let (code, lines) = about_the_bus(&redis.url());
    assert_ne!(code, Some(0), "{lines:?}");
    assert!(has(&lines, "fail", "allkeys-lru"), "{lines:?}");
    assert!(has(&lines, "warn", "no persistence"), "{lines:?}");
}

pub(crate) fn sees_how_nats_keeps_what_it_has() {
    let nats = Server::start(Kind::Nats).expect("a server");
    let (code, lines) = about_the_bus(&nats.url());
    assert_eq!(code, Some(0), "{lines:?}");
    assert!(
        has(&lines, "ok", "NATS server 2."),
        "its version: {lines:?}"
    );
    assert!(has(&lines, "ok", "JetStream is on"), "{lines:?}");
    assert!(has(&lines, "ok", "the stream is on disk"), "{lines:?}");
}

pub(crate) fn fails_a_bus_that_does_not_answer() {
    let mut redis = Server::start(Kind::Redis).expect("a server");
    let url = redis.url().replace("redis://", "redis://:s3cret@");
    redis.kill();
    let (code, lines) = about_the_bus(&url);
    assert_ne!(code, Some(0), "{lines:?}");
    assert!(lines.iter().any(|(level, _)| level == "fail"), "{lines:?}");
    assert!(!format!("{lines:?}").contains("s3cret"));
}

/// A Redis with TLS on a port of its own, and its root certificate.
fn redis_with_tls(folder: &Path) -> (Server, u16) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let root = CertifiedIssuer::self_signed(params, key).expect("signed");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, &root).expect("signed");
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let root = file("root.pem", root.pem());
    let certificate = file("cert.pem", certificate.pem());
    let key = file("key.pem", key.serialize_pem());
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let redis = Server::start_with(
        Kind::Redis,
        &[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &root,
            "--tls-auth-clients",
            "no",
        ],
    );
    (redis.expect("a server with TLS"), port)
}

pub(crate) fn reaches_redis_over_tls_and_refuses_strange_certificates() {
    let folder = Folder::with("");
    let (redis, port) = redis_with_tls(&folder.0);
    let root = folder.0.join("root.pem");
    let url = format!("rediss://localhost:{port}");
    let (code, lines) = about_the_bus_with(&url, Some(&root));
    assert_eq!(code, Some(0), "{lines:?}");
    assert!(has(&lines, "ok", "redis 7"), "{lines:?}");
    // Signed by an unknown authority, and for another name.
    let other_name = format!("rediss://127.0.0.1:{port}");
    for (url, roots) in [(&url, None), (&other_name, Some(&*root))] {
        let (code, lines) = about_the_bus_with(url, roots);
        assert_ne!(code, Some(0), "{url}: {lines:?}");
        let said = has(&lines, "fail", "TLS to redis failed");
        assert!(said, "{url}: {lines:?}");
    }
    // A server without TLS waits for the rest of a command until the client gives up.
    let plain = format!("rediss://localhost:{}", redis.port());
    let (code, lines) = about_the_bus_with(&plain, Some(&root));
    assert_ne!(code, Some(0), "{lines:?}");
    let sentinels = format!("rediss+sentinel://localhost:{port}/main");
    let (code, lines) = about_the_bus(&sentinels);
    assert_ne!(code, Some(0), "{lines:?}");
    assert!(
        has(&lines, "fail", "sentinels are not asked over TLS"),
        "{lines:?}"
    );
}
