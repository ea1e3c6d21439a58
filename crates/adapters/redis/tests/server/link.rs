//! Connections, errors, the check-up.

use std::time::Duration;

use clinch_core::ErrorKind;
use clinch_core::ports::{Bus, LockManager, Publication};
use clinch_redis::{Redis, RedisBus, RedisLocks, Settings, Weight};
use clinch_testbed::{Kind, Server};

use crate::support::{ask_raw, fresh, hint, publish, raw, secs, take};

pub(crate) async fn the_check_up_tells_what_a_server_risks() {
    let server = Server::start(Kind::Redis).expect("a server");
    let redis = Redis::connect(&server.url(), fresh()).await;
    let redis = redis.expect("a connection");
    let found = redis.check().await.expect("findings");
    assert!(
        found.iter().all(|one| one.weight == Weight::Good),
        "{found:?}"
    );
    let mut raw = raw(&server.url()).await;
    let evicting = [
        "CONFIG",
        "SET",
        "maxmemory-policy",
        "allkeys-lru",
        "appendonly",
        "no",
    ];
    let _: String = ask_raw(&mut raw, &evicting).await;
    let found = redis.check().await.expect("findings");
    let weights: Vec<_> = found.iter().map(|one| one.weight).collect();
    assert_eq!(weights, [Weight::Good, Weight::Risk, Weight::Wrong]);
    assert!(found[2].text.contains("set it to noeviction"));
}

pub(crate) async fn errors_are_classified_and_tell_no_secret() {
    let mut server = Server::start(Kind::Redis).expect("a server");
    let port = server.port();
    let secret = format!("redis://somebody:hunter2@127.0.0.1:{port}");
    let refused = Redis::connect(&secret, fresh())
        .await
        .expect_err("no such user");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(!format!("{refused} {refused:?}").contains("hunter2"));
    let bad = Settings::with_prefix("a b");
    let bad = Redis::connect(&server.url(), bad)
        .await
        .expect_err("a bad prefix");
    assert_eq!(bad.kind(), ErrorKind::Invalid);
    let bus = RedisBus::connect(&server.url(), fresh()).await;
    let bus = bus.expect("a bus");
    server.kill();
    let gone = Redis::connect(&secret, fresh())
        .await
        .expect_err("it is down");
    assert_eq!(gone.kind(), ErrorKind::Unavailable);
    assert!(!format!("{gone} {gone:?}").contains("hunter2"));
    let mut hint = hint("a");
    hint.trace = Some("a-trace-that-nobody-else-sees".into());
    let publication = Publication::to_all(hint, Duration::ZERO);
    let lost = bus.publish(&[publication]).await;
    let lost = lost.expect_err("it is down");
    assert_eq!(lost.kind(), ErrorKind::Unavailable);
    assert!(!format!("{lost} {lost:?}").contains("a-trace"));
}

pub(crate) async fn a_server_that_restarts_is_used_again() {
    let mut server = Server::start(Kind::Redis).expect("a server");
    let settings = fresh();
    let bus = RedisBus::connect(&server.url(), settings.clone()).await;
    let bus = bus.expect("a bus");
    let locks = RedisLocks::on(bus.redis());
    let owner = clinch_core::WorkerId::new("one").expect("a name");
    for _ in 0..3 {
        publish(&bus, &[hint("a")], Duration::ZERO).await;
        assert_eq!(take(&bus, 1).await.len(), 1);
        server.restart().expect("it starts again");
        // Whoever missed it meanwhile keeps the others from trying for a moment.
        while locks.take("job", &owner, secs(9)).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
