//! Streams: groups, loans, acks.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch_core::ErrorKind;
use clinch_core::ports::{Bus, Dequeue, Hint, Publication, Receipt};
use clinch_redis::{Depth, Settings};

use crate::support::{
    VISIBILITY, advance, ask, ask_raw, bus, fresh, hint, key, private, publish, raw, secs, take,
    url, wait,
};

pub(crate) async fn core_11_hints_with_one_delay_come_in_order() {
    let bus = bus(&fresh()).await;
    let hints: Vec<Hint> = (0..50).map(|_| hint("a")).collect();
    publish(&bus, &hints, secs(10)).await;
    advance(&bus, secs(11)).await;
    let got = take(&bus, 100).await;
    let got: Vec<Hint> = got.into_iter().map(|one| one.hint).collect();
    assert_eq!(got, hints);
}

pub(crate) async fn core_11_a_late_ack_is_an_ack() {
    let bus = bus(&fresh()).await;
    publish(&bus, &[hint("a")], Duration::ZERO).await;
    let first = take(&bus, 1).await.remove(0);
    advance(&bus, VISIBILITY + secs(1)).await;
    assert_eq!(take(&bus, 1).await.len(), 1, "somebody else has it now");
    bus.ack(&[first.receipt]).await.expect("acked");
    advance(&bus, VISIBILITY + secs(1)).await;
    assert_eq!(take(&bus, 1).await, []);
}

pub(crate) async fn core_11_what_is_not_a_hint_is_dropped() {
    let settings = fresh();
    let bus = bus(&settings).await;
    let (stream, mut raw) = (key(&settings, "s:a"), raw(&url()).await);
    assert_eq!(take(&bus, 1).await, []);
    for junk in ["", "{}", "\u{1}"] {
        let _: String = ask_raw(&mut raw, &["XADD", &stream, "*", "h", junk]).await;
    }
    let good = hint("a");
    publish(&bus, std::slice::from_ref(&good), Duration::ZERO).await;
    assert_eq!(wait(&bus).await.hint, good);
    let _: String = ask_raw(&mut raw, &["XADD", &stream, "*", "h", "junk"]).await;
    assert_eq!(take(&bus, 9).await, []);
    let left: u64 = ask_raw(&mut raw, &["XLEN", &stream]).await;
    assert_eq!(left, 1, "what is on loan");
}

pub(crate) async fn core_11_a_full_bus_refuses_and_writes_nothing() {
    let settings = Settings {
        backlog_max: 10,
        delayed_max: 5,
        ..fresh()
    };
    let bus = bus(&settings).await;
    let publications = |count: usize, delay| -> Vec<Publication> {
        let one = |_| Publication::to_all(hint("a"), delay);
        (0..count).map(one).collect()
    };
    let is_full = |result: clinch_core::Result<()>| {
        result.is_err_and(|error| error.kind() == ErrorKind::Full && error.is_retryable())
    };
    let at_once = publications(11, Duration::ZERO);
    assert!(is_full(bus.publish(&at_once).await));
    assert_eq!(take(&bus, 100).await, []);
    bus.publish(&at_once[..10]).await.expect("there is room");
    assert!(is_full(bus.publish(&at_once[10..]).await));
    let later = publications(6, secs(100));
    assert!(is_full(bus.publish(&later).await));
    bus.publish(&later[..5]).await.expect("there is room");
    let taken = take(&bus, 100).await;
    assert_eq!(taken.len(), 10);
    let receipts: Vec<_> = taken.into_iter().map(|one| one.receipt).collect();
    bus.ack(&receipts).await.expect("acked");
    bus.publish(&at_once[10..]).await.expect("room again");
}

