//! Hints, asks and servers for the tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Bus, Clock, Delivery, Dequeue, Hint, Ids, Publication, Topic};
use clinch_core::{Domain, EventType, WorkerId};
use clinch_nats::{NatsBus, Settings};
use clinch_system::{SystemClock, SystemIds};

use crate::common::prefix;

/// Longer than any test: who is not woken hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn settings() -> Settings {
    Settings::new(prefix())
}

pub(crate) async fn bus(url: &str, settings: &Settings) -> NatsBus {
    let clock = Arc::new(SystemClock::new());
    let bus = NatsBus::connect(url, settings.clone(), clock).await;
    bus.expect("a connection")
}

pub(crate) fn hint(domain: &str) -> Hint {
    Hint {
        op_id: SystemIds.op_id(),
        domain: Domain::new(domain).expect("valid"),
        event_type: EventType::new("call").expect("valid"),
        lane: None,
        dispatch_no: 1,
        trace: None,
    }
}

pub(crate) fn publication(hint: &Hint, delay: Duration) -> Publication {
    Publication::to_all(hint.clone(), delay)
}

/// Publishes so many new hints.
pub(crate) async fn publish(bus: &NatsBus, count: usize) -> Vec<Hint> {
    let hints: Vec<Hint> = (0..count).map(|_| hint("a")).collect();
    let all: Vec<_> = hints
        .iter()
        .map(|hint| publication(hint, Duration::ZERO))
        .collect();
    bus.publish(&all).await.expect("published");
    hints
}

pub(crate) fn ask(domains: &[&str], max: usize, wait: Duration) -> Dequeue {
    let topic = |name: &&str| Topic::of(&Domain::new(*name).expect("valid"));
    Dequeue {
        topics: domains.iter().map(topic).collect(),
        max,
        wait,
        visibility: Duration::from_secs(1),
        worker: WorkerId::new("worker").expect("valid"),
        attempts: Vec::new(),
        routes: Arc::new(Routes::new()),
        only: Arc::new(Routes::new()),
    }
}

/// Takes what comes until so many are there.
pub(crate) async fn take(bus: &NatsBus, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let more = bus.dequeue(&ask(&["a"], count - taken.len(), LONG)).await;
        let more = more.expect("a dequeue");
        assert!(!more.is_empty(), "{} of {count} hints came", taken.len());
        taken.extend(more);
    }
    taken
}

/// Tries until the server is back; a call fails at once while there is no connection.
pub(crate) async fn once_it_is_back<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = clinch_core::Result<T>>,
{
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        SystemClock::new().sleep(Duration::from_millis(20)).await;
    }
}

/// A folder that goes with its test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("clinch-nats-{}", prefix()));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
