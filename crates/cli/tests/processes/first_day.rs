//! What a new user meets on the first day: files, messages and formats.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{CONFIG, Folder, Server, clinch, document, refused, run, text};

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let listed = std::fs::read_dir(folder).expect("a folder");
    let names = listed.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into()).collect();
    names.sort();
    names
}

#[test]
fn core_19_the_first_configuration_passes_the_doctor_and_is_never_overwritten_by_chance() {
    let folder = Folder::new("init");
    let written = run(&folder.0, &["init"]);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let said = text(&written.stdout);
    for next in [
        "wrote clinch.toml",
        "clinch echo",
        "clinch serve",
        "curl -i",
    ] {
        assert!(said.contains(next), "{next}: {said}");
    }
    let mut doctor = clinch(&folder.0);
    let doctor = doctor
        .arg("doctor")
        .env("CLINCH__SERVER__LISTEN", "127.0.0.1:1");
    let doctor = doctor.output().expect("it runs");
    assert_eq!(doctor.status.code(), Some(0), "{}", text(&doctor.stdout));
    let file = folder.0.join("clinch.toml");
    let first = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, "# mine\n").expect("a file");
    let (code, said) = refused(&run(&folder.0, &["init"]));
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("--force") && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "# mine\n");
    let forced = document(&run(&folder.0, &["init", "--force", "-o", "json"]));
    assert_eq!(forced["file"], "clinch.toml");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), first);
    let other = run(&folder.0, &["init", "shop/east"]);
    assert!(text(&other.stdout).contains("cd 'shop/east' && clinch serve"));
    assert!(folder.0.join("shop/east/clinch.toml").exists());
    assert_eq!(files(&folder.0), ["clinch.toml", "shop"]);
}

#[test]
fn core_19_the_first_configuration_is_written_where_the_next_command_reads_it() {
    let folder = Folder::new("init-where");
    // A shell takes the folder of the printed command as one word.
    let written = document(&run(&folder.0, &["init", "Ada's shop", "-o", "json"]));
    let next = written["next"][1].as_str().expect("a command");
    let asked = next.replace("clinch serve", "pwd");
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &asked]).current_dir(&folder.0);
    let said = text(&shell.output().expect("a shell").stdout);
    assert!(said.ends_with("/Ada's shop\n"), "{next}: {said}");
    assert!(folder.0.join("Ada's shop/clinch.toml").exists());

    let named = ["init", "--config", "conf/my.toml", "-o", "json"];
    let written = document(&run(&folder.0, &named));
    assert_eq!(written["file"], "conf/my.toml");
    assert_eq!(
        written["next"][1], "clinch serve --config 'conf/my.toml'",
        "{written}"
    );
    let read = ["serve", "--config", "conf/my.toml", "--print-config"];
    let printed = text(&run(&folder.0, &read).stdout);
    assert!(printed.contains("name = \"hello\""), "{printed}");
    let mut by_environment = clinch(&folder.0);
    by_environment
        .args(["init", "-o", "json"])
        .env("CLINCH_CONFIG", "other.toml");
    let written = document(&by_environment.output().expect("it runs"));
    assert_eq!(written["file"], "other.toml");
    let (code, said) = refused(&run(&folder.0, &["init", "--config", "other.toml"]));
    assert_eq!(code, Some(4), "{said}");
    let both = ["init", "shop", "--config", "third.toml"];
    let (code, said) = refused(&run(&folder.0, &both));
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("third.toml"), "{said}");
    assert_eq!(files(&folder.0), ["Ada's shop", "conf", "other.toml"]);
}

