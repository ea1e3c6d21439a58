//! Runs over a part of a user's data.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::hub::Hub;
use crate::support::{Folder, Server, document, ends, said};

/// The user's repositories, by name.
fn owned(hub: &Hub) -> Vec<String> {
    let all = hub.fake.with_world(|world| world.full_names());
    let own = all.iter().filter_map(|name| name.strip_prefix("octocat/"));
    own.map(str::to_owned).collect()
}

/// Repositories of which something is stored.
fn stored(folder: &Folder) -> BTreeSet<String> {
    let lines = ends(&folder.run(&["github", "export"]), 0);
    let resources = lines.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).expect("a JSON line");
        let name = line["resource"].as_str()?.strip_prefix("repo:octocat/")?;
        Some(name.to_owned())
    });
    resources.collect()
}

#[test]
fn col_3_repositories_are_selected_by_name_or_by_a_search() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let own = owned(&hub);
    let (first, second) = (own[0].as_str(), format!("octocat/{}", own[1]));
    let both = format!("{first},{second}");
    let run = |more: &[&str], code: i32| {
        let arguments = [&["github", "run", "octocat", "-o", "json"], more].concat();
        document(&folder.run(&arguments), code)
    };
    let report = run(&["--repositories", &both], 0);
    let names: BTreeSet<String> = own[..2].iter().cloned().collect();
    assert_eq!(report.pointer("/run/repositories"), Some(&json!(names)));
    assert_eq!(stored(&folder), names);
    let report = run(&["--repositories", "no-such"], 1);
    let missing = report.pointer("/run/missing");
    assert_eq!(missing, Some(&json!(["octocat/no-such"])));
    let shown = folder.run(&["github", "run", "octocat", "--repositories", "no-such"]);
    let line = "not found: octocat/no-such";
    assert!(ends(&shown, 1).contains(line));
    let report = run(&["--search", "user:octocat"], 0);
    assert_eq!(report.pointer("/run/search"), Some(&json!("user:octocat")));
    assert_eq!(stored(&folder), own.iter().cloned().collect());
    run(&[], 0);
}

/// The last repository of each user of the small world, `OWNER/NAME`; the first of hubot is empty.
fn one_of_each(hub: &Hub) -> [String; 2] {
    let all = hub.fake.with_world(|world| world.full_names());
    ["octocat/", "hubot/"].map(|owner| {
        let mut own = all.iter().filter(|name| name.starts_with(owner));
        own.next_back().expect("a repository").clone()
    })
}

fn logins(report: &Value, at: &str) -> Vec<String> {
    let runs = report["runs"].as_array().expect("a list").iter();
    let login = runs.filter_map(|run| run.pointer(at).and_then(Value::as_str));
    login.map(str::to_owned).collect()
}

#[test]
fn col_3_repositories_of_several_owners_are_a_run_of_each() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let names = one_of_each(&hub);
    let (both, second) = (names.join(","), names[1].as_str());
    let both = both.as_str();
    let run = |more: &[&str]| {
        let arguments = [&["github", "run", "-o", "json", "--repositories"], more].concat();
        folder.run(&arguments)
    };
    let costs = document(&run(&[both, "--dry-run"]), 0);
    assert_eq!(
        costs["costs"].as_array().map(Vec::len),
        Some(2),
        "{costs:#}"
    );
    let report = document(&run(&[both]), 0);
    assert_eq!(logins(&report, "/run/login"), ["octocat", "hubot"]);
    let lines = ends(&folder.run(&["github", "export"]), 0);
    let resources: BTreeSet<String> = lines
        .lines()
        .filter_map(|line| {
            let line: Value = serde_json::from_str(line).expect("a JSON line");
            let name = line["resource"].as_str()?.strip_prefix("repo:")?;
            Some(name.to_owned())
        })
        .collect();
    assert_eq!(resources, names.iter().cloned().collect());
    // A list, also of one.
    let report = document(&run(&[second]), 0);
    assert_eq!(logins(&report, "/run/login"), ["hubot"]);
    let missing = format!("{},hubot/no-such", names[0]);
    let report = document(&run(&[missing.as_str()]), 1);
    let of_hubot = report.pointer("/runs/1/run/missing");
    assert_eq!(of_hubot, Some(&json!(["hubot/no-such"])));
    let shown = folder.run(&["github", "run", "--repositories", both]);
    let text = ends(&shown, 0);
    assert!(
        text.contains("octocat.3") && text.contains("hubot.4"),
        "{text}"
    );
}

