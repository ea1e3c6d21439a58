//! Secrets, payloads and answers only go where they are meant to go.
//!
//! A server with secrets in its configuration gets traffic with secrets in it: calls that succeed,
//! that are refused, that fail until they are dead letters, and requests that are wrong in every
//! way. Afterwards the test reads everything that a person or a collector could read without asking
//! for an operation's own document.

use serde_json::{Value, json};

use crate::provider::{Provider, http};
use crate::support::{Folder, Server, clinch, run, text};

/// One secret per place, so that a leak shows its source.
const ROUTE_SECRET: &str = "canary-route-5b1e";
const WRONG_KEY: &str = "clk_canary-wrong-77aa";
const COOKIE: &str = "canary-cookie-90cd";
const PAYLOAD: &str = "canary-payload-1f2e";
const RESULT: &str = "canary-result-aa31";
const REFUSAL: &str = "canary-refusal-3c4d";
const IDEM_KEY: &str = "canary-idem-6e7f";

fn answer(path: &str) -> (u16, String) {
    match path {
        "/ok" => (200, json!({"id": "tx_1", "said": RESULT}).to_string()),
        // A code of the provider may be shown as the cause, but not its text, and no code that
        // repeats what was sent.
        "/refuse" => {
            let refusal = json!({"error": "card_declined", "message": format!("no {REFUSAL}")});
            (402, refusal.to_string())
        }
        "/busy" => (
            503,
            json!({"error": PAYLOAD, "detail": REFUSAL}).to_string(),
        ),
        _ => (404, format!("no {REFUSAL}")),
    }
}

fn configuration(provider: &Provider) -> String {
    let route = |name: &str| {
        format!(
            r#"
[[route]]
name = "{name}"
domain = "payments"
event_type = "{name}"
destination = "{name}"
url = "http://{}/{name}"
safety = "natural"
unavailable_is_clean = true
headers = {{ authorization = "Bearer ${{env:CANARY_ROUTE}}" }}
txn_id = "json:/id"
retry = {{ max_attempts = 2, base = "10ms" }}
"#,
            provider.address
        )
    };
    ["ok", "refuse", "busy"].map(route).concat()
}

/// Further headers of a request.
type Headers = Vec<(&'static str, &'static str)>;

/// Everything that can be read of a server, with its source.
struct Seen(Vec<(String, String)>);

impl Seen {
    fn keep(&mut self, what: &str, said: String) {
        self.0.push((what.to_owned(), said));
    }
}

#[test]
fn core_16_no_canary_leaves_by_logs_metrics_problems_listings_or_reports() {
    let folder = Folder::new("canary");
    let provider = Provider::start(answer);
    std::fs::write(folder.0.join("clinch.toml"), configuration(&provider)).expect("a file");
    let made = run(&folder.0, &["keys", "create", "shop", "--scopes", "admin"]);
    let key = text(&made.stdout).trim().to_owned();
    assert!(key.starts_with("clk_"), "{}", text(&made.stderr));
    let mut command = clinch(&folder.0);
    let listen = "server.listen=127.0.0.1:0";
    command.args([
        "serve",
        "--log",
        "json",
        "--log-filter",
        "trace",
        "--set",
        listen,
    ]);
    let server = Server::of(command.env("CANARY_ROUTE", ROUTE_SECRET));
    let mut seen = Seen(Vec::new());
    traffic(&server, &key, &mut seen);
    assert!(
        provider.heads().contains(ROUTE_SECRET),
        "the provider gets its secret"
    );
    commands(&folder, &server, &key, &mut seen);
    let bearer = format!("Bearer {key}");
    let scrape = [("authorization", bearer.as_str())];
    let (status, metrics) = http(server.address, "GET /metrics", &scrape, "");
    assert_eq!(status, 200);
    assert!(
        metrics.contains("orchestrator_dlq_count_total"),
        "{metrics}"
    );
    seen.keep("/metrics", metrics);
    let log = server.stop();
    assert!(log.lines().count() > 20, "it logs: {log}");
    seen.keep("the log", log);
    let canaries = [
        ROUTE_SECRET,
        WRONG_KEY,
        COOKIE,
        PAYLOAD,
        RESULT,
        REFUSAL,
        IDEM_KEY,
        &key,
    ];
    for (what, said) in &seen.0 {
        for canary in canaries {
            let line = said.lines().find(|line| line.contains(canary));
            assert!(line.is_none(), "{what} shows {canary}: {line:?}");
        }
    }
}

/// A client that submits.
struct Caller<'a> {
    server: &'a Server,
    bearer: &'a str,
}

impl Caller<'_> {
    fn post(&self, body: &str, more: &[(&str, &str)]) -> (u16, String) {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("cookie", COOKIE),
            ("prefer", "wait=30"),
        ];
        headers.extend_from_slice(more);
        if !more.iter().any(|(name, _)| *name == "authorization") {
            headers.push(("authorization", self.bearer));
        }
        http(self.server.address, "POST /v1/operations", &headers, body)
    }
}