#[test]
fn echo_listens_on_loopback_unless_it_is_told_otherwise() {
    let folder = Folder::new("echo-public");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.7:0"] {
        let (code, said) = refused(&run(&folder.0, &["echo", "--listen", address]));
        assert_eq!(code, Some(2), "{address}: {said}");
        assert!(said.contains("--public"), "{said}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, said) = refused(&run(&folder.0, &["echo", "--listen", &address]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&address), "{said}");
}

#[test]
fn a_server_without_routes_says_what_to_do() {
    let folder = Folder::new("no-routes");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let log = server.stop();
    assert!(log.contains("clinch init"), "{log}");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let log = Server::start(&folder.0, "127.0.0.1:0").stop();
    assert!(!log.contains("clinch init"), "{log}");
}

#[test]
fn an_unknown_route_names_the_keys_and_the_section_to_add() {
    let folder = Folder::new("unknown-route");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let url = server.url();
    let submit = [
        "submit",
        "payments",
        "refund",
        "a",
        "--payload",
        "{}",
        "--url",
        &url,
    ];
    let (code, said) = refused(&run(&folder.0, &submit));
    assert_eq!(code, Some(2), "{said}");
    for word in [
        "the domain \"payments\"",
        "[[route]]",
        "event_type = \"refund\"",
        "clinch.toml",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_port_in_use_leaves_nothing_behind() {
    let folder = Folder::new("port");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let listen = format!("server.listen={address}");
    let (code, said) = refused(&run(&folder.0, &["serve", "--set", &listen]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another server listens there"), "{said}");
    assert_eq!(files(&folder.0), Vec::<String>::new());
}

#[test]
fn a_second_server_in_one_folder_hears_of_the_first() {
    let folder = Folder::new("second");
    let _first = Server::start(&folder.0, "127.0.0.1:0");
    let second = ["serve", "--set", "server.listen=127.0.0.1:0"];
    let (code, said) = refused(&run(&folder.0, &second));
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("another server has \"clinch-spill.log\""),
        "{said}"
    );
    assert!(!said.contains("journal"), "{said}");
}

#[test]
fn core_19_a_server_that_cannot_be_reached_is_named_without_its_password() {
    let folder = Folder::new("away");
    for (key, url, shown) in [
        (
            "bus.url",
            "redis://:canary@127.0.0.1:1",
            "redis://127.0.0.1:1/",
        ),
        (
            "bus.url",
            "nats://me:canary@127.0.0.1:1",
            "nats://127.0.0.1:1/",
        ),
        (
            "store.url",
            "postgres://me:canary@127.0.0.1:1/shop",
            "postgres://127.0.0.1:1/shop",
        ),
        (
            "store.url",
            "mysql://me:canary@127.0.0.1:1/shop",
            "mysql://127.0.0.1:1/shop",
        ),
    ] {
        let set = format!("{key}={url}");
        let listen = "server.listen=127.0.0.1:0";
        let (code, said) = refused(&run(&folder.0, &["serve", "--set", &set, "--set", listen]));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(shown), "{shown}: {said}");
        assert!(!said.contains("canary"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn core_19_a_file_that_does_not_exist_ends_with_3() {
    let folder = Folder::new("no-file");
    for arguments in [
        &["status", "--config", "missing.toml"][..],
        &["serve", "--config", "missing.toml"],
        &["keys", "ls", "--config", "missing.toml"],
        &[
            "submit",
            "d",
            "e",
            "b",
            "--url",
            "http://127.0.0.1:1",
            "--payload",
            "@missing",
        ],
    ] {
        let ran = run(&folder.0, arguments);
        let (code, said) = refused(&ran);
        assert_eq!(code, Some(3), "{arguments:?}: {said}{}", text(&ran.stdout));
        assert!(said.contains("missing"), "{said}");
    }
    assert_eq!(files(&folder.0), Vec::<String>::new());
}

#[test]
fn core_19_a_server_lists_no_destination_of_a_collector_that_nobody_configured() {
    let folder = Folder::new("no-destinations");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let list = ["destinations", "ls", "-o", "json", "--url", &server.url()];
    let listed = document(&run(&folder.0, &list));
    assert_eq!(listed, json!({"destinations": []}));
}

#[test]
fn core_19_the_first_key_says_what_it_changes_and_formats_are_obeyed() {
    let folder = Folder::new("first-key");
    let create = |name: &str| run(&folder.0, &["keys", "create", name, "-o", "json"]);
    let first = create("shop");
    assert!(
        text(&first.stderr).contains("every request"),
        "{}",
        text(&first.stderr)
    );
    let key = document(&first);
    assert!(
        key["key"]
            .as_str()
            .is_some_and(|key| key.starts_with("clk_")),
        "{key}"
    );
    assert_eq!(
        (&key["name"], &key["scopes"]),
        (&json!("shop"), &json!(["submit", "read"]))
    );
    let second = create("mailer");
    assert!(
        !text(&second.stderr).contains("every request"),
        "it is said once"
    );
    let list = run(&folder.0, &["keys", "ls", "-o", "json"]);
    let names = |listed: &Value| {
        let keys = listed["keys"].as_array().expect("a list").iter();
        keys.map(|key| key["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&document(&list)), ["shop", "mailer"]);
    assert!(
        !text(&list.stdout).contains("clk_"),
        "secrets are shown once"
    );
    let lines = run(&folder.0, &["keys", "ls", "-o", "jsonl"]);
    assert_eq!(text(&lines.stdout).lines().count(), 2);
    let id = key["id"].as_str().expect("an id");
    let revoked = document(&run(&folder.0, &["keys", "revoke", id, "-o", "json"]));
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    // A bare key on standard output, for scripts.
    let plain = run(&folder.0, &["keys", "create", "till"]);
    assert!(text(&plain.stdout).starts_with("clk_"));
    assert_eq!(text(&plain.stdout).lines().count(), 1);
}

#[test]
fn core_19_the_printed_configuration_says_what_is_in_effect() {
    let folder = Folder::new("effective");
    let config = r#"
[[route]]
name = "one"
domain = "d"
event_type = "one"
url = "http://127.0.0.1:8100/x"
retry = { preset = "sdk", max_attempts = 9 }
rate = { permits = 7, per = "1m" }
[[route]]
name = "two"
domain = "d"
event_type = "two"
url = "http://127.0.0.1:8100/y"
[[route]]
name = "three"
domain = "d"
event_type = "three"
destination = "psp"
url = "http://127.0.0.1:8101/"
[[route]]
name = "far"
domain = "far"
remote = true
"#;
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let shown = document(&run(&folder.0, &["serve", "--print-config", "-o", "json"]));
    let [one, two, three, far] = &shown["route"].as_array().expect("routes")[..] else {
        panic!("four routes: {shown:#}");
    };
    assert_eq!(one["destination"], "127.0.0.1:8100");
    assert_eq!(three["destination"], "psp", "what is set stays");
    assert_eq!(
        one["retry"],
        json!({"preset": "sdk", "max_attempts": 9, "base": "200ms", "cap": "10s",
               "jitter": one["retry"]["jitter"], "retry_after_max": "1h", "budget": 0.2})
    );
    assert_eq!(two["retry"]["max_attempts"], 5);
    assert_eq!(
        two["rate"],
        json!({"permits": 7, "per": "1m"}),
        "of the same destination"
    );
    assert_eq!(three["rate"], Value::Null);
    assert_eq!(
        (&two["timeout"], &two["concurrency"]),
        (&json!("3s"), &json!(16))
    );
    assert_eq!(two["breaker"]["min_calls"], 10);
    assert_eq!(
        (&far["breaker"], &far["concurrency"]),
        (&Value::Null, &Value::Null)
    );
    // What is printed is a configuration that means the same.
    let printed = run(&folder.0, &["serve", "--print-config"]);
    std::fs::write(folder.0.join("again.toml"), &printed.stdout).expect("a file");
    let again = run(
        &folder.0,
        &["serve", "--print-config", "--config", "again.toml"],
    );
    assert_eq!(
        text(&again.stdout),
        text(&printed.stdout),
        "{}",
        text(&again.stderr)
    );
}
