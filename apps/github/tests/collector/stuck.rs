//! Nothing leaves a run active for ever, and no run fails because of another one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch::policy::{QueueAge, QuotaRules};
use clinch::ports::{
    Alert, AlertNote, Clock as _, Expected, Record, RecordList, RecordWrite, Records,
};
use clinch::testing::{ManualClock, advance};
use clinch::types::{Builder, ErrorKind};
use clinch::{Error, Result};
use clinch_github::fake::{BASE, Fake, Setup, Size, World};
use clinch_github::{
    Collect, Parts, RunId, RunStatus, Settings, Space, Token, Trigger, collect_route,
};
use clinch_memory::{Memory, MemoryQuota};

use crate::lab::{Ambiguous, Lab, assert_whole, budgets, collector_with, running};

const TOKEN: &str = "fake-robot-1";
/// Longer than all attempts of a step take.
const LONG: Duration = Duration::from_secs(4 * 60 * 60);

fn world(users: usize) -> World {
    let size = Size {
        users,
        repositories: 5 * users,
        documents: 300 * users,
    };
    World::generate(4, &size)
}

/// Records that do not take a run with this text while they are told to refuse.
struct Refusing {
    memory: Memory,
    text: &'static str,
    kind: ErrorKind,
    refuses: AtomicBool,
}

#[async_trait]
impl Records for Refusing {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        self.memory.read_records(keys).await
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        let has = |one: &RecordWrite| one.body.as_ref().is_some_and(|b| b.contains(self.text));
        if self.refuses.load(Ordering::SeqCst) && writes.iter().any(has) {
            return Err(Error::new(self.kind, "the store refuses"));
        }
        self.memory.write_records(writes).await
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        self.memory.list_records(list).await
    }
}

fn settings() -> Settings {
    Settings {
        api_url: BASE.parse().expect("an address"),
        tokens: vec![Token::new(TOKEN)],
        ..Settings::default()
    }
}

/// A collector whose records refuse what has this text.
async fn refusing(text: &'static str, kind: ErrorKind) -> (Lab, Arc<Refusing>) {
    refusing_with(text, kind, |builder| builder).await
}

/// Codes and messages of the alerts that were raised.
#[derive(Clone, Default)]
struct Alerts(Arc<Mutex<Vec<(String, String)>>>);

#[async_trait]
impl Alert for Alerts {
    async fn raise(&self, note: &AlertNote) -> Result<()> {
        let mut raised = self.0.lock().expect("no panic");
        raised.push((note.code.to_string(), note.message.clone()));
        Ok(())
    }
}

async fn refusing_with(
    text: &'static str,
    kind: ErrorKind,
    tune: impl FnOnce(Builder) -> Builder,
) -> (Lab, Arc<Refusing>) {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let records = Arc::new(Refusing {
        memory: memory.clone(),
        text,
        kind,
        refuses: AtomicBool::new(true),
    });
    let fake = Fake::new(world(1), Setup::default(), clock.clone());
    let parts = Parts {
        settings: settings(),
        records: records.clone(),
        documents: Arc::new(memory.clone()),
        quota: Arc::new(MemoryQuota::new(clock.clone(), QuotaRules::default())),
        transport: Arc::new(fake.clone()),
        inspect: Arc::new(memory.clone()),
        clock: clock.clone(),
    };
    let (collector, clinch) = running(parts, &memory, &clock, tune).await;
    let lab = Lab {
        quota: budgets(&clock),
        records: Arc::new(Ambiguous::new(&memory)),
        clock,
        memory,
        fake,
        collector,
        clinch,
    };
    (lab, records)
}

async fn begin(lab: &Lab) -> RunId {
    let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
    run.await.expect("it begins").run_id
}

#[tokio::test]
async fn col_10_a_store_that_is_away_for_long_costs_no_step_its_attempts() {
    for text in ["PLANNING", "FINALIZING", "COMPLETED"] {
        let (lab, records) = refusing(text, ErrorKind::Unavailable).await;
        let id = begin(&lab).await;
        advance(&lab.clock, LONG).await;
        let run = lab.collector.run(&id).await.expect("read");
        assert!(!run.status.is_terminal(), "{text}: {run:?}");
        records.refuses.store(false, Ordering::SeqCst);
        advance(&lab.clock, Duration::from_secs(60)).await;
        let run = lab.collector.run(&id).await.expect("read");
        assert_eq!(run.status, RunStatus::Completed, "{text}");
        assert_whole(&run);
    }
}

