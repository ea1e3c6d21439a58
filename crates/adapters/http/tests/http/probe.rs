//! What a provider says of an earlier call.

use std::time::Duration;

use clinch_core::ports::{Probe, ProbeVerdict};
use clinch_http::{Egress, HttpExecutor, HttpRoute, ProbeRoute};
use serde_json::json;

use crate::support::{
    Provider, Reply, Vault, body, client, envelope, executor, header, route, status,
};

pub(crate) fn probing(url: String) -> HttpRoute {
    let mut route = route("http://127.0.0.1:9/v1");
    route.txn_id = Some("json:/id".into());
    route
        .headers
        .insert("authorization".into(), "Bearer ${env:PSP_KEY}".into());
    route.probe = Some(ProbeRoute {
        url,
        matches: "json:/key".into(),
        succeeded: vec![200],
        failed: vec![410],
        not_found: vec![404],
        ..ProbeRoute::default()
    });
    route
}

async fn verdict(reply: Reply, change: impl FnOnce(&mut ProbeRoute)) -> ProbeVerdict {
    let provider = Provider::start([reply]).await;
    let mut route = probing(provider.url("/find?key={outbound_key}"));
    change(route.probe.as_mut().expect("a probe"));
    let probe = executor(route).probe().expect("a probe");
    probe
        .probe(&envelope("order-123", &json!({"amount": 5})))
        .await
}

