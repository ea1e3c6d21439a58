//! Reading, canceling and resolving operations, and why an operation does not run.

use serde_json::{Value, json};

use crate::harness::{Running, command};

const NOBODY: &str = "01917f5e-0000-7000-8000-000000000000";

#[tokio::test]
async fn an_unknown_operation_is_404_everywhere() {
    let server = Running::new().await;
    for id in [NOBODY, "not-a-uuid"] {
        server
            .get(&format!("/v1/operations/{id}"))
            .await
            .is_problem(404, "not_found");
        server
            .get(&format!("/v1/operations/{id}?wait=1s"))
            .await
            .is_problem(404, "not_found");
        server
            .get(&format!("/v1/operations/{id}/attempts"))
            .await
            .is_problem(404, "not_found");
        server
            .get(&format!("/v1/dead-letters/{id}"))
            .await
            .is_problem(404, "not_found");
        server
            .get(&format!("/v1/batches/{id}"))
            .await
            .is_problem(404, "not_found");
        let post = async |path: &str, body: Value| {
            server.post(path, &body).await.is_problem(404, "not_found");
        };
        post(&format!("/v1/operations/{id}/cancel"), json!({})).await;
        post(
            &format!("/v1/operations/{id}/resolve"),
            json!({"as": "retry"}),
        )
        .await;
        post(
            &format!("/v1/leases/{id}/heartbeat"),
            json!({"fence": 1, "token": id}),
        )
        .await;
        post(
            &format!("/v1/leases/{id}/outcome"),
            json!({"fence": 1, "token": id, "type": "ok"}),
        )
        .await;
        post(&format!("/v1/batches/{id}/seal"), json!({})).await;
    }
}

