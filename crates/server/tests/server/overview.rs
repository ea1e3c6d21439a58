//! `GET /v1/overview`: every warning is provoked, and a restricted key sees its own part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clinch::Error;
use clinch_core::ports::{
    Answer, AnswerBody, BeginRequest, Expected, Ids, RecordWrite, Records, Store, StoredOk, Write,
};
use clinch_core::{ErrorKind, WorkerId};
use clinch_memory::{ManualClock, Memory};
use clinch_server::auth::Scope;
use clinch_server::{Parts, Role};
use clinch_system::SystemIds;
use serde_json::{Value, json};

use crate::access::{ask, key};
use crate::harness::{Provider, ROUTES, Running, command, config, parts, store};

fn with_records(memory: &Memory, provider: &Provider) -> Parts {
    let mut parts = parts(memory, provider);
    parts.records = Some(Arc::new(memory.clone()));
    parts
}

async fn served(text: &str, memory: Memory, roles: &[Role]) -> Running {
    let provider = Provider::default();
    let parts = with_records(&memory, &provider);
    Running::of(text, parts, memory, provider, roles).await
}

async fn overview(server: &Running) -> Value {
    let reply = server.get("/v1/overview").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body
}

fn find(overview: &Value, code: &str) -> Option<Value> {
    let warnings = overview["warnings"].as_array().expect("a list");
    warnings.iter().find(|one| one["code"] == code).cloned()
}

/// Returns when the overview has this warning.
async fn warned(server: &Running, code: &str) -> Value {
    loop {
        if let Some(warning) = find(&overview(server).await, code) {
            return warning;
        }
        tokio::task::yield_now().await;
    }
}

fn destination(overview: &Value, name: &str) -> Value {
    let all = overview["destinations"].as_array().expect("a list");
    let found = all.iter().find(|one| one["destination"] == name);
    found.expect("the destination").clone()
}

