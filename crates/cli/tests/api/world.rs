//! One server with a route for every kind of answer.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::http::{Client, Seen};
use crate::process::{Folder, Process};
use crate::provider::Provider;
use crate::table::{self, Route};

const SERVER: &str = r#"
[server]
listen = "127.0.0.1:0"
payload_max = "1KiB"
bulk_max = "100KiB"
[github]
api_url = "http://127.0.0.1:1"
token_keys = ["b2xkIG1hY2hpbmVzIHNpbmcgYXQgbmlnaHQgYWxvbmU"]
"#;

/// Name, domain, event type, what the provider does, and the rest of the route.
const ROUTES: [(&str, &str, &str, &str, &str); 15] = [
    ("ok", "pay", "ok", "200", "safety = \"natural\""),
    ("fail", "pay", "fail", "402", ""),
    ("unsure", "pay", "unsure", "500", ""),
    ("gated", "pay", "gated", "gate", "safety = \"natural\""),
    ("stopped", "stopped", "ok", "200", "safety = \"natural\""),
    (
        "lane",
        "lane",
        "step",
        "gate",
        "safety = \"natural\"\norder = \"key\"",
    ),
    (
        "limited",
        "pay",
        "limited",
        "200",
        "safety = \"natural\"\nrate = { permits = 1, per = \"1h\" }",
    ),
    (
        "broken",
        "pay",
        "broken",
        "500",
        "safety = \"natural\"\nbreaker = { window = 2, min_calls = 2, open = \"1h\" }\nretry = { base = \"1ms\", cap = \"1ms\", max_attempts = 9 }",
    ),
    (
        "narrow",
        "pay",
        "narrow",
        "gate",
        "safety = \"natural\"\nconcurrency = 1\nunavailable_is_clean = true\nretry = { base = \"100ms\", cap = \"100ms\" }",
    ),
    ("away", "away", "*", "", "remote = true"),
    ("far", "far", "*", "", "remote = true"),
    ("order", "queue", "*", "", "remote = true\norder = \"key\""),
    // Only paused and resumed.
    ("spare", "spare", "*", "", "remote = true"),
    ("pause", "pause", "*", "", "remote = true"),
    ("resume", "resume", "*", "", "remote = true"),
];

/// No process listens at this address.
const REFUSED: &str = r#"
[[route]]
name = "refused"
domain = "pay"
event_type = "refused"
url = "http://127.0.0.1:1/"
safety = "natural"
retry = { base = "1h", cap = "1h" }
"#;

/// The configuration with every route.
pub(crate) fn config(provider: &Provider) -> String {
    let mut text = SERVER.to_owned();
    for (name, domain, event_type, what, rest) in ROUTES {
        text.push_str(&format!(
            "[[route]]\nname = \"{name}\"\ndomain = \"{domain}\"\nevent_type = \"{event_type}\"\n{rest}\n"
        ));
        if !what.is_empty() {
            let base = provider.url();
            text.push_str(&format!(
                "url = \"{base}/{what}/{{biz_key}}\"\ndestination = \"{name}\"\ntimeout = \"10m\"\n"
            ));
        }
    }
    text + REFUSED
}

/// A command; the idempotency key is the business key.
pub(crate) fn command(domain: &str, event_type: &str, key: &str) -> Value {
    json!({"domain": domain, "event_type": event_type, "biz_key": key, "idem_key": key, "payload": {"amount": 5000}})
}

/// A server, its provider and its client.
pub(crate) struct World {
    pub(crate) process: Process,
    pub(crate) folder: Folder,
    pub(crate) provider: Provider,
    pub(crate) client: Client,
    pub(crate) seen: Seen,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let provider = Provider::start();
        let config = config(&provider);
        Self::with(name, &config, provider, &Seen::default())
    }

    pub(crate) fn with(name: &str, config: &str, provider: Provider, seen: &Seen) -> Self {
        let folder = Folder::with(name, config);
        let process = Process::start(&folder);
        let client = Client::new(process.address, seen);
        Self {
            process,
            folder,
            provider,
            client,
            seen: seen.clone(),
        }
    }

    /// The routes in the server's description.
    pub(crate) fn routes(&self) -> Vec<Route> {
        table::routes(&self.client.get("/openapi.json").body)
    }

    /// Submits an operation without waiting; returns its id.
    pub(crate) fn submit(&self, domain: &str, event_type: &str, key: &str) -> String {
        let command = command(domain, event_type, key);
        let reply = self.client.submit(&command);
        assert!(matches!(reply.status, 200 | 202), "{}", reply.text);
        reply.op_id()
    }

    /// An operation whose call may have been applied.
    pub(crate) fn held(&self, key: &str) -> String {
        let id = self.submit("pay", "unsure", key);
        self.client.phase(&id, "held");
        id
    }

    /// Leases the next operation of a domain: its id, and the members that every report must carry.
    pub(crate) fn lease(&self, domain: &str) -> (String, Value) {
        let ask = json!({"domain": domain, "wait": "60s", "lease": "10m", "worker": "python-1"});
        let leased = self.client.post("/v1/leases", &ask).is(200).body;
        let delivery = &leased["deliveries"][0];
        let id = delivery["op_id"].as_str().expect("a delivery").to_owned();
        let (fence, token) = (&delivery["fence"], &delivery["token"]);
        assert!(fence.is_u64() && token.is_string(), "{delivery}");
        (id, json!({"fence": fence, "token": token}))
    }

    /// Opens a stream of events and reads its beginning.
    pub(crate) fn events(&self) -> (std::net::TcpStream, String) {
        let mut stream = self.client.open("GET", "/v1/events", &[], 0);
        let mut text = String::new();
        read_until(&mut stream, &mut text, "event: counters");
        self.client.saw("GET", "/v1/events", text.as_bytes());
        (stream, text)
    }
}

/// Reads until the text arrives.
pub(crate) fn read_until(stream: &mut std::net::TcpStream, text: &mut String, wanted: &str) {
    let mut chunk = [0; 4_096];
    while !text.contains(wanted) {
        let count = stream.read(&mut chunk).expect("read");
        assert!(count > 0, "it ended: {text}");
        text.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
}
