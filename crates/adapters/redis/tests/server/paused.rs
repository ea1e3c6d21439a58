//! A whole process that leads is stopped past its time, and goes on.
//!
//! The test starts this very binary again, with `CLINCH_NODE` naming the server and
//! `CLINCH_PREFIX` the keys: a node that runs a scheduler until its input is closed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clinch_core::ports::{Bus, Hint, Receipt};
use clinch_redis::{RedisBus, Settings};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ask, ask_raw, bus, fresh, hint, key, publish, raw, secs, take, url, wait};

/// The other side; false in an ordinary run.
pub(crate) fn plays_its_part() -> bool {
    let (Ok(url), Ok(prefix)) = (std::env::var("CLINCH_NODE"), std::env::var("CLINCH_PREFIX"))
    else {
        return false;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let bus = RedisBus::connect(&url, settings(prefix)).await;
        let bus = bus.expect("a bus");
        bus.advance(Duration::ZERO).await.expect("it leads");
        println!("ready");
        let closed = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
        let _ = closed.await;
        drop(bus);
    });
    true
}

fn settings(prefix: String) -> Settings {
    Settings {
        scheduler_ttl: secs(1),
        ..Settings::with_prefix(prefix)
    }
}

/// Ends with its test, by its id.
struct Node(Child);

impl Node {
    fn start(prefix: &str) -> Self {
        let this = std::env::current_exe().expect("this binary");
        let child = Command::new(this)
            .env("CLINCH_NODE", url())
            .env("CLINCH_PREFIX", prefix)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut node = Self(child.expect("a process"));
        let output = node.0.stdout.take().expect("its output");
        let line = BufReader::new(output).lines().next();
        assert_eq!(line.expect("a line").expect("a line"), "ready");
        node
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("an id"), signal).expect("it is there");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// When a hint came into its stream: the server's clock is the first half of an entry's id.
fn promoted_ms(receipt: &Receipt) -> u64 {
    let id = receipt.0.split('-').next();
    id.and_then(|ms| ms.parse().ok()).expect("an entry's id")
}

pub(crate) async fn col_7_a_process_that_leads_is_stopped_and_nothing_comes_twice() {
    let prefix = fresh().prefix;
    let node = Node::start(&prefix);
    let ours = settings(prefix);
    let mut raw = raw(&url()).await;
    let lock = key(&ours, "scheduler");
    let first: u64 = ask_raw(&mut raw, &["HGET", &lock, "fence"]).await;
    node.signal(Signal::STOP);
    let other = bus(&ours).await;
    let hints: Vec<Hint> = (0..500).map(|_| hint("a")).collect();
    let delay = Duration::from_millis(20);
    let due_us = other.redis().now_us().await.expect("an answer") + 20_000;
    publish(&other, &hints, delay).await;
    let (mut got, mut last_ms) = (BTreeSet::new(), 0);
    while got.len() < hints.len() {
        let dequeue = ask(&["a"], 50, secs(10));
        for one in other.dequeue(&dequeue).await.expect("deliveries") {
            assert!(got.insert(one.hint.op_id), "delivered once");
            last_ms = last_ms.max(promoted_ms(&one.receipt));
            other.ack(&[one.receipt]).await.expect("acked");
        }
        // It goes on in the middle of the work of its successor.
        node.signal(Signal::CONT);
    }
    let second: u64 = ask_raw(&mut raw, &["HGET", &lock, "fence"]).await;
    assert!(second > first, "another led in between");
    // By the server's clock on both sides, however slow this test is.
    let late = Duration::from_millis(last_ms).saturating_sub(Duration::from_micros(due_us));
    println!("late by {late:?} at most");
    assert!(late <= ours.scheduler_ttl + secs(1), "late by {late:?}");
    assert_eq!(take(&other, 9).await, [], "nothing came twice");
    // Its successor leaves, and it leads again.
    drop(other);
    let reader = bus(&Settings {
        scheduler: false,
        ..ours
    })
    .await;
    let last = hint("a");
    publish(
        &reader,
        std::slice::from_ref(&last),
        Duration::from_millis(20),
    )
    .await;
    assert_eq!(wait(&reader).await.hint, last);
    let third: u64 = ask_raw(&mut raw, &["HGET", &lock, "fence"]).await;
    assert!(third > second);
}
