//! Files that a crash or a disk left behind.

use std::fs::{File, OpenOptions};
use std::io::Write;

use crate::common::{Folder, Opened};

/// Slots come first, then each record with its head.
const FIRST: usize = 2 * 4_096;
const HEAD: usize = 28;

const RECORDS: [&[u8]; 4] = [b"first", b"second", b"", b"the last"];

fn written(folder: &Folder) -> Vec<u8> {
    let journal = Opened::at(&folder.journal());
    journal.append(&RECORDS);
    drop(journal);
    std::fs::read(folder.journal()).expect("is there")
}

/// Where the record with this index starts and ends.
fn place(index: usize) -> (usize, usize) {
    let end = |count| {
        FIRST
            + RECORDS[..count]
                .iter()
                .map(|r| HEAD + r.len())
                .sum::<usize>()
    };
    (end(index), end(index + 1))
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_off() {
    let folder = Folder::new();
    let whole = written(&folder);
    let (from, end) = place(3);
    assert_eq!(end, whole.len());
    for cut in from..end {
        std::fs::write(folder.journal(), &whole[..cut]).expect("written");
        let mut journal = Opened::at(&folder.journal());
        assert_eq!(journal.positions(), (vec![1, 2, 3], 0), "cut at {cut}");
        journal.append(&[b"again"]);
        journal.reopen(&folder.journal());
        let (records, damaged) = journal.read();
        assert_eq!(damaged, 0, "cut at {cut}");
        assert_eq!(records[3], (4, b"again".to_vec()), "cut at {cut}");
    }
}

#[test]
fn a_tail_that_was_never_written_to_is_cut_off() {
    let folder = Folder::new();
    written(&folder);
    let file = OpenOptions::new().write(true).open(folder.journal());
    let file = file.expect("opens");
    let length = file.metadata().expect("is there").len();
    file.set_len(length + 5_000).expect("longer");
    drop(file);
    let mut journal = Opened::at(&folder.journal());
    assert_eq!(journal.positions(), (vec![1, 2, 3, 4], 0));
    journal.append(&[b"more"]);
    journal.reopen(&folder.journal());
    assert_eq!(journal.positions(), (vec![1, 2, 3, 4, 5], 0));
}

#[test]
fn a_flipped_bit_costs_its_record_and_no_other() {
    let folder = Folder::new();
    let whole = written(&folder);
    for index in 0..4 {
        let (from, end) = place(index);
        let others: Vec<u64> = (1..=4).filter(|at| *at != index as u64 + 1).collect();
        for at in from..end {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(folder.journal(), &flipped).expect("written");
            let mut journal = Opened::at(&folder.journal());
            assert_eq!(journal.positions(), (others.clone(), 1), "flip at {at}");
            if (at - from) % 9 != 0 {
                continue;
            }
            // Later records are read, and their positions are new.
            journal.append(&[b"later"]);
            journal.reopen(&folder.journal());
            let mut more = others.clone();
            more.push(5);
            assert_eq!(journal.positions(), (more, 1), "flip at {at}");
            journal.forget(4);
            journal.reopen(&folder.journal());
            assert_eq!(journal.positions(), (vec![5], 0), "flip at {at}");
        }
    }
}

#[test]
fn damage_in_a_row_is_counted_record_by_record() {
    let folder = Folder::new();
    let mut bytes = written(&folder);
    bytes[place(1).0] ^= 1;
    bytes[place(2).0 + 5] ^= 1;
    std::fs::write(folder.journal(), &bytes).expect("written");
    let journal = Opened::at(&folder.journal());
    assert_eq!(journal.positions(), (vec![1, 4], 2));
    journal.forget(1);
    assert_eq!(journal.positions(), (vec![4], 2));
    journal.forget(3);
    assert_eq!(journal.positions(), (vec![4], 0));
}

#[test]
fn either_slot_alone_knows_what_is_forgotten() {
    let folder = Folder::new();
    let journal = Opened::at(&folder.journal());
    journal.append(&RECORDS);
    journal.forget(2);
    drop(journal);
    let whole = std::fs::read(folder.journal()).expect("is there");
    for slot in [0, 4_096] {
        for at in slot..slot + 24 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            std::fs::write(folder.journal(), &flipped).expect("written");
            let journal = Opened::at(&folder.journal());
            assert_eq!(journal.positions(), (vec![3, 4], 0), "flip at {at}");
        }
    }
    // Both are gone: better to read twice than never.
    let mut flipped = whole;
    flipped[8] ^= 1;
    flipped[4_096 + 8] ^= 1;
    std::fs::write(folder.journal(), &flipped).expect("written");
    let journal = Opened::at(&folder.journal());
    assert_eq!(journal.positions(), (vec![1, 2, 3, 4], 1));
    journal.forget(3);
    assert_eq!(journal.positions(), (vec![4], 0));
}

#[test]
fn what_a_crash_left_of_a_move_is_cleared_away() {
    let folder = Folder::new();
    written(&folder);
    let mut name = folder.journal().into_os_string();
    name.push(".new");
    let mut left = File::create(&name).expect("made");
    left.write_all(b"half a journal").expect("written");
    let journal = Opened::at(&folder.journal());
    assert_eq!(journal.positions(), (vec![1, 2, 3, 4], 0));
    assert!(!std::fs::exists(&name).expect("known"));
}
