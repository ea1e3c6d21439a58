//! The triple safety net with the database down: the fourth line of "fail if wrong" in ADR-010.

use std::path::Path;
use std::process::Command;

use clinch_testbed::{Kind, Server as Database};

use crate::support::{Server, document, run};
use crate::world::{World, on_both};

/// The provider refuses while the database is down; returns when the dead letter is in the file.
fn refused_while_down(world: &World, database: &mut Database) -> (Server, String) {
    let server = world.serve("api,worker,recovery");
    let file = world.folder.0.join("clinch-dlq.log");
    let size = || std::fs::metadata(&file).expect("a file").len();
    let empty = size();
    let id = world.submit(&server, "payments", "order-1");
    world.provider.arrival("order-1");
    database.kill();
    world.provider.answer("order-1", 422);
    while size() == empty {
        std::thread::yield_now();
    }
    (server, id)
}

fn start(kind: Kind, name: &str) -> (Database, World) {
    let database = Database::start(kind).expect("a server of its own");
    let url = database.database().expect("a database");
    (database, World::on(kind, url, name))
}

fn killed(mut server: Server) {
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
}

/// The database comes back: the dead letter is in it, once.
fn the_database_is_down(kind: Kind) {
    let (mut database, world) = start(kind, "down");
    let (server, id) = refused_while_down(&world, &mut database);
    killed(server);
    database.restart().expect("it comes back");
    let server = world.serve("api,worker,recovery");
    assert_eq!(
        world.settled(&server, "payments", "order-1")["state"],
        "FAILED"
    );
    drop(server);
    let import = ["dlq", "import", "clinch-dlq.log", "-o", "json"];
    let imported = document(&run(&world.folder.0, &import));
    assert_eq!(
        (&imported["imported"], &imported["already_there"]),
        (&0.into(), &1.into())
    );
    let server = world.serve("api");
    let letters = world.letters(&server);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["op_id"], id.as_str());
    assert_eq!(world.provider.calls("gate"), 1);
}

/// The database comes back empty: the file has the dead letter, and it is imported once.
fn the_database_is_lost(kind: Kind) {
    let (mut database, world) = start(kind, "lost");
    let (server, id) = refused_while_down(&world, &mut database);
    killed(server);
    database.lose_everything().expect("it comes back empty");
    let url = database.database().expect("a new database");
    let world = World {
        database: url,
        ..world
    };
    world.configure("");
    std::fs::copy(
        world.folder.0.join("clinch-dlq.log"),
        world.folder.0.join("copy.log"),
    )
    .expect("copied");
    for (file, new) in [("clinch-dlq.log", 1), ("copy.log", 0)] {
        let imported = document(&run(
            &world.folder.0,
            &["dlq", "import", file, "-o", "json"],
        ));
        assert_eq!(imported["imported"], new, "{imported}");
        assert_eq!(imported["unreadable"], 0);
    }
    let server = world.serve("api");
    let letters = world.letters(&server);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["op_id"], id.as_str());
    assert_eq!(letters[0]["failure"]["code"], "http_422");
}

/// A full file system, unmounted with the test; `None`: this needs root.
struct FullDisk<'a>(&'a Path);

impl<'a> FullDisk<'a> {
    fn mount(folder: &'a Path) -> Option<Self> {
        std::fs::create_dir(folder).expect("a folder");
        let mount = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(folder).output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        assert!(is_mounted || std::env::var_os("CI").is_none(), "no tmpfs");
        is_mounted.then_some(Self(folder))
    }

    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.0.join("filler")).expect("a file");
        for size in [4 * 1024, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }
}

impl Drop for FullDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// Neither database nor file accept the dead letter: an alert is raised, and nothing is lost.
fn the_disk_is_full_too(kind: Kind) {
    let (mut database, world) = start(kind, "full");
    let folder = world.folder.0.join("disk");
    let Some(disk) = FullDisk::mount(&folder) else {
        return println!("ignored: a tmpfs cannot be mounted here");
    };
    world.configure(&format!(
        "[worker]\nspill_file = \"disk/spill.log\"\n[dead_letter]\nfile = \"disk/dlq.log\"\n\
         alert_url = \"{}/200/alert\"\n",
        world.provider.url()
    ));
    // The journals are opened while there is space.
    let server = world.serve("api,worker,recovery");
    let id = world.submit(&server, "payments", "order-1");
    world.provider.arrival("order-1");
    disk.fill();
    database.kill();
    world.provider.answer("order-1", 422);
    world.provider.arrival("alert");
    database.restart().expect("it comes back");
    // The answer was tried again all the time.
    assert_eq!(
        world.settled(&server, "payments", "order-1")["state"],
        "FAILED"
    );
    let letters = world.letters(&server);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["op_id"], id.as_str());
    assert_eq!(world.provider.calls("gate"), 1);
    let log = server.stop();
    assert!(log.contains("answer_at_risk"), "{log}");
}

on_both! {
    the_database_is_down =>
        out_6_a_dead_letter_survives_the_database_being_down_on_postgres,
        out_6_a_dead_letter_survives_the_database_being_down_on_mariadb;
    the_database_is_lost =>
        out_6_a_filed_dead_letter_is_read_back_into_an_empty_database_on_postgres,
        out_6_a_filed_dead_letter_is_read_back_into_an_empty_database_on_mariadb;
    the_disk_is_full_too =>
        out_6_with_the_disk_full_too_somebody_is_told_and_nothing_is_lost_on_postgres,
        out_6_with_the_disk_full_too_somebody_is_told_and_nothing_is_lost_on_mariadb;
}
