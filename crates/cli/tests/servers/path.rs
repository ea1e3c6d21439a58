//! The path of an event, read back through the command line.

use crate::support::text;
use crate::world::{World, on_both};

fn each_step_is_shown(kind: clinch_testbed::Kind) {
    let world = World::new(kind, "path");
    let server = world.serve("api,worker,recovery");
    let id = world.submit(&server, "broken", "order-1");
    let ended = world.settled(&server, "broken", "order-1");
    assert_eq!(ended["state"], "FAILED");
    let path = world.path(&server, &id);
    let lines = path["ledger"].as_array().expect("a ledger");
    let events: Vec<_> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(
        events,
        ["Accept", "Begin", "Retry", "Begin", "Retry", "Probed"],
        "{path:#}"
    );
    let states: Vec<_> = lines.iter().map(|line| &line["state"]).collect();
    assert_eq!(
        (states[0], states[5]),
        (&"PENDING".into(), &"FAILED".into())
    );
    let probed = lines[5]["note"].as_str().unwrap_or_default();
    assert!(!probed.is_empty(), "what the provider said: {path:#}");
    let attempts = path["attempts"].as_array().expect("attempts");
    let numbers: Vec<_> = attempts.iter().map(|one| &one["number"]).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(attempts.iter().all(|one| one["worker"].is_string()));
    // The same as text.
    let url = server.url();
    let shown = ["ops", "get", &id, "--path", "-o", "table", "--url", &url];
    let shown = text(&crate::support::run(&world.folder.0, &shown).stdout);
    for word in ["EVENT", "Accept", "Begin", "Retry", "http_500", "OUTCOME"] {
        assert!(shown.contains(word), "{word} is missing in {shown}");
    }
}

on_both! {
    each_step_is_shown =>
        out_10_each_step_of_an_event_is_shown_on_postgres,
        out_10_each_step_of_an_event_is_shown_on_mariadb;
}
