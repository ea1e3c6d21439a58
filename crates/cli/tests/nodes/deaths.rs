//! A process is killed while all of its calls are in flight. Its leases last an hour: the tests end
//! only if others learn of the death itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clinch_testbed::{Kind, Server, wait_until};
use serde_json::json;

use crate::node::{Folder, Node};
use crate::provider::{Answer, Provider};

/// Calls in flight, unless `DEATHS_IN_FLIGHT` sets it: `cargo xtask bench recovery`.
const IN_FLIGHT: usize = 100;
/// Operations of one request.
const CHUNK: usize = 250;
const ROLES: &str = "api,worker,recovery";

fn config(servers: &str, provider: &Provider, in_flight: usize) -> String {
    format!(
        r#"
{servers}
[worker]
concurrency = {in_flight}
lease = "1h"
[[route]]
name = "charge"
domain = "payments"
event_type = "charge"
url = "http://{}/charge"
safety = "keyed"
timeout = "30m"
concurrency = {in_flight}
allow_private = true
"#,
        provider.address
    )
}

fn submit(node: &Node, count: usize) {
    for first in (0..count).step_by(CHUNK) {
        let command = |number: usize| {
            json!({"domain": "payments", "event_type": "charge", "idem_key": "a",
                "biz_key": format!("order-{number}"), "payload": {"order": number}})
        };
        let commands: Vec<_> = (first..(first + CHUNK).min(count)).map(command).collect();
        let body = json!({"operations": commands});
        node.ask("POST", "/v1/operations/bulk", &body.to_string());
    }
}

/// Kills the process that makes every call; `next` is the process that continues.
fn work_goes_on(name: &str, servers: &str, next: impl FnOnce(&str) -> Start) {
    let in_flight = std::env::var("DEATHS_IN_FLIGHT").ok();
    let in_flight = in_flight.and_then(|text| text.parse().ok());
    let in_flight: usize = in_flight.unwrap_or(IN_FLIGHT);
    // The first call of each operation is never answered.
    let provider = Provider::start("127.0.0.1:0", move |own, number| {
        if number < in_flight {
            own.wait_for_calls(usize::MAX);
        }
        Answer::OK
    });
    let config = config(servers, &provider, in_flight);
    let first = Node::start(&config, ROLES, &[]);
    submit(&first, in_flight);
    provider.until(|calls| calls.len() == in_flight);
    let folder = first.folder();
    let start = next(&config);
    let (next, killed_at) = match start {
        Start::Before(next) => {
            drop(first);
            (next, Instant::now())
        }
        Start::After => {
            drop(first);
            let killed_at = Instant::now();
            (Node::start_in(folder, ROLES, &[]), killed_at)
        }
    };
    let settled = wait_until(Duration::from_secs(120), || {
        let said = next.ask("GET", "/v1/domains", "");
        said["domains"][0]["counts"]["COMPLETED"] == in_flight
    });
    let took = killed_at.elapsed().as_secs_f64();
    let counts = next.ask("GET", "/v1/domains", "");
    assert!(settled, "{counts:#}\n{}", next.log());
    println!("{name}: {in_flight} calls in flight, settled {took:.1} s after SIGKILL");
    let mut calls = BTreeMap::<String, usize>::new();
    for call in provider.calls() {
        *calls.entry(call.body).or_default() += 1;
    }
    assert_eq!(calls.len(), in_flight, "operations that were called");
    assert!(calls.values().all(|times| *times == 2), "one repeat each");
}

/// When the process that continues starts.
enum Start {
    /// It runs when the other one is killed.
    Before(Node),
    /// It is the restart of the other one.
    After,
}

fn beside(config: &str) -> Start {
    Start::Before(Node::start(config, ROLES, &[]))
}

fn store(kind: Kind) -> (Server, String) {
    let server = Server::start(kind).expect("a store");
    let config = format!("[store]\nurl = \"{}\"", server.url());
    (server, config)
}

fn with_bus(store: &str, bus: &Server) -> String {
    format!("{store}\n[bus]\nurl = \"{}\"", bus.url())
}

pub(crate) fn embedded_after_a_restart() {
    work_goes_on("SQLite, restarted", "", |_| Start::After);
}

pub(crate) fn embedded_beside_another_process() {
    let folder = Folder::with("");
    let file = folder.0.join("clinch.db");
    let store = format!("[store]\nurl = \"sqlite://{}\"", file.display());
    work_goes_on("SQLite, two processes", &store, beside);
}

pub(crate) fn on_postgres() {
    let (_server, store) = store(Kind::Postgres);
    work_goes_on("PostgreSQL", &store, beside);
}

pub(crate) fn on_mariadb() {
    let (_server, store) = store(Kind::MariaDb);
    work_goes_on("MariaDB", &store, beside);
}

pub(crate) fn on_postgres_and_redis() {
    let (_server, store) = store(Kind::Postgres);
    let bus = Server::start(Kind::Redis).expect("a bus");
    work_goes_on("PostgreSQL and Redis", &with_bus(&store, &bus), beside);
}

pub(crate) fn on_postgres_and_nats() {
    let (_server, store) = store(Kind::Postgres);
    let bus = Server::start(Kind::Nats).expect("a bus");
    work_goes_on("PostgreSQL and NATS", &with_bus(&store, &bus), beside);
}
