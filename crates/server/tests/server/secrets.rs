//! Canaries: secrets that must not appear anywhere.

use std::io::Write;
use std::sync::{Arc, Mutex};

use clinch_server::Role;
use clinch_server::auth::{Scope, create};
use serde_json::json;

use crate::harness::{ROUTES, Running, command, config, store};

const CANARY: &str = "hunter2-canary";

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("lines").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Captures every log line of this process from now on.
fn capture() -> Lines {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .json()
        .with_writer(move || writer.clone())
        .finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
    lines
}

/// The capture needs a process of its own; nextest provides it.
#[tokio::test]
async fn core_16_secrets_are_in_no_log_metric_problem_or_listing() {
    let lines = capture();
    let memory = store();
    let now = clinch_core::ports::Clock::now(&clinch_system::SystemClock::new());
    let (_, key) = create(&memory, "tests", &[Scope::Admin], now, None)
        .await
        .expect("made");
    let text = ROUTES.replace(
        "url = \"test://psp/fail\"",
        &format!("url = \"test://psp/fail\"\nheaders = {{ authorization = \"Bearer {CANARY}\" }}"),
    );
    assert!(text.contains(CANARY));
    let server = Running::with(&text, memory, &Role::ALL).await;
    let bearer = format!("Bearer {}", key.reveal());
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let mut seen = vec![config(&text).print()];
    seen.extend(submissions(&server, &headers).await);
    let wrong_key = [
        ("authorization", "Bearer clk_hunter2-canary"),
        ("content-type", "application/json"),
    ];
    seen.push(server.send("GET", "/v1/domains", &wrong_key, "").await.text);
    for path in [
        "/metrics",
        "/v1/dead-letters",
        "/v1/dead-letters?group=true",
        "/v1/domains",
        "/v1/destinations",
        "/v1/operations",
    ] {
        let reply = server.send("GET", path, &headers, "").await;
        assert_eq!(reply.status, 200, "{path}");
        seen.push(reply.text);
    }
    server.stop().await;
    seen.push(String::from_utf8_lossy(&lines.0.lock().expect("lines")).into_owned());
    assert!(
        seen.last().is_some_and(|log| log.contains("stopped")),
        "the log is read"
    );
    for text in &seen {
        assert!(!text.contains(CANARY), "{text}");
        assert!(!text.contains(key.reveal()), "{text}");
    }
}

/// The answers about operations with a secret in their payload.
async fn submissions(server: &Running, headers: &[(&str, &str)]) -> Vec<String> {
    let mut seen = Vec::new();
    let with_secret = |event_type: &str, key: &str| {
        let mut body = command("pay", event_type, key);
        body["payload"] = json!({"card": CANARY, CANARY: 1});
        body.to_string()
    };
    for (event_type, key) in [("ok", "a"), ("fail", "b"), ("unsure", "c"), ("panics", "d")] {
        let path = "/v1/operations?wait=1s";
        seen.push(
            server
                .send("POST", path, headers, &with_secret(event_type, key))
                .await
                .text,
        );
    }
    // The same keys with another payload, and payloads that are refused.
    let other = with_secret("ok", "a").replace(":1}", ":2}");
    seen.push(
        server
            .send("POST", "/v1/operations", headers, &other)
            .await
            .text,
    );
    let twice = format!(
        r#"{{"domain":"pay","event_type":"ok","biz_key":"b","idem_key":"k","payload":{{"{CANARY}":1,"{CANARY}":2}}}}"#
    );
    seen.push(
        server
            .send("POST", "/v1/operations", headers, &twice)
            .await
            .text,
    );
    let cut = format!(r#"{{"payload":"{CANARY}"#);
    seen.push(
        server
            .send("POST", "/v1/operations", headers, &cut)
            .await
            .text,
    );
    seen
}
