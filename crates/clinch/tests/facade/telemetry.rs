//! What is told, and what never is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::types::{Probed, ShownKeys, Telemetry};
use clinch::{Call, Clinch, Done, Fail, Retry, Route};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::support::Cluster;

const CANARY: &str = "canary-4f1d";

/// Every line that is logged on this thread.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("lines").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("lines").clone()).expect("text")
    }

    /// Logs everything, at every level, with every span's beginning and end.
    pub(crate) fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(self.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }
}

fn secret(part: &str) -> String {
    format!("{CANARY}-{part}")
}

/// Ends in every way that there is, each time with the canary wherever a handler can put it.
async fn every_end(call: Call<String>) -> Result<Done<String>, clinch::Refusal> {
    let _ = call.save(secret("checkpoint").as_bytes()).await;
    match (call.biz_key().ends_with("-fail"), call.attempt()) {
        (true, _) => Err(Fail::new("declined", secret("message"))
            .because(secret("cause"))
            .into()),
        (false, 1) => Err(Retry::not_applied(secret("reason")).into()),
        (false, 2) => Err(Retry::unknown(secret("doubt")).into()),
        (false, 3) if call.biz_key().ends_with("-panic") => panic!("no canary in a panic"),
        (false, _) => Ok(Done::new(secret("result")).txn_id(secret("txn"))),
    }
}

fn route() -> Route<String, String> {
    Route::new("payments", "charge").keyed(Duration::from_secs(86_400))
}

async fn play(telemetry: fn() -> Telemetry) -> String {
    let lines = Lines::default();
    let logging = lines.capture();
    let lost: Route<String, String> = Route::new("payments", "lost");
    let cluster = Cluster::start(2, |_| {
        let probe = |_: Call<String>| async {
            Ok::<_, Retry>(Probed::Failed(Fail::new("refused", secret("probe"))))
        };
        Clinch::builder()
            .telemetry(telemetry())
            .handle(&route(), every_end)
            .handle(&lost, |_: Call<String>| async {
                Err::<String, _>(Retry::unknown(secret("lost")))
            })
            .probe(&lost, probe)
    });
    let input = secret("payload");
    for end in ["ok", "fail", "panic"] {
        let key = secret(end);
        let request = route().request(&key, secret("idem"), &input);
        let request = request.label("label", secret("label"));
        let _ = cluster.nodes[0].start(request, Duration::ZERO).await;
    }
    let held = lost.request(secret("held"), secret("idem"), &input);
    let held = cluster.nodes[1]
        .start(held, Duration::ZERO)
        .await
        .expect("accepted");
    let _ = cluster.nodes[0]
        .cancel(held.op_id(), &secret("cancel"))
        .await;
    let mismatch = route().request(secret("ok"), secret("idem"), &secret("other"));
    assert!(
        cluster.nodes[0]
            .start(mismatch, Duration::ZERO)
            .await
            .is_err()
    );
    cluster.advance(Duration::from_secs(3_600)).await;
    cluster.nodes[0].measure().await.expect("gauges");
    drop(cluster);
    drop(logging);
    lines.text()
}

#[tokio::test]
async fn core_16_a_canary_appears_in_no_line_at_any_level() {
    let text = play(Telemetry::default).await;
    assert!(text.lines().count() > 50, "something was logged");
    let told: Vec<&str> = text.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(told.is_empty(), "{told:#?}");
    // The same play does leak where keys are asked for: the check can fail.
    let plain = play(|| Telemetry::default().keys(ShownKeys::Plain)).await;
    assert!(plain.contains(&secret("ok")));
    assert!(!plain.contains(&secret("payload")), "payloads never");
}

#[tokio::test]
async fn core_14_run_10_lines_have_their_tags_and_levels() {
    let text = play(Telemetry::default).await;
    let line = |level: &str, message: &str| {
        let found = text.lines().find(|line| {
            line.contains(level) && line.ends_with(message)
                || line.contains(level) && line.contains(&format!(" {message} "))
        });
        found.unwrap_or_else(|| panic!("no {level} line says {message:?}:\n{text}"))
    };
    for (level, message) in [
        ("INFO", "attempt started"),
        ("INFO", "attempt ended"),
        ("WARN", "attempt ended"),
        ("ERROR", "dead letter"),
        ("ERROR", "the handler panicked"),
    ] {
        line(level, message);
    }
    let ended = line("WARN", "attempt ended");
    for tag in [
        "op.id=",
        "domain=",
        "event.type=",
        "biz.key=",
        "idem.key=",
        "attempt=",
        "latency.ms=",
        "outcome=",
    ] {
        assert!(ended.contains(tag), "{tag} in {ended}");
    }
}

