//! A disk that is full: the limit on the size of files stands in for it. The test starts
//! itself again under that limit, since it holds for a whole process.

use std::process::Command;

use clinch_core::ErrorKind;

use crate::common::{Folder, Opened};

const ROLE: &str = "CLINCH_JOURNAL_UNDER_LIMIT";

#[test]
fn a_full_disk_takes_nothing_and_leaves_nothing_half() {
    if let Some(path) = std::env::var_os(ROLE) {
        fill(path.as_ref());
        return;
    }
    let folder = Folder::new();
    let itself = std::env::current_exe().expect("has a path");
    // Blocks of 512 bytes or of 1,024, as the shell likes. The signal would end the process.
    let script = "trap '' XFSZ; ulimit -f 30; exec \"$0\" --exact --nocapture \"$1\"";
    let name = "full_disk::a_full_disk_takes_nothing_and_leaves_nothing_half";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(itself)
        .arg(name)
        .env(ROLE, folder.journal())
        .output()
        .expect("there is a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");

    let journal = Opened::at(&folder.journal());
    let (records, damaged) = journal.read();
    assert_eq!(damaged, 0);
    let is_ours = |(at, (position, bytes)): (usize, &(u64, Vec<u8>))| {
        *position == at as u64 + 2 && *bytes == [9; 1_000]
    };
    assert!(records.len() > 4 && records.iter().enumerate().all(is_ours));
}

/// Appends until nothing more is taken; then some is forgotten, and one more is not taken.
fn fill(path: &std::path::Path) {
    let journal = Opened::at(path);
    let size = || std::fs::metadata(path).expect("is there").len();
    let record: &[u8] = &[9; 1_000];
    let mut taken = 0;
    let (refused, before) = loop {
        let before = size();
        match journal.try_append(&[record]) {
            Ok(()) => taken += 1,
            Err(kind) => break (kind, before),
        }
        assert!(taken < 1_000, "there is no limit here");
    };
    assert_eq!(refused, ErrorKind::Full);
    assert_eq!(size(), before, "half a record is left");
    assert_eq!(journal.positions(), ((1..=taken).collect(), 0));
    // Forgetting needs no space.
    journal.forget(1);
    assert_eq!(journal.positions(), ((2..=taken).collect(), 0));
    assert_eq!(journal.try_append(&[record]), Err(ErrorKind::Full));
    assert_eq!(size(), before, "half a record is left");
}
