//! `POST /v1/operations`: once for its keys, 200 or 202 by the budget.

use serde_json::{Value, json};

use crate::harness::{Reply, Running, command};

async fn post_with(server: &Running, headers: &[(&str, &str)], body: &Value) -> Reply {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    server
        .send("POST", "/v1/operations", &all, &body.to_string())
        .await
}

#[tokio::test]
async fn core_8_settled_within_the_budget_is_200_with_the_whole_document() {
    let server = Running::new().await;
    let mut body = command("pay", "ok", "k1");
    body["labels"] = json!({"team": "shop"});
    let reply = server.post("/v1/operations?wait=30s", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let document = &reply.body;
    let names = [
        "op_id",
        "domain",
        "event_type",
        "biz_key",
        "idem_key",
        "state",
        "phase",
        "attempts",
        "seq",
        "version",
        "priority",
        "labels",
        "run_at",
        "deadline",
        "accepted_at",
        "started_at",
        "finished_at",
        "next_attempt_at",
        "effect",
        "cancel_requested",
        "hold",
        "late_ok",
        "redrive_of",
        "redriven_by",
        "batch_id",
        "trace_id",
        "result",
        "failure",
        "last_error",
        "outbound_key",
        "destination",
    ];
    let object = document.as_object().expect("an object");
    for name in names {
        assert!(object.contains_key(name), "{name} is missing");
    }
    assert_eq!(object.len(), names.len(), "{}", reply.text);
    assert_eq!(document["state"], "COMPLETED");
    assert_eq!(document["attempts"], 1);
    assert_eq!(document["result"]["provider_txn_id"], "tx_9");
    assert!(document["result"]["payload"]["key"].is_string());
    assert_eq!(document["effect"], "none");
    assert_eq!(document["labels"]["team"], "shop");
    assert_eq!(document["trace_id"].as_str().map(str::len), Some(32));
    let location = format!("/v1/operations/{}", reply.op_id());
    assert_eq!(reply.header("location"), Some(location.as_str()));
    assert_eq!(reply.header("idempotency-replayed"), None);
    assert_eq!(server.get(&location).await.body, *document);
}

#[tokio::test]
async fn core_8_failed_within_the_budget_is_200_too() {
    let server = Running::new().await;
    let reply = server.submit("fail", "k1", "30s").await;
    assert_eq!(
        (reply.status, &reply.body["state"]),
        (200, &json!("FAILED"))
    );
    let failure = json!({"code": "card_declined", "message": "the card was declined", "cause": null, "effect": "none"});
    assert_eq!(reply.body["failure"], failure);
    assert_eq!(reply.body["result"], Value::Null);
}

#[tokio::test]
async fn core_8_not_settled_within_the_budget_is_202_and_the_work_goes_on() {
    let server = Running::new().await;
    let reply = server.submit("gated", "k1", "0").await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(reply.header("location").is_some());
    server.provider.arrival().await;
    server.provider.open_gate(1);
    assert_eq!(server.settled(&reply.op_id()).await["state"], "COMPLETED");
}

#[tokio::test]
async fn core_8_preferences_are_used_and_told() {
    let server = Running::new().await;
    let cases = [
        ("wait=0", 202, "wait=0"),
        ("respond-async", 202, "respond-async"),
        ("respond-async, wait=1", 202, "respond-async, wait=1"),
        ("wait=1", 202, "wait=1"),
    ];
    for (prefer, status, applied) in cases {
        let reply = post_with(
            &server,
            &[("prefer", prefer)],
            &command("pay", "gated", prefer),
        )
        .await;
        assert_eq!(reply.status, status, "{prefer}: {}", reply.text);
        assert_eq!(reply.header("preference-applied"), Some(applied));
    }
    let long = post_with(
        &server,
        &[("prefer", "wait=600")],
        &command("pay", "ok", "long"),
    )
    .await;
    assert_eq!(long.status, 200);
    assert_eq!(long.header("preference-applied"), Some("wait=60"));
    let wrong = server
        .post("/v1/operations?wait=soon", &command("pay", "ok", "x"))
        .await;
    assert_eq!(
        wrong.is_problem(400, "invalid_request").body["field"],
        "wait"
    );
    server.provider.open_gate(4);
}

#[tokio::test]
async fn the_same_keys_are_the_same_operation() {
    let server = Running::new().await;
    let first = server.submit("ok", "k1", "30s").await;
    let again = server.submit("ok", "k1", "30s").await;
    assert_eq!(first.op_id(), again.op_id());
    assert_eq!(
        (again.status, again.header("idempotency-replayed")),
        (200, Some("true"))
    );
    // Member order, spelling and options do not count.
    let mut other = command("pay", "ok", "k1");
    other["payload"] = json!({"amount": 5000.0});
    other["priority"] = json!(5);
    other["labels"] = json!({"x": "y"});
    assert_eq!(
        server.post("/v1/operations", &other).await.op_id(),
        first.op_id()
    );
    other["payload"] = json!({"amount": 1});
    let mismatch = server.post("/v1/operations", &other).await;
    let problem = mismatch.is_problem(422, "idempotency_mismatch");
    assert_eq!(problem.body["op_id"], json!(first.op_id()));
    assert_eq!(server.provider.calls(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_submissions_of_one_key_make_one_call() {
    let server = std::sync::Arc::new(Running::new().await);
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move { server.submit("ok", "same", "30s").await })
        })
        .collect();
    let mut ops = std::collections::BTreeSet::new();
    let mut fresh = 0;
    for task in tasks {
        let reply = task.await.expect("it ends");
        assert_eq!(reply.status, 200, "{}", reply.text);
        fresh += usize::from(reply.header("idempotency-replayed").is_none());
        ops.insert(reply.op_id());
    }
    assert_eq!((ops.len(), fresh, server.provider.calls()), (1, 1, 1));
}

#[tokio::test]
async fn the_idempotency_key_comes_from_the_header_or_the_body() {
    let server = Running::new().await;
    let mut body = command("pay", "ok", "k1");
    let first = post_with(&server, &[("idempotency-key", "\"k1\"")], &body).await;
    assert_eq!(first.status, 200);
    let differ = post_with(&server, &[("Idempotency-Key", "k2")], &body).await;
    assert_eq!(
        differ.is_problem(400, "invalid_command").body["field"],
        "idem_key"
    );
    body.as_object_mut().expect("an object").remove("idem_key");
    let bare = post_with(&server, &[("idempotency-key", "k1")], &body).await;
    assert_eq!(bare.op_id(), first.op_id());
    let none = post_with(&server, &[], &body).await;
    assert_eq!(
        none.is_problem(400, "invalid_command").body["field"],
        "idem_key"
    );
}

#[tokio::test]
async fn invalid_commands_name_their_field() {
    let server = Running::new().await;
    let cases = [
        ("domain", json!("no spaces")),
        ("domain", json!("")),
        ("event_type", json!(7)),
        ("biz_key", json!(" x")),
        ("biz_key", Value::Null),
        ("idem_key", json!("")),
        ("priority", json!(11)),
        ("priority", json!("high")),
        ("run_at", json!("soon")),
        ("deadline", json!(5)),
        ("labels", json!({"a": 1})),
        ("labels", json!({"": "b"})),
        ("delay", json!("5m")),
    ];
    for (field, value) in cases {
        let mut body = command("pay", "ok", "k1");
        body[field] = value;
        let reply = server.post("/v1/operations", &body).await;
        assert_eq!(
            reply.is_problem(400, "invalid_command").body["field"],
            field,
            "{}",
            reply.text
        );
    }
    let mut body = command("pay", "ok", "k1");
    body["run_at"] = json!("2030-01-02T00:00:00Z");
    body["deadline"] = json!("2030-01-02T00:00:00Z");
    let reply = server.post("/v1/operations", &body).await;
    let problem = reply.is_problem(400, "invalid_command");
    assert_eq!(problem.body["field"], "deadline", "{}", reply.text);
    let reply = server
        .post("/v1/operations", &command("pay", "nowhere", "k1"))
        .await;
    reply.is_problem(400, "unknown_route");
    let reply = server
        .post("/v1/operations", &command("nowhere", "ok", "k1"))
        .await;
    reply.is_problem(400, "unknown_route");
}

#[tokio::test]
async fn json_that_two_readers_could_understand_differently_is_refused() {
    let server = Running::new().await;
    let json = [("content-type", "application/json; charset=utf-8")];
    let with = |payload: &str| {
        format!(
            r#"{{"domain":"pay","event_type":"ok","biz_key":"b","idem_key":"k","payload":{payload}}}"#
        )
    };
    for payload in [
        r#"{"a":1,"a":2}"#,
        "9007199254740993",
        "-9007199254740993",
        r#""\ud800""#,
    ] {
        let reply = server
            .send("POST", "/v1/operations", &json, &with(payload))
            .await;
        assert_eq!(
            reply.is_problem(400, "invalid_command").body["field"],
            "payload",
            "{payload}"
        );
    }
    let twice = r#"{"domain":"pay","domain":"pay","event_type":"ok","biz_key":"b","idem_key":"k","payload":1}"#;
    for body in [twice, "", "{", "[]", "{} {}", "\u{feff}{}"] {
        let reply = server.send("POST", "/v1/operations", &json, body).await;
        reply.is_problem(400, "invalid_request");
    }
    let fine = server
        .send(
            "POST",
            "/v1/operations?wait=30s",
            &json,
            &with("9007199254740991"),
        )
        .await;
    assert_eq!(fine.status, 200);
}

#[tokio::test]
async fn bulk_takes_many_and_refuses_each_alone() {
    let server = Running::new().await;
    server.submit("ok", "known", "30s").await;
    let mut other = command("pay", "ok", "known");
    other["payload"] = json!(1);
    let operations = json!([
        command("pay", "ok", "b1"),
        command("pay", "ok", "b1"),
        command("pay", "ok", "known"),
        other,
        command("pay", "ok", ""),
        command("nowhere", "ok", "b2"),
        7,
    ]);
    let reply = server
        .post("/v1/operations/bulk", &json!({"operations": operations}))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let results = reply.body["results"].as_array().expect("results");
    assert_eq!(results.len(), 7);
    assert_eq!(results[0]["op_id"], results[1]["op_id"]);
    assert_eq!(
        (&results[0]["replayed"], &results[1]["replayed"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(results[2]["state"], "COMPLETED");
    let codes: Vec<&Value> = results[3..]
        .iter()
        .map(|one| &one["error"]["code"])
        .collect();
    assert_eq!(
        codes,
        [
            "idempotency_mismatch",
            "invalid_command",
            "unknown_route",
            "invalid_request"
        ]
    );
    let op_id = results[0]["op_id"].as_str().expect("an op_id");
    assert_eq!(server.settled(op_id).await["state"], "COMPLETED");
    let many = vec![json!(1); 10_001];
    let reply = server
        .post("/v1/operations/bulk", &json!({"operations": many}))
        .await;
    assert_eq!(
        reply.is_problem(400, "invalid_request").body["field"],
        "operations"
    );
}

#[tokio::test]
async fn a_callers_trace_is_kept() {
    let server = Running::new().await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let body = command("pay", "ok", "traced");
    let reply = post_with(&server, &[("traceparent", parent)], &body).await;
    assert_eq!(reply.body["trace_id"], "0af7651916cd43dd8448eb211c80319c");
}

#[tokio::test]
async fn a_pruned_operation_is_still_known_by_its_keys() {
    let server = Running::new().await;
    let first = server.submit("ok", "old", "30s").await;
    let prune = clinch_core::ports::Prune {
        completed: std::time::Duration::ZERO,
        failed: std::time::Duration::ZERO,
        keys: std::time::Duration::from_secs(86_400),
        max: 10,
        reckoned: None,
        jump_max: std::time::Duration::MAX,
    };
    while server
        .clinch
        .runtime()
        .prune(&prune)
        .await
        .expect("pruned")
        .operations
        == 0
    {}
    let again = server.submit("ok", "old", "30s").await;
    assert_eq!((again.status, again.op_id()), (200, first.op_id()));
    assert_eq!(
        (&again.body["pruned"], &again.body["state"]),
        (&json!(true), &json!("COMPLETED"))
    );
    assert_eq!(again.body["result"], Value::Null);
    server
        .get(&format!("/v1/operations/{}", first.op_id()))
        .await
        .is_problem(404, "not_found");
}
