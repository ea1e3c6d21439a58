//! Delayed hints: due times, the leader, its fence.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch_core::ports::{Bus, Hint};
use clinch_redis::{Scheduler, Settings, Tick};

use crate::support::{
    advance, ask_raw, bus, connect, fresh, hint, key, publish, raw, secs, take, unscheduled, url,
    wait,
};

fn contender(redis: &clinch_redis::Redis) -> Scheduler {
    Scheduler::new(redis).expect("a contender")
}

async fn promoted(scheduler: &mut Scheduler) -> Option<u64> {
    match scheduler.tick().await.expect("an answer") {
        Tick::Leading { promoted, .. } => Some(promoted),
        Tick::NotLeading => None,
    }
}

pub(crate) async fn col_7_nothing_is_promoted_early() {
    let settings = unscheduled();
    let bus = bus(&settings).await;
    let mut leader = contender(bus.redis());
    assert_eq!(leader.lead().await.expect("an answer"), None);
    for seconds in [30, 10, 20] {
        publish(&bus, &[hint("a")], secs(seconds)).await;
    }
    let tick = leader.tick().await.expect("an answer");
    let Tick::Leading { promoted: 0, next } = tick else {
        panic!("too early: {tick:?}");
    };
    let next = next.expect("something is delayed");
    assert!(
        next <= secs(10) && next > secs(5),
        "the next is due after {next:?}"
    );
    for expected in [0, 1, 1, 1, 0] {
        settings.test_clock.advance(secs(5));
        assert_eq!(promoted(&mut leader).await, Some(expected));
        settings.test_clock.advance(secs(5));
    }
    assert_eq!(take(&bus, 9).await.len(), 3);
}

pub(crate) async fn col_7_promotion_goes_in_batches_and_loses_nothing() {
    let bus = bus(&fresh()).await;
    let hints: Vec<Hint> = (0..1_700).map(|_| hint("a")).collect();
    publish(&bus, &hints, secs(10)).await;
    advance(&bus, secs(11)).await;
    let mut got = BTreeSet::new();
    loop {
        let taken = take(&bus, 400).await;
        if taken.is_empty() {
            break;
        }
        for one in &taken {
            assert!(got.insert(one.hint.op_id), "delivered once");
        }
    }
    assert_eq!(got.len(), hints.len());
}

pub(crate) async fn col_7_a_leader_that_was_paused_promotes_nothing() {
    let settings = unscheduled();
    let bus = bus(&settings).await;
    let (mut paused, mut other) = (contender(bus.redis()), contender(bus.redis()));
    assert_eq!(paused.lead().await.expect("an answer"), None);
    let left = other.lead().await.expect("an answer");
    assert!(left.is_some_and(|left| left <= settings.scheduler_ttl));
    publish(&bus, &[hint("a"), hint("a")], secs(10)).await;
    // It neither renews nor knows that its time is over.
    settings
        .test_clock
        .advance(settings.scheduler_ttl + secs(1));
    assert_eq!(other.lead().await.expect("an answer"), None);
    assert_eq!(promoted(&mut paused).await, None, "under an older fence");
    assert_eq!(take(&bus, 9).await, []);
    assert_eq!(promoted(&mut other).await, Some(2));
    assert_eq!(promoted(&mut other).await, Some(0), "once");
    assert_eq!(take(&bus, 9).await.len(), 2);
}

pub(crate) async fn col_7_only_the_owner_releases_the_lead() {
    let settings = unscheduled();
    let redis = connect(&settings).await;
    let (mut leader, mut other) = (contender(&redis), contender(&redis));
    assert_eq!(leader.lead().await.expect("an answer"), None);
    assert!(!other.release().await.expect("an answer"));
    assert_eq!(promoted(&mut leader).await, Some(0), "it still leads");
    assert!(leader.release().await.expect("an answer"));
    assert!(!leader.release().await.expect("an answer"));
    assert_eq!(other.lead().await.expect("an answer"), None);
}

