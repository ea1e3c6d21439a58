//! Tokens of users, tokens that are read again, and the GitHub App, as processes (COL-17).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use clinch_github::App;
use clinch_github::fake::{self, Faults, Setup};
use clinch_testbed::{Kind, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::hub::{Hub, small};
use crate::nodes::are_there;
use crate::support::{Folder, PATIENCE, Server, clinch, document, ends, said};

const CANARY: &str = "fake-octocat-77291";
const SERVER: &str = "fake-server-1";
const KEY: &str = "b2xkIG1hY2hpbmVzIHNpbmcgYXQgbmlnaHQgYWxvbmU";
/// Keys that were made for tests and open nothing.
const APP_KEY: &str = include_str!("../../../../apps/github/tests/collector/keys/app.pem");
const OTHER_KEY: &str = include_str!("../../../../apps/github/tests/collector/keys/other.pem");

fn section(hub: &Hub) -> String {
    let section = hub.section(&[SERVER]);
    format!("{section}token_keys = [\"{KEY}\"]\n")
}

fn files(folder: &Folder) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&folder.0).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_ours = path.file_name().is_none_or(|name| name != "clinch.toml");
        if is_ours && path.is_file() {
            all.extend(std::fs::read(path).expect("a file"));
        }
    }
    all
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes
        .windows(secret.len())
        .any(|part| part == secret.as_bytes())
}

#[test]
fn col_17_a_users_token_is_stored_sealed_and_shown_nowhere() {
    let hub = Hub::calm();
    let folder = Folder::with(&section(&hub));
    let server = Server::start(&folder, "api,worker,recovery");
    let run = |arguments: &[&str], input: &str| {
        let mut command = clinch(&folder.0);
        command.args(arguments).env("CLINCH_URL", server.url());
        command.env("CANARY", CANARY).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).expect("written");
        drop(stdin);
        child.wait_with_output().expect("it ends")
    };
    let mut all = String::new();
    let added = run(&["github", "tokens", "add", "octocat"], CANARY);
    ends(&added, 0);
    all.push_str(&said(&added));
    let from_env = ["github", "tokens", "add", "octocat", "--from-env", "CANARY"];
    ends(&run(&from_env, ""), 0);
    let listed = run(&["github", "tokens", "ls", "octocat", "-o", "json"], "");
    let listed_document = document(&listed, 0);
    let tokens = listed_document["tokens"].as_array().expect("a list");
    assert_eq!(tokens.len(), 1, "the same token is stored once");
    let hash = tokens[0]["token"].as_str().expect("a hash").to_owned();
    all.push_str(&said(&listed));
    let commands: [&[&str]; 6] = [
        &["github", "run", "octocat", "--wait", "-o", "json"],
        &["github", "status", "octocat.1"],
        &["github", "tokens", "ls", "octocat"],
        &["ops", "ls", "--all", "-o", "json"],
        &["github", "export"],
        &["serve", "--print-config"],
    ];
    for command in commands {
        let output = run(command, "");
        ends(&output, 0);
        all.push_str(&said(&output));
    }
    let account = hub.tally().by_account;
    assert_eq!(account.keys().collect::<Vec<_>>(), ["octocat"]);
    let (_, _, metrics) = server.exchange("GET", "/metrics", "");
    let path = "/v1/github/users/octocat/tokens";
    let (_, _, answer) = server.exchange("GET", path, "");
    let torn = format!("{{\"token\":\"{CANARY}\",\"x\":1}}");
    let (status, _, refused) = server.exchange("PUT", path, &torn);
    assert_eq!(status, 400, "{refused}");
    all.extend([metrics, answer, refused, server.log()]);
    assert!(!holds(all.as_bytes(), CANARY));
    assert!(!holds(&files(&folder), CANARY));
    assert!(!holds(all.as_bytes(), KEY));
    assert!(!holds(&files(&folder), KEY));

    let remove = ["github", "tokens", "rm", "octocat", &hash];
    ends(&run(&remove, ""), 0);
    ends(&run(&remove, ""), 3);
    ends(&run(&["github", "tokens", "add", "octocat"], "\n"), 2);
}

