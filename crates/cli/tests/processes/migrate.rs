//! `clinch migrate`.

use std::process::Stdio;

use serde_json::Value;

use crate::support::{CONFIG, Folder, Server, clinch, document, refused, run, text};

/// A database of an older release.
fn of_version_1(folder: &Folder) {
    let planned = run(
        &folder.0,
        &["migrate", "--dry-run", "--show-sql", "-o", "json"],
    );
    let planned = document(&planned);
    let conn = rusqlite::Connection::open(folder.0.join("clinch.db")).expect("opens");
    let sql = planned["steps"][0]["sql"].as_str().expect("SQL");
    conn.execute_batch(sql).expect("the first step");
    conn.pragma_update(None, "user_version", 1).expect("set");
    conn.pragma_update(None, "application_id", 0x636c_6e63)
        .expect("set");
}

#[test]
fn out_7_migrate_makes_the_database_and_a_dry_run_does_not() {
    let folder = Folder::new("migrate");
    let planned = run(&folder.0, &["migrate", "--dry-run"]);
    assert_eq!(planned.status.code(), Some(0));
    assert!(text(&planned.stdout).contains("would be created"));
    let files = || std::fs::read_dir(&folder.0).expect("a folder").count();
    assert_eq!(files(), 0, "a dry run leaves nothing behind");
    let done = document(&run(&folder.0, &["migrate", "-o", "json"]));
    assert_eq!(done["version_before"], Value::Null);
    assert_eq!(done["version"], done["version_known"]);
    let again = run(&folder.0, &["migrate"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stdout).contains("up to date"));
    // A server finds nothing left to migrate, and neither does a concurrent migration.
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let _server = Server::start(&folder.0, "127.0.0.1:0");
    let beside = run(&folder.0, &["migrate"]);
    assert!(text(&beside.stdout).contains("up to date"), "{beside:?}");
}

#[test]
fn out_7_an_old_database_gets_what_it_lacks_and_no_more() {
    let folder = Folder::new("migrate-old");
    of_version_1(&folder);
    let planned = run(&folder.0, &["migrate", "--dry-run", "--show-sql"]);
    let planned = text(&planned.stdout);
    assert!(
        planned.contains("version 1, would be brought to"),
        "{planned}"
    );
    assert!(planned.contains("CREATE TABLE clinch_api_key"), "{planned}");
    assert!(
        !planned.contains("CREATE TABLE clinch_operation"),
        "{planned}"
    );
    let done = document(&run(&folder.0, &["migrate", "-o", "json"]));
    assert_eq!(done["version_before"], 1);
    let numbers = done["steps"].as_array().expect("steps").iter();
    let numbers: Vec<_> = numbers.map(|step| step["version"].as_u64()).collect();
    let known = done["version_known"].as_u64().expect("a version");
    assert_eq!(numbers, (2..=known).map(Some).collect::<Vec<_>>());
}

#[test]
fn out_7_processes_that_migrate_at_once_do_each_step_once() {
    let folder = Folder::new("migrate-many");
    let start = |_| {
        let mut command = clinch(&folder.0);
        let command = command.args(["migrate", "-o", "json"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let all: Vec<_> = (0..8).map(start).collect();
    let mut done = Vec::new();
    for child in all {
        let output = child.wait_with_output().expect("it ends");
        let document = document(&output);
        let steps = document["steps"].as_array().expect("steps");
        done.extend(steps.iter().map(|step| step["version"].as_u64()));
    }
    assert!(!done.is_empty());
    let known = u64::try_from(done.len()).expect("a count");
    assert_eq!(done, (1..=known).map(Some).collect::<Vec<_>>());
}

#[test]
fn out_7_what_cannot_be_migrated_is_left_alone() {
    let folder = Folder::new("migrate-not");
    let with = |url: &str| {
        let mut command = clinch(&folder.0);
        let command = command.arg("migrate").env("CLINCH__STORE__URL", url);
        refused(&command.output().expect("it runs"))
    };
    assert_eq!(with("memory:").0, Some(2));
    let (code, said) = with("oracle://me:canary-4f1d@db/clinch");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("oracle") && !said.contains("canary"),
        "{said}"
    );
    std::fs::write(folder.0.join("text.db"), "x".repeat(4_096)).expect("a file");
    assert_eq!(with("sqlite://text.db").0, Some(1));
    let conn = rusqlite::Connection::open(folder.0.join("other.db")).expect("opens");
    conn.execute_batch("CREATE TABLE theirs (a)").expect("made");
    drop(conn);
    let (code, said) = with("sqlite://other.db");
    assert_eq!(code, Some(1));
    assert!(said.contains("belongs to another program"), "{said}");
    assert_eq!(with("sqlite://no/such/folder.db").0, Some(1));
    run(&folder.0, &["migrate"]);
    let conn = rusqlite::Connection::open(folder.0.join("clinch.db")).expect("opens");
    conn.pragma_update(None, "user_version", 99).expect("set");
    drop(conn);
    for arguments in [&["migrate"][..], &["migrate", "--dry-run"]] {
        let (code, said) = refused(&run(&folder.0, arguments));
        assert_eq!(code, Some(1));
        assert!(said.contains("newer release"), "{said}");
    }
}
