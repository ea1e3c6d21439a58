//! Failures around a run: the sink, the statistics, tokens, processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::lab::{Lab, assert_whole, running};
use async_trait::async_trait;
use clinch::ports::{
    Clock as _, Document, DocumentFilter, DocumentName, DocumentSink, Expected, Filter, Inspect,
    RecordWrite, Records,
};
use clinch::testing::advance;
use clinch::types::{ErrorKind, Status};
use clinch::{Error, Result};
use clinch_github::fake::{BASE, Fault, Faults, Setup, Size, World};
use clinch_github::{
    Collect, Parts, RunStatus, Schedule, Secrets, Settings, Space, Statistics, Token, TokenReader,
    Trigger, collect_route,
};
use clinch_memory::Memory;

const TOKEN: &str = "fake-robot-1";

fn small(seed: u64) -> World {
    let size = Size {
        users: 1,
        repositories: 5,
        documents: 700,
    };
    World::generate(seed, &size)
}

/// A sink that can be told to refuse.
pub(crate) struct Moody {
    memory: Memory,
    refuses_writes: AtomicBool,
    refuses_counts: AtomicBool,
    refused: AtomicU64,
}

impl Moody {
    fn refuse<T>(&self) -> Result<T> {
        self.refused.fetch_add(1, Ordering::SeqCst);
        Err(Error::new(ErrorKind::Unavailable, "the sink is away"))
    }
}

#[async_trait]
impl DocumentSink for Moody {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        match self.refuses_writes.load(Ordering::SeqCst) {
            true => self.refuse(),
            false => self.memory.upsert(collection, documents).await,
        }
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        self.memory.scan(collection, filter, after, limit).await
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        match self.refuses_counts.load(Ordering::SeqCst) {
            true => self.refuse(),
            false => self.memory.count(collection, user).await,
        }
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        self.memory.clear(collection, filter).await
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        DocumentSink::list(&self.memory, collection, filter, after, limit).await
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        match self.refuses_writes.load(Ordering::SeqCst) {
            true => self.refuse(),
            false => self.memory.relocate(from, to, ids).await,
        }
    }
}

async fn with_moody(seed: u64) -> (Lab, Arc<Moody>) {
    Lab::with_sink(small(seed), Setup::default(), &[TOKEN], |memory| {
        Arc::new(Moody {
            memory,
            refuses_writes: AtomicBool::new(false),
            refuses_counts: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        })
    })
    .await
}