pub(crate) async fn core_11_never_more_than_asked_for_over_many_domains() {
    let bus = bus(&fresh()).await;
    let domains = ["a", "b", "c", "d"];
    let mut sent = BTreeSet::new();
    for name in domains {
        let hints: Vec<Hint> = (0..5).map(|_| hint(name)).collect();
        publish(&bus, &hints, Duration::ZERO).await;
        sent.extend(hints.iter().map(|hint| hint.op_id));
    }
    let mut got = BTreeSet::new();
    while got.len() < sent.len() {
        for max in [1, 3, 7] {
            let dequeue = ask(&domains, max, Duration::from_millis(10));
            let taken = bus.dequeue(&dequeue).await.expect("deliveries");
            assert!(taken.len() <= max, "asked for {max}, got {}", taken.len());
            let receipts: Vec<_> = taken.iter().map(|one| one.receipt.clone()).collect();
            got.extend(taken.iter().map(|one| one.hint.op_id));
            bus.ack(&receipts).await.expect("acked");
        }
    }
    assert_eq!(got, sent);
}

pub(crate) async fn col_6_a_lost_group_is_made_again_under_a_waiting_reader() {
    let (server, settings, bus) = private().await;
    let mut raw = raw(&server.url()).await;
    publish(&bus, &[hint("a")], Duration::ZERO).await;
    assert_eq!(take(&bus, 1).await.len(), 1);
    let reader = tokio::spawn({
        let bus = bus.clone();
        async move { wait(&bus).await }
    });
    until_blocked(&mut raw, 1).await;
    let names = ["s:a", "delayed", "domains", "scheduler", "sequence"];
    for name in names {
        let _: u64 = ask_raw(&mut raw, &["DEL", &key(&settings, name)]).await;
    }
    let again = hint("a");
    publish(&bus, std::slice::from_ref(&again), Duration::ZERO).await;
    let got = reader.await.expect("the reader goes on");
    assert_eq!(got.hint, again);
    bus.ack(&[got.receipt]).await.expect("acked");
}