#[tokio::test]
async fn run_10_all_is_well_without_warnings() {
    let server = served(ROUTES, store(), &Role::ALL).await;
    server.submit("ok", "k1", "30s").await;
    let found = loop {
        let found = overview(&server).await;
        // The process registers and counts beside its requests.
        if found["nodes"][0]["alive"] == true && found["history"]["calls"]["count"] == 1 {
            break found;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(found["warnings"], json!([]), "{found}");
    assert_eq!(found["store"], "memory");
    assert_eq!(found["operations"]["completed"], 1);
    assert_eq!(found["operations"]["oldest_due_ms"], Value::Null);
    assert_eq!(
        found["nodes"][0]["roles"],
        json!(["api", "worker", "recovery"])
    );
    let minutes = found["history"]["minutes"].as_array().expect("a list");
    assert_eq!(minutes.len(), 60);
    let accepted: u64 = minutes
        .iter()
        .filter_map(|one| one["accepted"].as_u64())
        .sum();
    assert_eq!(accepted, 1);
    assert!(found["history"]["end_to_end"]["p95_ms"].is_u64());
    let psp = destination(&found, "psp");
    assert_eq!(
        (&psp["state"], &psp["breaker"]),
        (&json!("ok"), &json!("closed"))
    );
    assert_eq!(psp["limits"]["concurrency"], 16);
    assert_eq!(psp["recent"]["calls"], 1);
    assert_eq!(psp["last_error"], Value::Null);
}

#[tokio::test]
async fn a_process_that_stops_leaves_no_record() {
    let memory = store();
    let server = served(ROUTES, memory.clone(), &Role::ALL).await;
    while overview(&server).await["nodes"] == json!([]) {
        tokio::task::yield_now().await;
    }
    assert!(server.stop().await);
    let after = served(ROUTES, memory, &Role::ALL).await;
    let found = loop {
        let found = overview(&after).await;
        if found["nodes"] != json!([]) {
            break found;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(found["nodes"].as_array().map(Vec::len), Some(1), "{found}");
}

#[tokio::test]
async fn core_10_a_destination_that_is_down_says_since_when_and_why_and_is_reset() {
    let server = served(ROUTES, store(), &Role::ALL).await;
    for number in 0..10 {
        server.submit("busy", &format!("k{number}"), "0").await;
    }
    let warning = warned(&server, "destination_down").await;
    assert_eq!(warning["severity"], "critical");
    assert_eq!(warning["command"], "clinch destinations reset busy");
    assert!(warning["since"].is_string(), "{warning}");
    let message = warning["message"].as_str().expect("text");
    assert!(message.contains("10 of 10 calls failed"), "{message}");
    assert!(message.contains("last error: busy"), "{message}");
    let busy = destination(&overview(&server).await, "busy");
    assert_eq!(
        (&busy["state"], &busy["breaker"]),
        (&json!("down"), &json!("open"))
    );
    assert_eq!(busy["last_error"]["code"], "not_applied");
    assert!(busy["open_until"].is_string() && busy["breaker_since"].is_string());
    assert_eq!(busy["backlog"], 10);

    let reset = server
        .post("/v1/destinations/busy/reset", &json!({"reason": "fixed"}))
        .await;
    assert_eq!(
        (reset.status, &reset.body["state"]),
        (200, &json!("ok")),
        "{}",
        reset.text
    );
    assert_eq!(find(&overview(&server).await, "destination_down"), None);

    let open = server
        .post("/v1/destinations/busy/open", &json!({"for": "30m"}))
        .await;
    assert_eq!(
        (open.status, &open.body["forced"]),
        (200, &json!(true)),
        "{}",
        open.text
    );
    let warning = warned(&server, "destination_forced_open").await;
    assert_eq!(warning["severity"], "warning");
    let open = server.post("/v1/destinations/busy/open", &json!({})).await;
    assert_eq!(open.body["open_until"], Value::Null, "until further notice");
    server.submit("busy", "later", "0").await;
    assert_eq!(
        server.provider.calls(),
        10,
        "nothing is called while it is open"
    );

    let unknown = server
        .post("/v1/destinations/nowhere/reset", &json!({}))
        .await;
    unknown.is_problem(404, "not_found");
    let zero = server
        .post("/v1/destinations/busy/open", &json!({"for": 0}))
        .await;
    zero.is_problem(400, "invalid_request");
}

#[tokio::test]
async fn core_10_a_reset_lets_waiting_work_run_at_once() {
    let server = served(ROUTES, store(), &Role::ALL).await;
    server.post("/v1/destinations/psp/open", &json!({})).await;
    let op_id = server.submit("ok", "k1", "0").await.op_id();
    assert_eq!(server.provider.calls(), 0);
    let waits = destination(&overview(&server).await, "psp");
    assert_eq!(waits["backlog"], 1, "{waits}");
    server.post("/v1/destinations/psp/reset", &json!({})).await;
    assert_eq!(server.settled(&op_id).await["state"], "COMPLETED");
}

#[tokio::test]
async fn core_10_a_provider_that_asks_for_a_pause_is_throttled_until_it_is_reset() {
    let server = served(ROUTES, store(), &Role::ALL).await;
    server.submit("throttled", "k1", "0").await;
    let warning = warned(&server, "destination_throttled").await;
    assert_eq!(warning["link"], "/destinations");
    assert!(warning["since"].is_string(), "{warning}");
    let found = destination(&overview(&server).await, "throttled");
    assert_eq!(found["state"], "throttled");
    let reset = server
        .post("/v1/destinations/throttled/reset", &json!({}))
        .await;
    assert_eq!(reset.body["state"], "ok", "{}", reset.text);
}

#[tokio::test]
async fn core_5_held_operations_and_dead_letters_are_told_with_the_next_command() {
    let server = served(ROUTES, store(), &Role::ALL).await;
    server.submit("fail", "k1", "30s").await;
    let op_id = server.submit("unsure", "k2", "0").await.op_id();
    server.phase(&op_id, "held").await;
    let held = warned(&server, "operations_held").await;
    assert_eq!(
        held["message"],
        "1 operation is held: it is unknown whether the call was applied"
    );
    assert_eq!(held["command"], "clinch ops ls --phase held");
    assert_eq!(held["link"], "/operations?phase=held");
    let dead = warned(&server, "dead_letters_open").await;
    assert_eq!(dead["message"], "1 dead letter is open");
    assert_eq!(overview(&server).await["dead_letters_open"], 1);
}

#[tokio::test]
async fn a_paused_domain_says_since_when_and_by_whom() {
    let server = served(ROUTES, store(), &Role::ALL).await;
    server
        .post("/v1/domains/pay/pause", &json!({"reason": "maintenance"}))
        .await;
    let warning = warned(&server, "domain_paused").await;
    assert!(warning["since"].is_string(), "{warning}");
    assert_eq!(
        warning["message"],
        "domain pay was paused by local: 0 operations are waiting"
    );
    assert_eq!(warning["command"], "clinch domains resume pay");
    server.post("/v1/domains/pay/resume", &json!({})).await;
    assert_eq!(find(&overview(&server).await, "domain_paused"), None);
}

#[tokio::test]
async fn due_work_that_waits_is_overdue_and_shed() {
    let text = ROUTES.replace("[server]", "[server]\nshed_queue_age = \"1ms\"");
    let gated = "event_type = \"gated\"";
    let text = text.replace(gated, &format!("{gated}\ntimeout = \"10m\""));
    let server = served(&text, store(), &Role::ALL).await;
    loop {
        let key = SystemIds.op_id().to_string();
        if server.submit("gated", &key, "0").await.status == 429 {
            break;
        }
        tokio::task::yield_now().await;
    }
    let shedding = warned(&server, "shedding").await;
    assert_eq!(shedding["severity"], "critical");
    assert!(shedding["since"].is_string(), "{shedding}");
    let overdue = warned(&server, "work_overdue").await;
    assert_eq!(
        overdue["command"],
        "clinch ops ls --domain pay --state PENDING"
    );
    let found = overview(&server).await;
    assert_eq!(found["operations"]["oldest_due_domain"], "pay");
    let severities = found["warnings"].as_array().expect("a list").iter();
    let severities: Vec<_> = severities.map(|one| one["severity"].as_str()).collect();
    assert!(
        severities.is_sorted(),
        "critical comes before warning: {severities:?}"
    );
}

#[tokio::test]
async fn core_6_a_clock_that_jumped_and_routes_that_are_gone_are_told() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let before = served(ROUTES, memory.clone(), &Role::ALL).await;
    let op_id = before.submit("busy", "k1", "0").await.op_id();
    before.phase(&op_id, "waiting").await;
    assert!(before.stop().await);
    let edited = ROUTES.replace(r#"event_type = "busy""#, r#"event_type = "other""#);
    let after = served(&edited, memory, &Role::ALL).await;
    let handled = after.clinch.runtime().recover_undeclared().await;
    handled.expect("a pass");
    let warning = warned(&after, "undeclared_routes").await;
    let expected =
        "1 open operation of pay cannot run: no route in this configuration handles them";
    assert_eq!(warning["message"], expected);
    let retention = config(ROUTES)
        .engine(WorkerId::new("prunes").expect("a name"))
        .retention;
    after
        .clinch
        .runtime()
        .prune(&retention)
        .await
        .expect("it prunes");
    clock.advance(Duration::from_secs(500 * 86_400));
    after
        .clinch
        .runtime()
        .prune(&retention)
        .await
        .expect("it prunes");
    let warning = warned(&after, "clock_ahead").await;
    assert_eq!(warning["command"], "clinch retention confirm");
}

#[tokio::test]
async fn core_19_a_store_that_does_not_work_is_the_first_warning_and_the_answer_comes() {
    let (memory, provider) = (store(), Provider::default());
    let is_lost = Arc::new(AtomicBool::new(false));
    let mut parts = with_records(&memory, &provider);
    let lost = is_lost.clone();
    parts.look = Some(Arc::new(move || match lost.load(Ordering::SeqCst) {
        true => Err(Error::new(ErrorKind::Unavailable, "the file is gone")),
        false => Ok(()),
    }));
    let server = Running::of(ROUTES, parts, memory, provider, &Role::ALL).await;
    server.submit("fail", "k1", "30s").await;
    is_lost.store(true, Ordering::SeqCst);
    warned(&server, "store_unavailable").await;
    let found = overview(&server).await;
    assert_eq!(found["warnings"][0]["code"], "store_unavailable");
    assert_eq!(found["warnings"][0]["message"], "the file is gone");
    assert_eq!(found["warnings"][0]["severity"], "critical");
    assert_eq!(found["warnings"][0]["command"], "clinch doctor");
}

#[tokio::test]
async fn core_19_a_lost_process_is_told() {
    let memory = store();
    let node = |name: &str, seen_at: i64| {
        RecordWrite {
        key: format!("clinch/node/{name}"),
        expected: Expected::Absent,
        body: Some(
            json!({"name": name, "roles": ["worker"], "version": "0.1.0", "started_at": 0, "seen_at": seen_at})
                .to_string(),
        ),
    }
    };
    let now = clinch_core::ports::Inspect::now(&memory)
        .await
        .expect("a time")
        .as_millis();
    let writes = [
        node("lost", now - 60_000),
        node("forgotten", now - 4_000_000),
    ];
    assert!(memory.write_records(&writes).await.expect("written"));
    let server = served(ROUTES, memory, &Role::ALL).await;
    let warning = warned(&server, "node_lost").await;
    assert_eq!(
        warning["message"],
        "process lost (worker) is lost: it stopped without saying so"
    );
    let found = overview(&server).await;
    assert!(!found.to_string().contains("forgotten"), "{found}");
}

#[tokio::test]
async fn core_3_a_recorded_answer_that_nobody_makes_final_is_told() {
    // Without the recovery role nothing finalizes.
    let server = served(ROUTES, store(), &[Role::Api]).await;
    let op_id = server
        .submit("ok", "k1", "0")
        .await
        .op_id()
        .parse()
        .expect("an id");
    let worker = WorkerId::new("gone").expect("a name");
    let begin = Write::Begin(BeginRequest {
        op_id,
        attempt_id: SystemIds.attempt_id(),
        worker: worker.clone(),
        lease: Duration::from_secs(60),
    });
    let recorded = Write::WriteAhead(Answer {
        op_id,
        fence: Some(1),
        worker,
        body: AnswerBody::Ok(StoredOk::default()),
        attempt_id: None,
    });
    let routes = server.clinch.routes();
    let written = server.memory.commit(&[begin, recorded], routes).await;
    written.expect("recorded");
    let warning = warned(&server, "answers_not_final").await;
    assert_eq!(warning["message"], "1 answer is recorded and not final yet");
}

#[tokio::test]
async fn core_16_a_restricted_key_sees_its_domains_and_destinations() {
    let memory = store();
    let whole = key(&memory, &[Scope::Admin], &[]).await;
    let pay = key(&memory, &[Scope::Admin], &["pay"]).await;
    let lane = key(&memory, &[Scope::Admin], &["lane"]).await;
    let server = served(ROUTES, memory, &Role::ALL).await;
    let post =
        async |key: &str, path: &str, body: Value| ask(&server, key, "POST", path, &body).await;
    let look = async |key: &str| {
        let reply = ask(&server, key, "GET", "/v1/overview", &Value::Null).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.body
    };
    post(
        &whole,
        "/v1/operations?wait=30s",
        command("pay", "fail", "k1"),
    )
    .await;
    post(&whole, "/v1/domains/away/pause", json!({})).await;
    while look(&whole).await["nodes"] == json!([]) {
        tokio::task::yield_now().await;
    }
    let found = look(&lane).await;
    assert_eq!(
        found["domains"].as_array().map(Vec::len),
        Some(1),
        "{found}"
    );
    assert_eq!(found["dead_letters_open"], 0);
    assert_eq!(found["warnings"], json!([]));
    assert_eq!(found["nodes"], json!([]));
    let names = |found: &Value| -> Vec<String> {
        let all = found["destinations"].as_array().expect("a list").iter();
        all.filter_map(|one| one["destination"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(names(&found), ["gated"]);
    assert_eq!(destination(&found, "gated")["domains"], json!(["lane"]));
    let accepted = |found: &Value| -> u64 {
        let minutes = found["history"]["minutes"]
            .as_array()
            .expect("a list")
            .iter();
        minutes.filter_map(|one| one["accepted"].as_u64()).sum()
    };
    assert_eq!((accepted(&look(&pay).await), accepted(&found)), (1, 0));
    assert_eq!(look(&pay).await["dead_letters_open"], 1);
}

#[tokio::test]
async fn core_16_a_destination_is_operated_by_keys_that_cover_its_routes() {
    let memory = store();
    let whole = key(&memory, &[Scope::Admin], &[]).await;
    let pay = key(&memory, &[Scope::Admin], &["pay"]).await;
    let lane = key(&memory, &[Scope::Admin], &["lane"]).await;
    let reader = key(&memory, &[Scope::Read], &[]).await;
    let server = served(ROUTES, memory, &Role::ALL).await;
    let post =
        async |key: &str, path: &str, body: Value| ask(&server, key, "POST", path, &body).await;
    // `gated` is called for two domains, `psp` for one.
    for path in [
        "/v1/destinations/gated/reset",
        "/v1/destinations/gated/open",
    ] {
        post(&lane, path, json!({}))
            .await
            .is_problem(403, "forbidden");
    }
    post(&lane, "/v1/destinations/psp/reset", json!({}))
        .await
        .is_problem(404, "not_found");
    assert_eq!(
        post(&pay, "/v1/destinations/psp/reset", json!({}))
            .await
            .status,
        200
    );
    assert_eq!(
        post(&whole, "/v1/destinations/gated/reset", json!({}))
            .await
            .status,
        200
    );
    post(&reader, "/v1/destinations/psp/reset", json!({}))
        .await
        .is_problem(403, "forbidden");
}
