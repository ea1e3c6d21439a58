//! A disk that is really full: a small tmpfs, which needs root.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::http::{Client, Seen};
use crate::process::{Folder, Process};
use crate::provider::Provider;
use crate::world::{command, config};

/// A small file system, unmounted with the test.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    /// `Err` says why it cannot be mounted.
    fn mount(folder: &'a Path) -> Result<Self, String> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(folder)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self(folder)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Fills the disk completely.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("filler")).expect("a file");
        for size in [64 * 1024, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("removed");
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn core_9_a_full_disk_refuses_and_loses_nothing_and_recovers_by_itself() {
    let folder = Folder::new("disk");
    let disk = match Disk::mount(&folder.0) {
        Ok(disk) => disk,
        Err(why) if std::env::var_os("CI").is_some() => panic!("no tmpfs: {why}"),
        Err(why) => return println!("ignored: a tmpfs cannot be mounted here: {why}"),
    };
    let provider = Provider::start();
    folder.configure(&config(&provider));
    let process = Process::start(&folder);
    let client = Client::new(process.address, &Seen::default());
    client.get("/readyz").is(200);
    let running = client.submit(&command("pay", "gated", "q0")).is(202);
    provider.arrival("q0");
    let mut taken = Vec::new();
    for number in 0..20 {
        let key = format!("q-{number}");
        taken.push(client.submit(&command("away", "x", &key)).is(202).op_id());
    }
    disk.fill();
    // Pages that were reserved earlier may still take a few operations.
    let mut number = 20;
    let refused = loop {
        let reply = client.submit(&command("away", "x", &format!("q-{number}")));
        if reply.status != 202 {
            break reply;
        }
        taken.push(reply.op_id());
        number += 1;
    };
    refused.refused(503, "unavailable");
    while client.get("/readyz").status == 200 {
        std::thread::yield_now();
    }
    client.get("/readyz").refused(503, "unavailable");
    client.get("/healthz").is(200);
    client.get(&format!("/v1/operations/{}", taken[0])).is(200);
    // For now the provider's answer cannot be stored.
    provider.answer("q0", 200);
    disk.free();
    client.until("/readyz", |body| body["status"] == "ok");
    assert_eq!(client.settled(&running.op_id())["state"], "COMPLETED");
    assert_eq!(provider.calls("gate"), 1);
    let again = client.submit(&command("away", "x", &format!("q-{number}")));
    taken.push(again.is(202).op_id());
    for id in &taken {
        client.get(&format!("/v1/operations/{id}")).is(200);
    }
    assert!(!process.log().contains("panicked"), "{}", process.log());
    drop(process);
    drop(disk);
}