#[tokio::test]
async fn col_1_a_step_that_was_given_up_is_made_again() {
    for text in ["PLANNING", "FINALIZING", "COMPLETED"] {
        let (lab, records) = refusing(text, ErrorKind::Invalid).await;
        let id = begin(&lab).await;
        // Its redrives are given up as well.
        for _ in 0..2 {
            advance(&lab.clock, LONG).await;
            let start = lab.collector.start("octocat", Trigger::Manual, Space::Main);
            let refused = start.await.expect_err("one is active");
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        }
        advance(&lab.clock, LONG).await;
        records.refuses.store(false, Ordering::SeqCst);
        advance(&lab.clock, LONG).await;
        // Nobody has asked for it: the active runs are looked at from time to time.
        let run = lab.collector.run(&id).await.expect("read");
        assert_whole(&run);
        let next = lab.run("octocat").await;
        assert_eq!(next.run_id.number, 2);
    }
}

#[tokio::test]
async fn col_12_a_step_that_was_given_up_is_made_again_at_the_start_of_a_process() {
    let (lab, records) = refusing("FINALIZING", ErrorKind::Invalid).await;
    let id = begin(&lab).await;
    advance(&lab.clock, LONG).await;
    records.refuses.store(false, Ordering::SeqCst);
    lab.collector.attach(&lab.clinch).await;
    assert_whole(&lab.end(&id).await);
}

#[tokio::test]
async fn col_12_every_active_run_is_resumed_however_many_runs_there_are() {
    let lab = Lab::new(world(1), Setup::default(), &[TOKEN]).await;
    crate::trouble::note_run(&lab.memory, "octocat", "PLANNING").await;
    // More, and newer, runs than one reading of the newest would show.
    let mut writes = Vec::new();
    for n in 0..2_000 {
        let (id, run) = (format!("user{n}.1"), done_run(&format!("user{n}")));
        writes.push(put(format!("github/run/user{n}/0000000001"), run));
        writes.push(put(
            format!("github-recent/001900000000000/{id}"),
            format!("{id:?}"),
        ));
    }
    for some in writes.chunks(1_000) {
        assert!(lab.memory.write_records(some).await.expect("written"));
    }
    lab.collector.attach(&lab.clinch).await;
    let id = "octocat.1".parse().expect("a run");
    assert_whole(&lab.end(&id).await);
}

fn put(key: String, body: String) -> RecordWrite {
    RecordWrite {
        key,
        expected: Expected::Absent,
        body: Some(body),
    }
}

/// A run that has ended, as it is stored.
fn done_run(login: &str) -> String {
    format!(
        r#"{{"run_id":"{login}.1","status":"COMPLETED","trigger":"MANUAL","jobs":{{"total":0,"succeeded":0,"failed":0}},"pages":{{"fetched":0,"not_modified":0,"skipped":0,"documents":0}},"statistics":"done","repairs":[],"created_at":1800000000000,"started_at":null,"completed_at":1800000000000,"error":null}}"#
    )
}

/// The run must not block its user for ever, and somebody must hear of it.
#[tokio::test]
async fn col_1_a_step_that_is_given_up_again_and_again_ends_its_run() {
    let alerts = Alerts::default();
    let heard = alerts.clone();
    let (lab, _records) = refusing_with("FINALIZING", ErrorKind::Invalid, |builder| {
        builder.alert(heard)
    })
    .await;
    let id = begin(&lab).await;
    let run = lab.end(&id).await;
    assert_eq!(run.status, RunStatus::Failed, "{run:?}");
    let why = run.error.expect("a reason");
    assert!(why.contains("finish"), "{why}");
    let raised = alerts.0.lock().expect("no panic").clone();
    let of_run = |(code, message): &&(String, String)| {
        code == "github_run_failed" && message.contains("octocat.1")
    };
    assert_eq!(raised.iter().filter(of_run).count(), 1, "{raised:?}");
    let next = lab.collector.start("octocat", Trigger::Manual, Space::Main);
    assert_eq!(next.await.expect("another one begins").run_id.number, 2);
}

