//! Damaged files and failing disks: each gives a clear error of the right kind, and nothing is lost
//! (OUT-7).

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, Domains, Inspect};
use clinch_core::{Error, ErrorKind};
use clinch_sqlite::{Existing, Settings, Sqlite};

use crate::common::{Folder, clock, integrity, on_a_runtime, open, operation, routes};
use clinch_contract::Calls;

fn refusal(path: &Path, settings: Settings) -> Error {
    match Sqlite::open(path, settings, clock()) {
        Ok(_) => panic!("the file was opened"),
        Err(error) => error,
    }
}

fn kind_of(path: &Path) -> ErrorKind {
    let error = refusal(path, Settings::default());
    assert!(!error.to_string().contains('\n'), "one line: {error}");
    error.kind()
}

#[test]
fn out_7_what_is_not_a_database_is_refused() {
    let folder = Folder::new("files");
    std::fs::write(folder.file(), "not a database, but long enough to look at").expect("writes");
    assert_eq!(kind_of(&folder.file()), ErrorKind::Corrupt);
    let after = std::fs::read_to_string(folder.file()).expect("reads");
    assert!(after.starts_with("not a database"), "it is left alone");
}

#[test]
fn out_7_a_file_of_another_program_is_refused_unless_it_may_be_adopted() {
    let folder = Folder::new("files");
    let conn = rusqlite::Connection::open(folder.file()).expect("opens");
    conn.execute_batch("CREATE TABLE theirs (x)")
        .expect("their table");
    drop(conn);
    assert_eq!(kind_of(&folder.file()), ErrorKind::Corrupt);
    let adopt = Settings {
        adopt: true,
        ..Settings::default()
    };
    let adopted = Sqlite::open(folder.file(), adopt, clock()).expect("adopted");
    let conn = adopted.connect().expect("connects");
    conn.execute_batch("INSERT INTO theirs VALUES (1)")
        .expect("their table is there");
}

#[test]
fn out_7_a_newer_schema_is_refused_and_left_alone() {
    let folder = Folder::new("files");
    drop(open(&folder));
    let conn = rusqlite::Connection::open(folder.file()).expect("opens");
    conn.pragma_update(None, "user_version", 99).expect("sets");
    drop(conn);
    assert_eq!(kind_of(&folder.file()), ErrorKind::Unsupported);
}

#[test]
fn out_7_a_damaged_file_is_named_as_such() {
    let folder = Folder::new("files");
    on_a_runtime(async {
        let sqlite = open(&folder);
        let new: Vec<_> = (0..200)
            .map(|number| operation("natural", number))
            .collect();
        sqlite.accept(&new, &routes()).await.expect("accepted");
        sqlite
            .backup(folder.0.join("damaged.db"), Existing::Refuse)
            .await
            .expect("a copy");
        let path = folder.0.join("damaged.db");
        let mut bytes = std::fs::read(&path).expect("reads");
        let length = bytes.len();
        bytes[200..length / 2].fill(0xa5);
        std::fs::write(&path, bytes).expect("writes");
        let found = match Sqlite::open(&path, Settings::default(), clock()) {
            Err(error) => error,
            Ok(damaged) => {
                let ops: Vec<_> = new.iter().map(|new| new.op_id).collect();
                damaged.get(&ops).await.expect_err("it cannot be read")
            }
        };
        assert_eq!(found.kind(), ErrorKind::Corrupt, "{found}");
    });
}

#[test]
fn out_7_a_missing_folder_and_a_read_only_file_are_unavailable() {
    let folder = Folder::new("files");
    assert_eq!(
        kind_of(&folder.0.join("none").join("x.db")),
        ErrorKind::Unavailable
    );
    drop(open(&folder));
    let name = folder.file();
    // Root may write whatever the mode is, but not a directory in place of the file.
    let directory = folder.0.join("directory.db");
    std::fs::create_dir(&directory).expect("a folder");
    assert_eq!(kind_of(&directory), ErrorKind::Unavailable);
    let mut permissions = std::fs::metadata(&name).expect("there").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&name, permissions).expect("read-only");
    if std::fs::File::options().append(true).open(&name).is_err() {
        assert_eq!(kind_of(&name), ErrorKind::Unavailable);
    }
}

#[test]
fn out_7_a_file_locked_by_another_writer_is_unavailable_and_then_works() {
    let folder = Folder::new("files");
    on_a_runtime(async {
        let settings = Settings {
            busy_timeout: Duration::from_millis(20),
            ..Settings::default()
        };
        let sqlite = Sqlite::open(folder.file(), settings, clock()).expect("opens");
        let other = sqlite.connect().expect("connects");
        other.execute_batch("BEGIN IMMEDIATE").expect("locks");
        let new = [operation("natural", 1)];
        let refused = sqlite.accept(&new, &routes()).await.expect_err("locked");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(refused.is_retryable());
        // Readers wait for no writer.
        assert_eq!(sqlite.get(&[new[0].op_id]).await.expect("reads"), [None]);
        other.execute_batch("ROLLBACK").expect("unlocks");
        let accepted = sqlite.accept(&new, &routes()).await.expect("accepted");
        assert!(matches!(accepted[..], [Accepted::New { .. }]));
    });
}

