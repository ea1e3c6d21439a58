//! `clinch doctor`.

use serde_json::Value;

use crate::support::{CONFIG, Folder, Server, clinch, document, refused, run, text};

/// Level and text of each finding of this area.
fn about(document: &Value, area: &str) -> Vec<(String, String)> {
    let word = |one: &Value, name: &str| one[name].as_str().expect("text").to_owned();
    let checks = document["checks"].as_array().expect("checks").iter();
    let checks = checks.filter(|one| one["area"] == area);
    checks
        .map(|one| (word(one, "level"), word(one, "what")))
        .collect()
}

#[test]
fn core_19_a_fresh_folder_is_well_and_nothing_is_made_there() {
    let folder = Folder::new("doctor");
    let listen = ["doctor", "-o", "json"];
    let mut command = clinch(&folder.0);
    let ran = command
        .args(listen)
        .env("CLINCH__SERVER__LISTEN", "127.0.0.1:1");
    let ran = ran.output().expect("it runs");
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stdout));
    let report = document(&ran);
    assert_eq!(report["ok"], true);
    assert!(
        about(&report, "store")
            .iter()
            .any(|(level, _)| level == "warn")
    );
    assert_eq!(std::fs::read_dir(&folder.0).expect("a folder").count(), 0);
}

#[test]
fn core_19_every_problem_has_a_line_of_its_own() {
    let folder = Folder::new("doctor-ill");
    let config = r#"
[server]
listen = "0.0.0.0:7070"
tls_cert = "cert.pem"
[worker]
concurrency = 0
spill_file = "no/such/folder/spill.log"
[[route]]
name = "secret"
domain = "a"
event_type = "x"
url = "https://psp.invalid/v1"
headers = { authorization = "Bearer ${env:DOCTOR_SECRET}", x-other = "${env:DOCTOR_CANARY}" }
[[route]]
name = "inside"
domain = "b"
event_type = "x"
url = "http://169.254.169.254/latest"
[[route]]
name = "twice"
domain = "b"
event_type = "x"
url = "http://127.0.0.1:1/"
"#;
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let mut command = clinch(&folder.0);
    let command = command.args(["doctor", "-o", "json"]);
    let ran = command.env("DOCTOR_CANARY", "canary-4f1d").output();
    let ran = ran.expect("it runs");
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        !text(&ran.stdout).contains("canary"),
        "values are not shown"
    );
    let report = document(&ran);
    let fails = |area: &str, word: &str| {
        let lines = about(&report, area);
        let found = lines
            .iter()
            .any(|(level, what)| level == "fail" && what.contains(word));
        assert!(found, "{area} {word}: {lines:?}");
    };
    fails("configuration", "tls_cert");
    fails("configuration", "worker.concurrency");
    fails("configuration", "covers the same");
    fails("keys", "not loopback");
    fails("secrets", "env:DOCTOR_SECRET");
    fails("routes", "169.254.169.254");
    fails("routes", "psp.invalid");
    fails("files", "spill.log");
    // The same as text: one line each, with what to do.
    let ran = run(&folder.0, &["doctor"]);
    let said = text(&ran.stdout);
    let lines = report["checks"].as_array().map(Vec::len);
    assert!(said.lines().count() >= lines.expect("checks"), "{said}");
    assert!(said.contains("fail  server.tls_cert"), "{said}");
    assert!(said.contains(" — `clinch keys create`"), "{said}");
}

#[test]
fn core_19_a_file_that_cannot_be_read_is_one_line() {
    let folder = Folder::new("doctor-broken");
    let broken = "[server]\nlisten = canary-4f1d\n";
    std::fs::write(folder.0.join("clinch.toml"), broken).expect("a file");
    let ran = run(&folder.0, &["doctor"]);
    assert_eq!(ran.status.code(), Some(1));
    let said = text(&ran.stdout);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.starts_with("fail") && !said.contains("canary"),
        "{said}"
    );
}

#[test]
fn core_19_a_server_that_runs_is_asked_how_it_is() {
    let folder = Folder::new("doctor-server");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let ran = run(&folder.0, &["doctor", "-o", "json", "--url", &server.url()]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stdout));
    let lines = about(&document(&ran), "server");
    assert!(
        lines
            .iter()
            .any(|(level, what)| level == "ok" && what.contains("ready"))
    );
    let gone = server.url();
    server.stop();
    let (code, _) = refused(&run(&folder.0, &["doctor", "--url", &gone]));
    assert_eq!(
        code,
        Some(1),
        "a server that was named is expected to be there"
    );
    // A server that is reachable from outside needs a key, and an active key is enough.
    let open = |folder: &Folder| {
        let mut command = clinch(&folder.0);
        let command = command.args(["doctor", "-o", "json"]);
        let ran = command.env("CLINCH__SERVER__LISTEN", "0.0.0.0:1").output();
        about(&document(&ran.expect("it runs")), "keys")
    };
    assert_eq!(open(&folder)[0].0, "fail");
    run(&folder.0, &["keys", "create", "shop"]);
    assert_eq!(open(&folder)[0].0, "ok");
}

#[test]
fn core_19_a_probe_whose_not_found_never_settles_anything_is_a_warning() {
    let folder = Folder::new("doctor-probe");
    let route = |name: &str, probe: &str| {
        format!(
            "[[route]]\nname = {name:?}\ndomain = \"a\"\nevent_type = {name:?}\n\
             url = \"http://127.0.0.1:1/\"\n\
             probe = {{ url = \"http://127.0.0.1:1/x?key={{outbound_key}}\", match = \"json:/key\"{probe} }}\n"
        )
    };
    let config = route("asks", ", not_found = [404, 410]")
        + &route("default", "")
        + &route("ends", ", not_found_final_after = \"10m\"")
        + &route("never", ", not_found = []");
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let ran = run(
        &folder.0,
        &["doctor", "-o", "json", "--url", "http://127.0.0.1:1"],
    );
    let report = document(&ran);
    let warned: Vec<String> = about(&report, "routes")
        .into_iter()
        .filter(|(level, _)| level == "warn")
        .map(|(_, what)| what)
        .collect();
    assert_eq!(warned.len(), 2, "{report}");
    assert!(
        warned[0].contains("\"asks\"") && warned[0].contains("[404, 410]"),
        "{warned:?}"
    );
    assert!(
        warned[1].contains("\"default\"") && warned[1].contains("[404]"),
        "{warned:?}"
    );
    let said = text(&ran.stdout);
    assert!(said.contains("not_found_final_after"), "{said}");
}
