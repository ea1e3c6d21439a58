//! The collector on a server.

use clinch_github::fake::Limits;
use serde_json::json;

use crate::hub::{Hub, exported, small};
use crate::support::{Folder, Server, document, ends, said};

fn served() -> (Hub, Folder, Server) {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1", "fake-bob-1"]));
    let server = Server::start(&folder, "api,worker,recovery");
    (hub, folder, server)
}

#[test]
fn col_2_a_run_on_a_server_is_waited_for_and_looked_at() {
    let (hub, folder, server) = served();
    let url = server.url();
    let run = [
        "github", "run", "octocat", "--wait", "-o", "json", "--url", &url,
    ];
    let report = document(&folder.run(&run), 0);
    assert_eq!(report.pointer("/run/status"), Some(&json!("COMPLETED")));
    let lines = ends(&folder.run(&["github", "export", "--url", &url]), 0);
    assert_eq!(exported(&lines), hub.documents("octocat"));

    let run = server.ask("GET", "/v1/github/runs/octocat.1", "", 200);
    let jobs = server.ask("GET", "/v1/github/runs/octocat.1/jobs?limit=500", "", 200);
    let listed = jobs["jobs"].as_array().map(Vec::len);
    assert_eq!(
        listed.map(|n| json!(n)),
        run.pointer("/jobs/total").cloned()
    );
    let users = "/v1/github/runs/octocat.1/jobs?state=SUCCEEDED&kind=user_basic";
    let users = server.ask("GET", users, "", 200);
    assert_eq!(users["jobs"].as_array().map(Vec::len), Some(1), "{users:#}");
    assert_eq!(users.pointer("/jobs/0/done/end"), Some(&json!("stored")));
    let cursors = server.ask("GET", "/v1/github/cursors?login=octocat&limit=500", "", 200);
    let cursors = cursors["cursors"].as_array().expect("a list");
    assert!(cursors.iter().any(|one| one["last_timestamp"].is_string()));
    let first = server.ask("GET", "/v1/github/cursors?login=octocat&limit=2", "", 200);
    let next = first["next_cursor"].as_str().expect("more");
    let rest = format!("/v1/github/cursors?login=octocat&limit=500&cursor={next}");
    let rest = server.ask("GET", &rest, "", 200);
    assert_eq!(
        rest["cursors"].as_array().map(Vec::len),
        Some(cursors.len() - 2)
    );
    let statistics = server.ask("GET", "/v1/github/statistics?login=octocat", "", 200);
    assert_eq!(statistics["runs"], json!(1));
    let completed = server.ask(
        "GET",
        "/v1/github/runs?login=octocat&status=completed",
        "",
        200,
    );
    assert_eq!(completed["runs"].as_array().map(Vec::len), Some(1));
    let none = server.ask("GET", "/v1/github/runs?login=hubot", "", 200);
    assert_eq!(none["runs"], json!([]));
    let status = document(
        &folder.run(&["github", "status", "octocat", "-o", "json", "--url", &url]),
        0,
    );
    assert_eq!(status["tokens"].as_array().map(Vec::len), Some(2));
}

#[test]
fn col_15_all_runs_are_shown_at_a_glance() {
    let (_hub, folder, server) = served();
    let url = server.url();
    let overview = ["github", "overview", "-o", "json", "--url", &url];
    let before = document(&folder.run(&overview), 0);
    assert_eq!(before["runs"], json!({}));
    ends(
        &folder.run(&["github", "run", "octocat", "--wait", "--url", &url]),
        0,
    );
    let after = document(&folder.run(&overview), 0);
    assert_eq!(after["runs"], json!({"COMPLETED": 1}));
    assert_eq!(
        after.pointer("/kinds/user_basic/succeeded"),
        Some(&json!(1))
    );
    let people = ends(&folder.run(&["github", "overview", "--url", &url]), 0);
    for part in [
        "runs of the last day: 1 COMPLETED",
        "open jobs: 0 pending",
        "user_basic",
        "jobs that wait: none",
    ] {
        assert!(people.contains(part), "{part} is not in\n{people}");
    }
}