#[tokio::test]
async fn run_10_one_trace_follows_an_operation_through_every_process() {
    let lines = Lines::default();
    let logging = lines.capture();
    let slow: Route<u32, u32> = Route::new("payments", "slow").natural();
    let cluster = Cluster::start(3, |node| {
        let builder = Clinch::builder();
        if node == 0 {
            // Accepts, and lets the others work.
            return builder.remote(&slow);
        }
        builder.handle(&slow, |call: Call<u32>| async move {
            match call.attempt() {
                1 | 2 => Err(Retry::not_applied("busy")),
                _ => Ok(call.input),
            }
        })
    });
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let request = slow.request("a", "1", &7).trace(&parent);
    let handle = cluster.nodes[0]
        .start(request, Duration::ZERO)
        .await
        .expect("accepted");
    cluster.advance(Duration::from_secs(60)).await;
    drop(logging);
    let op_id = handle.op_id().to_string();
    let text = lines.text();
    let ours = text.lines().filter(|line| line.contains(&op_id));
    let stages: BTreeSet<&str> = ours
        .filter(|line| line.contains(trace))
        .flat_map(|line| {
            ["accept", "attempt", "execute", "settle"]
                .into_iter()
                .filter(|stage| line.contains(&format!("stage=\"{stage}\"")))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        stages,
        BTreeSet::from(["accept", "attempt", "execute", "settle"]),
        "{text}"
    );
    let row = cluster.nodes[2]
        .orchestrator()
        .status(handle.op_id())
        .await
        .expect("there");
    assert_eq!(row.operation.trace.as_deref(), Some(parent.as_str()));
    assert_eq!(row.operation.state.attempts, 3);
}

/// Keeps what is told of every metric.
#[derive(Clone, Default)]
pub(crate) struct Board(pub(crate) Arc<Mutex<BTreeMap<String, f64>>>);

struct Slot {
    board: Board,
    key: String,
}

impl Slot {
    fn change(&self, change: impl FnOnce(f64) -> f64) {
        let mut board = self.board.0.lock().expect("a board");
        let value = board.entry(self.key.clone()).or_default();
        *value = change(*value);
    }
}

impl CounterFn for Slot {
    fn increment(&self, by: u64) {
        self.change(|value| value + by as f64);
    }
    fn absolute(&self, to: u64) {
        self.change(|_| to as f64);
    }
}

impl GaugeFn for Slot {
    fn increment(&self, by: f64) {
        self.change(|value| value + by);
    }
    fn decrement(&self, by: f64) {
        self.change(|value| value - by);
    }
    fn set(&self, to: f64) {
        self.change(|_| to);
    }
}

impl HistogramFn for Slot {
    /// How many were recorded.
    fn record(&self, _value: f64) {
        self.change(|value| value + 1.0);
    }
}

impl Board {
    fn slot(&self, key: &Key) -> Arc<Slot> {
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let labels: Vec<_> = labels.collect();
        let key = format!("{} {}", key.name(), labels.join(" "));
        Arc::new(Slot {
            board: self.clone(),
            key: key.trim().to_owned(),
        })
    }
}

impl Recorder for Board {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.slot(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.slot(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.slot(key))
    }
}

#[tokio::test]
async fn core_15_run_10_the_metrics_have_their_names_and_count_what_happened() {
    let board = Board::default();
    let recording = metrics::set_default_local_recorder(&board);
    play(Telemetry::default).await;
    drop(recording);
    let board = board.0.lock().expect("a board").clone();
    let charge = "domain=payments event_type=charge";
    let expected = [
        (format!("orchestrator.accept.count {charge}"), 3.0),
        // One Ok after two retries, one after a panic more; one refusal.
        (format!("orchestrator.pump.outcome.ok.count {charge}"), 2.0),
        (
            format!("orchestrator.pump.outcome.retry.count {charge}"),
            5.0,
        ),
        (
            format!("orchestrator.pump.outcome.fail.count {charge}"),
            1.0,
        ),
        (format!("orchestrator.execute.duration {charge}"), 8.0),
        (format!("orchestrator.settle.duration {charge}"), 8.0),
        (format!("orchestrator.pump.start.delay {charge}"), 8.0),
        (format!("orchestrator.end_to_end.duration {charge}"), 3.0),
        (
            "orchestrator.operations domain=payments state=COMPLETED".into(),
            2.0,
        ),
        (
            "orchestrator.operations domain=payments state=FAILED".into(),
            2.0,
        ),
        ("orchestrator.held".into(), 0.0),
        ("orchestrator.write_ahead.pending".into(), 0.0),
        (
            "orchestrator.breaker.state destination=payments/charge".into(),
            0.0,
        ),
    ];
    for (name, value) in expected {
        assert_eq!(board.get(&name), Some(&value), "{name} in {board:#?}");
    }
    for name in [
        "pump.dequeue.count",
        "finalizer.scan.count",
        "reaper.scan.count",
        "dlq.count",
    ] {
        let name = format!("orchestrator.{name}");
        let told = board
            .iter()
            .any(|(key, value)| key.starts_with(&name) && *value > 0.0);
        assert!(told, "{name} in {board:#?}");
    }
    let leaks: Vec<_> = board.keys().filter(|key| key.contains(CANARY)).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
}
