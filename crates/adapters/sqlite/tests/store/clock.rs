//! A machine that starts with a wrong clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::Clock;
use clinch_core::{Command, Payload, TimeBudget, Timestamp};
use clinch_engine::Config;
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::SystemClock;

use crate::common::{Folder, keys, on_a_runtime, worker};
use crate::engine::{NEVER, Provider, engine};

/// The machine's clock, set ahead.
struct Ahead(SystemClock, Duration);

#[async_trait]
impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.0.now() + self.1
    }
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
    async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }
}

/// A process on the file: prunes as at its start, then submits 30 unsafe operations. Returns how
/// many of them were known.
async fn process(folder: &Folder, ahead: Duration) -> usize {
    let clock = Arc::new(Ahead(SystemClock::new(), ahead));
    let sqlite = Sqlite::open(folder.file(), Settings::default(), clock).expect("it opens");
    let provider = Provider {
        book: folder.file().with_file_name("book"),
        aborts: false,
    };
    let runtime = engine(&sqlite, provider, Duration::from_secs(30), NEVER).await;
    let retention = Config::new(worker("prunes")).retention;
    for _ in 0..2 {
        let pruned = runtime.prune(&retention).await.expect("it prunes");
        assert_eq!(
            (pruned.operations, pruned.keys),
            (0, 0),
            "nothing is forgotten"
        );
        assert_eq!(pruned.time.is_held_back(), !ahead.is_zero());
    }
    let mut replayed = 0;
    for number in 0..30 {
        let command = Command::new(keys("unsafe", number), Payload::null());
        let budget = TimeBudget::new(TimeBudget::MAX);
        let handle = runtime.orchestrator().start(command, budget).await;
        let handle = handle.expect("accepted");
        assert!(handle.completed_fast(), "{number} is settled");
        replayed += usize::from(handle.replayed);
    }
    replayed
}

#[test]
fn core_6_a_clock_that_is_wrong_at_the_start_forgets_no_key() {
    on_a_runtime(async {
        let folder = Folder::new("clock");
        assert_eq!(process(&folder, Duration::ZERO).await, 0);
        let days = Duration::from_secs(86_400);
        assert_eq!(process(&folder, days * 500).await, 30);
        let book = std::fs::read_to_string(folder.file().with_file_name("book"));
        assert_eq!(book.expect("a book").lines().count(), 30, "calls");
    });
}
