//! Processes that die during their work: the second line of "fail if wrong" in ADR-010.

use std::time::Duration;

use serde_json::Value;

use crate::world::{World, claim, on_a_runtime, on_both};

/// ADR-010: a zombie is recovered within five minutes. Here the lease is one second.
const THRESHOLD: Duration = Duration::from_secs(300);

fn at(line: &Value, field: &str) -> jiff::Timestamp {
    let text = line[field].as_str();
    let text = text.unwrap_or_else(|| panic!("no {field} in {line}"));
    text.parse().expect("a moment")
}

fn a_worker_killed_while_processing(kind: clinch_testbed::Kind) {
    let world = World::new(kind, "zombie");
    world.configure("[worker]\nlease = \"1s\"");
    let mut first = world.serve("api,worker,recovery");
    let id = world.submit(&first, "payments", "order-1");
    world.provider.arrival("order-1");
    first.child.kill().expect("killed");
    first.child.wait().expect("gone");
    world.provider.answer("order-1", 200);
    let second = world.serve("api,worker,recovery");
    let ended = world.settled(&second, "payments", "order-1");
    assert_eq!(ended["state"], "COMPLETED");
    let path = world.path(&second, &id);
    let attempts = path["attempts"].as_array().expect("attempts");
    let outcomes: Vec<_> = attempts.iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["lost", "ok"]);
    let began = attempts.iter().map(|one| at(one, "started_at"));
    let began: Vec<_> = began.collect();
    let waited = began[1].duration_since(began[0]);
    assert!(waited.unsigned_abs() < THRESHOLD, "{waited:?}");
    assert_eq!(world.provider.calls("gate"), 2);
}

fn a_relay_killed_with_claims(kind: clinch_testbed::Kind) {
    let world = World::new(kind, "claims");
    let first = world.serve("api");
    let keys: Vec<String> = (0..10).map(|number| format!("order-{number}")).collect();
    for key in &keys {
        world.submit(&first, "sent", key);
    }
    drop(first);
    // A relay that dies right after its claim: its rows are claimed by a process that no longer
    // lives.
    on_a_runtime(async {
        let store = world.outbox().await;
        let claimed = store
            .claim(&claim("dead", Duration::from_secs(2), 100))
            .await;
        assert_eq!(claimed.expect("claimed").len(), keys.len());
        let again = store
            .claim(&claim("late", Duration::from_secs(2), 100))
            .await;
        assert!(again.expect("answers").is_empty(), "claimed twice");
    });
    let redis = clinch_testbed::shared(clinch_testbed::Kind::Redis).expect("a server");
    let prefix = format!("zombies-{kind}-{}", std::process::id());
    let bus = format!("[bus]\nurl = \"{redis}\"\nprefix = \"{prefix}\"\n");
    world.configure(&format!("{bus}[sweeper]\nstalled = \"2s\"\n"));
    let second = world.serve("api,worker,recovery");
    for key in &keys {
        let ended = world.settled(&second, "sent", key);
        assert_eq!(ended["state"], "COMPLETED");
    }
    assert_eq!(world.provider.calls("200"), keys.len());
}

on_both! {
    a_worker_killed_while_processing =>
        out_4_a_worker_killed_while_processing_is_recovered_on_postgres,
        out_4_a_worker_killed_while_processing_is_recovered_on_mariadb;
    a_relay_killed_with_claims =>
        out_4_claims_of_a_dead_relay_return_on_postgres,
        out_4_claims_of_a_dead_relay_return_on_mariadb;
}
