//! `clinch backup` and `clinch restore`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{CONFIG, Folder, Server, document, op_id, refused, run, submit, text};

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(&folder.0).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

fn operation(folder: &Folder, server: &Server, id: &str) -> Value {
    let get = ["ops", "get", id, "-o", "json", "--url", &server.url()];
    document(&run(&folder.0, &get))
}

#[test]
fn run_11_a_backup_of_a_running_server_restores_with_every_open_effect_unknown() {
    let folder = Folder::new("backup");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let accept = |key: &str| op_id(&submit(&folder.0, &server.url(), key)).expect("accepted");
    let before: Vec<String> = (0..5).map(|n| accept(&format!("order-{n}"))).collect();
    let taken = document(&run(&folder.0, &["backup", "copy.db", "-o", "json"]));
    assert_eq!(taken["checked"], true);
    let mode = std::fs::metadata(folder.0.join("copy.db")).expect("there");
    assert_eq!(mode.permissions().mode() & 0o077, 0, "it holds payloads");
    let after = accept("order-after");
    // While a process has the database open, restore refuses, even with --force.
    for force in [
        &["restore", "copy.db", "--force"][..],
        &["restore", "copy.db"],
    ] {
        let (code, said) = refused(&run(&folder.0, force));
        assert!(matches!(code, Some(4 | 2)), "{said}");
    }
    let (code, said) = refused(&run(&folder.0, &["restore", "copy.db", "--force"]));
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("stop `clinch serve`"), "{said}");
    assert_eq!(operation(&folder, &server, &after)["state"], "PENDING");
    server.stop();
    let (code, said) = refused(&run(&folder.0, &["restore", "copy.db"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("--force"), "{said}");
    let restored = run(&folder.0, &["restore", "copy.db", "--force", "-o", "json"]);
    let restored = document(&restored);
    assert_eq!(restored["marked_unknown"], before.len());
    let server = Server::start(&folder.0, "127.0.0.1:0");
    for id in &before {
        assert_eq!(operation(&folder, &server, id)["effect"], "unknown");
    }
    let get = ["ops", "get", &after, "--url", &server.url()];
    assert_eq!(
        run(&folder.0, &get).status.code(),
        Some(3),
        "not in the backup"
    );
    server.stop();
    // The replaced database is kept complete, and can be restored again.
    let kept = restored["kept"].as_str().expect("a name").to_owned();
    std::fs::remove_file(folder.0.join("clinch.db")).expect("removed");
    // The stopping server may have moved the log into the file.
    let _ = std::fs::remove_file(folder.0.join("clinch.db-wal"));
    let back = run(&folder.0, &["restore", &kept, "-o", "json"]);
    assert_eq!(document(&back)["marked_unknown"], before.len() + 1);
    let server = Server::start(&folder.0, "127.0.0.1:0");
    assert_eq!(operation(&folder, &server, &after)["effect"], "unknown");
    let left: Vec<_> = names(&folder);
    assert!(
        !left.iter().any(|name| name.ends_with(".partial")),
        "{left:?}"
    );
}

#[test]
fn out_7_a_backup_replaces_nothing_by_accident() {
    let folder = Folder::new("backup-refused");
    let (code, said) = refused(&run(&folder.0, &["backup", "copy.db"]));
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(names(&folder).len(), 0, "no database is made");
    run(&folder.0, &["migrate"]);
    std::fs::write(folder.0.join("copy.db"), "mine").expect("a file");
    let (code, said) = refused(&run(&folder.0, &["backup", "copy.db"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("--force"), "{said}");
    let mine = std::fs::read(folder.0.join("copy.db")).expect("there");
    assert_eq!(mine, b"mine");
    assert_eq!(
        run(&folder.0, &["backup", "copy.db", "--force"])
            .status
            .code(),
        Some(0)
    );
    for itself in ["clinch.db", "./clinch.db", "clinch.db-wal"] {
        let (code, said) = refused(&run(&folder.0, &["backup", itself, "--force"]));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("the database itself"), "{said}");
    }
    let (code, _) = refused(&run(&folder.0, &["backup", "no/such/folder.db"]));
    assert_eq!(code, Some(3));
    let left = names(&folder);
    assert!(
        !left.iter().any(|name| name.contains("partial")),
        "{left:?}"
    );
}

#[test]
fn out_7_only_a_sound_backup_is_restored() {
    let folder = Folder::new("restore-refused");
    run(&folder.0, &["migrate"]);
    run(&folder.0, &["backup", "good.db"]);
    let database = folder.0.join("clinch.db");
    let before = std::fs::read(&database).expect("there");
    let good = std::fs::read(folder.0.join("good.db")).expect("there");
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0xa5);
    let bad: [(&str, &[u8]); 3] = [
        ("damaged.db", &damaged),
        ("empty.db", b""),
        ("text.db", b"no"),
    ];
    for (name, bytes) in bad {
        std::fs::write(folder.0.join(name), bytes).expect("a file");
        let (code, said) = refused(&run(&folder.0, &["restore", name, "--force"]));
        assert_eq!(code, Some(1), "{name}: {said}");
        assert_eq!(std::fs::read(&database).expect("there"), before, "{name}");
    }
    assert_eq!(refused(&run(&folder.0, &["restore", "none.db"])).0, Some(3));
    // A log beside the file: a database in use, of which the file is only a part.
    std::fs::write(folder.0.join("live.db"), &good).expect("a file");
    std::fs::write(folder.0.join("live.db-wal"), "x").expect("a file");
    let (code, said) = refused(&run(&folder.0, &["restore", "live.db", "--force"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("clinch backup"), "{said}");
    // SQLite would apply a leftover log to the restored file.
    std::fs::remove_file(&database).expect("removed");
    std::fs::write(folder.0.join("clinch.db-wal"), "of another").expect("a file");
    let (code, said) = refused(&run(&folder.0, &["restore", "good.db"]));
    assert_eq!(code, Some(2), "{said}");
    let forced = run(&folder.0, &["restore", "good.db", "--force"]);
    assert_eq!(forced.status.code(), Some(0), "{}", text(&forced.stderr));
    assert!(!folder.0.join("clinch.db-wal").exists());
    // A damaged database does not prevent its own replacement.
    std::fs::write(&database, &damaged).expect("written");
    let forced = run(&folder.0, &["restore", "good.db", "--force"]);
    assert_eq!(forced.status.code(), Some(0), "{}", text(&forced.stderr));
    let well = run(&folder.0, &["migrate", "--dry-run"]);
    assert!(text(&well.stdout).contains("up to date"));
}
