//! What an idle node sends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clinch_core::ports::Bus;
use clinch_redis::{RedisBus, Settings};
use clinch_testbed::{Kind, Server};
use redis::aio::MultiplexedConnection;

use crate::bus::until_blocked;
use crate::support::{ask, ask_raw, fresh, hint, publish, raw, secs};

/// Calls by command, as the server counts them; those of scripts too.
pub(crate) async fn calls(raw: &mut MultiplexedConnection) -> BTreeMap<String, u64> {
    let stats: String = ask_raw(raw, &["INFO", "commandstats"]).await;
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = rest.split(',').next()?.parse().ok()?;
        Some((name.to_owned(), count))
    };
    stats.lines().filter_map(line).collect()
}

pub(crate) async fn col_13_idle_nodes_send_reads_and_renewals_only() {
    const READERS: usize = 16;
    const RENEWALS: u64 = 6;
    let server = Server::start(Kind::Redis).expect("a server");
    let settings = Settings {
        scheduler_ttl: secs(1),
        ..fresh()
    };
    let mut buses = Vec::new();
    for _ in 0..2 {
        let bus = RedisBus::connect(&server.url(), settings.clone()).await;
        buses.push(bus.expect("a bus"));
    }
    publish(&buses[0], &[hint("a")], Duration::ZERO).await;
    publish(&buses[0], &[hint("a")], secs(10_000)).await;
    let mut readers = tokio::task::JoinSet::new();
    for number in 0..READERS {
        let bus = buses[number % 2].clone();
        readers.spawn(async move {
            let dequeue = ask(&["a", "b"], 9, secs(1_000));
            loop {
                let taken = bus.dequeue(&dequeue).await.expect("deliveries");
                let receipts: Vec<_> = taken.into_iter().map(|one| one.receipt).collect();
                bus.ack(&receipts).await.expect("acked");
            }
        });
    }
    let mut raw = raw(&server.url()).await;
    until_blocked(&mut raw, READERS).await;
    let before = calls(&mut raw).await;
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    let after = loop {
        pause.tick().await;
        let after = calls(&mut raw).await;
        if after["evalsha"] >= before["evalsha"] + RENEWALS {
            break after;
        }
    };
    let mut grown = BTreeMap::new();
    for (name, count) in after {
        let more = count - before.get(&name).copied().unwrap_or(0);
        if more > 0 && name != "info" {
            grown.insert(name, more);
        }
    }
    // The renewal is one script; these are the commands inside of it. A second node tries for
    // the lead by the same first four.
    let renewal = [
        "evalsha",
        "time",
        "hmget",
        "hset",
        "pexpire",
        "zrangebyscore",
        "smembers",
        "xpending",
        "zrange",
    ];
    let names: BTreeSet<&str> = grown.keys().map(String::as_str).collect();
    let allowed = BTreeSet::from(renewal);
    assert!(names.is_subset(&allowed), "{grown:?}");
    assert!(
        !names.contains("xreadgroup"),
        "readers still sit in their first read"
    );
    readers.abort_all();
}