/// An answer about our call, with more members.
fn ours(more: &str) -> String {
    let envelope = envelope("order-123", &json!({}));
    format!(r#"{{"key":"{}"{more}}}"#, envelope.outbound_key)
}

#[tokio::test]
async fn the_question_carries_credentials_and_no_idempotency_key() {
    let mut provider = Provider::start([]).await;
    let route = probing(provider.url("/find/{op_id}?key={outbound_key}"));
    let envelope = envelope("order-123", &json!({"amount": 5}));
    executor(route)
        .probe()
        .expect("a probe")
        .probe(&envelope)
        .await;
    let (_, sent) = provider.request().await;
    let line = format!(
        "GET /find/{}?key={} HTTP/1.1",
        envelope.op_id, envelope.outbound_key
    );
    assert_eq!(sent.lines().next(), Some(line.as_str()));
    assert_eq!(header(&sent, "authorization"), Some("Bearer canary-secret"));
    assert!(header(&sent, "traceparent").is_some() && header(&sent, "x-clinch-op-id").is_some());
    for absent in ["idempotency-key", "x-clinch-attempt", "content-type"] {
        assert_eq!(header(&sent, absent), None);
    }
    assert_eq!(body(&sent), "");
}

#[tokio::test]
async fn a_verdict_needs_a_status_of_the_route_and_our_key() {
    let found = verdict(status("200 OK", "", &ours(r#","id":"tx_9""#)), |_| {}).await;
    let ProbeVerdict::Succeeded(success) = found else {
        panic!("{found:?}")
    };
    assert_eq!(success.provider_txn_id.as_deref(), Some("tx_9"));
    assert_eq!(success.payload.value()["id"], json!("tx_9"));
    let refused = verdict(status("410 Gone", "", &ours("")), |_| {}).await;
    let ProbeVerdict::Failed(fail) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(fail.code, "probe_failed");
    let not_found = verdict(status("404 Not Found", "", "nothing"), |_| {}).await;
    assert_eq!(not_found, ProbeVerdict::NotFound);
    let op_id = envelope("k", &json!({})).op_id;
    let named = status("200 OK", &format!("X-Ref: {op_id}\r\n"), "");
    let by_header = verdict(named, |probe| probe.matches = "header:X-Ref".into()).await;
    assert!(matches!(by_header, ProbeVerdict::Succeeded(_)));
    let listed = status("200 OK", "", &format!(r#"{{"data":[{}]}}"#, ours("")));
    let first = verdict(listed, |probe| probe.matches = "json:/data/0/key".into()).await;
    assert!(matches!(first, ProbeVerdict::Succeeded(_)));
}

#[tokio::test]
async fn a_doubt_is_no_verdict() {
    let cut = "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nno";
    let cases = [
        // Another call, no call, a list that ignored our filter, no JSON.
        status("200 OK", "", r#"{"key":"ck1_other"}"#),
        status("200 OK", "", "{}"),
        status("200 OK", "", r#"{"data":[]}"#),
        status("200 OK", "", "found"),
        status("410 Gone", "", r#"{"key":"ck1_other"}"#),
        status("201 Created", "", &ours("")),
        status("302 Found", "Location: /\r\n", &ours("")),
        status("401 Unauthorized", "", &ours("")),
        status("500 Oops", "", &ours("")),
        status("503 Away", "", &ours("")),
        Reply::Last(cut.into()),
        Reply::Last(Vec::new()),
        Reply::Reset,
        status(
            "200 OK",
            "",
            &ours(&format!(r#","pad":"{}""#, "x".repeat(300_000))),
        ),
    ];
    for reply in cases {
        assert_eq!(
            verdict(reply.clone(), |_| {}).await,
            ProbeVerdict::Unknown,
            "{reply:?}"
        );
    }
}

#[tokio::test]
async fn col_8_a_provider_that_takes_no_questions_now_is_no_doubt() {
    let minute = Some(Duration::from_secs(60));
    let cases = [
        (status("429 Slow", "", &ours("")), None),
        (status("429 Slow", "Retry-After: 60\r\n", &ours("")), minute),
        (status("425 Early", "Retry-After: 60\r\n", ""), minute),
        (status("503 Away", "Retry-After: 60\r\n", ""), minute),
    ];
    for (reply, after) in cases {
        let said = verdict(reply.clone(), |_| {}).await;
        assert_eq!(said, ProbeVerdict::Later(after), "{reply:?}");
    }
}

#[tokio::test]
async fn a_provider_that_finds_refused_and_pending_calls_too_is_read_by_their_state() {
    let with_state = |probe: &mut ProbeRoute| {
        probe.state = Some("json:/status".into());
        probe.succeeded_states = vec!["paid".into()];
        probe.failed_states = vec!["declined".into()];
    };
    let of = |state: &str| status("200 OK", "", &ours(&format!(r#","status":"{state}""#)));
    let paid = verdict(of("paid"), with_state).await;
    assert!(matches!(paid, ProbeVerdict::Succeeded(_)));
    let declined = verdict(of("declined"), with_state).await;
    assert!(matches!(declined, ProbeVerdict::Failed(_)));
    for doubt in [of("pending"), of(""), status("200 OK", "", &ours(""))] {
        assert_eq!(verdict(doubt, with_state).await, ProbeVerdict::Unknown);
    }
}

#[tokio::test]
async fn an_operation_that_the_question_cannot_be_made_of_is_a_doubt() {
    let mut provider = Provider::start([]).await;
    let route = probing(provider.url("/find/{payload.none}"));
    let probe = executor(route).probe().expect("a probe");
    assert_eq!(
        probe.probe(&envelope("k", &json!({}))).await,
        ProbeVerdict::Unknown
    );
    assert_eq!(provider.requests(), 0);
    assert!(!format!("{probe:?}").contains("canary"));
}

#[test]
fn probes_that_could_settle_the_wrong_call_are_refused() {
    type Change = fn(&mut ProbeRoute);
    let cases: [(Change, &str); 10] = [
        (
            |probe| probe.matches = String::new(),
            "probe.match is missing",
        ),
        (|probe| probe.matches = "key".into(), "probe.match must be"),
        (
            |probe| probe.succeeded = vec![500],
            "probe.succeeded holds 500",
        ),
        (
            |probe| probe.not_found = vec![403],
            "probe.not_found holds 403",
        ),
        (|probe| probe.not_found = vec![200], "has a meaning already"),
        (|probe| probe.failed = vec![302], "probe.failed holds 302"),
        (
            |probe| probe.url = "http://10.0.0.1/".into(),
            "probe.url names 10.0.0.1",
        ),
        (
            |probe| probe.state = Some("json:/s".into()),
            "probe.succeeded_states",
        ),
        (
            |probe| probe.failed_states = vec!["x".into()],
            "probe.state",
        ),
        (
            |probe| {
                (probe.succeeded, probe.failed, probe.not_found) = Default::default();
            },
            "no answer could be a verdict",
        ),
    ];
    let egress = Egress::default().loopback_allowed(true);
    for (change, problem) in cases {
        let mut route = probing("http://127.0.0.1/find".into());
        change(route.probe.as_mut().expect("a probe"));
        let refused = HttpExecutor::new(&client(), route, egress, &Vault).expect_err(problem);
        assert!(refused.to_string().contains(problem), "{refused}");
    }
}
