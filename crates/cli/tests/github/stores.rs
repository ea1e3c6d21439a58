//! The command line works on the store that it was told to use, and names it.

use clinch_testbed::Kind;
use serde_json::json;

use crate::hub::Hub;
use crate::nodes::are_there;
use crate::support::{Folder, PATIENCE, Server, clinch, ends, said, stranger};

/// A configuration whose server address is that of another server.
fn pointed_at(folder: &Folder, address: &str, rest: &str) {
    let config = format!("{rest}\n[server]\nlisten = \"{address}\"\n");
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
}

const ROUTE: &str =
    "[[route]]\nname = \"far\"\ndomain = \"pay\"\nevent_type = \"charge\"\nremote = true\n";

#[test]
fn core_19_no_command_works_on_the_server_of_another_store() {
    let hub = Hub::calm();
    let section = format!("{}{ROUTE}", hub.section(&["fake-ann-1"]));
    let (ours, theirs) = (Folder::with(&section), Folder::with(&section));
    let server = Server::start(&theirs, "api,worker,recovery");
    let address = server.address().to_string();
    pointed_at(&ours, &address, &section);
    // Once without a database of its own, once with one.
    for _ in 0..2 {
        let commands: [&[&str]; 7] = [
            &["github", "run", "octocat"],
            &["github", "run", "octocat", "--config", "clinch.toml"],
            &["github", "status"],
            &["ops", "ls"],
            &["domains", "pause", "pay"],
            &["submit", "pay", "charge", "order-1", "--payload", "{}"],
            &["dlq", "redrive", "--domain", "pay", "-y"],
        ];
        for command in commands {
            let output = ours.run(command);
            ends(&output, 2);
            let said = said(&output);
            assert_eq!(said.lines().count(), 1, "{command:?}: {said}");
            assert!(said.contains("another store"), "{command:?}: {said}");
            assert!(said.contains(&format!("http://{address}")), "{said}");
            assert!(
                said.contains("clinch.db") && said.contains("--url"),
                "{said}"
            );
        }
        ends(&ours.run(&["keys", "ls"]), 0);
    }
    let runs = server.ask("GET", "/v1/github/runs", "", 200);
    assert_eq!(runs["runs"], json!([]));
    let operations = server.ask("GET", "/v1/operations", "", 200);
    assert_eq!(operations["operations"], json!([]));
    // A server named by `--url` is used as it is, unless a configuration is named too.
    let url = server.url();
    ends(&ours.run(&["ops", "ls", "--url", &url]), 0);
    let both = ["ops", "ls", "--url", &url, "--config", "clinch.toml"];
    ends(&ours.run(&both), 2);
}

#[test]
fn core_19_a_server_of_the_same_store_is_used_and_named() {
    let folder = Folder::with(ROUTE);
    let server = Server::start(&folder, "api,worker,recovery");
    pointed_at(&folder, &server.address().to_string(), ROUTE);
    let quiet = folder.run(&["ops", "ls", "-o", "json"]);
    ends(&quiet, 0);
    assert!(quiet.stderr.is_empty(), "{}", said(&quiet));
    let output = folder.run(&["ops", "ls", "-o", "json", "-v"]);
    let listed = ends(&output, 0);
    assert!(listed.contains("\"operations\""), "{listed}");
    let line = format!("server {} (store sqlite://clinch.db)\n", server.url());
    assert_eq!(String::from_utf8_lossy(&output.stderr), line);
    let keys = folder.run(&["keys", "ls", "-v"]);
    ends(&keys, 0);
    let line = "database sqlite://clinch.db\n";
    assert_eq!(String::from_utf8_lossy(&keys.stderr), line);
    // A copy has the same store id; a restored backup gets another one.
    ends(&folder.run(&["backup", "copy.db"]), 0);
    let other = Folder::with(ROUTE);
    let copy = folder.0.join("copy.db").display().to_string();
    ends(&other.run(&["restore", &copy]), 0);
    pointed_at(&other, &server.address().to_string(), ROUTE);
    ends(&other.run(&["ops", "ls"]), 2);
    let (_, head, _) = server.exchange("GET", "/healthz", "");
    assert!(head.to_lowercase().contains("\nclinch-store: "), "{head}");
}

