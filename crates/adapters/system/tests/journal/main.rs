//! What a journal promises, on a real file.
#![forbid(unsafe_code)]

#[cfg(test)]
mod common;
#[cfg(test)]
mod damage;
#[cfg(unix)]
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod model;

use clinch_core::ErrorKind;
use clinch_system::RECORD_BYTES_MAX;

use common::{Folder, Opened};

#[test]
fn what_was_appended_is_read_in_order_also_after_a_restart() {
    let folder = Folder::new();
    let mut journal = Opened::at(&folder.journal());
    assert_eq!(journal.read(), (vec![], 0));
    journal.append(&[b"one", b""]);
    journal.append(&[]);
    journal.append(&[b"three"]);
    let expected = vec![(1, b"one".to_vec()), (2, vec![]), (3, b"three".to_vec())];
    assert_eq!(journal.read(), (expected.clone(), 0));
    journal.reopen(&folder.journal());
    assert_eq!(journal.read(), (expected, 0));
    journal.append(&[b"four"]);
    assert_eq!(journal.positions(), (vec![1, 2, 3, 4], 0));
}

#[test]
fn what_is_forgotten_stays_forgotten_and_positions_grow() {
    let folder = Folder::new();
    let mut journal = Opened::at(&folder.journal());
    journal.append(&[b"a", b"b", b"c"]);
    journal.forget(2);
    journal.forget(2);
    journal.forget(1);
    journal.forget(0);
    assert_eq!(journal.positions(), (vec![3], 0));
    journal.reopen(&folder.journal());
    assert_eq!(journal.positions(), (vec![3], 0));
    // More than there is: what comes later stays.
    journal.forget(u64::MAX);
    assert_eq!(journal.positions(), (vec![], 0));
    journal.reopen(&folder.journal());
    assert_eq!(journal.positions(), (vec![], 0));
    journal.append(&[b"d"]);
    assert_eq!(journal.positions(), (vec![4], 0));
}

#[test]
fn space_is_given_back() {
    let folder = Folder::new();
    let path = folder.journal();
    let size = || std::fs::metadata(&path).expect("is there").len();
    let mut journal = Opened::at(&path);
    let empty = size();
    let long = vec![7; 400_000];
    journal.append(&[&long, &long, &long, &long, b"last"]);
    let full = size();
    journal.forget(2);
    assert_eq!(size(), full, "moving little is not worth it");
    journal.forget(4);
    assert!(size() < empty + 100, "the long ones are gone");
    assert_eq!(journal.read(), (vec![(5, b"last".to_vec())], 0));
    // The file is another one now: it is still ours alone, and still durable.
    assert!(Opened::try_open(&path).is_err());
    journal.append(&[b"more"]);
    journal.reopen(&path);
    assert_eq!(journal.positions(), (vec![5, 6], 0));
    journal.forget(6);
    assert_eq!(size(), empty);
}

#[test]
fn a_record_that_is_too_long_is_refused_and_harms_nobody() {
    let folder = Folder::new();
    let mut journal = Opened::at(&folder.journal());
    let longest = vec![1; RECORD_BYTES_MAX];
    let too_long = vec![1; RECORD_BYTES_MAX + 1];
    let refused = journal.try_append(&[b"a", &too_long]);
    assert_eq!(refused, Err(ErrorKind::Invalid));
    journal.append(&[&longest, b"b"]);
    journal.reopen(&folder.journal());
    let (records, damaged) = journal.read();
    let lengths: Vec<_> = records.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!((lengths, damaged), (vec![RECORD_BYTES_MAX, 1], 0));
}

#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let folder = Folder::new();
    let first = Opened::at(&folder.journal());
    let refused = Opened::try_open(&folder.journal()).err().expect("refused");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.message().contains("another process"), "{refused}");
    drop(first);
    Opened::at(&folder.journal());
}

#[test]
#[cfg(unix)]
fn only_the_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.journal();
    let mode = || std::fs::metadata(&path).expect("is there").permissions();
    let journal = Opened::at(&path);
    assert_eq!(mode().mode() & 0o777, 0o600);
    // Also when the records have moved to another file.
    let long = vec![7; 2_000_000];
    journal.append(&[&long, b"last"]);
    journal.forget(1);
    assert_eq!(mode().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_is_no_journal_is_left_alone() {
    let folder = Folder::new();
    std::fs::write(folder.journal(), "precious").expect("written");
    let refused = Opened::try_open(&folder.journal()).err().expect("refused");
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    let kept = std::fs::read(folder.journal()).expect("is there");
    assert_eq!(kept, b"precious");
    let nowhere = folder.journal().join("x").join("y");
    let refused = Opened::try_open(&nowhere).err().expect("refused");
    assert!(!refused.message().is_empty());
}
