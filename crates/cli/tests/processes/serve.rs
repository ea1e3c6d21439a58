//! Serve, keys, kills, and the demo.

use serde_json::{Value, json};

use crate::support::{CONFIG, Folder, Server, clinch, document, op_id, run, submit, text};

#[test]
fn core_9_ten_kills_of_the_server_lose_nothing_that_was_acknowledged() {
    let folder = Folder::new("kills");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let mut acknowledged = Vec::new();
    let mut listen = "127.0.0.1:0".to_owned();
    for round in 0..10 {
        let mut server = Server::start(&folder.0, &listen);
        listen = server.address.to_string();
        for number in 0..5 {
            let key = format!("order-{round}-{number}");
            let output = submit(&folder.0, &server.url(), &key);
            let id = op_id(&output);
            let id = id.unwrap_or_else(|| panic!("{}", text(&output.stderr)));
            acknowledged.push((key, id));
        }
        server.child.kill().expect("a kill");
        server.child.wait().expect("an end");
    }
    let server = Server::start(&folder.0, &listen);
    for (key, id) in acknowledged {
        let output = run(
            &folder.0,
            &["ops", "get", &id, "-o", "json", "--url", &server.url()],
        );
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["biz_key"], key.as_str());
        // The same keys are the same operation, even after a kill.
        let again = submit(&folder.0, &server.url(), &key);
        assert_eq!(op_id(&again), Some(id));
    }
}

#[test]
fn core_16_the_first_key_is_made_on_the_database_and_locks_the_door() {
    let folder = Folder::new("keys");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let made = run(
        &folder.0,
        &["keys", "create", "shop", "--scopes", "submit,read"],
    );
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let secret = text(&made.stdout).trim().to_owned();
    assert!(secret.starts_with("clk_"), "{secret}");
    let listed = run(&folder.0, &["keys", "ls"]);
    assert!(!text(&listed.stdout).contains(&secret), "shown once");
    let document: Value = serde_json::from_str(text(&listed.stdout).trim()).expect("one key");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let without = submit(&folder.0, &server.url(), "order-1");
    assert_eq!(without.status.code(), Some(1));
    assert!(text(&without.stderr).contains("unauthenticated"));
    let with = clinch(&folder.0)
        .args([
            "submit",
            "payments",
            "charge",
            "order-1",
            "--payload",
            "1",
            "--url",
            &server.url(),
        ])
        .env("CLINCH_API_KEY", &secret)
        .output()
        .expect("it runs");
    assert_eq!(with.status.code(), Some(0), "{}", text(&with.stderr));
    let id = document["id"].as_str().expect("an id");
    let revoked = run(&folder.0, &["keys", "revoke", id]);
    assert_eq!(revoked.status.code(), Some(0));
    let again = run(&folder.0, &["keys", "revoke", id]);
    assert_eq!(again.status.code(), Some(3), "there is no such active key");
}

#[test]
fn core_16_keys_are_made_for_domains_and_listed_with_them() {
    let folder = Folder::new("domains");
    let create = |more: &[&str]| run(&folder.0, &[&["keys", "create", "mailer"], more].concat());
    let of = ["--scopes", "work", "--domains", "mail,payments"];
    let made = create(&[&of[..], &["--event-types", "receipt"]].concat());
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let listed = run(&folder.0, &["keys", "ls"]);
    let key: Value = serde_json::from_str(text(&listed.stdout).trim()).expect("one key");
    let names = ["scopes", "domains", "event_types"].map(|name| key[name].clone());
    let expected = [
        json!(["work"]),
        json!(["mail", "payments"]),
        json!(["receipt"]),
    ];
    assert_eq!(names, expected);
    for wrong in [
        ["--domains", "no name"],
        ["--event-types", ""],
        ["--scopes", "root"],
    ] {
        let refused = create(&wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert_eq!(
            text(&refused.stderr).lines().count(),
            1,
            "{}",
            text(&refused.stderr)
        );
    }
}

#[test]
fn core_19_the_effective_configuration_is_shown_with_secrets_masked() {
    let folder = Folder::new("print");
    let config = r#"
[[route]]
name = "charge"
domain = "payments"
event_type = "charge"
url = "https://psp.example/v1/charges"
headers = { authorization = "Bearer canary-4f1d" }
"#;
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let shown = run(&folder.0, &["serve", "--print-config"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("127.0.0.1:7070"));
    assert!(!text(&shown.stdout).contains("canary-4f1d"));
    let wrong = run(&folder.0, &["serve", "--set", "worker.concurency=3"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("concurrency"),
        "the nearest known key"
    );
    let open = run(&folder.0, &["serve", "--set", "server.listen=0.0.0.0:0"]);
    assert_eq!(
        open.status.code(),
        Some(2),
        "loopback unless there are keys"
    );
}

#[test]
fn run_11_the_demo_ends_with_three_accounts_that_agree() {
    let folder = Folder::new("demo");
    for seed in ["1", "2"] {
        let demo = run(&folder.0, &["demo", "--payments", "400", "--seed", seed]);
        let said = text(&demo.stdout);
        assert_eq!(demo.status.code(), Some(0), "{said}{}", text(&demo.stderr));
        assert!(said.contains("The three accounts agree."), "{said}");
        assert_eq!(text(&demo.stderr).matches("kill -9").count(), 2);
    }
}

#[test]
fn core_19_the_demo_answers_as_json_and_alone_on_standard_output() {
    let folder = Folder::new("demo-json");
    let demo = run(&folder.0, &["demo", "--payments", "100", "-o", "json"]);
    let books = document(&demo);
    assert_eq!(demo.status.code(), Some(0), "{books:#}");
    assert_eq!(books["accounts_agree"], true);
    assert_eq!(books["accepted"], 100);
    let sum = books["completed"].as_u64().zip(books["failed"].as_u64());
    assert_eq!(sum.map(|(completed, failed)| completed + failed), Some(100));
}

#[test]
fn core_9_ten_kills_of_the_server_under_load_lose_nothing_and_repeat_no_effect() {
    let folder = Folder::new("kills-under-load");
    let arguments = ["demo", "--payments", "1500", "--server-kills", "10"];
    let demo = run(&folder.0, &arguments);
    let said = text(&demo.stdout);
    assert_eq!(demo.status.code(), Some(0), "{said}{}", text(&demo.stderr));
    assert!(said.contains("The three accounts agree."), "{said}");
    let kills = text(&demo.stderr).matches("kill -9 of server").count();
    assert_eq!(kills, 10);
}