#[test]
fn core_19_a_stranger_on_the_port_is_no_server_of_ours() {
    for (body, word) in [
        ("<html>hello</html>", "does not answer like a Clinch server"),
        ("{\"status\":\"ok\"}", "does not say which store"),
    ] {
        let (address, heard) = stranger(body);
        let folder = Folder::with("");
        pointed_at(&folder, &address.to_string(), ROUTE);
        for command in [
            &["github", "run", "octocat"][..],
            &["ops", "ls"],
            &["submit", "pay", "charge", "order-1", "--payload", "{}"],
        ] {
            let mut program = clinch(&folder.0);
            program.args(command).env("CLINCH_API_KEY", "clk_canary");
            let output = program.output().expect("it runs");
            assert_ne!(output.status.code(), Some(0), "{}", said(&output));
            let said = said(&output);
            assert!(said.contains(word) && said.lines().count() == 1, "{said}");
        }
        assert!(!folder.0.join("clinch.db").exists(), "nothing was made");
        let heard = heard.lock().expect("heard").to_lowercase();
        assert!(heard.contains("get /healthz"), "{heard}");
        assert!(!heard.contains("canary"), "a key went to a stranger");
    }
}

#[test]
fn core_19_a_missing_key_is_told_from_a_wrong_store() {
    let folder = Folder::with(ROUTE);
    let server = Server::start(&folder, "api,worker,recovery");
    pointed_at(&folder, &server.address().to_string(), ROUTE);
    ends(&folder.run(&["keys", "create", "shop"]), 0);
    let is_locked = || server.exchange("GET", "/v1/domains", "").0 == 401;
    assert!(clinch_testbed::wait_until(PATIENCE, is_locked));
    let output = folder.run(&["ops", "ls"]);
    ends(&output, 1);
    assert!(
        said(&output).contains("unauthenticated"),
        "{}",
        said(&output)
    );
}

#[test]
fn core_19_stores_on_database_servers_are_told_apart() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        if !are_there(&[kind]) {
            continue;
        }
        let section = |store: &str| format!("[store]\nurl = \"{store}\"\n{ROUTE}");
        let [ours, theirs] = [(); 2].map(|()| {
            let store = clinch_testbed::database(kind).expect("a database");
            section(&store)
        });
        let folder = Folder::with(&theirs);
        let server = Server::start(&folder, "api,worker,recovery");
        let address = server.address().to_string();
        // From any folder: the store counts, not the folder.
        let client = Folder::with("");
        pointed_at(&client, &address, &theirs);
        ends(&client.run(&["ops", "ls"]), 0);
        // First without tables, then with them.
        pointed_at(&client, &address, &ours);
        ends(&client.run(&["domains", "pause", "pay"]), 2);
        ends(&client.run(&["migrate"]), 0);
        let refused = client.run(&["domains", "pause", "pay"]);
        ends(&refused, 2);
        assert!(
            said(&refused).contains("another store"),
            "{}",
            said(&refused)
        );
        // Stores of another kind, and memory.
        for other in ["sqlite://clinch.db", "memory:"] {
            pointed_at(&client, &address, &section(other));
            ends(&client.run(&["domains", "pause", "pay"]), 2);
        }
    }
}

#[test]
fn core_19_a_server_in_memory_is_one_of_a_configuration_in_memory() {
    let memory = format!("[store]\nurl = \"memory:\"\n{ROUTE}");
    let folder = Folder::with(&memory);
    let server = Server::start(&folder, "api,worker,recovery");
    pointed_at(&folder, &server.address().to_string(), &memory);
    ends(&folder.run(&["ops", "ls"]), 0);
}
