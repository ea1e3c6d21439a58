//! The area `records::` bites: records that are wrong in one way each, and the case that must
//! notice. Each is the reference with one flaw in the way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use clinch_contract::{PortFactory, RecordsSubject, check_port, port_factory, records_cases};
use clinch_core::ports::{Expected, Record, RecordList, RecordWrite, Records, check_record_writes};
use clinch_core::{Error, ErrorKind, Result};
use clinch_memory::{ManualClock, Memory};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    AnswersInOrderOfKeys,
    TrimsBodies,
    RemembersWhatItRead,
    ReadsAnyNumber,
    EveryVersionIsOne,
    BeginsAtTwo,
    ExpectsNothing,
    WritesOneByOne,
    ReadsThenWrites,
    RemovesNothing,
    FoldsCase,
    TakesAnything,
    LeavesHalfBehind,
    SaysThatNothingHappened,
    OrdersByUtf16,
    OrdersWithoutCase,
    KnowsOneOrder,
    UnderscoreIsAnything,
    PagesOverlap,
    ListsWithoutEnd,
}

/// Every flaw with the case that must notice it.
const FLAWS: &[(Flaw, &str)] = &[
    (
        Flaw::AnswersInOrderOfKeys,
        "what_is_written_is_read_in_order",
    ),
    (Flaw::TrimsBodies, "bodies_are_kept_to_the_byte"),
    (
        Flaw::RemembersWhatItRead,
        "a_read_sees_every_commit_that_returned",
    ),
    (Flaw::ReadsAnyNumber, "a_read_of_too_many_keys_is_refused"),
    (Flaw::EveryVersionIsOne, "versions_grow_with_every_write"),
    (Flaw::BeginsAtTwo, "a_new_record_begins_at_one"),
    (Flaw::ExpectsNothing, "an_unexpected_record_stays_as_it_is"),
    (
        Flaw::WritesOneByOne,
        "one_unexpected_record_stops_the_whole_call",
    ),
    (Flaw::ReadsThenWrites, "of_concurrent_writers_one_succeeds"),
    (Flaw::ReadsThenWrites, "no_increment_is_lost"),
    (
        Flaw::WritesOneByOne,
        "concurrent_writers_of_several_records_do_not_mix",
    ),
    (Flaw::RemovesNothing, "a_removed_record_is_gone"),
    (Flaw::RemovesNothing, "several_records_change_in_one_call"),
    (Flaw::FoldsCase, "keys_are_told_apart_by_their_bytes"),
    (Flaw::TakesAnything, "bad_writes_are_refused"),
    (
        Flaw::LeavesHalfBehind,
        "a_commit_that_fails_changes_nothing",
    ),
    (
        Flaw::SaysThatNothingHappened,
        "a_commit_whose_end_is_unknown_is_ambiguous",
    ),
    (Flaw::OrdersByUtf16, "lists_are_in_the_order_of_bytes"),
    (Flaw::OrdersWithoutCase, "lists_are_in_the_order_of_bytes"),
    (Flaw::KnowsOneOrder, "lists_are_in_the_order_of_bytes"),
    (
        Flaw::UnderscoreIsAnything,
        "percent_and_underscore_are_themselves",
    ),
    (Flaw::PagesOverlap, "pages_follow_each_other"),
    (Flaw::PagesOverlap, "a_page_goes_on_after_any_key"),
    (Flaw::ListsWithoutEnd, "a_list_gives_at_most_its_limit"),
];

struct Broken {
    flaw: Flaw,
    memory: Memory,
    read: Mutex<HashMap<String, Option<Record>>>,
}

impl Broken {
    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// The record as this one shows it.
    fn distort(&self, mut record: Record) -> Record {
        match self.flaw {
            Flaw::EveryVersionIsOne => record.version = 1,
            Flaw::BeginsAtTwo => record.version += 1,
            _ => {}
        }
        record
    }

    /// The write as this one takes it.
    fn take(&self, mut write: RecordWrite) -> RecordWrite {
        match (self.flaw, write.expected) {
            (Flaw::ExpectsNothing, _) => write.expected = Expected::Anything,
            (Flaw::BeginsAtTwo, Expected::Version(version)) => {
                write.expected = Expected::Version(version.saturating_sub(1));
            }
            (Flaw::FoldsCase, _) => write.key = write.key.to_lowercase(),
            (Flaw::TrimsBodies, _) => {
                write.body = write.body.map(|body| body.trim_end().to_owned());
            }
            _ => {}
        }
        write
    }

    async fn look_and_write(&self, writes: &[RecordWrite]) -> Result<bool> {
        let keys: Vec<_> = writes.iter().map(|write| write.key.clone()).collect();
        let found = self.memory.read_records(&keys).await?;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut blind = Vec::new();
        for (write, found) in writes.iter().zip(found) {
            let version = found.map(|record| record.version);
            let as_expected = match write.expected {
                Expected::Anything => true,
                Expected::Absent => version.is_none(),
                Expected::Version(expected) => version == Some(expected),
            };
            if !as_expected {
                return Ok(false);
            }
            blind.push(RecordWrite {
                expected: Expected::Anything,
                ..write.clone()
            });
        }
        self.memory.write_records(&blind).await
    }