fn operation(kind: &str, key: &str) -> Value {
    let payload = json!({"card": PAYLOAD});
    json!({"domain": "payments", "event_type": kind, "biz_key": key, "idem_key": key,
           "payload": payload})
}

/// A command without idem_key, which goes in the header.
fn keyed_by_header(payload: &str) -> String {
    let mut keyed = operation("ok", "by-header");
    let members = keyed.as_object_mut().expect("an object");
    members.remove("idem_key");
    keyed["payload"] = json!({"card": payload});
    keyed.to_string()
}

/// Submits operations of every kind, and invalid requests; keeps the refusals.
fn traffic(server: &Server, key: &str, seen: &mut Seen) {
    let bearer = format!("Bearer {key}");
    let caller = Caller {
        server,
        bearer: &bearer,
    };
    for (kind, state) in [
        ("ok", "COMPLETED"),
        ("refuse", "FAILED"),
        ("busy", "FAILED"),
    ] {
        let (status, document) = caller.post(&operation(kind, kind).to_string(), &[]);
        assert_eq!(status, 200, "{document}");
        assert!(document.contains(state), "{document}");
    }
    let by_header = [("idempotency-key", IDEM_KEY)];
    let (status, document) = caller.post(&keyed_by_header(PAYLOAD), &by_header);
    assert_eq!(status, 200, "{document}");
    for (expected, body, more) in wrong_requests() {
        let (status, problem) = caller.post(&body, &more);
        assert_eq!(status, expected, "{problem}");
        seen.keep("a problem document", problem);
    }
    let strange = format!("Bearer {WRONG_KEY}");
    let basic = format!("Basic {COOKIE}");
    for value in [strange.as_str(), basic.as_str()] {
        let body = operation("ok", "not-let-in").to_string();
        let (status, problem) = caller.post(&body, &[("authorization", value)]);
        assert_eq!(status, 401, "{problem}");
        seen.keep("a problem document", problem);
    }
    let plain = [("content-type", "text/plain"), ("authorization", &bearer)];
    let (status, problem) = http(server.address, "POST /v1/operations", &plain, PAYLOAD);
    assert_eq!(status, 415, "{problem}");
    seen.keep("a problem document", problem);
}

/// Requests that are wrong in every way, with secrets in the wrong place, and the status of each.
fn wrong_requests() -> Vec<(u16, String, Headers)> {
    let other = keyed_by_header(&format!("{PAYLOAD}-other"));
    let by_header = ("idempotency-key", IDEM_KEY);
    let no_name = json!({"domain": {"a": PAYLOAD}});
    let no_number = json!({"domain": "payments", "priority": PAYLOAD});
    let too_long = json!({"payload": PAYLOAD.repeat(30_000)});
    vec![
        (422, other.clone(), vec![by_header]),
        (400, other, vec![("idempotency-key", "a"), by_header]),
        (400, format!("{{\"payload\": {PAYLOAD}"), vec![]),
        (400, format!("\"{PAYLOAD}\""), vec![]),
        (400, operation("unknown", "a").to_string(), vec![]),
        (400, no_name.to_string(), vec![]),
        (400, no_number.to_string(), vec![]),
        (413, too_long.to_string(), vec![]),
    ]
}

/// Commands that people type, with the key in their environment.
fn commands(folder: &Folder, server: &Server, key: &str, seen: &mut Seen) {
    let url = server.url();
    let typed: [&[&str]; 11] = [
        &["dlq", "ls", "--url", &url],
        &["dlq", "ls", "-o", "json", "--url", &url],
        &["dlq", "ls", "--group", "-o", "json", "--url", &url],
        &["domains", "ls", "-o", "json", "--url", &url],
        &["destinations", "ls", "-o", "json", "--url", &url],
        &["keys", "ls"],
        &["doctor", "--url", &url],
        &["doctor", "-o", "json", "--url", &url],
        &["serve", "--print-config"],
        &["migrate", "-o", "json"],
        &["backup", "copy.db"],
    ];
    for arguments in typed {
        let mut command = clinch(&folder.0);
        let command = command.env("CANARY_ROUTE", ROUTE_SECRET);
        let command = command.env("CLINCH_API_KEY", key).env("RUST_LOG", "trace");
        let ran = command.args(arguments).output().expect("it runs");
        assert_eq!(
            ran.status.code(),
            Some(0),
            "{arguments:?}: {}",
            text(&ran.stderr)
        );
        let said = text(&ran.stdout) + &text(&ran.stderr);
        assert!(!said.is_empty(), "{arguments:?}");
        seen.keep(&arguments.join(" "), said);
    }
    let listed = seen
        .0
        .iter()
        .find(|(what, _)| what.starts_with("dlq ls -o json"));
    let (_, listed) = listed.expect("it ran");
    assert!(
        listed.contains("http_402") && listed.contains("retry_exhausted"),
        "{listed}"
    );
}
