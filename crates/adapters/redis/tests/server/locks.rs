//! Locks, beyond what the contract suite asks.

use clinch_core::WorkerId;
use clinch_core::ports::LockManager;
use clinch_redis::RedisLocks;

use crate::support::{ask_raw, connect, fresh, raw, secs, url};

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).expect("a name")
}

pub(crate) async fn run_7_a_fence_grows_also_when_the_data_is_lost() {
    let settings = fresh();
    let locks = RedisLocks::on(&connect(&settings).await);
    let (one, mut raw) = (worker("one"), raw(&url()).await);
    let mut last = 0;
    for _ in 0..5 {
        let taken = locks.take("job", &one, secs(30)).await.expect("an answer");
        let fence = taken.expect("it is free").fence;
        assert!(fence > last, "fence {fence} came after {last}");
        last = fence;
        let name = format!("{}:lock:{{job}}", settings.prefix);
        let gone: u64 = ask_raw(&mut raw, &["DEL", &name]).await;
        assert_eq!(gone, 1);
    }
}

pub(crate) async fn run_7_a_stranger_cannot_release_a_lock() {
    let locks = RedisLocks::on(&connect(&fresh()).await);
    let (one, two) = (worker("one"), worker("two"));
    let taken = locks.take("job", &one, secs(30)).await.expect("an answer");
    assert!(taken.is_some());
    assert!(!locks.release("job", &two).await.expect("an answer"));
    assert!(
        locks
            .take("job", &two, secs(30))
            .await
            .expect("an answer")
            .is_none()
    );
    assert!(locks.release("job", &one).await.expect("an answer"));
    for bad in ["", &"n".repeat(1_000)] {
        assert!(locks.take(bad, &one, secs(1)).await.is_err(), "a bad name");
    }
}
