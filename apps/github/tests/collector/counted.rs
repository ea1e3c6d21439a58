//! Every attempt and every failed job is in the metrics, however it ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch::Result;
use clinch::ports::{CircuitState, Document, DocumentFilter, DocumentName, DocumentSink};
use clinch::testing::advance;
use clinch_github::fake::{Faults, Setup, Size, World};
use clinch_github::{RunStatus, Space, Token, Trigger};
use clinch_memory::Memory;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};

use crate::lab::Lab;
use crate::tenants::keys;

const TOKEN: &str = "fake-robot-1";

/// Counters by name and labels, and gauges by name.
#[derive(Default)]
struct Counters {
    counters: Mutex<BTreeMap<String, Arc<AtomicCounter>>>,
    gauges: Mutex<BTreeMap<String, Arc<LastValue>>>,
}

#[derive(Default)]
struct AtomicCounter(AtomicU64);

impl CounterFn for AtomicCounter {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

/// What a gauge was set to last.
#[derive(Default)]
struct LastValue(Mutex<f64>);

impl GaugeFn for LastValue {
    fn increment(&self, value: f64) {
        *self.0.lock().expect("no panic") += value;
    }

    fn decrement(&self, value: f64) {
        *self.0.lock().expect("no panic") -= value;
    }

    fn set(&self, value: f64) {
        *self.0.lock().expect("no panic") = value;
    }
}

impl Counters {
    /// The value of a gauge; `None`: there is no such gauge.
    fn gauge(&self, name: &str) -> Option<f64> {
        let gauges = self.gauges.lock().expect("no panic");
        let value = gauges.get(name)?.0.lock().expect("no panic");
        Some(*value)
    }

    /// The jobs that ended so, of all kinds.
    fn jobs(&self, outcome: &str) -> u64 {
        let counters = self.counters.lock().expect("no panic");
        let wanted = format!("outcome={outcome}");
        let of_outcome = counters
            .iter()
            .filter(|(name, _)| name.starts_with("github.jobs.count ") && name.contains(&wanted));
        of_outcome
            .map(|(_, counter)| counter.0.load(Ordering::SeqCst))
            .sum()
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key
            .labels()
            .map(|one| format!(" {}={}", one.key(), one.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        let mut counters = self.counters.lock().expect("no panic");
        Counter::from_arc(counters.entry(name).or_default().clone())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = self.gauges.lock().expect("no panic");
        Gauge::from_arc(gauges.entry(key.name().to_owned()).or_default().clone())
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// A sink that never answers.
struct Hanging(Memory);

#[async_trait]
impl DocumentSink for Hanging {
    async fn upsert(&self, _: &str, _: &[Document]) -> Result<()> {
        std::future::pending().await
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        self.0.scan(collection, filter, after, limit).await
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        DocumentSink::list(&self.0, collection, filter, after, limit).await
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        self.0.count(collection, user).await
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        self.0.clear(collection, filter).await
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        self.0.relocate(from, to, ids).await
    }
}

fn world() -> World {
    let size = Size {
        users: 1,
        repositories: 3,
        documents: 60,
    };
    World::generate(3, &size)
}

#[tokio::test]
async fn col_14_attempts_that_are_cut_off_are_counted() {
    let counters = Counters::default();
    let _here = metrics::set_default_local_recorder(&counters);
    let sink = |memory| Arc::new(Hanging(memory));
    let (lab, _) = Lab::with_sink(world(), Setup::default(), &[TOKEN], sink).await;
    let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
    let run = lab.end(&run.await.expect("begun").run_id).await;
    assert_eq!(
        (run.status, run.jobs.failed),
        (RunStatus::Completed, run.jobs.total)
    );
    assert_eq!(counters.jobs("failed"), run.jobs.failed);
    // Every attempt but the last of a job was followed by another; some got no turn.
    assert!(counters.jobs("retried") >= 4 * run.jobs.failed);
    let mut all = lab.clinch.destinations().into_iter();
    let github = all.find(|one| one.name == "github").expect("there");
    assert_eq!(github.breaker, CircuitState::Closed, "the API is well");
}

#[tokio::test]
async fn col_14_jobs_whose_deadline_passed_are_counted_as_failed() {
    let counters = Counters::default();
    let _here = metrics::set_default_local_recorder(&counters);
    let setup = Setup {
        faults: Faults::none().token(TOKEN),
        ..Setup::default()
    };
    let lab = Lab::new(world(), setup, &[TOKEN]).await;
    let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
    let id = run.await.expect("begun").run_id;
    advance(&lab.clock, Duration::from_secs(6 * 24 * 60 * 60)).await;
    assert_eq!(counters.jobs("failed"), 0);
    let run = lab.end(&id).await;
    assert!(
        run.jobs.failed > 0 && run.errors.contains_key("deadline"),
        "{run:?}"
    );
    assert_eq!(counters.jobs("failed"), run.jobs.failed);
}

/// The server's own tokens have a gauge of their own.
#[tokio::test]
async fn col_14_refused_tokens_of_users_are_counted() {
    let counters = Counters::default();
    let _here = metrics::set_default_local_recorder(&counters);
    let own = Token::new("fake-octocat-1");
    for refused in [TOKEN, own.secret()] {
        let setup = Setup {
            faults: Faults::none().token(refused),
            ..Setup::default()
        };
        let lab = Lab::with(world(), setup, |settings| {
            settings.tokens = vec![Token::new(TOKEN)];
            settings.token_keys = keys("1");
        })
        .await;
        let is_of_user = refused != TOKEN;
        if is_of_user {
            let added = lab.collector.add_token("octocat", &own).await;
            added.expect("stored");
        }
        let measured = async || {
            lab.collector.measure().await.expect("measured");
            let all = ["github.user_tokens.refused", "github.tokens.blocked"];
            all.map(|name| counters.gauge(name).unwrap_or(-1.0))
        };
        assert_eq!(measured().await, [0.0, 0.0]);
        let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
        let id = run.await.expect("begun").run_id;
        advance(&lab.clock, Duration::from_secs(200)).await;
        let expected = match is_of_user {
            true => [1.0, 0.0],
            false => [0.0, 1.0],
        };
        assert_eq!(measured().await, expected, "{refused}");
        // Nobody tries it any more: it may be gone.
        let canceled = lab.collector.cancel(&id, "enough").await;
        canceled.expect("canceled");
        advance(&lab.clock, Duration::from_secs(30 * 60)).await;
        assert_eq!(measured().await, [0.0, 0.0], "{refused}");
    }
}