#[test]
fn col_17_a_key_that_may_read_does_not_store_tokens() {
    let hub = Hub::calm();
    let folder = Folder::with(&section(&hub));
    let key = |name: &str, options: &[&str]| {
        let arguments = [&["keys", "create", name], options].concat();
        ends(&folder.run(&arguments), 0).trim().to_owned()
    };
    let server = Server::start(&folder, "api");
    let read = key("read", &["--scopes", "read"]);
    let submit = key("submit", &["--scopes", "submit"]);
    let other = key("other", &["--scopes", "admin", "--domains", "payments"]);
    let operate = key("operate", &["--scopes", "operate", "--domains", "github"]);
    let add = |key: &str| {
        let mut command = clinch(&folder.0);
        let arguments = ["github", "tokens", "add", "octocat", "--from-env", "CANARY"];
        command.args(arguments).env("CANARY", CANARY);
        command.env("CLINCH_URL", server.url());
        command.env("CLINCH_API_KEY", key);
        command.output().expect("it runs")
    };
    for stranger in [&read, &submit, &other] {
        let refused = add(stranger);
        assert_ne!(refused.status.code(), Some(0), "{}", said(&refused));
        assert!(!holds(said(&refused).as_bytes(), CANARY));
    }
    ends(&add(&operate), 0);
}

#[test]
fn col_17_without_keys_no_token_of_a_user_is_stored() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&[SERVER]));
    let server = Server::start(&folder, "api");
    let body = json!({ "token": CANARY }).to_string();
    let path = "/v1/github/users/octocat/tokens";
    let problem = server.ask("PUT", path, &body, 409);
    assert_eq!(problem["code"], json!("no_token_key"), "{problem:#}");
    assert!(!holds(&files(&folder), CANARY));
}

#[test]
fn col_17_a_run_whose_own_tokens_are_refused_says_so() {
    let hub = Hub::with(Faults::none().token(CANARY));
    let folder = Folder::with(&section(&hub));
    let mut add = clinch(&folder.0);
    let arguments = ["github", "tokens", "add", "octocat", "--from-env", "CANARY"];
    // Without a server: the command creates the store.
    let added = add.args(arguments).env("CANARY", CANARY).output();
    ends(&added.expect("it runs"), 0);
    let output = folder.run(&["github", "run", "octocat"]);
    ends(&output, 1);
    let said = said(&output);
    assert!(said.contains("no token of octocat can be used"), "{said}");
    assert!(!holds(said.as_bytes(), CANARY), "{said}");
    assert_eq!(hub.tally().by_account, BTreeMap::new());
}

#[test]
fn col_17_a_replaced_token_file_is_read_again_without_a_restart() {
    let hub = Hub::with(Faults::none().token(SERVER));
    let folder = Folder::with("");
    let file = folder.0.join("token");
    std::fs::write(&file, format!("{SERVER}\n")).expect("a file");
    let reference = format!("${{file:{}}}", file.display());
    folder.configure(&hub.section(&[&reference]));
    let server = Server::start(&folder, "api,worker,recovery");
    server.ask("POST", "/v1/github/runs", "{\"login\":\"octocat\"}", 202);
    let is_refused = |body: &serde_json::Value| body["tokens"][0]["refused"] == true;
    server.until("/v1/github/tokens", is_refused);

    std::fs::write(&file, "fake-new-1\n").expect("a file");
    let pid = Pid::from_raw(server.pid()).expect("a process");
    kill_process(pid, Signal::HUP).expect("it runs");
    let ended = server.until("/v1/github/runs/octocat.1", |run| {
        run["status"] == "COMPLETED"
    });
    assert_eq!(ended["jobs"]["failed"], json!(0), "{ended:#}");
    let account = hub.tally().by_account;
    assert_eq!(account.keys().collect::<Vec<_>>(), ["new"]);
    assert!(wait_until(PATIENCE, || server
        .log()
        .contains("have changed")));
    kill_process(pid, Signal::HUP).expect("it still runs");
    assert!(wait_until(PATIENCE, || server
        .log()
        .contains("are the same")));
}

