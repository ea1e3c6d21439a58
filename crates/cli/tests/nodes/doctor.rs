//! `clinch doctor` looks at the server that carries hints.

use clinch_servers::{Kind, Server};
use serde_json::Value;

use crate::node::{Folder, run};

/// Exit code, and level and text of each line about the bus.
fn about_the_bus(bus: &str) -> (Option<i32>, Vec<(String, String)>) {
    let folder = Folder::with(&format!(
        "[server]\nlisten = \"127.0.0.1:1\"\n[bus]\nurl = \"{bus}\"\n"
    ));
    let ran = run(&folder.0, &["doctor", "-o", "json"]);
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
