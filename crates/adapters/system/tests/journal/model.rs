//! Any history of a journal is the history of a list.

use proptest::prelude::*;

use crate::common::{Folder, Opened};

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<Vec<u8>>),
    /// In tenths of the last position, past its end too.
    Forget(u64),
    Reopen,
    /// A crash in the middle of an append: so much of it reached the disk.
    Tear(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let record = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => proptest::collection::vec(any::<u8>(), 300_000..400_000),
    ];
    prop_oneof![
        4 => proptest::collection::vec(record, 0..4).prop_map(Step::Append),
        3 => (0..=11_u64).prop_map(Step::Forget),
        2 => Just(Step::Reopen),
        2 => (0..64_usize).prop_map(Step::Tear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_is_a_list(steps in proptest::collection::vec(step(), 1..24)) {
        let folder = Folder::new();
        let path = folder.journal();
        let mut journal = Opened::at(&path);
        let mut list: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut last = 0;
        for step in steps {
            match step {
                Step::Append(records) => {
                    let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
                    journal.append(&slices);
                    list.extend((last + 1..).zip(records.iter().cloned()));
                    last += records.len() as u64;
                }
                Step::Forget(tenths) => {
                    let through = last * tenths / 10;
                    journal.forget(through);
                    list.retain(|(position, _)| *position > through);
                }
                Step::Reopen => journal.reopen(&path),
                Step::Tear(kept) => {
                    let before = std::fs::metadata(&path).expect("is there").len();
                    // Its head alone is 28 bytes: what is kept is never the whole of it.
                    journal.append(&[&[5; 37]]);
                    let file = std::fs::OpenOptions::new().write(true).open(&path);
                    file.expect("opens").set_len(before + kept as u64).expect("cut");
                    journal.reopen(&path);
                }
            }
            prop_assert_eq!(journal.read(), (list.clone(), 0));
        }
    }
}