#[test]
fn col_17_the_doctor_names_a_wrong_private_key_and_shows_no_part_of_it() {
    let app = fake::App {
        id: "1234".to_owned(),
        public_key: App::new("1234", APP_KEY)
            .expect("a key")
            .public_key()
            .to_vec(),
        installations: BTreeMap::from([("octocat".to_owned(), 42)]),
        suspended: BTreeSet::new(),
        lifetime: Duration::from_secs(3_600),
    };
    let setup = Setup {
        app: Some(app),
        ..Setup::default()
    };
    let hub = Hub::start(&small(), setup);
    let folder = Folder::with("");
    let file = folder.0.join("key.pem");
    let key = format!("${{file:{}}}", file.display());
    let section = hub.section(&[SERVER]);
    folder.configure(&format!(
        "{section}app_id = \"1234\"\napp_private_key = \"{key}\"\n"
    ));
    let secret = |pem: &'static str| pem.lines().nth(3).expect("a line");
    for (pem, code, says) in [
        (OTHER_KEY, 1, "the API refuses the GitHub App"),
        ("nonsense", 1, "is not an RSA private key"),
        (APP_KEY, 0, "the API knows the GitHub App"),
    ] {
        std::fs::write(&file, pem).expect("a file");
        let doctor = folder.run(&["doctor"]);
        assert!(said(&doctor).contains(says), "{}", said(&doctor));
        ends(&doctor, code);
        let shown = folder.run(&["serve", "--print-config"]);
        for key in [APP_KEY, OTHER_KEY] {
            let all = said(&doctor) + &said(&shown);
            assert!(!holds(all.as_bytes(), secret(key)), "{all}");
        }
    }
    let run = folder.run(&["github", "run", "octocat"]);
    ends(&run, 0);
    assert!(!holds(said(&run).as_bytes(), secret(APP_KEY)));
    let account = hub.tally().by_account;
    assert!(account.contains_key("ghs-42"), "{account:?}");
}

#[test]
fn col_8_two_processes_on_one_file_share_a_budget_and_never_exceed_it() {
    share_a_budget("");
}

#[test]
fn col_8_two_processes_on_mariadb_share_a_budget_and_never_exceed_it() {
    if are_there(&[Kind::MariaDb]) {
        let store = clinch_testbed::database(Kind::MariaDb).expect("a database");
        share_a_budget(&format!("[store]\nurl = \"{store}\"\n"));
    }
}

/// Two servers on one store, with two users and one token.
fn share_a_budget(store: &str) {
    let limits = fake::Limits {
        primary: 60,
        window: Duration::from_secs(3_600),
        ..fake::Limits::default()
    };
    let size = fake::Size {
        users: 2,
        repositories: 40,
        documents: 900,
    };
    let hub = Hub::with_limits(&size, limits);
    let folder = Folder::with(&format!("{store}{}", hub.section(&[SERVER])));
    let one = Server::start(&folder, "api,worker,recovery");
    let own_files = [
        "worker.spill_file=spill-2.log",
        "dead_letter.file=dlq-2.log",
    ];
    let two = Server::start_with(&folder, "api,worker,recovery", &own_files);
    for login in ["octocat", "hubot"] {
        let body = format!("{{\"login\":\"{login}\"}}");
        one.ask("POST", "/v1/github/runs", &body, 202);
    }
    // Every job waits for the next window: the budget is used up, but for its reserve of a tenth.
    for server in [&one, &two] {
        for login in ["octocat", "hubot"] {
            server.until(&format!("/v1/github/runs/{login}.1"), |run| {
                run["waiting"].as_u64() > Some(0) && run["waiting"] == run["jobs"]["open"]
            });
        }
    }
    let tally = hub.tally();
    assert_eq!(tally.primary_refusals, 0, "{tally:?}");
    // A process takes a sixteenth of what is left at once. Where the other one executes the last jobs,
    // these few wait for the next window.
    let used = tally.window_max.get("server").copied().unwrap_or_default();
    assert!((51..=54).contains(&used), "{used}: {tally:?}");
}
