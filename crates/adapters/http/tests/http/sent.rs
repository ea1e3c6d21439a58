//! What a provider gets to see, and what is refused before anything is sent.

use clinch_core::ports::Executor;
use clinch_core::{OutboundKey, Outcome};
use clinch_http::{Egress, HttpExecutor, HttpMethod, HttpRoute};
use serde_json::{Value, json};

use crate::support::{
    Provider, TRACE, Vault, body, client, envelope, executor, header, lease, route,
};

/// The one request that this makes.
async fn request(
    url: &str,
    biz_key: &str,
    payload: &Value,
    change: impl FnOnce(&mut HttpRoute),
) -> String {
    let mut provider = Provider::start([]).await;
    let mut route = route(provider.url(url));
    change(&mut route);
    let done = executor(route)
        .execute(&envelope(biz_key, payload), &lease())
        .await;
    assert!(matches!(done, Outcome::Ok(_)), "{done:?}");
    provider.request().await.1
}

#[tokio::test]
async fn a_post_carries_payload_keys_and_trace() {
    let payload = json!({"b": "é", "a": 5_000});
    let sent = request("/v1/charges", "order-123", &payload, |route| {
        route
            .headers
            .insert("authorization".into(), "Bearer ${env:PSP_KEY}".into());
        route
            .headers
            .insert("x-order".into(), "{biz_key}/{payload.a}".into());
    })
    .await;
    assert!(sent.starts_with("POST /v1/charges HTTP/1.1\r\n"), "{sent}");
    assert_eq!(body(&sent), r#"{"a":5000,"b":"é"}"#);
    let envelope = envelope("order-123", &payload);
    let get = |name| header(&sent, name).unwrap_or_else(|| panic!("no {name} in {sent}"));
    assert_eq!(get("idempotency-key"), envelope.outbound_key.as_str());
    assert_eq!(get("x-clinch-op-id"), envelope.op_id.to_string());
    assert_eq!(get("x-clinch-attempt"), "3");
    assert_eq!(get("authorization"), "Bearer canary-secret");
    assert_eq!(get("x-order"), "order-123/5000");
    assert_eq!(get("content-type"), "application/json");
    assert_eq!(get("accept-encoding"), "identity");
    assert!(get("user-agent").starts_with("clinch/"));
    assert!(get("host").starts_with("127.0.0.1:"));
    let trace = get("traceparent");
    assert_eq!(trace[..36], TRACE[..36]);
    assert!(trace.ends_with("-01") && trace != TRACE, "{trace}");
}

#[tokio::test]
async fn the_outbound_key_is_the_same_for_every_attempt() {
    let mut provider = Provider::start([]).await;
    let keyed = HttpRoute {
        idempotency_header: "X-Request-Key".into(),
        ..route(provider.url("/"))
    };
    let executor = executor(keyed);
    let mut keys = Vec::new();
    for attempt in 1..=3 {
        let mut envelope = envelope("k", &json!({}));
        envelope.attempt = attempt;
        envelope.trace = None;
        executor.execute(&envelope, &lease()).await;
        let (_, sent) = provider.request().await;
        assert_eq!(
            header(&sent, "x-clinch-attempt"),
            Some(attempt.to_string().as_str())
        );
        assert_eq!(header(&sent, "traceparent"), None);
        keys.push(header(&sent, "x-request-key").expect("a key").to_owned());
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn a_get_carries_its_payload_as_a_query_without_what_the_url_names() {
    let payload = json!({
        "id": 7, "q": "a&b=c d", "on": true, "none": null, "user": {"id": "u/1"},
        "fixed": 2, "so is": 3,
    });
    let sent = request(
        "/v1/{payload.id}/{payload.user.id}?fixed=1&so%20is=1",
        "k",
        &payload,
        |route| {
            route.method = HttpMethod::Get;
        },
    )
    .await;
    let line = sent.lines().next().expect("a line");
    assert_eq!(
        line,
        "GET /v1/7/u%2F1?fixed=1&so%20is=1&on=true&q=a%26b%3Dc%20d HTTP/1.1"
    );
    assert_eq!((body(&sent), header(&sent, "content-type")), ("", None));
    assert!(header(&sent, "idempotency-key").is_some());
}

#[tokio::test]
async fn every_method_sends_its_payload_and_null_sends_nothing() {
    for (method, name) in [
        (HttpMethod::Put, "PUT"),
        (HttpMethod::Patch, "PATCH"),
        (HttpMethod::Delete, "DELETE"),
    ] {
        let sent = request("/x", "k", &json!([1]), |route| route.method = method).await;
        assert!(sent.starts_with(&format!("{name} /x HTTP/1.1")), "{sent}");
        assert_eq!(body(&sent), "[1]");
    }
    let sent = request("/x", "k", &Value::Null, |_| {}).await;
    assert_eq!((body(&sent), header(&sent, "content-type")), ("", None));
    let empty = json!({});
    let own = request("/x", "k", &empty, |route| {
        route
            .headers
            .insert("Content-Type".into(), "application/vnd.api+json".into());
    });
    assert_eq!(
        header(&own.await, "content-type"),
        Some("application/vnd.api+json")
    );
}

#[tokio::test]
async fn a_value_is_data_and_never_structure() {
    for (biz_key, path) in [
        (
            "a/b?x=1#&y=2",
            "/v1/a%2Fb%3Fx%3D1%23%26y%3D2/z?k=a%2Fb%3Fx%3D1%23%26y%3D2",
        ),
        (
            "@evil.example:80",
            "/v1/%40evil.example%3A80/z?k=%40evil.example%3A80",
        ),
        ("x HTTP/1.1", "/v1/x%20HTTP%2F1.1/z?k=x%20HTTP%2F1.1"),
        ("..%2f", "/v1/..%252f/z?k=..%252f"),
    ] {
        let sent = request("/v1/{biz_key}/z?k={biz_key}", biz_key, &json!({}), |_| {}).await;
        assert_eq!(
            sent.lines().next(),
            Some(format!("POST {path} HTTP/1.1").as_str())
        );
    }
}

#[tokio::test]
async fn what_does_not_fit_the_route_fails_before_anything_is_sent() {
    let get = HttpMethod::Get;
    let post = HttpMethod::Post;
    let long = json!({"q": "canary".repeat(2_000)});
    let cases = [
        (post, "/v1/{biz_key}", "../../admin?x=1#", json!({})),
        (post, "/v1/{biz_key}/refund", "..", json!({})),
        (post, "/{payload.canary}", "k", json!({"other": 1})),
        (post, "/{payload.canary}", "k", json!({"canary": {}})),
        (post, "/{payload.canary}", "k", json!({"canary": ""})),
        (get, "/", "k", json!(["canary"])),
        (get, "/", "k", json!({"q": ["canary"]})),
        (get, "/", "k", long),
    ];
    for (method, url, biz_key, payload) in cases {
        let mut provider = Provider::start([]).await;
        let route = HttpRoute {
            method,
            ..route(provider.url(url))
        };
        let failed = executor(route)
            .execute(&envelope(biz_key, &payload), &lease())
            .await;
        let Outcome::Fail(fail) = failed else {
            panic!("{url}: {failed:?}")
        };
        assert_eq!(fail.code, "invalid_request");
        let shown = format!("{} {:?}", fail.message, fail.cause).replace("payload.canary", "");
        assert!(
            !shown.contains("canarycanary") && !shown.contains("admin"),
            "{shown}"
        );
        assert_eq!(provider.requests(), 0);
    }
    // A header that would become two, and a key that no header can carry.
    let mut provider = Provider::start([]).await;
    let mut with_header = route(provider.url("/"));
    with_header
        .headers
        .insert("x-note".into(), "{payload.note}".into());
    let executor = executor(with_header);
    let injected = envelope("k", &json!({"note": "a\r\nX-Canary: 1"}));
    let mut foreign = envelope("k", &json!({"note": "a"}));
    foreign.outbound_key = "열쇠".parse::<OutboundKey>().expect("a raw key");
    for envelope in [injected, foreign] {
        let failed = executor.execute(&envelope, &lease()).await;
        let Outcome::Fail(fail) = failed else {
            panic!("{failed:?}")
        };
        assert_eq!(fail.code, "invalid_request");
        assert!(!fail.message.contains("anary"), "{}", fail.message);
    }
    assert_eq!(provider.requests(), 0);
}

fn refused(route: HttpRoute, problem: &str) {
    let shown = format!("{route:?}");
    let refused = HttpExecutor::new(&client(), route, Egress::default(), &Vault);
    let refused = refused.expect_err(&shown).to_string();
    assert!(refused.contains(problem), "{refused}");
    assert!(
        !format!("{refused} {shown}").contains("canary"),
        "{refused} {shown}"
    );
}

#[test]
fn urls_that_cannot_be_meant_are_refused() {
    for (url, problem) in [
        ("", "url is missing"),
        (
            "https://{biz_key}.example/",
            "placeholders in scheme, host or port",
        ),
        (
            "https://psp.example:{payload.port}/",
            "placeholders in scheme, host or port",
        ),
        ("{payload.url}", "must begin with https://"),
        ("https://psp.example/{bizkey}", "did you mean {biz_key}?"),
        (
            "https://psp.example/?key=${env:PSP_KEY}",
            "put it in a header",
        ),
        ("https://psp.example/#x", "fragment"),
    ] {
        refused(route(url), problem);
    }
}

#[test]
fn core_16_headers_that_cannot_be_meant_are_refused_without_showing_a_secret() {
    for (name, value, problem) in [
        ("x-a", "${env:NOPE}", "environment variable NOPE"),
        ("x-a", "${file:/nope}", "file /nope"),
        ("x-a", "${PSP_KEY}", "${env:NAME}"),
        ("x-a", "canary-literal\n", "no header can carry"),
        ("x a", "canary-literal", "names of headers"),
        ("Host", "canary-literal", "must not set host"),
        ("content-length", "1", "must not set content-length"),
        ("traceparent", "1", "must not set traceparent"),
        ("x-clinch-attempt", "1", "must not set x-clinch-attempt"),
        ("idempotency-key", "1", "outbound key"),
    ] {
        let mut route = route("https://psp.example/v1");
        route.headers.insert(name.into(), value.into());
        refused(route, problem);
    }
}

#[test]
fn settings_that_contradict_the_table_are_refused() {
    type Change = fn(&mut HttpRoute);
    let cases: [(Change, &str); 6] = [
        (
            |route| route.idempotency_header.clear(),
            "idempotency_header",
        ),
        (
            |route| route.duplicate_status = vec![429],
            "duplicate_status",
        ),
        (
            |route| route.duplicate_status = vec![500],
            "duplicate_status",
        ),
        (
            |route| route.txn_id = Some("id".into()),
            "txn_id must be json:/path",
        ),
        (|route| route.response_max = 0, "response_max"),
        (|route| route.response_max = 1 << 30, "response_max"),
    ];
    for (change, problem) in cases {
        let mut route = route("https://psp.example/v1");
        change(&mut route);
        refused(route, problem);
    }
}

#[test]
fn core_16_an_executor_shows_its_host_and_no_secret() {
    let mut route = route("https://psp.example/v1?canary=1");
    route
        .headers
        .insert("authorization".into(), "Bearer ${env:PSP_KEY}".into());
    let executor = HttpExecutor::new(&client(), route, Egress::default(), &Vault).expect("valid");
    let shown = format!("{executor:?} {executor:#?} {:?}", client());
    assert!(
        shown.contains("psp.example") && !shown.contains("canary"),
        "{shown}"
    );
    assert_eq!(executor.authority(), "psp.example");
    assert!(executor.probe().is_none());
}
