//! Held operations of a remote route: a real server probes them at a limited rate.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clinch_testbed::wait_until;
use serde_json::json;

use crate::node::{Folder, Node};

/// Number of operations, unless `PROBES_HELD` sets it: `cargo xtask bench probes`.
const HELD: usize = 600;
const PERMITS: usize = 200;
/// How long the provider takes for each probe.
const THINKS: Duration = Duration::from_millis(50);
/// Tolerated delay of a probe on its way: it left within the rate.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// Operations of one request.
const CHUNK: usize = 250;

/// Confirms every call, and records when each probe arrived.
struct Provider {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Duration>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<Duration>>>::default();
        let (book, start) = (asked.clone(), Instant::now());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let book = book.clone();
                std::thread::spawn(move || answer(stream, start, &book));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<Duration> {
        let asked = self.asked.lock();
        let mut asked = asked.unwrap_or_else(PoisonError::into_inner).clone();
        asked.sort();
        asked
    }
}

/// `GET /find/<key>`: applied, with that key.
fn answer(mut stream: TcpStream, start: Instant, book: &Mutex<Vec<Duration>>) {
    let Ok(reading) = stream.try_clone() else {
        return;
    };
    let mut lines = BufReader::new(reading).lines();
    while let Some(Ok(first)) = lines.next() {
        let at = start.elapsed();
        book.lock().unwrap_or_else(PoisonError::into_inner).push(at);
        let path = first.split(' ').nth(1).unwrap_or_default();
        let key = path.rsplit('/').next().unwrap_or_default();
        let body = json!({ "key": key }).to_string();
        let mut head = lines.by_ref().map_while(Result::ok);
        if !head.any(|line| line.is_empty()) {
            return;
        }
        std::thread::park_timeout(THINKS);
        let whole = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(whole.as_bytes()).is_err() {
            return;
        }
    }
}

fn config(store: &Folder, provider: SocketAddr, guards: &str) -> String {
    format!(
        r#"
[store]
url = "sqlite://{}"
[[route]]
name = "charge"
domain = "payments"
event_type = "charge"
remote = true
probe = {{ url = "http://{provider}/find/{{outbound_key}}", match = "json:/key" }}
allow_private = true
{guards}
"#,
        store.0.join("clinch.db").display()
    )
}

/// Submits operations and leases each to a worker that never reports.
fn lose_calls(node: &Node, count: usize) {
    for first in (0..count).step_by(CHUNK) {
        let some = first..(first + CHUNK).min(count);
        let expected = some.len();
        let commands = some.map(|number| {
            json!({"domain": "payments", "event_type": "charge", "biz_key": format!("order-{number}"),
                "idem_key": "a", "payload": null})
        });
        let body = json!({"operations": commands.collect::<Vec<_>>()});
        node.ask("POST", "/v1/operations/bulk", &body.to_string());
        let lease = json!({"domain": "payments", "max": CHUNK, "wait": "30s", "lease": "1s"});
        let leased = node.ask("POST", "/v1/leases", &lease.to_string());
        let leased = leased["deliveries"].as_array().map(Vec::len);
        assert_eq!(leased, Some(expected), "all that are due");
    }
}

pub(crate) fn held_operations_are_asked_about_at_the_rate_and_never_over_it() {
    let held = std::env::var("PROBES_HELD").ok();
    let held = held.and_then(|text| text.parse().ok()).unwrap_or(HELD);
    let provider = Provider::start();
    let store = Folder::with("");
    let node = Node::start(&config(&store, provider.address, ""), "api", &[]);
    lose_calls(&node, held);
    drop(node);
    let rate = format!("rate = {{ permits = {PERMITS}, per = \"1s\" }}");
    let node = Node::start(
        &config(&store, provider.address, &rate),
        "api,recovery",
        &[],
    );
    let began = Instant::now();
    let settled = wait_until(Duration::from_secs(600), || {
        let said = node.ask("GET", "/v1/domains", "");
        said["domains"][0]["counts"]["COMPLETED"] == held
    });
    let took = began.elapsed();
    assert!(settled, "{}", node.ask("GET", "/v1/domains", ""));
    let asked = provider.asked();
    let most = |within: Duration| {
        let until = |at: &Duration| asked.partition_point(|other| *other < *at + within);
        let counts = asked
            .iter()
            .enumerate()
            .map(|(first, at)| until(at) - first);
        counts.max().unwrap_or_default()
    };
    let second = Duration::from_secs(1);
    println!(
        "{held} held operations, {THINKS:?} a probe, {PERMITS} a second: settled in {:.1} s, \
         {} questions, at most {} in any second",
        took.as_secs_f64(),
        asked.len(),
        most(second),
    );
    assert_eq!(asked.len(), held, "each was asked about once");
    assert!(most(second - ON_ITS_WAY) <= PERMITS, "never over the rate");
}
