//! A pause that a provider tells one node holds on every node.

use std::time::Duration;

use clinch_testbed::{Kind, Server, wait_until};

use crate::node::{Folder, Node};
use crate::provider::{Answer, Provider};

const RETRY_AFTER: Duration = Duration::from_secs(6);
const OPERATIONS: usize = 12;

pub(crate) fn one_429_stops_the_destination_on_every_node() {
    let redis = Server::start(Kind::Redis).expect("a bus");
    stops_on_every_node_of_postgres(&redis.url());
}

pub(crate) fn one_429_stops_the_destination_on_every_node_without_redis() {
    stops_on_every_node_of_postgres("store");
}

pub(crate) fn one_429_stops_the_destination_on_every_node_over_nats() {
    let nats = Server::start(Kind::Nats).expect("a bus");
    stops_on_every_node_of_postgres(&nats.url());
}

pub(crate) fn one_429_stops_the_destination_on_every_node_on_mariadb() {
    let mariadb = Server::start(Kind::MariaDb).expect("a store");
    stops_on_every_node(&mariadb.url(), "store");
}

pub(crate) fn one_429_stops_the_destination_on_every_node_on_one_file() {
    let folder = Folder::with("");
    stops_on_every_node(&folder.store_url(), "store");
}

fn stops_on_every_node_of_postgres(bus: &str) {
    let postgres = Server::start(Kind::Postgres).expect("a store");
    stops_on_every_node(&postgres.url(), bus);
}

fn stops_on_every_node(store: &str, bus: &str) {
    let provider = Provider::start("127.0.0.1:0", |own, number| match number {
        0 => Answer {
            status: 429,
            headers: "retry-after: 6\r\n",
        },
        // One node makes two calls at a time, so three concurrent calls come from both.
        1..=3 => {
            own.wait_for_calls(4);
            Answer::OK
        }
        _ => Answer::OK,
    });
    let config = format!(
        r#"
[store]
url = "{}"
[bus]
url = "{}"
[worker]
concurrency = 2
batch = 2
[sweeper]
grace = "2s"
[[route]]
name = "charge"
domain = "payments"
event_type = "charge"
url = "http://{}/charge"
safety = "natural"
timeout = "60s"
"#,
        store, bus, provider.address,
    );
    let nodes = [(), ()].map(|()| Node::start(&config, "api,worker,recovery", &[]));
    let mut ids = vec![nodes[0].submit("payments", "charge", "first")];
    provider.until(|calls| calls.len() == 1);
    for node in &nodes {
        let knows = wait_until(RETRY_AFTER, || {
            let said = node.ask("GET", "/v1/destinations", "");
            said["destinations"][0]["paused_until"].is_string()
        });
        assert!(knows, "it was told by nobody: {}", node.log());
    }
    for number in 0..OPERATIONS {
        let key = format!("order-{number}");
        ids.push(nodes[number % 2].submit("payments", "charge", &key));
    }
    for id in &ids {
        nodes[0].until(id, |one| one["state"] == "COMPLETED");
    }
    let calls = provider.calls();
    assert_eq!(calls.len(), OPERATIONS + 2, "one call each, and one again");
    let early: Vec<_> = calls[1..]
        .iter()
        .filter(|call| call.at < calls[0].at + RETRY_AFTER)
        .collect();
    assert!(early.is_empty(), "before the time was over: {early:#?}");
}