pub(crate) async fn col_7_another_takes_over_when_the_leader_leaves() {
    let settings = fresh();
    let (first, second) = (bus(&settings).await, bus(&settings).await);
    // Whoever leads leaves first.
    advance(&first, Duration::ZERO).await;
    advance(&second, Duration::ZERO).await;
    drop(first);
    let late = hint("a");
    publish(
        &second,
        std::slice::from_ref(&late),
        Duration::from_millis(5),
    )
    .await;
    assert_eq!(wait(&second).await.hint, late);
}

pub(crate) async fn col_7_a_sleeping_scheduler_is_woken() {
    let bus = bus(&fresh()).await;
    // It sleeps until the renewal of its lock, ten seconds away; the first is due later.
    publish(&bus, &[hint("a")], secs(1_000)).await;
    advance(&bus, Duration::ZERO).await;
    for _ in 0..20 {
        let soon = hint("a");
        publish(&bus, std::slice::from_ref(&soon), Duration::from_millis(3)).await;
        let got = wait(&bus).await;
        assert_eq!(got.hint, soon);
        bus.ack(&[got.receipt]).await.expect("acked");
    }
}

/// The average sleep of the scheduler is the quotient of these two.
pub(crate) async fn col_14_the_sleeps_of_the_scheduler_are_counted() {
    let bus = bus(&fresh()).await;
    // It leads, and sleeps until the renewal of its lock.
    advance(&bus, Duration::ZERO).await;
    let before = bus.redis().scheduler_sleeps();
    for _ in 0..20 {
        let soon = hint("a");
        publish(&bus, std::slice::from_ref(&soon), Duration::from_millis(20)).await;
        let got = wait(&bus).await;
        assert_eq!(got.hint, soon);
        bus.ack(&[got.receipt]).await.expect("acked");
        // On a busy machine it may be due before the scheduler sees it.
        if bus.redis().scheduler_slept_ms() > 0 {
            break;
        }
    }
    let (sleeps, slept) = (
        bus.redis().scheduler_sleeps(),
        bus.redis().scheduler_slept_ms(),
    );
    assert!(sleeps > before, "{sleeps} sleeps, {before} before");
    assert!(slept > 0, "{sleeps} sleeps took {slept} ms");
}

pub(crate) async fn col_7_a_lead_that_was_lost_with_its_data_has_a_higher_fence() {
    let settings = unscheduled();
    let redis = connect(&settings).await;
    let (mut first, mut second) = (contender(&redis), contender(&redis));
    let mut raw = raw(&url()).await;
    let lock = key(&settings, "scheduler");
    assert_eq!(first.lead().await.expect("an answer"), None);
    let before: u64 = ask_raw(&mut raw, &["HGET", &lock, "fence"]).await;
    let _: u64 = ask_raw(&mut raw, &["DEL", &lock]).await;
    assert_eq!(second.lead().await.expect("an answer"), None);
    let after: u64 = ask_raw(&mut raw, &["HGET", &lock, "fence"]).await;
    assert!(after > before);
    assert_eq!(promoted(&mut first).await, None);
}

/// The leader stops renewing, as a stopped process does; a node with a scheduler of its own
/// takes over on the server's real clock. Then the first one goes on.
pub(crate) async fn col_7_a_leader_that_stops_renewing_is_replaced_and_nothing_comes_twice() {
    let settings = Settings {
        scheduler_ttl: secs(1),
        ..fresh()
    };
    let silent = Settings {
        scheduler: false,
        ..settings.clone()
    };
    let mut frozen = contender(&connect(&silent).await);
    assert_eq!(frozen.lead().await.expect("an answer"), None);
    let bus = bus(&settings).await;
    let hints: Vec<Hint> = (0..200).map(|_| hint("a")).collect();
    publish(&bus, &hints, Duration::from_millis(50)).await;
    let mut got = BTreeSet::new();
    while got.len() < hints.len() {
        let dequeue = crate::support::ask(&["a"], 50, secs(10));
        for one in bus.dequeue(&dequeue).await.expect("deliveries") {
            assert!(got.insert(one.hint.op_id), "delivered once");
            bus.ack(&[one.receipt]).await.expect("acked");
        }
        assert_eq!(
            promoted(&mut frozen).await.unwrap_or(0),
            0,
            "nothing is left to it"
        );
    }
    assert_eq!(take(&bus, 9).await, []);
}