#[test]
fn col_3_a_run_of_one_owner_that_is_active_keeps_no_other_from_beginning() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let server = Server::start(&folder, "api,worker,recovery");
    let (url, both) = (server.url(), one_of_each(&hub).join(","));
    // Nothing begins before the domain is resumed.
    server.ask("POST", "/v1/domains/github/pause", "{}", 200);
    server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    let run = [
        "github",
        "run",
        "-o",
        "json",
        "--url",
        &url,
        "--repositories",
        &both,
    ];
    let output = folder.run(&run);
    let begun = document(&output, 4);
    assert_eq!(logins(&begun, "/login"), ["hubot"]);
    assert!(said(&output).contains("octocat.1"), "{}", said(&output));
    let waits = [&run[..], &["--wait=1s"]].concat();
    let output = folder.run(&waits);
    ends(&output, 4);
    assert!(said(&output).contains("hubot.1"), "both are active now");
    server.ask("POST", "/v1/domains/github/resume", "{}", 200);
    for run in ["octocat.1", "hubot.1"] {
        let path = format!("/v1/github/runs/{run}");
        server.until(&path, |run| run["status"] == "COMPLETED");
    }
    let report = document(&folder.run(&[&run[..], &["--wait"]].concat()), 0);
    assert_eq!(logins(&report, "/run/run_id"), ["octocat.2", "hubot.2"]);
}

#[test]
fn col_1_repositories_without_an_owner_need_a_user() {
    let folder = Folder::with("");
    for (arguments, word) in [
        (&["--repositories", "octocat/hello,api"][..], "OWNER/NAME"),
        (&["--repositories", "acme/a b"], "OWNER/NAME"),
        (&["--search", "rust"], "LOGIN"),
        (&[], "LOGIN"),
    ] {
        let output = folder.run(&[&["github", "run"], arguments].concat());
        ends(&output, 2);
        assert!(said(&output).contains(word), "{}", said(&output));
    }
    assert!(!folder.0.join("clinch.db").exists(), "nothing was begun");
}

