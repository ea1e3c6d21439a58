//! Four workers on MariaDB and Redis, with failures.

use clinch_github::fake::{Limits, Size};
use clinch_testbed::{Kind, wait_until};
use serde_json::json;

use crate::hub::{Hub, exported};
use crate::support::{Folder, PATIENCE, Server, ends};

/// Requests per account and window. With fewer, the three runs would have to wait for the next
/// window.
const LIMIT: u32 = 1_000;

/// False: a server is not installed, and `CI` is not set.
pub(crate) fn are_there(needed: &[Kind]) -> bool {
    let missing = needed.iter().find(|kind| kind.program().is_none());
    if let Some(missing) = missing {
        assert!(std::env::var_os("CI").is_none(), "{missing} is missing");
        eprintln!("ignored: {missing} is not installed");
    }
    missing.is_none()
}

#[test]
fn col_10_each_run_ends_once_though_a_worker_is_killed_and_redis_restarted() {
    if !are_there(&[Kind::MariaDb, Kind::Redis]) {
        return;
    }
    let limits = Limits {
        primary: LIMIT,
        ..Limits::default()
    };
    let hub = Hub::with_limits(&Size::demo(), limits);
    let store = clinch_testbed::database(Kind::MariaDb).expect("a database");
    let mut redis = clinch_testbed::Server::start(Kind::Redis).expect("a server");
    let (bus, github) = (
        redis.url(),
        hub.section(&["fake-ann-1", "fake-ann-2", "fake-bob-1"]),
    );
    let config = format!(
        "[store]\nurl = \"{store}\"\n[bus]\nurl = \"{bus}\"\n[worker]\nlease = \"5s\"\n{github}"
    );
    let folders: Vec<Folder> = (0..5).map(|_| Folder::with(&config)).collect();
    let api = Server::start(&folders[0], "api,recovery");
    let mut workers: Vec<Server> = folders[1..]
        .iter()
        .map(|folder| Server::start(folder, "worker"))
        .collect();
    let logins = hub.fake.with_world(|world| world.logins());
    for login in &logins {
        let body = json!({ "login": login }).to_string();
        api.ask("POST", "/v1/github/runs", &body, 202);
    }
    assert!(wait_until(PATIENCE, || hub.tally().requests > 30));
    workers[0].kill();
    assert!(wait_until(PATIENCE, || hub.tally().requests > 60));
    redis.restart().expect("it comes back");

    for login in &logins {
        let path = format!("/v1/github/runs/{login}.1");
        let run = api.until(&path, |run| run["completed_at"].is_string());
        assert_eq!(run["status"], json!("COMPLETED"), "{run:#}");
        assert_eq!(run.pointer("/jobs/failed"), Some(&json!(0)), "{run:#}");
        let figures = format!("/v1/github/statistics?login={login}");
        let figures = api.ask("GET", &figures, "", 200);
        assert_eq!(figures["runs"], json!(1), "{figures:#}");
        for event in ["finish", "statistics", "close"] {
            let path =
                format!("/v1/operations?domain=github&event_type={event}&biz_key=user:{login}");
            let found = api.ask("GET", &path, "", 200);
            let found = found["operations"].as_array().map(Vec::len);
            assert_eq!(found, Some(1), "{event} of {login}");
        }
        let export = ["github", "export", "--login", login, "--url", &api.url()];
        let lines = ends(&folders[0].run(&export), 0);
        assert!(
            exported(&lines) == hub.documents(login),
            "documents of {login} differ"
        );
    }
    let tally = hub.tally();
    assert_eq!(tally.primary_refusals, 0, "{tally:?}");
    assert!(
        tally.window_max.values().all(|spent| *spent <= LIMIT),
        "{tally:?}"
    );
}

/// A worker drops the hints of a paused domain; the sweeper would announce them again after an
/// hour.
#[test]
fn col_15_a_paused_domain_on_redis_goes_on_as_soon_as_it_is_resumed() {
    if !are_there(&[Kind::Redis]) {
        return;
    }
    let hub = Hub::calm();
    let redis = clinch_testbed::Server::start(Kind::Redis).expect("a server");
    let (bus, github) = (redis.url(), hub.section(&["fake-ann-1"]));
    let config =
        format!("[bus]\nurl = \"{bus}\"\n[sweeper]\ngrace = \"1h\"\n{github}concurrency = 1\n");
    let folder = Folder::with(&config);
    let api = Server::start(&folder, "api,recovery");
    let files = ["worker.spill_file=spill", "dead_letter.file=letters"];
    let _worker = Server::start_with(&folder, "worker", &files);
    api.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    assert!(wait_until(PATIENCE, || hub.tally().requests > 10));
    api.ask("POST", "/v1/domains/github/pause", "{}", 200);
    let is_drained = || {
        let (_, _, metrics) = api.exchange("GET", "/metrics", "");
        let is_zero = |name: &str| metrics.lines().any(|line| line == format!("{name} 0"));
        is_zero("orchestrator_bus_lag") && is_zero("orchestrator_bus_pending")
    };
    assert!(wait_until(PATIENCE, is_drained), "{}", api.log());
    let run = api.ask("GET", "/v1/github/runs/octocat.1", "", 200);
    assert_eq!(run["status"], json!("RUNNING"), "it waits: {run:#}");
    api.ask("POST", "/v1/domains/github/resume", "{}", 200);
    api.until("/v1/github/runs/octocat.1", |run| {
        run["status"] == "COMPLETED"
    });
}
