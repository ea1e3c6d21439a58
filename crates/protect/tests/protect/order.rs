//! CORE-10: the order of the guards, and what breaks in another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{
    Admission, Attempt, Bulkhead, CircuitBreaker, CircuitState, Clock, Executor, Gate, HedgePolicy,
    RateLimiter, Reason, Rejection, Room, TimeoutPolicy, Unguarded,
};
use clinch_core::{Envelope, Outcome};
use clinch_memory::ManualClock;
use clinch_protect::{
    BulkheadConfig, Chain, CircuitConfig, Destination, DestinationConfig, RateConfig, Timeouts,
};

use crate::support::{Lease, Rig, Task, envelope, ms, not_called, now, ok, run, secs, trip};

/// Every guard at once: it admits everything and writes down that it was asked.
#[derive(Default)]
struct Log(Mutex<Vec<&'static str>>, Arc<ManualClock>);

impl Log {
    fn note(&self, name: &'static str) {
        self.0.lock().expect("log").push(name);
    }
}

impl TimeoutPolicy for Log {
    fn per_attempt(&self) -> Duration {
        self.note("timeout of a call");
        secs(3)
    }
    fn total(&self) -> Duration {
        self.note("timeout");
        secs(30)
    }
}

impl CircuitBreaker for Log {
    fn try_acquire(&self) -> Admission {
        self.note("breaker");
        Ok(Box::new(Unguarded))
    }
    fn state(&self) -> CircuitState {
        CircuitState::Closed
    }
    fn room(&self) -> Room {
        Room::UNBOUNDED
    }
}

#[async_trait]
impl Bulkhead for Log {
    async fn acquire(&self) -> Admission {
        self.note("bulkhead");
        Ok(Box::new(Unguarded))
    }
    fn room(&self) -> Room {
        Room::UNBOUNDED
    }
}

#[async_trait]
impl RateLimiter for Log {
    async fn reserve(&self) -> Result<Duration, Rejection> {
        self.note("rate");
        Ok(Duration::ZERO)
    }
    async fn pause(&self, _lasting: Duration) {}
    fn room(&self) -> Room {
        Room::UNBOUNDED
    }
}

impl HedgePolicy for Log {
    fn after(&self, copies_sent: u32) -> Option<Duration> {
        self.note("hedge");
        (copies_sent < 2).then_some(ms(300))
    }
    fn copies_max(&self) -> u32 {
        2
    }
}

#[async_trait]
impl Executor for Log {
    async fn execute(&self, _envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        self.note("executor");
        self.1.sleep(secs(1)).await;
        ok()
    }
}

#[test]
fn core_10_order_is_timeout_breaker_bulkhead_rate_executor_hedge() {
    let log = Arc::new(Log::default());
    let budget = Arc::new(Unguarded);
    let destination = Destination::with("psp", log.clone(), log.clone(), log.clone(), budget);
    let chain = Chain::new(log.clone(), Arc::new(destination), log.1.clone())
        .timeouts(log.clone())
        .hedge(log.clone());
    assert_eq!(run(&log.1, chain.execute(&envelope(1), &lease())), ok());
    let copy = ["breaker", "bulkhead", "rate", "executor", "hedge"];
    let mut expected = vec!["timeout"];
    // The second copy goes around from the breaker.
    expected.extend(copy.iter().chain(&copy));
    let mut asked = log.0.lock().expect("log").clone();
    assert_eq!(
        asked
            .iter()
            .filter(|name| **name == "timeout of a call")
            .count(),
        2
    );
    // The limit of a call is looked up as the call starts; its place is the executor's.
    asked.retain(|name| *name != "timeout of a call");
    assert_eq!(asked, expected);
}

fn guarded(concurrency: BulkheadConfig) -> Rig {
    Rig::new(DestinationConfig {
        breaker: Some(CircuitConfig::default()),
        concurrency: Some(concurrency),
        rate: Some(RateConfig::new(20, secs(1))),
        budget: None,
    })
}

#[test]
fn a_limiter_before_the_breaker_would_spend_the_cap_on_calls_that_never_leave() {
    let rig = guarded(BulkheadConfig::default());
    let limiter = rig.destination.limiter();
    trip(&rig.destination);
    let chain = rig.chain();
    for _ in 0..20 {
        assert_eq!(rig.run(&chain, 1), not_called("breaker_open", secs(30)));
    }
    assert_eq!(limiter.room().calls, 20, "nothing is spent");
    for _ in 0..20 {
        assert!(now(limiter.reserve()).is_ok());
        assert!(rig.destination.breaker().try_acquire().is_err());
    }
    assert_eq!(limiter.room().calls, 0, "the wrong way round everything is");
}

#[test]
fn a_limiter_before_the_bulkhead_would_spend_the_cap_on_calls_without_a_slot() {
    let rig = guarded(BulkheadConfig {
        max_concurrent: 1,
        ..BulkheadConfig::default()
    });
    let (limiter, bulkhead) = (rig.destination.limiter(), rig.destination.bulkhead());
    let _slot = now(bulkhead.acquire()).expect("slot");
    let chain = rig.chain();
    for _ in 0..20 {
        assert_eq!(rig.run(&chain, 1), not_called("bulkhead_full", ms(100)));
    }
    assert_eq!(limiter.room().calls, 20, "nothing is spent");
    for _ in 0..20 {
        assert!(now(limiter.reserve()).is_ok());
        assert!(now(bulkhead.acquire()).is_err());
    }
    assert_eq!(limiter.room().calls, 0, "the wrong way round everything is");
}

#[test]
fn a_bulkhead_before_the_breaker_would_queue_calls_that_are_not_made() {
    let rig = guarded(BulkheadConfig {
        max_concurrent: 1,
        wait_max: secs(10),
        ..BulkheadConfig::default()
    });
    let bulkhead = rig.destination.bulkhead();
    let _hanging = now(bulkhead.acquire()).expect("slot");
    trip(&rig.destination);
    let outcome = now(rig.chain().execute(&envelope(1), &rig.attempt));
    assert_eq!(outcome, not_called("breaker_open", secs(30)), "at once");
    let mut wrong = Task::new(async {
        let slot = bulkhead.acquire().await;
        (slot, rig.destination.breaker().try_acquire())
    });
    rig.clock.advance(secs(9));
    assert!(
        wrong.poll().is_none(),
        "the wrong way round it queues first"
    );
}

#[test]
fn a_bulkhead_outside_of_the_timeout_would_wait_past_it() {
    let rig = guarded(BulkheadConfig {
        max_concurrent: 1,
        wait_max: secs(3_600),
        ..BulkheadConfig::default()
    });
    let bulkhead = rig.destination.bulkhead();
    let _hanging = now(bulkhead.acquire()).expect("slot");
    let attempt = lease();
    let envelope = envelope(1);
    let chain = rig.chain().timeouts(Arc::new(Timeouts {
        per_attempt: secs(1),
        total: secs(2),
    }));
    let mut right = Task::new(chain.execute(&envelope, &attempt));
    let mut wrong = Task::new(async {
        let slot = bulkhead.acquire().await;
        rig.clock.sleep(secs(2)).await;
        slot
    });
    assert!(right.poll().is_none() && wrong.poll().is_none());
    rig.clock.advance(secs(2));
    let Some(Outcome::Retry(retry)) = right.poll() else {
        panic!("it ends with its time");
    };
    assert_eq!(retry.reason, "timeout");
    rig.clock.advance(secs(3_000));
    assert!(wrong.poll().is_none(), "the wrong way round it still waits");
}

#[test]
fn a_copy_on_the_permits_of_the_first_would_break_the_cap() {
    let rig = Rig::new(DestinationConfig {
        rate: Some(RateConfig {
            burst: Some(1),
            wait_max: Duration::ZERO,
            ..RateConfig::new(1, secs(10))
        }),
        ..DestinationConfig::NONE
    });
    let hedge = Arc::new(clinch_protect::Hedge::new(ms(300)));
    rig.provider.then(secs(2), ok());
    assert_eq!(rig.run(&rig.chain().hedge(hedge), 1), ok());
    assert_eq!(rig.provider.calls().len(), 1, "the copy found no permit");
    assert_eq!(rig.destination.room().reason, Some(Reason::RateLimited));
}

fn lease() -> Arc<dyn Attempt> {
    Arc::<Lease>::default()
}