#[test]
fn col_15_the_overview_says_who_waits_for_what_until_when() {
    let limits = Limits {
        primary: 6,
        ..Limits::default()
    };
    let hub = Hub::with_limits(&small(), limits);
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let server = Server::start(&folder, "api,worker,recovery");
    let url = server.url();
    server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    let waits = |run: &serde_json::Value| run["all_wait"] == true;
    let run = server.until("/v1/github/runs/octocat.1", waits);
    assert!(run["requests"].as_u64() > Some(0), "{run:#}");
    let overview = server.ask("GET", "/v1/github/overview", "", 200);
    let row = &overview["waiting"][0];
    assert_eq!(row["run_id"], json!("octocat.1"), "{overview:#}");
    assert!(row["next_at"].is_string(), "{overview:#}");
    assert_eq!(row["first"]["state"], json!("READY"), "{overview:#}");
    assert!(row["jobs"].as_u64() > Some(0), "{overview:#}");
    let rows = overview["waiting"].as_array().expect("rows").iter();
    let mut reasons = rows.filter_map(|row| row["waits_for"].as_str());
    assert!(reasons.any(|one| one.contains("budget")), "{overview:#}");
    let shown = ends(
        &folder.run(&["github", "status", "octocat", "--url", &url]),
        0,
    );
    assert!(shown.contains("waiting for budget until "), "{shown}");
}

#[test]
fn col_1_a_second_run_of_a_user_is_refused_while_one_is_active() {
    let (_hub, folder, server) = served();
    let url = server.url();
    // Nothing begins before the domain is resumed.
    server.ask("POST", "/v1/domains/github/pause", "{}", 200);
    let (status, head, body) =
        server.exchange("POST", "/v1/github/runs", "{\"login\":\"OctoCat\"}");
    assert_eq!(status, 202, "{body}");
    assert!(
        head.to_lowercase()
            .contains("location: /v1/github/runs/octocat.1"),
        "{head}"
    );
    let problem = server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 409);
    assert_eq!(problem["code"], json!("active_run"));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("octocat.1"), "{detail}");
    let second = folder.run(&["github", "run", "octocat", "--url", &url]);
    ends(&second, 4);
    assert!(said(&second).contains("octocat.1"), "{}", said(&second));
    let retry = server.ask("POST", "/v1/github/runs/octocat.1/retry", "{}", 409);
    assert_eq!(retry["code"], json!("active_run"));

    let other = ["github", "run", "hubot", "--wait=1s", "--url", &url];
    ends(&folder.run(&other), 5);
    let shown = ends(
        &folder.run(&["github", "status", "hubot", "--url", &url]),
        0,
    );
    assert!(shown.contains("the domain github is paused"), "{shown}");
    let cancel = [
        "github",
        "cancel",
        "octocat.1",
        "--reason",
        "enough",
        "-o",
        "json",
        "--url",
        &url,
    ];
    let canceled = document(&folder.run(&cancel), 0);
    assert_eq!(canceled["status"], json!("CANCELED"));
    assert_eq!(canceled["error"], json!("enough"));
    ends(&folder.run(&cancel), 4);
    server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    server.ask("POST", "/v1/domains/github/resume", "{}", 200);
    let ended = |run: &serde_json::Value| run["status"] == "COMPLETED";
    server.until("/v1/github/runs/octocat.2", ended);
    server.until("/v1/github/runs/hubot.1", ended);
}

#[test]
fn col_1_operations_of_the_collector_are_not_for_callers() {
    let (hub, folder, server) = served();
    let address = "http://127.0.0.1:9/latest";
    let operation = |event_type: &str, payload: serde_json::Value| {
        json!({
            "domain": "github", "event_type": event_type, "biz_key": "user:octocat",
            "idem_key": event_type, "payload": payload,
        })
    };
    let collect = operation("collect", json!({"login": "octocat"}));
    let page = operation("user_basic", json!({"url": address}));
    for one in [&collect, &page] {
        let problem = server.ask("POST", "/v1/operations", &one.to_string(), 403);
        assert_eq!(problem["code"], json!("forbidden"), "{problem:#}");
        let end = json!({ "on_complete": one }).to_string();
        server.ask("POST", "/v1/batches", &end, 403);
    }
    let both = json!({"operations": [collect, page]}).to_string();
    let batch = server.ask("POST", "/v1/batches", "{}", 200);
    let batch = batch["batch_id"].as_str().expect("an id");
    for path in [
        "/v1/operations/bulk".to_owned(),
        format!("/v1/batches/{batch}/operations"),
    ] {
        let answer = server.ask("POST", &path, &both, 200);
        for at in ["/results/0/status", "/results/1/status"] {
            assert_eq!(answer.pointer(at), Some(&json!(403)), "{answer:#}");
        }
    }
    let lease = json!({"domain": "github", "event_types": ["user_basic"]}).to_string();
    server.ask("POST", "/v1/leases", &lease, 403);
    // Another service begins a run through the collector's own endpoint.
    server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    server.until("/v1/github/runs/octocat.1", |run| {
        run["status"] == "COMPLETED"
    });
    let (status, _, _) = server.exchange("GET", "/v1/github/runs/octocat.2", "");
    assert_eq!(status, 404);
    let lines = ends(
        &folder.run(&["github", "export", "--url", &server.url()]),
        0,
    );
    assert_eq!(exported(&lines), hub.documents("octocat"));
}

