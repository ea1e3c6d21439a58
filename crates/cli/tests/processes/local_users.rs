//! Other users of the same machine.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{CONFIG, Folder, Server, run, submit, text};

/// Everything in a folder, with its mode.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        // Sockets of a command that has ended are gone.
        let Ok(there) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        if there.is_dir() {
            all.extend(modes(&path));
        }
        all.push((path, there.permissions().mode() & 0o777));
    }
    all
}

/// Other users may open nothing but the configuration, which the server did not create.
fn assert_private(folder: &Path) {
    for (path, mode) in modes(folder) {
        let is_config = path.ends_with("clinch.toml");
        assert!(
            is_config || mode & 0o077 == 0,
            "{} {mode:o}",
            path.display()
        );
    }
}

/// A server with umask 0.
fn open_handed(folder: &Path) -> Server {
    let mut command = Command::new("sh");
    command.current_dir(folder).args([
        "-c",
        "umask 0; exec \"$0\" serve --set server.listen=127.0.0.1:0",
        env!("CARGO_BIN_EXE_clinch"),
    ]);
    Server::of(&mut command)
}

fn served(name: &str) -> (Folder, Server) {
    let folder = Folder::new(name);
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let server = open_handed(&folder.0);
    let output = submit(&folder.0, &server.url(), "order-1");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (folder, server)
}

#[test]
fn core_16_every_file_of_a_server_is_its_owners_whatever_the_umask() {
    let (folder, server) = served("modes");
    assert_private(&folder.0);
    let names: Vec<PathBuf> = modes(&folder.0).into_iter().map(|(path, _)| path).collect();
    for name in [
        "clinch.db",
        "clinch.db-wal",
        "clinch.db-shm",
        "clinch.db.wake/run",
    ] {
        assert!(names.contains(&folder.0.join(name)), "{name} in {names:?}");
    }
    let backup = run(&folder.0, &["backup", "copy.db"]);
    assert_eq!(backup.status.code(), Some(0), "{}", text(&backup.stderr));
    server.stop();
    assert_private(&folder.0);
    // A backup that was made readable for others is restored for its owner only.
    let open = |name: &str, mode| {
        let path = folder.0.join(name);
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("changed");
    };
    open("copy.db", 0o644);
    open("clinch.db", 0o666);
    let restored = run(&folder.0, &["restore", "copy.db", "--force"]);
    assert_eq!(
        restored.status.code(),
        Some(0),
        "{}",
        text(&restored.stderr)
    );
    open("copy.db", 0o600);
    assert_private(&folder.0);
}

#[test]
fn core_16_what_an_earlier_release_left_open_is_closed_at_start() {
    let (folder, server) = served("earlier");
    drop(server);
    for (path, _) in modes(&folder.0) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("changed");
    }
    let server = open_handed(&folder.0);
    for name in [
        "clinch.db",
        "clinch.db-wal",
        "clinch.db-shm",
        "clinch.db.wake",
    ] {
        let there = std::fs::metadata(folder.0.join(name)).expect(name);
        assert_eq!(there.permissions().mode() & 0o077, 0, "{name}");
    }
    server.stop();
}

#[test]
fn core_16_another_user_reads_locks_and_tells_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let (folder, server) = served("users");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&folder.0, mode).expect("changed");
    let socket = std::fs::read_dir(folder.0.join("clinch.db.wake")).expect("a folder");
    let socket = socket.filter_map(|entry| Some(entry.ok()?.path()));
    let socket = socket.into_iter().find(|path| path.extension().is_some());
    let socket = socket.expect("the server listens").display().to_string();
    let as_nobody = |script: &str| {
        let script = format!("cd {} && {script}", folder.0.display());
        let mut command = Command::new("runuser");
        let command = command.args(["-u", "nobody", "--", "sh", "-c", &script]);
        command.output().expect("runuser runs").status.success()
    };
    assert!(as_nobody("cat clinch.toml"), "it is there for them");
    for file in [
        "clinch.db",
        "clinch.db-wal",
        "clinch.db-shm",
        "clinch-spill.log",
    ] {
        assert!(!as_nobody(&format!("cat {file}")), "{file}");
        assert!(!as_nobody(&format!("flock -s -n {file} true")), "{file}");
    }
    assert!(!as_nobody("ls clinch.db.wake"));
    assert!(!as_nobody(&format!("test -w {socket}")));
    assert!(!as_nobody("flock -n clinch.db.wake/run true"));
    let output = submit(&folder.0, &server.url(), "order-2");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn core_16_a_message_to_the_wake_socket_deletes_no_file() {
    let (folder, server) = served("datagram");
    let victims = ["victim.txt", "clinch.db.wake/run"];
    std::fs::write(folder.0.join("victim.txt"), "kept").expect("written");
    let wake = folder.0.join("clinch.db.wake");
    let sender = UnixDatagram::unbound().expect("a socket");
    let absolute = folder.0.join("victim.txt").display().to_string();
    for name in [
        "../victim.txt",
        "run",
        "9-9.sock/../../victim.txt",
        &absolute,
    ] {
        let mut message = vec![b'h', u8::try_from(name.len()).expect("short")];
        message.extend_from_slice(name.as_bytes());
        for entry in std::fs::read_dir(&wake).expect("a folder").flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "sock") {
                let _ = sender.send_to(&message, &path);
            }
        }
    }
    // Two commits: if a message overtakes the first commit, the server still has to send notices
    // for the second.
    for key in ["order-2", "order-3"] {
        let output = submit(&folder.0, &server.url(), key);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    server.stop();
    for victim in victims {
        assert!(folder.0.join(victim).exists(), "{victim}");
    }
}
