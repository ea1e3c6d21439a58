//! What is told, and what never is.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::{Call, Clinch, Done, Fail, Probed, Retry, Route, ShownKeys, Telemetry};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::support::Cluster;

const CANARY: &str = "canary-4f1d";

/// Every line that is logged on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

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
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("lines").clone()).expect("text")
    }

    /// Logs everything, at every level, with every span's beginning and end.
    fn capture(&self) -> tracing::subscriber::DefaultGuard {
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