/// A small file system, unmounted when dropped.
struct Disk(Folder);

impl Disk {
    /// `None`: this user may not mount file systems.
    fn new(options: &str) -> Option<Self> {
        let folder = Folder::new("disk");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&folder.0)
            .output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0.0).output();
    }
}

async fn accept_until_full(sqlite: &Sqlite, routes: &Routes) -> (Vec<clinch_core::OpId>, Error) {
    let mut accepted = Vec::new();
    for first in (0..1_000_000).step_by(50) {
        let new: Vec<_> = (first..first + 50)
            .map(|n| operation("natural", n))
            .collect();
        match sqlite.accept(&new, routes).await {
            Ok(_) => accepted.extend(new.iter().map(|new| new.op_id)),
            Err(error) => return (accepted, error),
        }
    }
    panic!("the disk never became full");
}

#[test]
fn out_7_a_full_disk_loses_nothing_that_was_acknowledged() {
    let Some(disk) = Disk::new("size=4m") else {
        eprintln!("skipped: this user may not mount a small file system");
        return;
    };
    on_a_runtime(async {
        let ballast = disk.0.0.join("ballast");
        std::fs::write(&ballast, vec![7; 1_000_000]).expect("fits");
        let sqlite = open(&disk.0);
        let routes = routes();
        let (accepted, error) = accept_until_full(&sqlite, &routes).await;
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert!(!accepted.is_empty());
        let rows = sqlite.get(&accepted).await.expect("reads");
        assert_eq!(
            rows.iter().flatten().count(),
            accepted.len(),
            "all are there"
        );
        std::fs::remove_file(ballast).expect("room again");
        let again = sqlite
            .accept(&[operation("natural", 2_000_000)], &routes)
            .await;
        assert!(again.is_ok(), "with room it goes on: {again:?}");
        let domains = sqlite.domains().await.expect("reads");
        assert_eq!(domains[0].counts.pending as usize, accepted.len() + 1);
        assert_eq!(integrity(&disk.0), "ok");
    });
}

#[test]
fn out_7_a_read_only_file_system_is_refused() {
    let Some(disk) = Disk::new("size=8m") else {
        eprintln!("skipped: this user may not mount a small file system");
        return;
    };
    drop(open(&disk.0));
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&disk.0.0)
        .output();
    if remounted.is_ok_and(|output| output.status.success()) {
        assert_eq!(kind_of(&disk.0.file()), ErrorKind::Unavailable);
    }
}

#[test]
fn core_12_every_query_uses_an_index_where_rows_may_be_many() {
    let folder = Folder::new("files");
    let sqlite = open(&folder);
    let conn = sqlite.connect().expect("connects");
    let plans = sqlite.plans(&conn).expect("plans");
    assert!(plans.len() > 50, "{} statements", plans.len());
    let may_scan = [
        "list",
        "settled_rows",
        "open_operations",
        "domains",
        "last_op_id",
        "announced_due",
        "open_routes",
    ];
    for (name, plan) in plans {
        let large = ["operation", "record", "document"].map(|of| format!("SCAN clinch_{of}"));
        let is_scan = |step: &String| large.iter().any(|scan| step.starts_with(scan));
        let scans = plan.iter().any(is_scan);
        let allowed = may_scan.contains(&name.as_str());
        assert!(!scans || allowed, "{name} scans: {plan:?}");
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE"));
        // Operations of one key, API keys, documents of one user or resource, kinds and event types
        // are few, and new keys are bounded.
        let few = [
            "announced_due",
            "list_of_key",
            "api_keys",
            "documents_of_user",
            "document_names_of_user",
            "document_names_of_resource",
            "count_documents",
            "merge_new_keys",
        ];
        let few = few.contains(&name.as_str());
        assert!(!sorts || few, "{name} sorts: {plan:?}");
    }
}

#[test]
fn core_12_the_file_refuses_a_row_that_breaks_an_invariant() {
    let folder = Folder::new("files");
    on_a_runtime(async {
        let sqlite = open(&folder);
        let new = [operation("natural", 1)];
        sqlite.accept(&new, &routes()).await.expect("accepted");
        let conn = sqlite.connect().expect("connects");
        for broken in [
            "phase = 0",
            "status = 2",
            "status = 3",
            "lease_until = 5",
            "attempts = 1",
            "hold = '{}'",
            "need = 1, need_at = 0",
            "line = 3",
            "version = 0",
            "recorded = 1",
            "op_id = 'text'",
        ] {
            let sql = format!("UPDATE clinch_operation SET {broken}");
            assert!(conn.execute(&sql, []).is_err(), "{broken} was accepted");
        }
    });
    let _ = Arc::new(());
}

#[test]
fn core_16_api_keys_are_kept_as_the_port_promises() {
    let folder = Folder::new("keys");
    let sqlite = open(&folder);
    let checked = on_a_runtime(clinch_contract::api_keys(&sqlite));
    assert_eq!(checked, Ok(()));
}