#[tokio::test]
async fn a_list_pages_by_cursor_and_filters() {
    let server = Running::new().await;
    for at in 0..5 {
        let mut body = command("pay", "ok", &format!("k{at}"));
        body["labels"] = json!({"half": if at < 2 { "first" } else { "second" }});
        assert_eq!(
            server.post("/v1/operations?wait=30s", &body).await.status,
            200
        );
    }
    server.submit("fail", "k9", "30s").await;
    let mut seen = Vec::new();
    let mut path = "/v1/operations?event_type=ok&limit=2".to_owned();
    loop {
        let page = server.get(&path).await.body;
        let keys = page["operations"].as_array().expect("operations").iter();
        seen.extend(keys.map(|one| one["idem_key"].as_str().expect("a key").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/v1/operations?event_type=ok&limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["k4", "k3", "k2", "k1", "k0"]);
    let count = async |query: &str| {
        let page = server.get(&format!("/v1/operations?{query}")).await.body;
        page["operations"].as_array().expect("operations").len()
    };
    assert_eq!(count("label=half=first").await, 2);
    assert_eq!(count("label=half:second").await, 3);
    assert_eq!(count("state=FAILED").await, 1);
    assert_eq!(
        count("state=COMPLETED&idem_key=k1&biz_key=order-1&domain=pay").await,
        1
    );
    assert_eq!(count("provider_txn_id=tx_9").await, 5);
    assert_eq!(count("phase=held").await, 0);
    assert_eq!(count("from=2020-01-01T00:00:00Z").await, 6);
    assert_eq!(count("to=2020-01-01T00:00:00Z").await, 0);
    for (query, field) in [
        ("state=DONE", "state"),
        ("phase=asleep", "phase"),
        ("limit=0", "limit"),
        ("from=monday", "from"),
        ("domain=a%20b", "domain"),
        ("nonsense=1", "nonsense"),
        ("state=FAILED&state=FAILED", "state"),
    ] {
        let reply = server.get(&format!("/v1/operations?{query}")).await;
        assert_eq!(
            reply.is_problem(400, "invalid_request").body["field"],
            field
        );
    }
}

#[tokio::test]
async fn attempts_tell_the_whole_ledger() {
    let server = Running::new().await;
    let op_id = server.submit("ok", "k1", "30s").await.op_id();
    let reply = server
        .get(&format!("/v1/operations/{op_id}/attempts"))
        .await
        .body;
    let attempts = reply["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 1, "{reply}");
    let attempt = &attempts[0];
    assert_eq!(
        (&attempt["number"], &attempt["outcome"]),
        (&json!(1), &json!("ok"))
    );
    for name in ["worker", "started_at", "ended_at"] {
        assert!(attempt[name].is_string(), "{name}: {attempt}");
    }
    assert!(attempt["latency_ms"].is_u64());
    assert!(
        reply["ledger"]
            .as_array()
            .is_some_and(|lines| lines.len() >= 2)
    );
    assert_eq!(reply["late_answers"], json!([]));
    let op_id = server.submit("busy", "k2", "0").await.op_id();
    server.phase(&op_id, "waiting").await;
    let reply = server
        .get(&format!("/v1/operations/{op_id}/attempts"))
        .await
        .body;
    assert_eq!(reply["attempts"][0]["outcome"], "retry");
    assert_eq!(reply["attempts"][0]["error"], "busy");
}

#[tokio::test]
async fn cancel_answers_by_what_it_found() {
    let server = Running::new().await;
    let cancel = async |op_id: &str| {
        let path = format!("/v1/operations/{op_id}/cancel");
        server
            .post(&path, &json!({"reason": "changed my mind"}))
            .await
    };
    let waiting = server.submit("busy", "k1", "0").await.op_id();
    server.phase(&waiting, "waiting").await;
    for _ in 0..2 {
        let reply = cancel(&waiting).await;
        assert_eq!(
            (reply.status, &reply.body["failure"]["code"]),
            (200, &json!("canceled"))
        );
    }
    let done = server.submit("ok", "k2", "30s").await.op_id();
    let problem = cancel(&done).await;
    assert_eq!(
        problem.is_problem(409, "terminal").body["op_id"],
        json!(done)
    );
    let live = server.submit("gated", "k3", "0").await.op_id();
    server.provider.arrival().await;
    for _ in 0..2 {
        let reply = cancel(&live).await;
        assert_eq!(
            (reply.status, &reply.body["cancel_requested"]),
            (202, &json!(true))
        );
    }
    server.provider.open_gate(1);
    assert_eq!(server.settled(&live).await["state"], "COMPLETED");
    let unsure = server.submit("unsure", "k4", "0").await.op_id();
    server.phase(&unsure, "held").await;
    assert_eq!(cancel(&unsure).await.status, 202);
    // Without a body, and with an invalid one.
    let path = format!("/v1/operations/{waiting}/cancel");
    assert_eq!(server.send("POST", &path, &[], "").await.status, 200);
    server
        .post(&path, &json!({"why": 1}))
        .await
        .is_problem(400, "invalid_request");
}

#[tokio::test]
async fn an_unsafe_call_is_held_until_a_person_resolves_it() {
    let server = Running::new().await;
    let held = async |key: &str| {
        let op_id = server.submit("unsure", key, "0").await.op_id();
        let document = server.phase(&op_id, "held").await;
        assert_eq!(
            document["hold"],
            json!({"reason": "effect_unknown", "until": null})
        );
        assert_eq!(document["effect"], "unknown");
        op_id
    };
    let resolve = async |op_id: &str, body: Value| {
        server
            .post(&format!("/v1/operations/{op_id}/resolve"), &body)
            .await
    };
    let op_id = held("k1").await;
    let body = json!({"as": "completed", "provider_txn_id": "tx_1", "payload": {"seen": true}, "reason": "in their books"});
    let reply = resolve(&op_id, body.clone()).await;
    assert_eq!(
        (reply.status, &reply.body["state"]),
        (200, &json!("COMPLETED"))
    );
    assert_eq!(
        reply.body["result"],
        json!({"provider_txn_id": "tx_1", "payload": {"seen": true}})
    );
    resolve(&op_id, body).await.is_problem(409, "not_held");
    let op_id = held("k2").await;
    let body = json!({"as": "failed", "code": "not_there", "message": "not in their books", "effect": "none", "reason": "looked"});
    let reply = resolve(&op_id, body).await;
    assert_eq!(
        (reply.status, &reply.body["failure"]["code"]),
        (200, &json!("not_there"))
    );
    assert_eq!(reply.body["failure"]["effect"], "none");
    let op_id = held("k3").await;
    let calls = server.provider.calls();
    assert_eq!(resolve(&op_id, json!({"as": "retry"})).await.status, 200);
    while server.provider.calls() == calls {
        tokio::task::yield_now().await;
    }
    server.phase(&op_id, "held").await;
    for (body, field) in [
        (json!({}), "as"),
        (json!({"as": "done"}), "as"),
        (json!({"as": "failed", "effect": "maybe"}), "effect"),
        (json!({"as": "retry", "payload": 1}), "payload"),
        (json!({"as": "retry", "payload": null}), "payload"),
        (json!({"as": "completed", "effect": "none"}), "effect"),
        (json!({"as": {"retry": null}}), "as"),
        (
            json!({"as": "completed", "provider_txn_id": 7}),
            "provider_txn_id",
        ),
    ] {
        let reply = resolve(&op_id, body).await;
        assert_eq!(
            reply.is_problem(400, "invalid_request").body["field"],
            field
        );
    }
}

#[tokio::test]
async fn hold_says_why_an_operation_does_not_run() {
    let server = Running::new().await;
    let reason = async |op_id: &str| {
        let body = server.get(&format!("/v1/operations/{op_id}")).await.body;
        body["hold"]["reason"].as_str().unwrap_or("none").to_owned()
    };
    // A remote route without workers.
    let remote = server
        .post("/v1/operations?wait=0", &command("away", "x", "k1"))
        .await;
    assert_eq!(
        (remote.status, &remote.body["state"]),
        (202, &json!("PENDING"))
    );
    assert_eq!(
        remote.body["hold"],
        json!({"reason": "no_executor", "until": null})
    );
    let mut later = command("pay", "ok", "later");
    later["run_at"] = json!("2999-01-01T00:00:00Z");
    later["deadline"] = json!("2999-01-02T00:00:00Z");
    let later = server.post("/v1/operations", &later).await;
    assert_eq!(
        later.body["hold"],
        json!({"reason": "delayed", "until": "2999-01-01T00:00:00.000Z"})
    );
    assert_eq!(later.header("retry-after"), Some("60"));
    let backoff = server.submit("busy", "k1", "0").await.op_id();
    server.phase(&backoff, "waiting").await;
    assert_eq!(reason(&backoff).await, "backoff");
    let throttled = server.submit("throttled", "k1", "0").await.op_id();
    server.phase(&throttled, "waiting").await;
    let next = server.submit("throttled", "k2", "0").await.op_id();
    assert_eq!(reason(&next).await, "rate_limited");
    assert_eq!(
        server
            .post("/v1/domains/pay/pause", &json!({}))
            .await
            .status,
        200
    );
    assert_eq!(reason(&next).await, "paused");
    let page = server
        .get("/v1/operations?state=PENDING&domain=away")
        .await
        .body;
    assert_eq!(page["operations"][0]["hold"]["reason"], "no_executor");
}

#[tokio::test]
async fn operations_of_one_key_run_in_order() {
    let server = Running::new().await;
    let mut ops = Vec::new();
    for key in ["a", "b", "c"] {
        ops.push(
            server
                .post("/v1/operations?wait=0", &command("lane", "step", key))
                .await
                .op_id(),
        );
    }
    server.provider.arrival().await;
    let body = server.get(&format!("/v1/operations/{}", ops[2])).await.body;
    assert_eq!(
        (&body["state"], &body["hold"]["reason"]),
        (&json!("PENDING"), &json!("key_order"))
    );
    assert_eq!(server.provider.calls(), 1);
    server.provider.open_gate(3);
    for op_id in &ops {
        assert_eq!(server.settled(op_id).await["state"], "COMPLETED");
    }
    assert_eq!(
        *server.provider.order.lock().expect("order"),
        ["a", "b", "c"]
    );
}

#[tokio::test]
async fn pausing_a_domain_blocks_begins_only() {
    let server = Running::new().await;
    let reply = server.send("POST", "/v1/domains/pay/pause", &[], "").await;
    assert_eq!((reply.status, &reply.body["paused"]), (200, &json!(true)));
    let op = server.submit("ok", "k1", "0").await;
    assert_eq!((op.status, &op.body["state"]), (202, &json!("PENDING")));
    let domains = server.get("/v1/domains").await.body;
    let pay = domains["domains"]
        .as_array()
        .expect("domains")
        .iter()
        .find(|one| one["domain"] == "pay");
    let pay = pay.expect("pay");
    assert_eq!(
        (&pay["counts"]["PENDING"], &pay["depth"]),
        (&json!(1), &json!(1))
    );
    assert!(pay["oldest_age_ms"].is_u64() || pay["oldest_age_ms"].is_null());
    let reply = server
        .post("/v1/domains/pay/resume", &json!({"reason": "fixed"}))
        .await;
    assert_eq!((reply.status, &reply.body["paused"]), (200, &json!(false)));
    assert_eq!(server.settled(&op.op_id()).await["state"], "COMPLETED");
    server
        .post("/v1/domains/a%20b/pause", &json!({}))
        .await
        .is_problem(400, "invalid_request");
}

#[tokio::test]
async fn a_domain_that_does_not_exist_is_not_paused() {
    let server = Running::new().await;
    for verb in ["pause", "resume"] {
        let path = format!("/v1/domains/nosuch/{verb}");
        let reply = server.post(&path, &json!({})).await;
        reply.is_problem(404, "not_found");
    }
    let domains = server.get("/v1/domains").await.text;
    assert!(!domains.contains("nosuch"), "{domains}");
}

#[tokio::test]
async fn destinations_show_their_guards() {
    let server = Running::new().await;
    let throttled = server.submit("throttled", "k1", "0").await.op_id();
    server.phase(&throttled, "waiting").await;
    let reply = server.get("/v1/destinations").await.body;
    let find = |name: &str| {
        let all = reply["destinations"].as_array().expect("destinations");
        all.iter()
            .find(|one| one["destination"] == name)
            .expect("a destination")
            .clone()
    };
    let psp = find("psp");
    assert_eq!(
        (&psp["breaker"], &psp["paused_until"]),
        (&json!("closed"), &Value::Null)
    );
    assert_eq!(psp["concurrency"]["available"], 16);
    assert_eq!(psp["rate"]["available"], Value::Null);
    assert!(find("throttled")["paused_until"].is_string());
}