#[test]
fn col_15_wrong_requests_are_refused_with_problem_documents() {
    let (_hub, _folder, server) = served();
    let cases = [
        ("POST", "/v1/github/runs", "{\"login\":\"no/body\"}", 400),
        (
            "POST",
            "/v1/github/runs",
            "{\"login\":\"a\",\"other\":1}",
            400,
        ),
        ("POST", "/v1/github/runs", "[\"octocat\"]", 400),
        ("POST", "/v1/github/runs", "", 400),
        ("GET", "/v1/github/runs?status=LATE", "", 400),
        ("GET", "/v1/github/runs?other=1", "", 400),
        ("GET", "/v1/github/runs?limit=0", "", 400),
        ("GET", "/v1/github/runs/octocat", "", 404),
        ("GET", "/v1/github/runs/octocat.9/jobs", "", 404),
        ("GET", "/v1/github/cursors", "", 400),
        ("GET", "/v1/github/statistics?login=octocat", "", 404),
        ("POST", "/v1/github/runs/octocat.9/cancel", "{}", 404),
    ];
    for (method, path, body, status) in cases {
        let problem = server.ask(method, path, body, status);
        assert!(problem["code"].is_string(), "{problem:#}");
        assert_eq!(problem["status"], json!(status));
    }
    let openapi = server.ask("GET", "/openapi.json", "", 200);
    assert!(openapi.pointer("/paths/~1v1~1github~1runs/post").is_some());
}

#[test]
fn col_14_the_collectors_numbers_are_among_the_metrics() {
    let (_hub, folder, server) = served();
    let run = ["github", "run", "octocat", "--wait", "--url", &server.url()];
    ends(&folder.run(&run), 0);
    let (_, _, metrics) = server.exchange("GET", "/metrics", "");
    for name in [
        "github_requests_count_total{",
        "github_documents_count_total{",
        "github_jobs_count_total{",
        "github_runs_count_total{status=\"COMPLETED\"} 1",
        "github_job_duration",
        "github_runs_active 0",
        "github_jobs_pending 0",
        "github_tokens_blocked 0",
        "github_statistics_retry_size 0",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    // The labels that rules and panels use.
    for (name, labels) in [
        ("github_requests_count_total", &["job_type", "status"][..]),
        ("github_documents_count_total", &["kind"]),
    ] {
        let line = metrics.lines().find(|line| line.starts_with(name));
        let has = |label: &&str| line.is_some_and(|line| line.contains(&format!("{label}=\"")));
        assert!(labels.iter().all(has), "{line:?}");
    }
}

/// A server starts although work is waiting: a missed schedule, and an unplanned run.
#[test]
fn col_1_a_server_starts_and_goes_on_however_long_its_queue_has_waited() {
    let hub = Hub::calm();
    let section = |user: &str| {
        let schedule = format!("schedule = [{{ login = \"{user}\", cron = \"0 0 1 1 *\" }}]");
        format!("{}{schedule}\n", hub.section(&["fake-ann-1"]))
    };
    let folder = Folder::with(&section("hubot"));
    let age = "server.shed_queue_age=1ms";
    let mut idle = Server::start_with(&folder, "api", &[age]);
    idle.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    let waits = |domains: &serde_json::Value| {
        let domains = domains["domains"].as_array().expect("a list");
        let github = domains.iter().find(|one| one["domain"] == "github");
        github.is_some_and(|one| one["oldest_age_ms"].as_u64() > Some(1))
    };
    idle.until("/v1/domains", waits);
    // A waiting run of one user does not block another user.
    idle.ask("POST", "/v1/github/runs", "{\"login\":\"hubot\"}", 202);
    idle.kill();
    folder.configure(&section("octocat"));
    let server = Server::start_with(&folder, "api,worker,recovery", &[age]);
    for run in ["octocat.1", "hubot.1"] {
        let path = format!("/v1/github/runs/{run}");
        server.until(&path, |run| run["status"] == "COMPLETED");
    }
}