#[tokio::test]
async fn col_14_all_runs_of_the_last_day_are_counted() {
    let lab = Lab::new(world(1), Setup::default(), &[TOKEN]).await;
    let now = lab.clock.now().as_millis();
    let day = 24 * 60 * 60 * 1_000;
    let mut writes = Vec::new();
    for n in 0..2_500 {
        // Two in five are of the day before.
        let at = match n % 5 {
            0 | 1 => now - day - 1 - n,
            _ => now - n,
        };
        let (id, run) = (format!("user{n}.1"), done_run(&format!("user{n}")));
        let run = run.replace("1800000000000", &at.to_string());
        writes.push(put(format!("github/run/user{n}/0000000001"), run));
        writes.push(put(
            format!("github-recent/{at:015}/{id}"),
            format!("{id:?}"),
        ));
    }
    for some in writes.chunks(1_000) {
        assert!(lab.memory.write_records(some).await.expect("written"));
    }
    let overview = lab.collector.overview().await.expect("read");
    assert_eq!(overview.runs.values().sum::<u64>(), 1_500);
    assert!(!overview.is_cut_of_runs);
}

/// A scheduled operation whose first attempt began a run, and whose process died then.
#[tokio::test]
async fn col_1_a_retry_of_collect_finds_its_own_run() {
    let lab = Lab::new(world(1), Setup::default(), &[TOKEN]).await;
    let collect = Collect {
        login: "octocat".to_owned(),
        trigger: Trigger::Scheduled,
    };
    let at = lab.clock.now() + Duration::from_secs(600);
    let request = collect_route().request("user:octocat", "scheduled:1", &collect);
    let accepted = lab.clinch.submit(vec![request.run_at(at)]).await;
    let op_id = accepted.expect("accepted").remove(0).expect("accepted");
    let run = done_run("octocat").replace(
        r#""error":null"#,
        &format!(r#""error":null,"begun_by":"{op_id}""#),
    );
    let writes = [
        put(
            "github/user/octocat".to_owned(),
            r#"{"number":1}"#.to_owned(),
        ),
        put("github/run/octocat/0000000001".to_owned(), run),
        put(format!("github-begun/{op_id}"), r#""octocat.1""#.to_owned()),
    ];
    assert!(lab.memory.write_records(&writes).await.expect("written"));
    advance(&lab.clock, Duration::from_secs(1_200)).await;
    let latest = lab.collector.latest("octocat", Space::Main).await;
    let latest = latest.expect("read").expect("there");
    assert_eq!(latest.run_id.number, 1, "no second run");
    let ended = lab
        .clinch
        .look(&collect_route(), op_id)
        .await
        .expect("read");
    let result = ended.into_result().expect("settled").expect("completed");
    assert_eq!(result.value, "octocat.1");
    // Another operation begins another run.
    let request = collect_route().request("user:octocat", "scheduled:2", &collect);
    lab.clinch.submit(vec![request]).await.expect("accepted");
    advance(&lab.clock, Duration::from_secs(60)).await;
    let latest = lab.collector.latest("octocat", Space::Main).await;
    let latest = latest.expect("read").expect("there");
    assert_eq!(latest.run_id.number, 2);
    assert!(latest.begun_by.is_some());
}

/// A long run makes due work wait, so that callers of the engine are turned away. A run is no such
/// caller.
#[tokio::test]
async fn col_1_a_long_run_fails_no_run_of_another_user() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let setup = Setup {
        latency: Duration::from_secs(10),
        ..Setup::default()
    };
    let fake = Fake::new(world(2), setup, clock.clone());
    let settings = Settings {
        concurrency: 1,
        ..settings()
    };
    let (sink, transport) = (Arc::new(memory.clone()), Arc::new(fake.clone()));
    let shed = |builder: clinch::types::Builder| {
        builder.shed(QueueAge {
            limit: Duration::from_secs(5),
        })
    };
    let (collector, clinch) =
        collector_with(settings, &memory, sink, transport, &clock, shed).await;
    let lab = Lab {
        quota: budgets(&clock),
        records: Arc::new(Ambiguous::new(&memory)),
        clock,
        memory,
        fake,
        collector,
        clinch,
    };
    let long = begin(&lab).await;
    advance(&lab.clock, Duration::from_secs(120)).await;
    let mut logins: Vec<String> = lab.fake.with_world(|world| {
        let items = world.items();
        items.map(|item| item.user).collect()
    });
    logins.retain(|login| login != "octocat");
    let other = lab
        .collector
        .start(&logins[0], Trigger::Manual, Space::Main);
    let other = other.await.expect("it begins").run_id;
    assert_whole(&lab.end(&other).await);
    assert_whole(&lab.end(&long).await);
}
