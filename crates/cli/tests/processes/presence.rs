//! A database file that is lost, replaced, truncated or without its log: real processes detect it
//! at the start and while the file is open.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use clinch_testbed::wait_until;

use crate::provider::http;
use crate::support::{CONFIG, Folder, Server, clinch, op_id, refused, run, submit};

const LOOPBACK: &str = "127.0.0.1:0";
const OPERATIONS: usize = 5;

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    folder
}

fn database(folder: &Folder) -> PathBuf {
    folder.0.join("clinch.db")
}

fn log_of(folder: &Folder) -> PathBuf {
    folder.0.join("clinch.db-wal")
}

/// A server with some operations.
fn serve(folder: &Folder) -> Server {
    let server = Server::start(&folder.0, LOOPBACK);
    for number in 0..OPERATIONS {
        let output = submit(&folder.0, &server.url(), &format!("order-{number}"));
        assert!(op_id(&output).is_some(), "{:?}", refused(&output));
    }
    server
}

fn kill(mut server: Server) {
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
}

/// Number of operations that a server on this folder knows.
fn known(folder: &Folder, arguments: &[&str]) -> usize {
    let mut command = clinch(&folder.0);
    command.args(["serve", "--set", "server.listen=127.0.0.1:0"]);
    let server = Server::of(command.args(arguments));
    let url = server.url();
    let listed = run(&folder.0, &["ops", "ls", "-o", "json", "--url", &url]);
    let document = crate::support::document(&listed);
    document["operations"].as_array().map_or(0, Vec::len)
}

/// The error of a refused start: one line that says what to do.
fn refusal(folder: &Folder) -> String {
    let output = run(&folder.0, &["serve", "--set", "server.listen=127.0.0.1:0"]);
    let (code, said) = refused(&output);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains("--accept-data-loss"), "{said}");
    assert!(said.contains("clinch restore"), "{said}");
    said
}

