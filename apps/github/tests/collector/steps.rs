//! Steps of a run that take long.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch::Result;
use clinch::ports::{CircuitState, Clock as _, Expected, Record, RecordList, RecordWrite, Records};
use clinch::testing::{ManualClock, advance};
use clinch_github::fake::{BASE, Fake, Setup, Size, World};
use clinch_github::{Collect, Parts, RunId, Settings, Token, Trigger, collect_route};
use clinch_memory::Memory;

use crate::lab::{Ambiguous, Lab, assert_whole, budgets, running};

/// Longer than a call may take by default, and longer than the default breaker calls fast.
const LONG: Duration = Duration::from_secs(5);

/// Records that are slow for some keys and texts.
struct Slow {
    memory: Memory,
    clock: Arc<ManualClock>,
    /// A write with this text takes [`LONG`].
    text: &'static str,
    /// How long each list of what is owed takes.
    owed: Duration,
}

#[async_trait]
impl Records for Slow {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        self.memory.read_records(keys).await
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        let has = |one: &RecordWrite| one.body.as_ref().is_some_and(|b| b.contains(self.text));
        if writes.iter().any(has) {
            self.clock.sleep(LONG).await;
        }
        self.memory.write_records(writes).await
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        if list.prefix.contains("/owed/") {
            self.clock.sleep(self.owed).await;
        }
        self.memory.list_records(list).await
    }
}

async fn slow(text: &'static str, owed: Duration) -> Lab {
    let size = Size {
        users: 1,
        repositories: 2,
        documents: 60,
    };
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let fake = Fake::new(World::generate(4, &size), Setup::default(), clock.clone());
    let parts = Parts {
        settings: Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            ..Settings::default()
        },
        records: Arc::new(Slow {
            memory: memory.clone(),
            clock: clock.clone(),
            text,
            owed,
        }),
        documents: Arc::new(memory.clone()),
        quota: budgets(&clock),
        transport: Arc::new(fake.clone()),
        inspect: Arc::new(memory.clone()),
        clock: clock.clone(),
    };
    let (collector, clinch) = running(parts, &memory, &clock, |builder| builder).await;
    Lab {
        quota: budgets(&clock),
        records: Arc::new(Ambiguous::new(&memory)),
        clock,
        memory,
        fake,
        collector,
        clinch,
    }
}

#[tokio::test]
async fn col_10_a_step_may_take_longer_than_a_call_by_default() {
    for text in ["CREATED", "PLANNING", "RUNNING", "FINALIZING", "COMPLETED"] {
        let lab = slow(text, Duration::ZERO).await;
        let signup = Collect {
            login: "octocat".to_owned(),
            trigger: Trigger::Event,
        };
        let request = collect_route().request("user:octocat", "signup-1", &signup);
        lab.clinch.submit(vec![request]).await.expect("accepted");
        advance(&lab.clock, Duration::from_secs(60)).await;
        let id: RunId = "octocat.1".parse().expect("a name");
        let run = lab.collector.run(&id).await;
        assert_whole(&run.unwrap_or_else(|error| panic!("{text}: {error}")));
    }
}

#[tokio::test]
async fn col_10_slow_steps_of_one_user_do_not_stop_those_of_others() {
    let lab = slow("FINALIZING", Duration::ZERO).await;
    // More than the default breaker needs to judge.
    for _ in 0..12 {
        let run = lab.run("octocat").await;
        assert_whole(&run);
        let took = run.completed_at.expect("ended").since(run.created_at);
        assert!(took >= LONG && took < LONG * 4, "{took:?}");
    }
    for one in lab.clinch.destinations() {
        assert_eq!(one.breaker, CircuitState::Closed, "{}", one.name);
    }
}

/// However much is owed, and however long it takes to add it.
#[tokio::test]
async fn col_12_a_plan_that_is_cut_off_goes_on_where_it_was() {
    // An attempt has time for two of the six lists.
    let lab = slow("no text", Duration::from_secs(250)).await;
    let owed = (0..1_000).map(|n| RecordWrite {
        key: format!("github/owed/octocat/pr_reviews/repo:octocat/gone#{n:04}"),
        expected: Expected::Absent,
        body: Some("{}".to_owned()),
    });
    let owed: Vec<RecordWrite> = owed.collect();
    assert!(lab.memory.write_records(&owed).await.expect("written"));
    let before = lab.clock.now();
    let run = lab.run("octocat").await;
    assert_whole(&run);
    let took = run.completed_at.expect("ended").since(before);
    assert!(took < Duration::from_secs(60 * 60), "{took:?}");
}