#[tokio::test]
async fn col_9_an_answer_whose_write_failed_is_not_asked_for_again() {
    let (lab, sink) = with_moody(1).await;
    sink.refuses_writes.store(true, Ordering::SeqCst);
    let run = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await
        .expect("begun");
    // Longer than all attempts together would take.
    advance(&lab.clock, Duration::from_secs(3_600)).await;
    assert!(sink.refused.load(Ordering::SeqCst) > 100);
    sink.refuses_writes.store(false, Ordering::SeqCst);
    assert_whole(&lab.end(&run.run_id).await);
    lab.assert_equal(&["octocat"]).await;
    let tally = lab.fake.tally();
    let twice: Vec<_> = tally
        .by_url
        .iter()
        .filter(|(_, times)| **times > 1)
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[tokio::test]
async fn col_11_statistics_are_tried_again_by_minutes_then_given_up() {
    let (lab, sink) = with_moody(2).await;
    sink.refuses_counts.store(true, Ordering::SeqCst);
    let run = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await
        .expect("begun");
    advance(&lab.clock, Duration::from_secs(50)).await;
    let waiting = lab.collector.run(&run.run_id).await.expect("there");
    assert_eq!(waiting.status, RunStatus::Finalizing);
    assert_eq!(sink.refused.load(Ordering::SeqCst), 1);
    let again = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await;
    assert_eq!(again.expect_err("it is active").kind(), ErrorKind::Conflict);
    // About a minute, two, four, eight, sixteen.
    let mut tries = Vec::new();
    for _ in 0..5 {
        let before = sink.refused.load(Ordering::SeqCst);
        let began = clinch::ports::Clock::now(lab.clock.as_ref());
        while sink.refused.load(Ordering::SeqCst) == before {
            advance(&lab.clock, Duration::from_secs(5)).await;
        }
        let now = clinch::ports::Clock::now(lab.clock.as_ref());
        tries.push(now.since(began).as_secs());
    }
    for (n, waited) in tries.iter().enumerate() {
        let minutes = 60_u64 << n;
        let low = (minutes * 8 / 10).saturating_sub(55);
        let high = minutes * 12 / 10 + 5;
        assert!((low..=high).contains(waited), "{tries:?}");
    }
    let ended = lab.end(&run.run_id).await;
    assert_eq!(ended.status, RunStatus::Completed);
    assert_eq!(ended.statistics, Statistics::Failed);
    let letters = Filter {
        event_types: vec!["statistics".parse().expect("a name")],
        status: Some(Status::Failed),
        ..Filter::default()
    };
    let letters = Inspect::list(&lab.memory, &letters, None, 10)
        .await
        .expect("listed");
    assert_eq!(letters.items.len(), 1, "one dead letter");
}

#[tokio::test]
async fn col_11_statistics_are_made_once_a_run() {
    let (lab, sink) = with_moody(3).await;
    sink.refuses_counts.store(true, Ordering::SeqCst);
    let run = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await
        .expect("begun");
    advance(&lab.clock, Duration::from_secs(70)).await;
    sink.refuses_counts.store(false, Ordering::SeqCst);
    let ended = lab.end(&run.run_id).await;
    assert_eq!(ended.statistics, Statistics::Done);
    let figures = lab
        .collector
        .figures(None, Space::Main)
        .await
        .expect("read");
    assert_eq!(figures.expect("made").runs, 1);
}

#[tokio::test]
async fn col_12_a_run_whose_planner_died_goes_on() {
    let lab = Lab::new(small(4), Setup::default(), &[TOKEN]).await;
    note_run(&lab.memory, "octocat", "PLANNING").await;
    lab.collector.attach(&lab.clinch).await;
    let id = "octocat.1".parse().expect("a run");
    assert_whole(&lab.end(&id).await);
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_1_the_clock_and_other_services_begin_runs() {
    let lab = Lab::with(small(5), Setup::default(), |settings| {
        settings.tokens = vec![Token::new(TOKEN)];
        settings.schedule = vec![Schedule::new("octocat", "0 3 * * *").expect("a schedule")];
    })
    .await;
    // A second process submits the same scheduled run.
    lab.collector.attach(&lab.clinch).await;
    advance(&lab.clock, Duration::from_secs(3 * 24 * 60 * 60)).await;
    let (runs, _) = lab.collector.runs(None, 100).await.expect("listed");
    assert_eq!(runs.len(), 3, "one a day");
    for run in &runs {
        assert_eq!(
            (run.status, run.trigger),
            (RunStatus::Completed, Trigger::Scheduled)
        );
        let minute = run.created_at.as_millis() / 60_000 % (24 * 60);
        assert_eq!(minute, 3 * 60);
    }
    let signup = Collect {
        login: "octocat".to_owned(),
        trigger: Trigger::Event,
    };
    let request = || collect_route().request("user:octocat", "signup-77", &signup);
    let told = lab
        .clinch
        .start(request(), Duration::ZERO)
        .await
        .expect("accepted");
    let twice = lab
        .clinch
        .start(request(), Duration::ZERO)
        .await
        .expect("accepted");
    assert_eq!(told.op_id(), twice.op_id());
    advance(&lab.clock, Duration::from_secs(60)).await;
    let latest = lab
        .collector
        .latest("octocat", Space::Main)
        .await
        .expect("read");
    let latest = latest.expect("there");
    assert_eq!((latest.run_id.number, latest.trigger), (4, Trigger::Event));
}

#[tokio::test]
async fn a_refused_token_leaves_the_others_at_work() {
    let setup = Setup {
        faults: Faults::none().token("fake-ann-1"),
        ..Setup::default()
    };
    let lab = Lab::new(small(6), setup, &["fake-ann-1", "fake-bob-1"]).await;
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
    let views = lab.collector.tokens().await.expect("read");
    assert!(views[0].account.is_none() && !views[1].refused);
    assert_eq!(views[1].account.as_deref(), Some("bob"));
    assert!(views[1].budget.is_some_and(|budget| budget.limit == 5_000));
}

#[tokio::test]
async fn col_16_a_stray_401_costs_the_only_token_seconds() {
    let alone = Lab::new(small(6), Setup::default(), &[TOKEN]).await;
    let began = alone.clock.monotonic();
    assert_whole(&alone.run("octocat").await);
    let calm = alone.clock.monotonic() - began;
    let mut faults = Faults::none();
    for n in [5, 20, 21, 40] {
        faults = faults.at(n, Fault::Status(401));
    }
    let setup = Setup {
        faults,
        ..Setup::default()
    };
    let lab = Lab::new(small(6), setup, &[TOKEN]).await;
    let began = lab.clock.monotonic();
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
    let took = lab.clock.monotonic() - began;
    assert!(took <= calm + Duration::from_secs(60), "{took:?} {calm:?}");
    let views = lab.collector.tokens().await.expect("read");
    assert!(!views[0].refused && views[0].blocked_until.is_none());
}

#[tokio::test]
async fn col_16_a_new_token_wakes_what_waits_for_a_refused_one() {
    let setup = Setup {
        faults: Faults::none().token("fake-ann-1"),
        ..Setup::default()
    };
    let lab = Lab::new(small(6), setup, &["fake-ann-1"]).await;
    let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
    let run = run.await.expect("begun");
    advance(&lab.clock, Duration::from_secs(120)).await;
    let views = lab.collector.tokens().await.expect("read");
    assert!(views[0].refused, "{views:?}");
    // A process with another token: its jobs go on at once, not when the pause has ended.
    let again = lab.restarted(&["fake-bob-1"]).await;
    advance(&lab.clock, Duration::from_secs(10)).await;
    let run = again.collector.run(&run.run_id).await.expect("read");
    assert_eq!(run.status, RunStatus::Completed, "{run:?}");
}

/// As a server of one's own that wants everybody to sign in.
#[tokio::test]
async fn col_16_an_api_that_refuses_requests_without_a_token_is_asked_less_and_less() {
    let refused = Faults::none().always(&["/"], Fault::Status(401));
    let setup = Setup {
        faults: refused,
        ..Setup::default()
    };
    let reads = Arc::new(AtomicU64::new(0));
    let counted = reads.clone();
    let lab = Lab::with(small(6), setup, |settings| {
        settings.token_reader = TokenReader::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Secrets::default())
        });
    })
    .await;
    let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
    let id = run.await.expect("begun").run_id;
    advance(&lab.clock, Duration::from_secs(3_600)).await;
    let (asked, read) = (lab.fake.tally().requests, reads.load(Ordering::SeqCst));
    assert!(asked <= 15, "{asked} requests");
    assert!(read <= 60, "the files were read {read} times");
    // Files are read in another thread, which may be late on the clock of the test.
    let mut reason = lab.waits_for(&id).await;
    for _ in 0..10 {
        if !reason.contains("set github.tokens") {
            advance(&lab.clock, Duration::from_secs(60)).await;
            reason = lab.waits_for(&id).await;
        }
    }
    assert!(reason.contains("set github.tokens"), "{reason}");
    lab.fake.set_faults(Faults::none());
    assert_whole(&lab.end(&id).await);
}