    async fn write_one_by_one(&self, writes: &[RecordWrite]) -> Result<bool> {
        check_record_writes(writes)?;
        for write in writes {
            tokio::task::yield_now().await;
            if !self
                .memory
                .write_records(std::slice::from_ref(write))
                .await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn everything(&self) -> Result<Vec<Record>> {
        let mut all: Vec<Record> = Vec::new();
        loop {
            let list = RecordList {
                prefix: String::new(),
                descending: false,
                after: all.last().map(|last| last.key.clone()),
                limit: 1_000,
            };
            let page = self.memory.list_records(&list).await?;
            let is_last = page.len() < 1_000;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }
}

/// As SQL's LIKE with the underscore alone.
fn is_like(key: &str, prefix: &str) -> bool {
    let mut key = key.chars();
    prefix
        .chars()
        .all(|wanted| key.next().is_some_and(|is| wanted == '_' || is == wanted))
}

#[async_trait]
impl Records for Broken {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        if self.is(Flaw::ReadsAnyNumber) && keys.len() > 1_000 {
            return Ok(vec![None; keys.len()]);
        }
        let mut keys = keys.to_vec();
        if self.is(Flaw::FoldsCase) {
            keys = keys.iter().map(|key| key.to_lowercase()).collect();
        }
        if self.is(Flaw::AnswersInOrderOfKeys) {
            keys.sort_unstable();
        }
        let read = self.memory.read_records(&keys).await?;
        let distorted = read
            .into_iter()
            .map(|found| found.map(|record| self.distort(record)));
        if !self.is(Flaw::RemembersWhatItRead) {
            return Ok(distorted.collect());
        }
        let mut known = self.read.lock().expect("no panic");
        let old = |(key, read): (String, _)| known.entry(key).or_insert(read).clone();
        Ok(keys.into_iter().zip(distorted).map(old).collect())
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        if self.is(Flaw::TakesAnything) && check_record_writes(writes).is_err() {
            return Ok(true);
        }
        let mut writes: Vec<_> = writes
            .iter()
            .map(|write| self.take(write.clone()))
            .collect();
        match self.flaw {
            Flaw::RemovesNothing => writes.retain(|write| write.body.is_some()),
            Flaw::ReadsThenWrites => return self.look_and_write(&writes).await,
            Flaw::WritesOneByOne => return self.write_one_by_one(&writes).await,
            _ => {}
        }
        let written = self.memory.write_records(&writes).await;
        match written {
            Err(error) if self.is(Flaw::LeavesHalfBehind) && error.is_retryable() => {
                self.memory.write_records(&writes[..1]).await?;
                Err(error)
            }
            Err(error) if self.is(Flaw::SaysThatNothingHappened) => {
                Err(Error::new(ErrorKind::Unavailable, error.message()))
            }
            written => written,
        }
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        let mut list = list.clone();
        if self.is(Flaw::KnowsOneOrder) {
            list.descending = false;
        }
        let mut listed = self.memory.list_records(&list).await?;
        let all = self.everything().await?;
        match self.flaw {
            Flaw::OrdersByUtf16 => {
                listed.sort_by_key(|record| record.key.encode_utf16().collect::<Vec<_>>())
            }
            Flaw::OrdersWithoutCase => listed.sort_by_key(|record| record.key.to_lowercase()),
            Flaw::UnderscoreIsAnything => {
                listed = all;
                listed.retain(|record| is_like(&record.key, &list.prefix));
            }
            Flaw::PagesOverlap => {
                let again = |record: &Record| Some(&record.key) == list.after.as_ref();
                listed.splice(0..0, all.into_iter().filter(again));
                listed.truncate(list.limit);
            }
            Flaw::ListsWithoutEnd if list.limit > 1_000 => listed = all,
            _ => {}
        }
        Ok(listed
            .into_iter()
            .map(|record| self.distort(record))
            .collect())
    }
}

fn with(flaw: Flaw) -> PortFactory<RecordsSubject> {
    port_factory(move || async move {
        let memory = Memory::new(Arc::new(ManualClock::default()));
        let failing = memory.clone();
        let fail_next = move |fault| {
            failing.fail_next(fault);
        };
        let broken = Broken {
            flaw,
            memory,
            read: Mutex::default(),
        };
        Ok(RecordsSubject {
            records: Arc::new(broken),
            fail_next: Arc::new(fail_next),
            held: Arc::new(()),
        })
    })
}

#[test]
fn records_without_a_flaw_pass_every_case() {
    for case in records_cases() {
        let verdict = check_port(&case, &with(Flaw::None));
        assert_eq!(verdict, Ok(()), "{}", case.name);
    }
}

#[test]
fn every_flaw_of_records_is_noticed() {
    let cases = records_cases();
    for (flaw, noticed_by) in FLAWS {
        let name = format!("records::{noticed_by}");
        let case = cases.iter().find(|case| case.name == name);
        let case = case.expect("the case is there");
        let verdict = check_port(case, &with(*flaw));
        assert!(verdict.is_err(), "{flaw:?} passes {name}");
    }
}
