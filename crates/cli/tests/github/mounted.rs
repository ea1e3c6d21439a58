//! Only a server with a `[github]` section has a collector.

use serde_json::json;

use crate::hub::Hub;
use crate::support::{Folder, Server, clinch, document, ends, said};

#[test]
fn col_17_a_server_without_a_github_section_has_no_collector() {
    let folder = Folder::with("");
    let server = Server::start(&folder, "api,worker,recovery");
    for (method, path, body) in [
        ("GET", "/v1/github/runs", ""),
        ("POST", "/v1/github/runs", "{\"login\":\"octocat\"}"),
        ("GET", "/v1/github/documents", ""),
        ("GET", "/v1/github/tokens", ""),
        ("GET", "/v1/github", ""),
        ("GET", "/v1/github/no/such/thing", ""),
    ] {
        let problem = server.ask(method, path, body, 404);
        assert_eq!(problem["code"], json!("not_found"), "{path}: {problem:#}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("[github]"), "{path}: {detail}");
    }
    for (event_type, payload) in [
        ("collect", json!({"login": "octocat"})),
        (
            "user_basic",
            json!({"run_id": "octocat.1", "kind": "user_basic", "page": 1,
                   "url": "http://127.0.0.1:9/"}),
        ),
    ] {
        let operation = json!({
            "domain": "github", "event_type": event_type, "biz_key": "user:octocat",
            "idem_key": "1", "payload": payload,
        });
        let problem = server.ask("POST", "/v1/operations", &operation.to_string(), 400);
        assert_eq!(problem["code"], json!("unknown_route"), "{problem:#}");
    }
    let status = folder.run(&["github", "status", "--url", &server.url()]);
    ends(&status, 3);
    assert!(said(&status).contains("[github]"), "{}", said(&status));
}

#[test]
fn col_17_any_key_of_the_section_makes_a_collector() {
    for section in ["[github]\n", "[github]\npage_size = 50\n"] {
        let folder = Folder::with(section);
        let server = Server::start(&folder, "api");
        server.ask("GET", "/v1/github/runs", "", 200);
    }
    let folder = Folder::with("");
    let mut command = clinch(&folder.0);
    command.env("CLINCH__GITHUB__TOKENS", "[\"t\"]");
    let server = Server::of(&mut command, "api", &[]);
    let tokens = server.ask("GET", "/v1/github/tokens", "", 200);
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(1));
}

#[test]
fn col_17_jobs_of_a_removed_section_wait_and_the_doctor_names_them() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    {
        let server = Server::start(&folder, "api,worker,recovery");
        server.ask("POST", "/v1/domains/github/pause", "{}", 200);
        server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
        server.ask("POST", "/v1/github/runs", "{\"login\":\"hubot\"}", 202);
    }
    let asked = hub.tally().requests;
    folder.configure("");
    let server = Server::start(&folder, "api,worker,recovery");
    server.ask("POST", "/v1/domains/github/resume", "{}", 200);
    let domains = server.ask("GET", "/v1/domains", "", 200);
    let github = domains.pointer("/domains/0").expect("its rows are there");
    assert_eq!(github["domain"], json!("github"));
    assert!(github["depth"].as_u64() >= Some(2), "{github:#}");
    assert_eq!(hub.tally().requests, asked, "nothing was called");

    let doctor = folder.run(&["doctor", "-o", "json"]);
    let report = document(&doctor, 0);
    let checks = report["checks"].as_array().expect("checks");
    let about = |check: &&serde_json::Value| check["area"] == "github" && check["level"] == "warn";
    let found = checks.iter().find(about).expect("a line of the doctor");
    let what = found["what"].as_str().unwrap_or_default();
    assert!(what.contains("no [github] section"), "{found:#}");
}

#[test]
fn core_16_the_collectors_routes_need_a_key_of_its_domain() {
    for section in ["", "[github]\n"] {
        let folder = Folder::with(section);
        let server = Server::start(&folder, "api");
        let key = |name: &str, options: &[&str]| {
            let arguments = [&["keys", "create", name], options].concat();
            ends(&folder.run(&arguments), 0).trim().to_owned()
        };
        let whole = key("whole", &["--scopes", "read"]);
        let github = key("github", &["--scopes", "read", "--domains", "github"]);
        let other = key("other", &["--scopes", "admin", "--domains", "payments"]);
        let list = |key: &str| {
            let list = ["github", "status", "-o", "json", "--url", &server.url()];
            let mut command = clinch(&folder.0);
            command.args(list).env("CLINCH_API_KEY", key);
            said(&command.output().expect("it runs"))
        };
        let explains = |said: &str| said.contains("no [github] section");
        for key in [&whole, &github] {
            let said = list(key);
            assert_eq!(explains(&said), section.is_empty(), "{said}");
        }
        let said = list(&other);
        assert!(said.contains("there is nothing at this path"), "{said}");
    }
}