#[test]
fn col_1_a_selection_of_others_is_refused_in_one_line() {
    let folder = Folder::with("");
    for (arguments, word) in [
        (&["--repositories", "acme/api"][..], "start a run of acme"),
        (&["--repositories", "a b"], "OWNER/NAME"),
        (&["--search", "org:acme"], "start a run of acme"),
        (&["--search", ""], "1 to 256"),
        (&["--search", "rust", "--shadow"], "shadow"),
        (
            &["--repositories", "api", "--streams", "user"],
            "select none",
        ),
    ] {
        let all = [&["github", "run", "octocat"], arguments].concat();
        let output = folder.run(&all);
        ends(&output, 2);
        let said = said(&output);
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn col_15_a_server_says_what_a_run_reads() {
    let hub = Hub::calm();
    let own = owned(&hub);
    let text = format!(
        "{}repositories = [\"octocat/{}\"]\n",
        hub.section(&["fake-ann-1"]),
        own[0]
    );
    let folder = Folder::with(&text);
    let server = Server::start(&folder, "api,worker,recovery");
    let ended = |run: &Value| run["status"] == "COMPLETED";
    server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    let run = server.until("/v1/github/runs/octocat.1", ended);
    assert_eq!(run["repositories"], json!([own[0]]));
    let body = json!({"login": "octocat", "repositories": [own[1]]}).to_string();
    server.ask("POST", "/v1/github/runs", &body, 202);
    let run = server.until("/v1/github/runs/octocat.2", ended);
    assert_eq!(
        (&run["repositories"], &run["full"]),
        (&json!([own[1]]), &json!(false))
    );
    for wrong in [
        json!({"login": "octocat", "repositories": ["acme/api"]}),
        json!({"login": "octocat", "repositories": ["api"], "search": "rust"}),
        json!({"login": "octocat", "search": "user:acme"}),
    ] {
        let problem = server.ask("POST", "/v1/github/runs", &wrong.to_string(), 400);
        assert_eq!(problem["code"], json!("invalid_request"), "{problem:#}");
    }
}

#[test]
fn col_4_a_run_is_bounded_by_time() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let commits = |folder: &Folder| {
        let lines = ends(&folder.run(&["github", "export", "--kind", "commit"]), 0);
        let date = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a JSON line");
            let date = line.pointer("/document/commit/committer/date");
            date.and_then(Value::as_str).expect("a date").to_owned()
        };
        let mut dates: Vec<String> = lines.lines().map(date).collect();
        dates.sort();
        dates
    };
    let all = hub.documents("octocat");
    let dates = all.values().filter_map(|body| {
        let date = body.pointer("/commit/committer/date");
        date.and_then(Value::as_str).map(str::to_owned)
    });
    let mut dates: Vec<String> = dates.collect();
    dates.sort();
    let (since, until) = (&dates[dates.len() / 3], &dates[dates.len() / 2]);
    let bounded = [
        "github", "run", "octocat", "--since", since, "--until", until, "-o", "json",
    ];
    let report = document(&folder.run(&bounded), 0);
    assert_eq!(report.pointer("/run/since"), Some(&json!(since)));
    let wanted = dates.iter().filter(|at| *at >= since && *at <= until);
    assert_eq!(commits(&folder), wanted.cloned().collect::<Vec<_>>());
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    assert_eq!(commits(&folder), dates);
    for (arguments, word) in [
        (&["--since", "soon"][..], "2026-01-31"),
        (
            &["--since", "2026-02-01", "--until", "2026-01-01"],
            "later than",
        ),
        (&["--since", "2026-02-01", "--full"], "leave out"),
    ] {
        let output = folder.run(&[&["github", "run", "octocat"], arguments].concat());
        ends(&output, 2);
        assert!(said(&output).contains(word), "{}", said(&output));
    }
}

#[test]
fn col_8_a_dry_run_says_what_a_run_would_cost_and_begins_nothing() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let dry = ["github", "run", "octocat", "--dry-run"];
    let shown = ends(&folder.run(&dry), 0);
    assert!(shown.contains("pull_request"), "{shown}");
    assert!(shown.contains("left until"), "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let cost = document(&folder.run(&[&dry[..], &["-o", "json"]].concat()), 0);
    let number = |at: &str| cost.pointer(at).and_then(Value::as_u64).expect(at);
    assert_eq!(number("/repositories"), owned(&hub).len() as u64);
    let runs = ends(&folder.run(&["github", "status", "-o", "json"]), 0);
    assert!(!runs.contains("octocat"), "{runs}");
    let report = document(&folder.run(&["github", "run", "octocat", "-o", "json"]), 0);
    let total = report.pointer("/run/jobs/total").and_then(Value::as_u64);
    let total = total.expect("a number");
    assert!(
        number("/at_least") <= total && total <= number("/at_most"),
        "{cost:#}"
    );
    // What the store knows needs no look.
    let again = document(&folder.run(&[&dry[..], &["-o", "json"]].concat()), 0);
    assert_eq!(again["looked"], json!(0), "{again:#}");
    let nobody = folder.run(&["github", "run", "nobody", "--dry-run"]);
    ends(&nobody, 3);
    assert!(said(&nobody).contains("no such user"), "{}", said(&nobody));
}
