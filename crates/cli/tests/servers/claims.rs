//! Many relays claim concurrently, each row is claimed once: the third line of "fail if wrong" in
//! ADR-010.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::{World, claim, on_a_runtime, on_both};

const ROWS: usize = 120;
const CLAIMERS: usize = 8;

/// Submits operations that stay pending: this process has the API role only.
fn rows(world: &World) -> Vec<String> {
    let server = world.serve("api");
    let key = |number| format!("order-{number}");
    let keys: Vec<String> = (0..ROWS).map(key).collect();
    let line = |key: &String| {
        serde_json::json!({"domain": "sent", "event_type": "charge", "biz_key": key,
            "idem_key": "a", "payload": {"amount": 5000}})
    };
    let all: Vec<_> = keys.iter().map(line).collect();
    let body = serde_json::json!({ "operations": all }).to_string();
    let answer = crate::http::post(server.address, "/v1/operations/bulk", &body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    keys
}

fn claimers_at_once(kind: clinch_testbed::Kind) {
    let world = World::new(kind, "claimers");
    rows(&world);
    let taken = on_a_runtime(async {
        let start = std::sync::Arc::new(tokio::sync::Barrier::new(CLAIMERS));
        let mut claimers = Vec::new();
        for number in 0..CLAIMERS {
            // A store of its own behaves like a process of its own.
            let (store, start) = (world.outbox().await, start.clone());
            claimers.push(tokio::spawn(async move {
                let claim = claim(&format!("relay-{number}"), Duration::from_secs(600), 7);
                let mut taken = Vec::new();
                start.wait().await;
                loop {
                    let some = store.claim(&claim).await.expect("claimed");
                    if some.is_empty() {
                        return taken;
                    }
                    taken.extend(some.iter().map(|one| one.op_id()));
                }
            }));
        }
        let mut taken = BTreeMap::new();
        for claimer in claimers {
            for op in claimer.await.expect("no panic") {
                *taken.entry(op).or_insert(0) += 1;
            }
        }
        // A relay that finds everything locked gets nothing; the rest remains for the next one.
        let store = world.outbox().await;
        let rest = claim("last", Duration::from_secs(600), 1_000);
        for one in store.claim(&rest).await.expect("claimed") {
            *taken.entry(one.op_id()).or_insert(0) += 1;
        }
        taken
    });
    assert!(taken.values().all(|times| *times == 1), "claimed twice");
    assert_eq!(taken.len(), ROWS);
}

fn processes_at_once(kind: clinch_testbed::Kind) {
    let world = World::new(kind, "processes");
    let keys = rows(&world);
    let servers = [1, 2, 3].map(|number| world.serve_beside("api,worker,recovery", number));
    for key in &keys {
        let ended = world.settled(&servers[0], "sent", key);
        assert_eq!(ended["state"], "COMPLETED");
    }
    assert_eq!(world.provider.calls("200"), ROWS, "one call each");
}

on_both! {
    claimers_at_once =>
        out_2_no_row_is_claimed_twice_on_postgres,
        out_2_no_row_is_claimed_twice_on_mariadb;
    processes_at_once =>
        out_2_processes_that_share_a_queue_call_once_on_postgres,
        out_2_processes_that_share_a_queue_call_once_on_mariadb;
}
