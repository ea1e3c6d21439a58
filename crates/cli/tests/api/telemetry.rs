//! Everything besides calls that leaves the server: traces, metrics, alerts.

use serde_json::{Value, json};

use crate::collector::Collector;
use crate::http::Seen;
use crate::provider::Provider;
use crate::world::{World, command, config};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CANARY: &str = "canary-4f1d";

fn spans(documents: &[Value]) -> Vec<Value> {
    let mut all = Vec::new();
    for document in documents {
        let spans = &document["resourceSpans"][0]["scopeSpans"][0]["spans"];
        all.extend(spans.as_array().expect("spans").iter().cloned());
    }
    all
}

fn metric(documents: &[Value], name: &str) -> Option<Value> {
    let last = documents.last()?;
    let metrics = last["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    metrics
        .iter()
        .find(|metric| metric["name"] == name)
        .cloned()
}

/// A span names its operation, and its parent by the stage.
fn check_span(span: &Value, attempt: &Value) {
    // Stages of an attempt are its children; the others belong to the caller's span.
    let parent = match span["name"].as_str() {
        Some("execute" | "settle") => attempt["spanId"].clone(),
        _ => json!("b7ad6b7169203331"),
    };
    assert_eq!(
        (&span["traceId"], &span["parentSpanId"]),
        (&json!(TRACE), &parent),
        "{span:#}"
    );
    let attributes = span["attributes"].as_array().expect("attributes");
    let has = |key: &str| attributes.iter().any(|one| one["key"] == key);
    assert!(
        has("op.id") && has("domain") && has("latency.ms"),
        "{span:#}"
    );
    assert!(span["name"] == "accept" || has("outcome"), "{span:#}");
    let at = |name: &str| {
        span[name]
            .as_str()
            .and_then(|text| text.parse::<u64>().ok())
    };
    assert!(at("startTimeUnixNano").is_some_and(|start| Some(start) <= at("endTimeUnixNano")));
    assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
}

#[test]
fn run_10_traces_and_metrics_reach_a_collector_and_no_key_does() {
    let (provider, collector) = (Provider::start(), Collector::start(0));
    let text = format!(
        "{}\n[telemetry]\notlp = \"{}\"\n",
        config(&provider),
        collector.url()
    );
    let mut world = World::with("otlp", &text, provider, &Seen::default());
    let mut asked = command("pay", "ok", CANARY);
    asked["payload"] = json!({"secret": CANARY});
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let traced = world.client.clone().with("traceparent", &parent);
    traced.post("/v1/operations?wait=60s", &asked).is(200);
    // A stop sends what is left.
    world.process.terminate();
    let stages = ["accept", "attempt", "execute", "settle"];
    let has_all = |documents: &[Value]| {
        let spans = spans(documents);
        stages
            .iter()
            .all(|stage| spans.iter().any(|span| span["name"] == *stage))
    };
    let traces = collector.until("/v1/traces", has_all);
    let all = spans(&traces);
    let named = |name: &str| all.iter().find(|span| span["name"] == name).cloned();
    let attempt = named("attempt").expect("an attempt");
    all.iter().for_each(|span| check_span(span, &attempt));
    let name = "orchestrator.accept.count";
    let metrics = collector.until("/v1/metrics", |all| metric(all, name).is_some());
    let accepted = metric(&metrics, name).expect("it is there");
    // The counters of the other routes are there from the beginning, at zero.
    let points = accepted["sum"]["dataPoints"].as_array().expect("points");
    let counted: Vec<&str> = points
        .iter()
        .filter_map(|one| one["asInt"].as_str())
        .collect();
    assert_eq!(counted.iter().filter(|count| **count == "1").count(), 1);
    assert!(
        counted.iter().all(|count| matches!(*count, "0" | "1")),
        "{counted:?}"
    );
    let took = metric(&metrics, "orchestrator.execute.duration").expect("a histogram");
    let point = &took["histogram"]["dataPoints"][0];
    let counts = point["bucketCounts"].as_array().map(Vec::len);
    let bounds = point["explicitBounds"].as_array().map(Vec::len);
    assert_eq!(
        (&point["count"], counts),
        (&json!("1"), bounds.map(|bounds| bounds + 1))
    );
    assert!(
        metric(&metrics, "orchestrator.held").is_some(),
        "gauges too"
    );
    let all = format!("{traces:?}{metrics:?}");
    assert!(!all.contains(CANARY), "neither keys nor payloads");
    assert!(world.process.ended().success());
}

#[test]
fn run_10_a_collector_that_is_away_holds_nobody_up() {
    let provider = Provider::start();
    let text = format!(
        "{}\n[telemetry]\notlp = \"http://127.0.0.1:1\"\n",
        config(&provider)
    );
    let mut world = World::with("no-otlp", &text, provider, &Seen::default());
    let done = world
        .client
        .post("/v1/operations?wait=60s", &command("pay", "ok", "k1"));
    done.is(200);
    world.process.terminate();
    assert!(world.process.ended().success());
    assert!(
        world.process.log().contains("spans were not taken"),
        "{}",
        world.process.log()
    );
}

#[test]
fn core_15_alerts_are_posted_again_until_they_are_taken_and_hold_no_payload() {
    let (provider, hook) = (Provider::start(), Collector::start(1));
    let text = format!(
        "{}\n[dead_letter]\nalert_url = \"{}/hook\"\n[reaper]\nin_progress_warn = \"100ms\"\n",
        config(&provider),
        hook.url()
    );
    let world = World::with("alerts", &text, provider, &Seen::default());
    let held = world.held("a1");
    let code = |code: &str| {
        let is_there = |all: &[Value]| all.iter().any(|note| note["code"] == code);
        let all = hook.until("/hook", is_there);
        all.into_iter()
            .find(|note| note["code"] == code)
            .expect("it is there")
    };
    let slow = code("in_progress_long");
    assert_eq!(
        (&slow["severity"], &slow["op_id"]),
        (&json!("warning"), &json!(held))
    );
    let metrics = world.client.get("/metrics").is(200).text;
    assert!(
        metrics.contains("orchestrator_in_progress_overdue 1"),
        "{metrics}"
    );
    // The provider said no and then yes: an alert is raised.
    world.submit("far", "x", CANARY);
    let (id, attempt) = world.lease("far");
    let path = format!("/v1/leases/{id}/outcome");
    let report = |outcome: serde_json::Value| {
        let mut body = attempt.clone();
        body["outcome"] = outcome;
        world.client.post(&path, &body).is(200);
    };
    report(json!({"type": "fail", "code": "declined", "message": CANARY}));
    let letter = code("dead_letter");
    assert_eq!(
        (&letter["op_id"], &letter["domain"], &letter["failure_code"]),
        (&json!(id), &json!("far"), &json!("declined"))
    );
    assert_eq!(letter["count"], 1);
    report(json!({"type": "ok", "payload": {"secret": CANARY}}));
    let late = code("late_ok");
    assert_eq!(
        (&late["severity"], &late["op_id"]),
        (&json!("critical"), &json!(id))
    );
    assert!(
        !hook
            .until("/hook", |_| true)
            .iter()
            .any(|note| note.to_string().contains(CANARY))
    );
}

#[test]
fn core_15_dead_letters_are_coalesced_and_a_stop_posts_the_rest() {
    let (provider, hook) = (Provider::start(), Collector::start(0));
    let text = format!(
        "{}\n[dead_letter]\nalert_url = \"{}/hook\"\n",
        config(&provider),
        hook.url()
    );
    let mut world = World::with("coalesced", &text, provider, &Seen::default());
    for number in 0..20 {
        let failing = command("pay", "fail", &format!("{CANARY}-{number}"));
        let path = "/v1/operations?wait=60s";
        assert_eq!(
            world.client.post(path, &failing).is(200).body["state"],
            "FAILED"
        );
    }
    world.process.terminate();
    assert!(world.process.ended().success());
    let all = hook.until("/hook", |all| {
        let counts = all.iter().filter_map(|note| note["count"].as_u64());
        counts.sum::<u64>() == 20
    });
    assert!(all.len() <= 3, "the first and a sum a minute: {all:#?}");
    for note in &all {
        let pair = (&note["domain"], &note["failure_code"]);
        assert_eq!(pair, (&json!("pay"), &json!("http_402")), "{note:#}");
        assert!(note["op_id"].is_string() && !note.to_string().contains(CANARY));
    }
}

/// Every code and reason that a remote worker can report holds a secret.
#[test]
fn core_16_text_of_a_provider_is_in_no_line_and_no_metric() {
    let mut world = World::new("provider-text");
    for (number, outcome) in [
        json!({"type": "retry", "reason": format!("token {CANARY}"), "applied": "no"}),
        json!({"type": "retry", "reason": CANARY, "applied": "no"}),
        json!({"type": "fail", "code": CANARY, "message": CANARY, "cause": CANARY}),
    ]
    .into_iter()
    .enumerate()
    {
        world.submit("far", "x", &format!("{CANARY}-{number}"));
        let (id, mut body) = world.lease("far");
        body["outcome"] = outcome;
        world
            .client
            .post(&format!("/v1/leases/{id}/outcome"), &body)
            .is(200);
    }
    let metrics = world.client.get("/metrics").is(200).text;
    assert!(
        metrics.contains(
            "orchestrator_pump_outcome_fail_count_total{domain=\"far\",event_type=\"*\"} 1"
        ),
        "{metrics}"
    );
    world.process.terminate();
    assert!(world.process.ended().success());
    let log = world.process.log();
    assert!(log.contains("outcome=fail code=other"), "{log}");
    assert!(!log.contains(CANARY) && !metrics.contains(CANARY), "{log}");
}

/// The error for a configuration: one line that never shows the address itself.
fn refusal(config: &str) -> String {
    let folder = crate::process::Folder::with("refused", config);
    let serve = crate::process::clinch(&folder.0).arg("serve").output();
    let refused = serve.expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(!said.contains(CANARY), "{said}");
    said
}

#[test]
fn core_19_an_alert_goes_nowhere_that_a_route_may_not_call() {
    let url = format!("http://169.254.169.254/{CANARY}");
    let said = refusal(&format!("[dead_letter]\nalert_url = \"{url}\"\n"));
    assert!(said.contains("dead_letter.alert_url"), "{said}");
}

#[test]
fn core_19_a_key_that_would_do_nothing_is_refused() {
    let said = refusal(&format!("[bus]\nurl = \"kafka://:{CANARY}@broker\"\n"));
    assert!(said.contains("bus.url"), "{said}");
    let said = refusal(&format!(
        "[store]\nlisten_url = \"postgres://:{CANARY}@db\"\n"
    ));
    assert!(said.contains("store.listen_url"), "{said}");
    let said = refusal(&format!("[telemetry]\notlp = \"{CANARY}\"\n"));
    assert!(said.contains("telemetry.otlp"), "{said}");
}
