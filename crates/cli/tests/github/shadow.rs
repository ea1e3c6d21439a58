//! A second sink beside the first: shadow runs store there and are compared.

use clinch_testbed::Kind;
use serde_json::{Value, json};

use crate::hub::{Hub, exported};
use crate::nodes::are_there;
use crate::support::{Folder, document, ends, said};

fn with_sink(hub: &Hub, sink: &str) -> String {
    format!("{}shadow_sink = \"{sink}\"\n", hub.section(&["fake-ann-1"]))
}

const RUN: [&str; 5] = ["github", "run", "octocat", "-o", "json"];
const SHADOW: [&str; 6] = ["github", "run", "octocat", "--shadow", "-o", "json"];
const COMPARE: [&str; 5] = ["github", "compare", "octocat", "-o", "json"];

/// Collects into both sinks, and compares.
fn compared(hub: &Hub, sink: &str) -> Folder {
    let folder = Folder::with(&with_sink(hub, sink));
    document(&folder.run(&RUN), 0);
    document(&folder.run(&SHADOW), 0);
    let known = hub.documents("octocat");
    let equal = document(&folder.run(&COMPARE), 0);
    assert_eq!(equal["equal"], json!(known.len()), "{equal:#}");
    assert_eq!(equal["passed"], json!(true), "{equal:#}");
    let lines = ends(&folder.run(&["github", "export", "--shadow"]), 0);
    assert_eq!(exported(&lines), known);
    folder
}

#[test]
fn col_18_a_shadow_run_stores_into_a_second_file_and_the_runs_are_compared() {
    let hub = Hub::calm();
    let folder = compared(&hub, "sqlite://shadow.db");
    assert!(folder.0.join("shadow.db").exists());
    let equal = document(&folder.run(&COMPARE), 0);
    let at = |pointer: &str| equal.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/runs/main/run_id"), json!("octocat.1"));
    assert_eq!(at("/runs/shadow/run_id"), json!("octocat.shadow.1"));
    assert_eq!(at("/runs/main/kinds"), at("/runs/shadow/kinds"));
    assert_eq!(at("/runs/comparable"), json!(true));
    let people = ends(&folder.run(&["github", "compare", "octocat"]), 0);
    assert!(people.contains("octocat.shadow.1: "), "{people}");
    assert!(people.lines().all(|line| line.len() < 100), "{people}");

    // The main store has no document of the shadow, and the second sink none of the real ones.
    for name in ["clinch.db", "shadow.db"] {
        let alone = Folder::with(&hub.section(&["fake-ann-1"]));
        let from = folder.0.join(name);
        std::fs::copy(from, alone.0.join("clinch.db")).expect("a copy");
        let main = ends(&alone.run(&["github", "export"]), 0);
        let shadow = ends(&alone.run(&["github", "export", "--shadow"]), 0);
        let is_main = name == "clinch.db";
        assert_eq!((main.is_empty(), shadow.is_empty()), (!is_main, is_main));
    }
}

#[test]
fn col_18_failed_jobs_of_the_shadow_run_are_named_and_limited() {
    let names = Hub::calm().fake.with_world(|world| world.full_names());
    let own = names.iter().find(|name| name.starts_with("octocat/"));
    let name = own.expect("a repository of the user").clone();
    let hub = Hub::calm();
    let folder = Folder::with(&with_sink(&hub, "sqlite://shadow.db"));
    document(&folder.run(&RUN), 0);
    let faults = clinch_github::fake::Faults::none().repository(&name, 400);
    hub.fake.set_faults(faults);
    document(&folder.run(&SHADOW), 1);
    let differs = document(&folder.run(&COMPARE), 1);
    let all = differs
        .pointer("/runs/differences")
        .and_then(Value::as_array);
    let all = all.expect("a list");
    let named = |name: &str| all.iter().find(|one| one["name"] == name);
    assert_eq!(
        named("errors.http_400").map(|one| &one["shadow"]),
        Some(&json!(3.0))
    );
    assert_eq!(
        named("jobs.failed").map(|one| &one["beyond"]),
        Some(&json!(true))
    );
    let people = folder.run(&["github", "compare", "octocat", "--max-failed", "3"]);
    let people = ends(&people, 1);
    assert!(
        people.contains("missing"),
        "documents are missing: {people}"
    );
    assert!(
        !people.contains("beyond the limits: jobs.failed"),
        "{people}"
    );
}

#[test]
fn col_18_a_user_or_a_run_that_does_not_exist_is_an_error() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    document(&folder.run(&RUN), 0);
    for login in ["octocat", "nobody"] {
        let none = folder.run(&["github", "compare", login]);
        ends(&none, 3);
        assert_eq!(said(&none).lines().count(), 1, "{}", said(&none));
        assert!(said(&none).contains("--shadow"), "{}", said(&none));
    }
    for wrong in ["0.5", "nan", "much"] {
        let flag = ["github", "compare", "octocat", "--max-time-ratio", wrong];
        ends(&folder.run(&flag), 2);
    }
    // A shadow run of a user without real documents has nothing to be compared with.
    let alone = ["github", "run", "hubot", "--shadow"];
    let alone = ends(&folder.run(&alone), 0);
    assert!(alone.contains("no real run to compare"), "{alone}");
    ends(&folder.run(&["github", "compare", "hubot"]), 3);
    let wrong = Folder::with(&with_sink(&hub, "ftp://nowhere"));
    let refused = wrong.run(&RUN);
    ends(&refused, 2);
    assert!(
        said(&refused).contains("github.shadow_sink is"),
        "{}",
        said(&refused)
    );
}

#[test]
fn col_18_a_database_server_is_tried_beside_the_embedded_store() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        if !are_there(&[kind]) {
            continue;
        }
        let hub = Hub::calm();
        let sink = clinch_testbed::database(kind).expect("a database");
        compared(&hub, &sink);
    }
}

#[test]
fn col_18_after_a_switch_readers_and_runs_use_the_shadow_and_status_says_so() {
    let hub = Hub::calm();
    let folder = compared(&hub, "sqlite://shadow.db");
    let refused = folder.run(&["github", "switch", "--to", "shadow"]);
    ends(&refused, 2);
    let live = document(&folder.run(&["github", "switch", "-o", "json"]), 0);
    assert_eq!(live["live"], json!("main"), "nothing was sent");
    let shown = ends(
        &folder.run(&["github", "switch", "--to", "shadow", "-y"]),
        0,
    );
    assert!(shown.contains("live: shadow, since "), "{shown}");
    assert!(shown.contains("more than 5"), "{shown}");

    hub.fake.with_world(|world| world.change(4, 30));
    let report = document(&folder.run(&RUN), 0);
    let id = report.pointer("/run/run_id");
    assert_eq!(id, Some(&json!("octocat.shadow.2")), "{report:#}");
    assert_eq!(report.pointer("/run/full"), Some(&json!(false)));
    let lines = ends(&folder.run(&["github", "export"]), 0);
    assert_eq!(exported(&lines), hub.documents("octocat"));
    let status = folder.run(&["github", "status"]);
    ends(&status, 0);
    assert!(
        said(&status).contains("the shadow is live"),
        "{}",
        said(&status)
    );

    ends(&folder.run(&["github", "switch", "--to", "main", "-y"]), 0);
    let report = document(&folder.run(&RUN), 0);
    let id = report.pointer("/run/run_id");
    assert_eq!(id, Some(&json!("octocat.2")), "{report:#}");
    let lines = ends(&folder.run(&["github", "export"]), 0);
    assert_eq!(exported(&lines), hub.documents("octocat"));
}