/// Waits until so many clients of the server sit in a blocking read.
pub(crate) async fn until_blocked(raw: &mut redis::aio::MultiplexedConnection, count: usize) {
    loop {
        let clients: String = ask_raw(raw, &["INFO", "clients"]).await;
        let blocked = clients
            .lines()
            .find_map(|line| line.strip_prefix("blocked_clients:"))
            .and_then(|number| number.trim().parse::<usize>().ok());
        if blocked >= Some(count) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn col_6_acked_entries_leave_nothing_behind() {
    let settings = fresh();
    let bus = bus(&settings).await;
    let (stream, mut raw) = (key(&settings, "s:a"), raw(&url()).await);
    for _ in 0..10 {
        let hints: Vec<Hint> = (0..100).map(|_| hint("a")).collect();
        publish(&bus, &hints, Duration::ZERO).await;
        let taken = take(&bus, 100).await;
        let receipts: Vec<_> = taken.into_iter().map(|one| one.receipt).collect();
        bus.ack(&receipts).await.expect("acked");
    }
    let left: u64 = ask_raw(&mut raw, &["XLEN", &stream]).await;
    let pending: Vec<redis::Value> = ask_raw(&mut raw, &["XPENDING", &stream, "workers"]).await;
    assert_eq!((left, &pending[0]), (0, &redis::Value::Int(0)));
}

pub(crate) async fn col_6_what_a_bus_holds_is_counted() {
    let settings = fresh();
    let bus = bus(&settings).await;
    publish(&bus, &[hint("a"), hint("a"), hint("b")], Duration::ZERO).await;
    publish(&bus, &[hint("a")], secs(1_000)).await;
    assert_eq!(take(&bus, 1).await.len(), 1);
    advance(&bus, Duration::ZERO).await;
    let expected = Depth {
        waiting: 2,
        on_loan: 1,
        delayed: 1,
        has_scheduler: true,
    };
    assert_eq!(bus.depth().await.expect("counted"), expected);
    let elsewhere = crate::support::bus(&crate::support::unscheduled()).await;
    let nothing = Depth {
        waiting: 0,
        on_loan: 0,
        delayed: 0,
        has_scheduler: false,
    };
    assert_eq!(elsewhere.depth().await.expect("counted"), nothing);
}

pub(crate) async fn col_6_entries_that_vanish_are_counted() {
    let settings = fresh();
    let bus = bus(&settings).await;
    let mut raw = raw(&url()).await;
    let hints: Vec<Hint> = (0..3).map(|_| hint("a")).collect();
    publish(&bus, &hints, Duration::ZERO).await;
    assert_eq!(take(&bus, 9).await.len(), 3);
    let stream = key(&settings, "s:a");
    let _: u64 = ask_raw(&mut raw, &["XTRIM", &stream, "MAXLEN", "1"]).await;
    let dequeue = Dequeue {
        visibility: Duration::ZERO,
        ..ask(&["a"], 9, Duration::ZERO)
    };
    let taken = bus.dequeue(&dequeue).await.expect("deliveries");
    assert_eq!(taken.len(), 1, "what is still there");
    assert_eq!(bus.vanished(), 2);
}

pub(crate) async fn col_6_a_waiting_reader_is_told_of_an_ended_loan() {
    let (server, settings, bus) = private().await;
    let mut raw = raw(&server.url()).await;
    let hints = [hint("a"), hint("a")];
    publish(&bus, &hints, Duration::ZERO).await;
    assert_eq!(take(&bus, 9).await.len(), 2);
    let reader = tokio::spawn({
        let bus = bus.clone();
        async move { [wait(&bus).await, wait(&bus).await] }
    });
    until_blocked(&mut raw, 1).await;
    advance(&bus, VISIBILITY + secs(1)).await;
    let got = reader.await.expect("told");
    let again: Vec<u32> = got.iter().map(|one| one.redeliveries).collect();
    assert_eq!(again, [1, 1]);
    let receipts = got.map(|one| one.receipt);
    bus.ack(&receipts).await.expect("acked");
    let left: u64 = ask_raw(&mut raw, &["XLEN", &key(&settings, "s:a")]).await;
    assert_eq!(left, 0, "nothing is left of the nudge");
}

pub(crate) async fn col_6_ended_loans_are_looked_for_at_the_start() {
    let settings = fresh();
    let died = bus(&settings).await;
    publish(&died, &[hint("a")], Duration::ZERO).await;
    assert_eq!(take(&died, 1).await.len(), 1);
    advance(&died, VISIBILITY + secs(1)).await;
    drop(died);
    let started = bus(&settings).await;
    assert_eq!(wait(&started).await.redeliveries, 1);
}

/// Operators see how often hints are taken over: an alert rule uses this number.
pub(crate) async fn col_14_a_hint_whose_loan_ended_is_counted_as_recovered() {
    let bus = bus(&fresh()).await;
    publish(&bus, &[hint("a"), hint("a")], Duration::ZERO).await;
    assert_eq!(take(&bus, 9).await.len(), 2);
    assert_eq!(bus.redis().recovered(), 0, "the first loan is none");
    advance(&bus, VISIBILITY + secs(1)).await;
    let again = take(&bus, 9).await;
    assert_eq!(again.len(), 2);
    assert_eq!(bus.redis().recovered(), 2);
    // What is given back was not lost.
    let back: Vec<_> = again
        .into_iter()
        .map(|one| (one.receipt, Duration::ZERO))
        .collect();
    bus.nack(&back).await.expect("given back");
    assert_eq!(take(&bus, 9).await.len(), 2);
    assert_eq!(bus.redis().recovered(), 2);
}

pub(crate) async fn col_6_consumers_that_are_gone_are_forgotten() {
    let settings = fresh();
    let (stream, mut raw) = (key(&settings, "s:a"), raw(&url()).await);
    let old = bus(&settings).await;
    publish(&old, &[hint("a")], Duration::ZERO).await;
    assert_eq!(take(&old, 1).await.len(), 1, "this one owes something");
    let create = ["XGROUP", "CREATECONSUMER", &stream, "workers", "idle"];
    let _: u64 = ask_raw(&mut raw, &create).await;
    assert_eq!(take(&bus(&settings).await, 1).await, []);
    let known = consumers(&mut raw, &stream).await;
    assert_eq!(known, ["idle", "worker"], "a day has not passed: both stay");
    let script = concat!(
        include_str!("../../lua/prelude.lua"),
        include_str!("../../lua/leave.lua")
    );
    let gone: u64 = ask_raw(
        &mut raw,
        &["EVAL", script, "1", &stream, "0", "workers", "0"],
    )
    .await;
    let known = consumers(&mut raw, &stream).await;
    assert_eq!(known, ["worker"], "who owes something stays");
    assert_eq!(gone, 1);
}

async fn consumers(raw: &mut redis::aio::MultiplexedConnection, stream: &str) -> Vec<String> {
    let list = ["XINFO", "CONSUMERS", stream, "workers"];
    let consumers: Vec<Vec<redis::Value>> = ask_raw(raw, &list).await;
    let name = |one: Vec<redis::Value>| redis::from_redis_value(one[1].clone()).ok();
    let mut names: Vec<String> = consumers.into_iter().filter_map(name).collect();
    names.sort();
    names
}

pub(crate) async fn col_16_a_waiting_call_that_is_dropped_loses_nothing() {
    let (server, _, bus) = private().await;
    let mut raw = raw(&server.url()).await;
    for _ in 0..20 {
        let reader = tokio::spawn({
            let bus = bus.clone();
            async move { wait(&bus).await }
        });
        until_blocked(&mut raw, 1).await;
        reader.abort();
        assert!(reader.await.is_err(), "it was dropped");
    }
    let hints: Vec<Hint> = (0..20).map(|_| hint("a")).collect();
    publish(&bus, &hints, Duration::ZERO).await;
    let mut got: BTreeSet<_> = BTreeSet::new();
    while got.len() < hints.len() {
        let taken = take(&bus, 100).await;
        got.extend(taken.iter().map(|one| one.hint.op_id));
        // What went to a connection that was about to close comes again.
        advance(&bus, VISIBILITY + secs(1)).await;
    }
}

pub(crate) async fn run_7_a_shorter_extension_ends_sooner() {
    let bus = bus(&fresh()).await;
    publish(&bus, &[hint("a")], Duration::ZERO).await;
    let receipt = take(&bus, 1).await.remove(0).receipt;
    bus.extend(&[receipt], secs(10)).await.expect("extended");
    advance(&bus, secs(5)).await;
    assert_eq!(take(&bus, 1).await, []);
    advance(&bus, secs(6)).await;
    assert_eq!(take(&bus, 1).await.len(), 1);
}

pub(crate) async fn run_7_a_former_holder_extends_nothing() {
    let bus = bus(&fresh()).await;
    publish(&bus, &[hint("a")], Duration::ZERO).await;
    let former = take(&bus, 1).await.remove(0).receipt;
    advance(&bus, VISIBILITY + secs(1)).await;
    assert_eq!(take(&bus, 1).await.len(), 1, "somebody else has it now");
    advance(&bus, VISIBILITY - secs(10)).await;
    bus.extend(&[former], VISIBILITY).await.expect("nothing");
    advance(&bus, secs(11)).await;
    assert_eq!(take(&bus, 1).await.len(), 1, "the loan ended as it would");
}

pub(crate) async fn run_7_a_receipt_of_another_kind_changes_nothing() {
    let bus = bus(&fresh()).await;
    publish(&bus, &[hint("a")], Duration::ZERO).await;
    let real = take(&bus, 1).await.remove(0).receipt;
    for foreign in ["", "7", "0-0/1/30000/a", "1-1/1/30000/nowhere", "a/b/c/d"] {
        let foreign = Receipt(foreign.into());
        bus.ack(std::slice::from_ref(&foreign))
            .await
            .expect("nothing");
        bus.nack(&[(foreign.clone(), secs(1))])
            .await
            .expect("nothing");
        bus.extend(&[foreign], secs(1)).await.expect("nothing");
    }
    assert_eq!(take(&bus, 1).await, [], "it is still on loan");
    bus.nack(&[(real, Duration::ZERO)])
        .await
        .expect("given back");
    assert_eq!(take(&bus, 1).await.len(), 1);
}