/// The doctor reports the same as a refused start.
fn doctor_says(folder: &Folder, part: &str) {
    let output: Output = run(&folder.0, &["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(part), "{said}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).expect("copied");
}

#[test]
fn out_7_after_a_clean_stop_the_file_alone_is_whole() {
    let (used, fresh) = (folder("whole"), folder("whole-copy"));
    serve(&used).stop();
    let log = std::fs::metadata(log_of(&used)).map_or(0, |log| log.len());
    assert_eq!(log, 0, "nothing is left in the log");
    copy(&database(&used), &database(&fresh));
    assert_eq!(known(&fresh, &[]), OPERATIONS);
}

#[test]
fn out_7_after_a_command_and_a_migration_the_file_alone_is_whole() {
    for arguments in [&["migrate"][..], &["keys", "create", "shop"]] {
        let (used, fresh) = (folder("command"), folder("command-copy"));
        let output = run(&used.0, arguments);
        assert!(output.status.success(), "{:?}", refused(&output));
        let log = std::fs::metadata(log_of(&used)).map_or(0, |log| log.len());
        assert_eq!(log, 0, "nothing is left in the log");
        copy(&database(&used), &database(&fresh));
        let output = run(&fresh.0, &["migrate", "--dry-run"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("up to date"), "{said}{:?}", refused(&output));
    }
}

#[test]
fn out_7_a_file_that_was_copied_without_its_log_is_refused() {
    let (used, copied) = (folder("live"), folder("live-copy"));
    let server = serve(&used);
    copy(&database(&used), &database(&copied));
    kill(server);
    let said = refusal(&copied);
    assert!(said.contains("its log"), "{said}");
    doctor_says(&copied, "its log");
    // Once it is accepted, it is the database from then on.
    known(&copied, &["--accept-data-loss"]);
    known(&copied, &[]);
    assert_eq!(known(&used, &[]), OPERATIONS, "the killed one lost nothing");
}

#[test]
fn out_7_a_log_that_is_lost_after_a_kill_is_noticed() {
    let used = folder("no-log");
    kill(serve(&used));
    std::fs::remove_file(log_of(&used)).expect("removed");
    assert!(refusal(&used).contains("its log"));
    doctor_says(&used, "its log");
}

#[test]
fn out_7_an_older_copy_in_its_place_is_noticed() {
    let used = folder("older");
    serve(&used).stop();
    let older = used.0.join("older.db");
    copy(&database(&used), &older);
    assert_eq!(known(&used, &[]), OPERATIONS);
    assert_eq!(
        known(&used, &[]),
        OPERATIONS,
        "after a kill it starts as ever"
    );
    serve(&used).stop();
    copy(&older, &database(&used));
    assert!(refusal(&used).contains("it was replaced"));
    doctor_says(&used, "it was replaced");
}

#[test]
fn out_7_a_backup_is_restored_and_not_just_copied() {
    let used = folder("backup");
    let server = serve(&used);
    let output = run(&used.0, &["backup", "backup.db"]);
    assert!(output.status.success(), "{:?}", refused(&output));
    server.stop();
    copy(&used.0.join("backup.db"), &database(&used));
    assert!(refusal(&used).contains("this is a backup"));
    let output = run(&used.0, &["restore", "backup.db", "--force"]);
    assert!(output.status.success(), "{:?}", refused(&output));
    assert_eq!(known(&used, &[]), OPERATIONS);
}

#[test]
fn out_7_a_file_that_is_gone_or_empty_is_not_made_anew() {
    for empty in [false, true] {
        let used = folder("gone");
        serve(&used).stop();
        std::fs::remove_file(database(&used)).expect("removed");
        if empty {
            std::fs::write(database(&used), "").expect("written");
        }
        assert!(refusal(&used).contains("gone or empty"));
        doctor_says(&used, "gone or empty");
        assert_eq!(known(&used, &["--accept-data-loss"]), 0);
    }
}

#[test]
fn out_7_a_file_that_was_cut_short_is_refused() {
    let used = folder("cut");
    serve(&used).stop();
    let file = std::fs::File::options().write(true).open(database(&used));
    let file = file.expect("opened");
    let half = file.metadata().expect("there").len() / 2;
    file.set_len(half).expect("cut");
    drop(file);
    let output = run(&used.0, &["serve", "--set", "server.listen=127.0.0.1:0"]);
    let (code, said) = refused(&output);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("damaged"), "{said}");
}

/// Waits until a running server reports this reason.
fn noticed(folder: &Folder, server: &Server, reason: &str) {
    let mut last = (0, String::new());
    let came = wait_until(Duration::from_secs(60), || {
        last = http(server.address, "GET /readyz", &[], "");
        last.0 == 503
    });
    assert!(came && last.1.contains(reason), "{last:?}");
    let output = submit(&folder.0, &server.url(), "after-it");
    let (code, said) = refused(&output);
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains(reason), "{said}");
}

#[test]
fn out_7_a_file_that_is_lost_under_a_server_is_noticed() {
    type Harm = (&'static str, fn(&Folder));
    let harms: [Harm; 4] = [
        ("removed or replaced", |used| {
            std::fs::remove_file(database(used)).expect("removed");
        }),
        ("removed or replaced", |used| {
            let other = used.0.join("other.db");
            copy(&database(used), &other);
            std::fs::rename(other, database(used)).expect("replaced");
        }),
        ("cut short", |used| {
            let file = std::fs::File::options().write(true).open(database(used));
            file.and_then(|file| file.set_len(0)).expect("cut");
        }),
        ("its -wal file", |used| {
            std::fs::remove_file(log_of(used)).expect("removed");
        }),
    ];
    for (reason, harm) in harms {
        let used = folder("under");
        let server = serve(&used);
        assert_eq!(http(server.address, "GET /readyz", &[], "").0, 200);
        harm(&used);
        noticed(&used, &server, reason);
    }
}

/// A case that cannot be detected: a copy of the file, its log and its folder, taken at one time.
#[test]
fn out_7_a_whole_folder_that_was_copied_live_starts() {
    let (used, copied) = (folder("folder"), folder("folder-copy"));
    let server = serve(&used);
    for name in ["clinch.db", "clinch.db-wal"] {
        copy(&used.0.join(name), &copied.0.join(name));
    }
    drop(server);
    assert_eq!(known(&copied, &[]), OPERATIONS);
}
