//! Every row of the table of HTTP answers.

use std::time::Duration;

use clinch_core::{Applied, Outcome, Retry};
use clinch_http::HttpRoute;
use serde_json::json;

use crate::support::{Provider, Reply, call, envelope, executor, keyed, lease, route, status};
use clinch_core::ports::Executor;

/// What a route makes of this reply.
async fn outcome(reply: Reply, change: impl FnOnce(&mut HttpRoute)) -> Outcome {
    let provider = Provider::start([reply]).await;
    let mut route = route(provider.url("/v1/charges"));
    change(&mut route);
    call(&executor(route)).await
}

async fn plain(line: &str, headers: &str) -> Outcome {
    outcome(status(line, headers, ""), |_| {}).await
}

fn retry(outcome: Outcome) -> Retry {
    match outcome {
        Outcome::Retry(retry) => retry,
        other => panic!("not a retry: {other:?}"),
    }
}

#[tokio::test]
async fn a_2xx_is_ok_with_its_body_and_the_providers_id() {
    for line in ["200 OK", "201 Created", "202 Accepted", "299 Odd"] {
        let reply = status(line, "", r#"{"id":"tx_9","b":1,"a":2.0}"#);
        let done = outcome(reply, |route| route.txn_id = Some("json:/id".into())).await;
        let Outcome::Ok(success) = done else {
            panic!("{line}: {done:?}")
        };
        assert_eq!(success.payload.as_str(), r#"{"a":2,"b":1,"id":"tx_9"}"#);
        assert_eq!(success.provider_txn_id.as_deref(), Some("tx_9"));
        assert!(success.spawn.is_empty());
    }
    let reply = status("200 OK", "X-Txn-Id: tx_8\r\n", "paid");
    let done = outcome(reply, |route| route.txn_id = Some("header:X-Txn-Id".into())).await;
    let Outcome::Ok(success) = done else {
        panic!("{done:?}")
    };
    assert_eq!(success.payload.as_str(), r#"{"body":"paid"}"#);
    assert_eq!(success.provider_txn_id.as_deref(), Some("tx_8"));
    let nothing = outcome(
        Reply::Raw(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        |_| {},
    )
    .await;
    let Outcome::Ok(success) = nothing else {
        panic!("{nothing:?}")
    };
    assert_eq!(
        (success.payload.as_str(), success.provider_txn_id),
        ("null", None)
    );
}

#[tokio::test]
async fn a_body_over_the_cap_is_truncated_marked_and_still_ok() {
    let long = format!(r#"{{"id":"tx_9","pad":"{}"}}"#, "x".repeat(100_000));
    let reply = status("200 OK", "X-Txn-Id: tx_8\r\n", &long);
    let done = outcome(reply, |route| {
        route.response_max = 1_000;
        route.txn_id = Some("header:x-txn-id".into());
    })
    .await;
    let Outcome::Ok(success) = done else {
        panic!("{done:?}")
    };
    let value = success.payload.value();
    assert_eq!(value["truncated"], json!(true));
    let kept = value["body"].as_str().expect("text");
    assert!(long.starts_with(kept) && kept.len() > 900, "{}", kept.len());
    assert_eq!(success.provider_txn_id.as_deref(), Some("tx_8"));
    // Exactly the cap is whole. A body without an end is not waited for.
    let exact = format!("\"{}\"", "x".repeat(998));
    let done = outcome(status("200 OK", "", &exact), |route| {
        route.response_max = 1_000
    })
    .await;
    let Outcome::Ok(success) = done else {
        panic!("{done:?}")
    };
    assert_eq!(success.payload.as_str(), exact);
    let endless = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n{}\r\n",
        "x".repeat(2_000)
    );
    let done = outcome(Reply::Raw(endless.into_bytes()), |route| {
        route.response_max = 1_000
    })
    .await;
    let Outcome::Ok(success) = done else {
        panic!("{done:?}")
    };
    assert_eq!(success.payload.value()["truncated"], json!(true));
}

#[tokio::test]
async fn chunked_answers_and_interim_ones_are_read() {
    let chunked = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n";
    let done = outcome(Reply::Raw(chunked.into()), |_| {}).await;
    let Outcome::Ok(success) = done else {
        panic!("{done:?}")
    };
    assert_eq!(success.payload.as_str(), r#"{"a":1}"#);
}

#[tokio::test]
async fn throttled_is_not_applied_and_pauses_for_as_long_as_it_says() {
    for (line, reason) in [
        ("429 Too Many Requests", "http_429"),
        ("425 Too Early", "http_425"),
    ] {
        let without = retry(plain(line, "").await);
        assert_eq!(without, Retry::not_applied(reason));
        let seconds = retry(plain(line, "Retry-After: 30\r\n").await);
        assert_eq!(
            seconds,
            Retry::not_applied(reason).retry_after(Duration::from_secs(30))
        );
        let past = "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let past = retry(plain(line, past).await);
        assert_eq!(past, Retry::not_applied(reason).retry_after(Duration::ZERO));
        let far = retry(plain(line, "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\n").await);
        assert!(
            far.pauses && far.after > Some(Duration::from_secs(86_400)),
            "{far:?}"
        );
        assert_eq!(far.applied, Applied::No);
        let nonsense = retry(plain(line, "Retry-After: soon\r\n").await);
        assert_eq!(nonsense, Retry::not_applied(reason));
    }
}

#[tokio::test]
async fn a_503_is_unknown_unless_the_route_says_that_it_is_clean() {
    let header = "Retry-After: 7\r\n";
    let pause = Duration::from_secs(7);
    let unknown = retry(plain("503 Service Unavailable", header).await);
    assert_eq!(unknown, Retry::unknown("http_503").retry_after(pause));
    let reply = status("503 Service Unavailable", header, "");
    let clean = outcome(reply, |route| route.unavailable_is_clean = true).await;
    assert_eq!(
        retry(clean),
        Retry::not_applied("http_503").retry_after(pause)
    );
    let clean = outcome(status("500 Oops", header, ""), |route| {
        route.unavailable_is_clean = true
    });
    assert_eq!(retry(clean.await), Retry::unknown("http_500"));
}

#[tokio::test]
async fn what_a_server_may_have_done_before_it_failed_is_unknown() {
    for (line, reason) in [
        ("408 Request Timeout", "http_408"),
        ("500 Oops", "http_500"),
        ("501 Not Implemented", "http_501"),
        ("502 Bad Gateway", "http_502"),
        ("504 Gateway Timeout", "http_504"),
        ("599 Odd", "http_599"),
        ("600 Odder", "http_600"),
    ] {
        assert_eq!(
            retry(plain(line, "Retry-After: 9\r\n").await),
            Retry::unknown(reason)
        );
    }
}

#[tokio::test]
async fn a_redirect_is_unknown_and_never_followed() {
    for line in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "304 Not Modified",
        "307 Temporary",
        "308 Permanent",
    ] {
        let mut provider = Provider::start([]).await;
        let location = format!("Location: {}\r\n", provider.url("/other"));
        provider.then(status(line, &location, ""));
        let outcome = call(&executor(route(provider.url("/v1")))).await;
        assert_eq!(retry(outcome), Retry::unknown("redirect_refused"), "{line}");
        assert_eq!(provider.requests(), 1, "{line}");
    }
}

#[tokio::test]
async fn a_409_depends_on_the_route() {
    let provider =
        Provider::start((0..4).map(|_| status("409 Conflict", "", r#"{"id":"tx_1"}"#))).await;
    let url = || route(provider.url("/v1"));
    // In progress under our key.
    let in_progress = call(&executor(url()).safety(keyed())).await;
    assert_eq!(retry(in_progress), Retry::unknown("http_409"));
    // No key to be in progress under.
    let Outcome::Fail(fail) = call(&executor(url())).await else {
        panic!("not a refusal")
    };
    assert_eq!(fail.code, "http_409");
    for safety in [keyed(), clinch_core::policy::Safety::Natural] {
        let mapped = HttpRoute {
            duplicate_status: vec![409],
            txn_id: Some("json:/id".into()),
            ..url()
        };
        let done = call(&executor(mapped).safety(safety)).await;
        let Outcome::Ok(success) = done else {
            panic!("{done:?}")
        };
        assert_eq!(success.provider_txn_id.as_deref(), Some("tx_1"));
    }
}

#[tokio::test]
async fn other_4xx_fail_in_our_own_words() {
    for (line, code, message) in [
        (
            "400 Bad",
            "http_400",
            "the provider answered 400 (Bad Request)",
        ),
        (
            "401 canary",
            "http_401",
            "the provider answered 401 (Unauthorized)",
        ),
        (
            "402 x",
            "http_402",
            "the provider answered 402 (Payment Required)",
        ),
        ("404 x", "http_404", "the provider answered 404 (Not Found)"),
        (
            "422 x",
            "http_422",
            "the provider answered 422 (Unprocessable Entity)",
        ),
        (
            "499 x",
            "http_499",
            "the provider answered 499 (a status without a name)",
        ),
    ] {
        let failed = plain(line, "Retry-After: 5\r\n").await;
        let Outcome::Fail(fail) = failed else {
            panic!("{line}: {failed:?}")
        };
        assert_eq!((fail.code.as_str(), fail.message.as_str()), (code, message));
        assert_eq!(fail.cause, None);
    }
}

#[tokio::test]
async fn core_16_a_refusal_shows_the_providers_code_and_nothing_that_was_sent() {
    let declined =
        r#"{"error":{"code":"card_declined","message":"Card canary-card of canary-name"}}"#;
    let cases = [
        (declined, Some("the provider's code is card_declined")),
        (r#"{"code":"canary-card"}"#, None),
        (r#"{"code":"canary-secret"}"#, None),
        (r#"{"code":"secret"}"#, None),
        (r#"{"code":"order-canary"}"#, None),
        (r#"{"error":"Bearer canary-secret is not valid"}"#, None),
        ("canary-secret canary-card", None),
        ("", None),
    ];
    for (body, cause) in cases {
        let provider =
            Provider::start([status("402 canary-secret", "X: canary-card\r\n", body)]).await;
        let mut route = route(provider.url("/v1/{biz_key}"));
        route
            .headers
            .insert("authorization".into(), "Bearer ${env:PSP_KEY}".into());
        let payload = json!({"card": {"number": "canary-card"}, "name": "canary-name"});
        let failed = executor(route)
            .execute(&envelope("order-canary", &payload), &lease())
            .await;
        let Outcome::Fail(fail) = &failed else {
            panic!("{failed:?}")
        };
        assert_eq!(fail.cause.as_deref(), cause, "{body}");
        assert!(!format!("{failed:?}").contains("canary"), "{failed:?}");
    }
}

#[tokio::test]
async fn a_refusal_whose_body_breaks_off_is_a_refusal_all_the_same() {
    let broken = b"HTTP/1.1 402 Payment Required\r\nContent-Length: 50\r\n\r\n{\"code\"".to_vec();
    let failed = outcome(Reply::Last(broken), |_| {}).await;
    let Outcome::Fail(fail) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!((fail.code.as_str(), fail.cause), ("http_402", None));
}