/// Each notes its tokens when it starts. Were they noted again and again, all jobs that wait would be
/// woken each time.
#[tokio::test]
async fn col_16_two_servers_with_tokens_of_their_own_do_not_wake_jobs_in_turns() {
    let lab = Lab::new(small(6), Setup::default(), &["fake-ann-1"]).await;
    let parts = Parts {
        settings: Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-bob-1")],
            ..Settings::default()
        },
        records: lab.records.clone(),
        documents: Arc::new(lab.memory.clone()),
        quota: lab.quota.clone(),
        transport: Arc::new(lab.fake.clone()),
        inspect: Arc::new(lab.memory.clone()),
        clock: lab.clock.clone(),
    };
    let (_other, clinch) = running(parts, &lab.memory, &lab.clock, |builder| builder).await;
    let noted = async || {
        let read = lab.memory.read_records(&["github-tokens".to_owned()]).await;
        read.expect("read").remove(0).expect("a record").version
    };
    let before = noted().await;
    advance(&lab.clock, Duration::from_secs(3_600)).await;
    assert_eq!(noted().await, before);
    clinch.stop();
}

#[tokio::test]
async fn the_token_that_fetched_an_etag_is_preferred() {
    let lab = Lab::new(small(7), Setup::default(), &["fake-ann-1", "fake-bob-1"]).await;
    let first = lab.run("octocat").await;
    let second = lab.run("octocat").await;
    let unread = second.pages.not_modified + second.pages.skipped;
    assert!(unread * 10 >= first.pages.fetched * 9, "{second:?}");
}

#[tokio::test]
async fn col_17_no_token_is_shown_or_kept() {
    let lab = Lab::new(small(8), Setup::default(), &[TOKEN]).await;
    let run = lab.run("octocat").await;
    let shown = format!(
        "{:?} {:?} {:?}",
        Token::new(TOKEN),
        lab.collector.tokens().await.expect("read"),
        run
    );
    assert!(!shown.contains(TOKEN), "{shown}");
    let all = clinch::ports::RecordList {
        prefix: String::new(),
        descending: false,
        after: None,
        limit: 1_000,
    };
    for record in lab.memory.list_records(&all).await.expect("listed") {
        assert!(!record.key.contains(TOKEN) && !record.body.contains(TOKEN));
    }
    let operations = Inspect::list(&lab.memory, &Filter::default(), None, 1_000)
        .await
        .expect("listed");
    assert!(!format!("{:?}", operations.items).contains(TOKEN));
}

/// Records a run as a process leaves it that dies right afterwards.
pub(crate) async fn note_run(memory: &Memory, login: &str, status: &str) {
    let run = format!(
        r#"{{"run_id":"{login}.1","status":"{status}","trigger":"MANUAL","jobs":{{"total":0,"succeeded":0,"failed":0}},"pages":{{"fetched":0,"not_modified":0,"skipped":0,"documents":0}},"statistics":"pending","repairs":[],"created_at":1800000000000,"started_at":null,"completed_at":null,"error":null}}"#
    );
    let write = |key: String, body: &str| RecordWrite {
        key,
        expected: Expected::Absent,
        body: Some(body.to_owned()),
    };
    let name = format!(r#""{login}.1""#);
    let writes = [
        write(format!("github/user/{login}"), r#"{"number":1}"#),
        write(format!("github/run/{login}/0000000001"), &run),
        write(format!("github-recent/001800000000000/{login}.1"), &name),
        write(format!("github-active/{login}.1"), &name),
    ];
    assert!(memory.write_records(&writes).await.expect("written"));
}
