//! Rates and pauses over several nodes.

use std::time::Duration;

use clinch_core::ports::{RateLimiter, Reason};
use clinch_redis::{Rate, Redis, RedisLimiter, Settings};
use clinch_testbed::{Kind, Server};

use crate::idle::calls;
use crate::support::{connect, fresh, raw, secs};

/// No waiting: what is not free now is rejected.
fn rate(permits: u32, per: Duration) -> Rate {
    Rate {
        wait_max: Duration::ZERO,
        ..Rate::new(permits, per)
    }
}

async fn limiter(settings: &Settings, rate: Option<Rate>) -> RedisLimiter {
    let redis = connect(settings).await;
    let limiter = RedisLimiter::on(&redis, "psp", rate).await;
    limiter.expect("a limiter")
}

async fn granted(limiter: &RedisLimiter, asks: usize) -> usize {
    let mut granted = 0;
    for _ in 0..asks {
        granted += usize::from(limiter.reserve().await.is_ok());
    }
    granted
}

pub(crate) async fn col_8_two_nodes_share_one_rate_exactly() {
    let settings = fresh();
    let rate = rate(50, secs(3_600));
    let nodes = [
        limiter(&settings, Some(rate.clone())).await,
        limiter(&settings, Some(rate)).await,
    ];
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..64 {
        let node = nodes[number % 2].clone();
        callers.spawn(async move { granted(&node, 4).await });
    }
    let mut all = 0;
    while let Some(some) = callers.join_next().await {
        all += some.expect("a caller");
    }
    assert_eq!(all, 50);
    let room = nodes[0].room();
    assert!(room.is_closed() && room.reason == Some(Reason::RateLimited));
}

pub(crate) async fn col_8_no_stretch_has_more_than_the_rate() {
    let settings = fresh();
    let limiter = limiter(&settings, Some(rate(10, secs(1_000)))).await;
    // Half of the bucket is refilled, the stretch is not over.
    assert_eq!(granted(&limiter, 20).await, 10);
    settings.test_clock.advance(secs(500));
    assert_eq!(granted(&limiter, 20).await, 0);
    settings.test_clock.advance(secs(501));
    assert_eq!(granted(&limiter, 20).await, 10);
}

pub(crate) async fn col_8_a_pause_closes_every_node_by_push() {
    let settings = fresh();
    let hears = [
        limiter(&settings, None).await,
        limiter(&settings, Some(rate(100, secs(1)))).await,
    ];
    let other = RedisLimiter::on(&connect(&settings).await, "bank", None).await;
    let other = other.expect("a limiter");
    let says = limiter(&settings, Some(rate(100, secs(1)))).await;
    assert!(hears.iter().all(|node| !node.room().is_closed()));
    // Said again until the other nodes have subscribed.
    loop {
        says.pause(secs(60)).await;
        tokio::task::yield_now().await;
        if hears.iter().all(|node| node.room().is_closed()) {
            break;
        }
    }
    for node in &hears {
        assert_eq!(node.room().reason, Some(Reason::Paused));
        let rejection = node.reserve().await.expect_err("paused");
        assert_eq!(rejection.reason, Reason::Paused);
        assert!(rejection.after <= secs(60) && rejection.after > secs(30));
    }
    assert!(!other.room().is_closed(), "another destination goes on");
    assert!(other.reserve().await.is_ok());
}

pub(crate) async fn col_8_a_shorter_pause_does_not_end_a_longer_one() {
    let settings = fresh();
    let one = limiter(&settings, Some(rate(100, secs(1)))).await;
    one.pause(secs(600)).await;
    one.pause(secs(1)).await;
    one.pause(Duration::ZERO).await;
    let started = limiter(&settings, Some(rate(100, secs(1)))).await;
    for node in [one, started] {
        let left = node.room().again_in.expect("an end");
        assert!(left > secs(300), "{left:?} are left");
    }
}

pub(crate) async fn col_8_after_a_pause_the_burst_is_spent() {
    let settings = fresh();
    let one = limiter(&settings, Some(rate(10, secs(1_000)))).await;
    one.pause(secs(100)).await;
    settings.test_clock.advance(secs(101));
    // A node that starts afterwards remembers no pause, the server does.
    let two = limiter(&settings, Some(rate(10, secs(1_000)))).await;
    assert_eq!(granted(&two, 20).await, 1, "one call at its end");
    settings.test_clock.advance(secs(101));
    let three = limiter(&settings, Some(rate(10, secs(1_000)))).await;
    assert_eq!(granted(&three, 20).await, 1, "then the rate");
}

pub(crate) async fn col_8_a_node_that_starts_learns_of_the_pause() {
    let settings = fresh();
    limiter(&settings, None).await.pause(secs(60)).await;
    let started = limiter(&settings, None).await;
    assert_eq!(started.room().reason, Some(Reason::Paused));
}

pub(crate) async fn col_8_without_a_rate_a_reservation_is_no_command() {
    let server = Server::start(Kind::Redis).expect("a server");
    let redis = Redis::connect(&server.url(), fresh()).await;
    let redis = redis.expect("a connection");
    let limiter = RedisLimiter::on(&redis, "psp", None).await;
    let limiter = limiter.expect("a limiter");
    let mut raw = raw(&server.url()).await;
    // It looks once more when it has subscribed.
    until(&mut raw, "subscribe", 1).await;
    until(&mut raw, "evalsha", 2).await;
    let before = calls(&mut raw).await;
    assert_eq!(granted(&limiter, 1_000).await, 1_000);
    let mut after = calls(&mut raw).await;
    after.retain(|name, count| name != "info" && before.get(name) != Some(count));
    assert!(after.is_empty(), "{after:?}");
}

async fn until(raw: &mut redis::aio::MultiplexedConnection, name: &str, count: u64) {
    while calls(raw).await.get(name) < Some(&count) {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn col_8_without_the_server_nothing_is_let_through() {
    let mut server = Server::start(Kind::Redis).expect("a server");
    let redis = Redis::connect(&server.url(), fresh()).await;
    let redis = redis.expect("a connection");
    let rated = RedisLimiter::on(&redis, "psp", Some(rate(100, secs(1)))).await;
    let rated = rated.expect("a limiter");
    assert!(rated.reserve().await.is_ok());
    server.kill();
    let rejection = rated.reserve().await.expect_err("nobody knows the rate");
    assert_eq!(rejection.reason, Reason::RateLimited);
    assert!(rated.room().is_closed());
    rated.pause(secs(60)).await;
    assert_eq!(
        rated.room().reason,
        Some(Reason::Paused),
        "this node stays away"
    );
}
