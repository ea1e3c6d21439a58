//! Budgets in records of a store: the cases of the port, and what they cost (COL-8).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch::backend::RecordQuota;
use clinch::policy::{QuotaReading, QuotaRules, Reservation};
use clinch::ports::{Clock as _, Expected, Quota as _, Record, RecordList, RecordWrite, Records};
use clinch::testing::ManualClock;
use clinch::types::Timestamp;
use clinch_contract::{QuotaControl, QuotaSubject, check_quota, port_factory, quota_cases};
use clinch_memory::Memory;

struct Hands(Arc<ManualClock>);

#[async_trait]
impl QuotaControl for Hands {
    async fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

/// Records that count their commits.
struct Counted {
    memory: Memory,
    commits: AtomicU64,
    /// What another process writes right before the next commit.
    overtaken_by: Mutex<Option<RecordWrite>>,
}

#[async_trait]
impl Records for Counted {
    async fn read_records(&self, keys: &[String]) -> clinch::Result<Vec<Option<Record>>> {
        self.memory.read_records(keys).await
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> clinch::Result<bool> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        let first = self.overtaken_by.lock().expect("no panic").take();
        if let Some(first) = first {
            assert!(self.memory.write_records(&[first]).await?);
        }
        self.memory.write_records(writes).await
    }

    async fn list_records(&self, list: &RecordList) -> clinch::Result<Vec<Record>> {
        self.memory.list_records(list).await
    }
}

struct Scene {
    clock: Arc<ManualClock>,
    records: Arc<Counted>,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        let records = Arc::new(Counted {
            memory,
            commits: AtomicU64::new(0),
            overtaken_by: Mutex::default(),
        });
        Self { clock, records }
    }

    /// The budgets as one more process sees them.
    fn process(&self) -> RecordQuota {
        let rules = QuotaRules::default();
        RecordQuota::new(self.records.clone(), self.clock.clone(), rules)
    }

    /// An answer that shows this much of a window of an hour.
    fn shows(&self, limit: u64, remaining: i64) -> QuotaReading {
        QuotaReading {
            limit: Some(limit),
            remaining: Some(remaining),
            reset_at: Some(Timestamp::from_millis(1_800_003_600_000)),
            ..QuotaReading::default()
        }
    }
}

async fn is_granted(quota: &RecordQuota) -> bool {
    quota.reserve("k", 1).await.expect("an answer") == Reservation::Granted
}

#[test]
fn col_8_budgets_in_records_pass_every_case_of_the_port() {
    let fresh = || async {
        let scene = Scene::new();
        Ok(QuotaSubject {
            quota: Arc::new(scene.process()),
            control: Arc::new(Hands(scene.clock)),
        })
    };
    let factory = port_factory(fresh);
    for case in quota_cases() {
        let checked = check_quota(&case, &factory);
        assert_eq!(checked, Ok(()), "{}", case.name);
    }
}

#[tokio::test]
async fn col_8_processes_spend_a_budget_to_its_last_request_and_no_further() {
    let scene = Scene::new();
    let processes = [scene.process(), scene.process(), scene.process()];
    assert!(is_granted(&processes[0]).await, "the one that asks");
    let reading = scene.shows(1_000, 1_000);
    processes[0].update("k", &reading).await.expect("told");
    let (mut spent, mut left) = (0, 1_000);
    while left > 0 {
        left = 0;
        for quota in &processes {
            if is_granted(quota).await {
                (spent, left) = (spent + 1, 1);
                let reading = scene.shows(1_000, 1_000 - spent);
                quota.update("k", &reading).await.expect("told");
            }
        }
    }
    assert_eq!(spent, 900, "all but the reserve");
}

#[tokio::test]
async fn col_8_most_requests_cost_no_commit() {
    let scene = Scene::new();
    let quota = scene.process();
    assert!(is_granted(&quota).await);
    quota
        .update("k", &scene.shows(5_000, 4_999))
        .await
        .expect("told");
    let before = scene.records.commits.load(Ordering::SeqCst);
    for n in 1..=1_000 {
        assert!(is_granted(&quota).await, "{n}");
        let reading = scene.shows(5_000, 4_999 - n);
        quota.update("k", &reading).await.expect("told");
    }
    let commits = scene.records.commits.load(Ordering::SeqCst) - before;
    assert!(commits <= 1_000 / 33 + 1, "{commits} commits");
}

#[tokio::test]
async fn col_8_a_pause_that_one_process_was_told_stops_the_others_too() {
    let scene = Scene::new();
    let (one, other) = (scene.process(), scene.process());
    assert!(is_granted(&one).await);
    one.update("k", &scene.shows(5_000, 4_999))
        .await
        .expect("told");
    assert!(is_granted(&other).await, "it holds permits now");
    let pause = QuotaReading {
        retry_after: Some(Duration::from_secs(60)),
        ..scene.shows(5_000, 4_990)
    };
    one.update("k", &pause).await.expect("told");
    assert!(!is_granted(&one).await);
    scene.clock.advance(Duration::from_secs(1));
    assert!(!is_granted(&other).await, "it has looked");
    scene.clock.advance(Duration::from_secs(60));
    assert!(is_granted(&other).await);
}

#[tokio::test]
async fn col_8_permits_of_a_process_that_died_are_not_spent_by_another() {
    let scene = Scene::new();
    let dead = scene.process();
    assert!(is_granted(&dead).await);
    dead.update("k", &scene.shows(5_000, 1_000))
        .await
        .expect("told");
    assert!(is_granted(&dead).await);
    drop(dead);
    let heir = scene.process();
    let mut spent = 0;
    while is_granted(&heir).await {
        spent += 1;
    }
    assert!(
        (850..900).contains(&spent),
        "{spent} of 900 less those held"
    );
}

/// A process that loses a race keeps the permits that it has taken before.
#[tokio::test]
async fn col_8_a_change_that_comes_second_loses_no_permits() {
    let scene = Scene::new();
    let quota = scene.process();
    assert!(is_granted(&quota).await, "the one that asks");
    let reading = scene.shows(1_000, 1_000);
    quota.update("k", &reading).await.expect("told");
    assert!(is_granted(&quota).await, "it takes 32 more");
    // Another process takes one permit while this one is told to pause.
    let key = "clinch/quota/k".to_owned();
    let stored = scene.records.read_records(std::slice::from_ref(&key)).await;
    let stored = stored.expect("read").remove(0).expect("a budget").body;
    assert!(stored.contains(r#""remaining":967"#), "{stored}");
    let taken = RecordWrite {
        key,
        expected: Expected::Anything,
        body: Some(stored.replace("967", "966")),
    };
    *scene.records.overtaken_by.lock().expect("no panic") = Some(taken);
    let pause = QuotaReading {
        retry_after: Some(Duration::from_secs(1)),
        ..scene.shows(1_000, 999)
    };
    quota.update("k", &pause).await.expect("told");
    assert!(!is_granted(&quota).await, "it pauses");
    scene.clock.advance(Duration::from_secs(2));
    let mut spent = 0;
    while is_granted(&quota).await {
        spent += 1;
    }
    assert_eq!(spent, 898, "all but the reserve, and what others have");
}
