//! Dead letters and their redrive.

use std::collections::BTreeMap;

use clinch_core::ports::{
    Answer, AnswerBody, DeadLetter, Ids as _, Recovery as _, Store, StoredOk, Write, Written,
};
use clinch_core::{
    BizKey, ContentHash, Domain, Effect, EventType, Failure, IdemKey, Keys, Sealed, Timestamp,
    WorkerId,
};
use clinch_system::SystemIds;
use serde_json::{Value, json};

use crate::harness::Running;

#[tokio::test]
async fn dead_letters_are_listed_and_grouped() {
    let server = Running::new().await;
    let mut ops = Vec::new();
    for key in ["k1", "k2", "k3"] {
        ops.push(server.submit("fail", key, "30s").await.op_id());
    }
    let canceled = server.submit("busy", "k4", "0").await.op_id();
    server.phase(&canceled, "waiting").await;
    server
        .post(&format!("/v1/operations/{canceled}/cancel"), &json!({}))
        .await;
    let page = server.get("/v1/dead-letters?limit=2").await.body;
    assert_eq!(page["dead_letters"].as_array().map(Vec::len), Some(2));
    let cursor = page["next_cursor"].as_str().expect("more").to_owned();
    let rest = server
        .get(&format!("/v1/dead-letters?limit=2&cursor={cursor}"))
        .await
        .body;
    assert_eq!(
        (
            rest["dead_letters"].as_array().map(Vec::len),
            &rest["next_cursor"]
        ),
        (Some(1), &Value::Null)
    );
    let letter = server
        .get(&format!("/v1/dead-letters/{}", ops[0]))
        .await
        .body;
    assert_eq!(letter["failure"]["code"], "card_declined");
    server
        .get(&format!("/v1/dead-letters/{canceled}"))
        .await
        .is_problem(404, "not_found");
    let groups = server.get("/v1/dead-letters?group=true").await.body;
    assert_eq!(groups["groups"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&groups["groups"][0]["count"], &groups["groups"][0]["code"]),
        (&json!(3), &json!("card_declined"))
    );
}

#[tokio::test]
async fn a_dead_letter_is_redriven_once() {
    let server = Running::new().await;
    let mut ops = Vec::new();
    for key in ["k1", "k2", "k3"] {
        ops.push(server.submit("fail", key, "30s").await.op_id());
    }
    let redrive = async |body: Value| server.post("/v1/dead-letters/redrive", &body).await;
    let plan = redrive(json!({"filter": {"domain": "pay"}, "dry_run": true}))
        .await
        .body;
    assert_eq!(
        (&plan["matched"], &plan["redriven"]),
        (&json!(3), &json!(3)),
        "{plan}"
    );
    assert_eq!(plan["results"][0]["redriven_by"], Value::Null);
    let one = json!({"filter": {"op_ids": [ops[0]]}, "dry_run": false});
    let first = redrive(one.clone()).await.body;
    assert_eq!(
        (&first["redriven"], &first["already"]),
        (&json!(1), &json!(0)),
        "{first}"
    );
    let again = redrive(one).await.body;
    assert_eq!(
        (&again["redriven"], &again["already"]),
        (&json!(0), &json!(1)),
        "{again}"
    );
    assert_eq!(
        first["results"][0]["redriven_by"],
        again["results"][0]["redriven_by"]
    );
    let new = first["results"][0]["redriven_by"]
        .as_str()
        .expect("an op_id");
    let document = server.settled(new).await;
    assert_eq!(document["redrive_of"], json!(ops[0]));
    assert_eq!(document["idem_key"], json!(format!("redrive:{}:1", ops[0])));
    assert_eq!(server.settled(&ops[0]).await["redriven_by"], json!(new));
    for (body, field) in [
        (json!({}), "filter"),
        (json!({"filter": {"dommain": "pay"}}), "dommain"),
        (json!({"filter": {}, "dry_run": "no"}), "dry_run"),
        (json!({"filter": {"op_ids": ["x"]}}), "op_ids"),
    ] {
        let reply = redrive(body).await;
        assert_eq!(
            reply.is_problem(400, "invalid_request").body["field"],
            field
        );
    }
}

#[tokio::test]
async fn an_unsafe_call_that_may_have_been_applied_is_not_redriven() {
    let server = Running::new().await;
    let op_id = server.submit("unsure", "k1", "0").await.op_id();
    server.phase(&op_id, "held").await;
    let body = json!({"as": "failed", "code": "gave_up", "message": "", "effect": "unknown"});
    let resolved = server
        .post(&format!("/v1/operations/{op_id}/resolve"), &body)
        .await;
    assert_eq!(resolved.body["failure"]["effect"], "unknown");
    let body = json!({"filter": {"code": "gave_up"}, "dry_run": false});
    let reply = server.post("/v1/dead-letters/redrive", &body).await.body;
    assert_eq!(
        (&reply["matched"], &reply["refused"]),
        (&json!(1), &json!(1)),
        "{reply}"
    );
    assert!(reply["results"][0]["reason"].is_string());
}

/// An operation of an unsafe route that an operator resolved as not applied.
async fn given_up(server: &Running) -> String {
    let op_id = server.submit("unsure", "k1", "0").await.op_id();
    server.phase(&op_id, "held").await;
    let body = json!({"as": "failed", "code": "gave_up", "message": "", "effect": "none"});
    let path = format!("/v1/operations/{op_id}/resolve");
    assert_eq!(server.post(&path, &body).await.status, 200);
    op_id
}

/// The provider's ok to the first attempt arrives late.
async fn say_yes_late(server: &Running, op_id: &str) {
    let answer = Answer {
        op_id: op_id.parse().expect("an op_id"),
        fence: Some(1),
        attempt_id: None,
        worker: WorkerId::new("late").expect("a name"),
        body: AnswerBody::Ok(StoredOk::default()),
    };
    let routes = server.clinch.orchestrator().routes();
    let told = server.memory.commit(&[Write::Settle(answer)], routes).await;
    let told = told.expect("it answers");
    assert!(matches!(told[..], [Written::Changed(_)]), "{told:?}");
}

#[tokio::test]
async fn core_7_a_dead_letter_whose_call_was_applied_after_all_is_not_redriven() {
    let server = Running::new().await;
    let op_id = given_up(&server).await;
    let letter = format!("/v1/dead-letters/{op_id}");
    assert_eq!(server.get(&letter).await.body["late_ok"], false);
    say_yes_late(&server, &op_id).await;
    assert_eq!(server.get(&letter).await.body["late_ok"], true);
    let page = server.get("/v1/dead-letters").await.body;
    assert_eq!(page["dead_letters"][0]["late_ok"], true);
    let document = server.get(&format!("/v1/operations/{op_id}")).await.body;
    assert_eq!(
        (&document["state"], &document["late_ok"]),
        (&json!("FAILED"), &json!(true))
    );
    for dry_run in [true, false] {
        let body = json!({"filter": {"op_ids": [op_id]}, "dry_run": dry_run});
        let told = server.post("/v1/dead-letters/redrive", &body).await.body;
        assert_eq!(told["refused"], 1, "{told}");
        let reason = told["results"][0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("applied"), "{reason}");
    }
    assert_eq!(server.provider.calls(), 1);
}

#[tokio::test]
async fn core_7_a_late_answer_settles_a_redrive_that_has_not_called() {
    let server = Running::new().await;
    let op_id = given_up(&server).await;
    server.post("/v1/domains/pay/pause", &json!({})).await;
    let body = json!({"filter": {"op_ids": [op_id]}, "dry_run": false});
    let told = server.post("/v1/dead-letters/redrive", &body).await.body;
    let redrive = told["results"][0]["redriven_by"]
        .as_str()
        .expect("an op_id");
    say_yes_late(&server, &op_id).await;
    assert_eq!(server.settled(redrive).await["state"], "COMPLETED");
    server.post("/v1/domains/pay/resume", &json!({})).await;
    assert_eq!(server.provider.calls(), 1);
}

/// Letters of two kinds of error, more than one answer groups and more than one request redrives.
const MANY: usize = 20_501;

async fn import_many(server: &Running) {
    let letter = |number: usize| {
        let code = if number.is_multiple_of(4) {
            "http_402"
        } else {
            "http_409"
        };
        let op_id = SystemIds.op_id();
        let keys = Keys {
            domain: Domain::new("pay").expect("a name"),
            event_type: EventType::new("fail").expect("a name"),
            biz_key: BizKey::new(format!("order-{number}")).expect("a key"),
            idem_key: IdemKey::new("a").expect("a key"),
        };
        let payload = Sealed::new(b"{}".to_vec());
        DeadLetter {
            op_id,
            content_hash: ContentHash::of(&op_id, &keys.event_type, payload.as_bytes()),
            keys,
            failure: Failure::own(code, "refused", Effect::None),
            attempts: 1,
            payload,
            failed_at: Timestamp::from_millis(1_000 + i64::try_from(number).expect("small")),
            late_ok: false,
        }
    };
    let letters: Vec<DeadLetter> = (0..MANY).map(letter).collect();
    for part in letters.chunks(1_000) {
        server.memory.import(part).await.expect("imported");
    }
}

#[tokio::test]
async fn out_6_groups_are_counted_to_the_last_letter_page_by_page() {
    let server = Running::new().await;
    import_many(&server).await;
    let (mut counted, mut by_code, mut cursor) = (0, BTreeMap::new(), String::new());
    let mut answers = 0;
    loop {
        let path = format!("/v1/dead-letters?group=true{cursor}");
        let answer = server.get(&path).await.body;
        counted += answer["counted"].as_u64().expect("a number");
        for group in answer["groups"].as_array().expect("groups") {
            let code = group["code"].as_str().expect("a code").to_owned();
            *by_code.entry(code).or_insert(0) += group["count"].as_u64().expect("a number");
        }
        answers += 1;
        assert_eq!(answer["truncated"], !answer["next_cursor"].is_null());
        let Some(next) = answer["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!((answers, counted), (2, MANY as u64));
    let expected = [
        ("http_402".to_owned(), 5_126),
        ("http_409".to_owned(), 15_375),
    ];
    assert_eq!(by_code, BTreeMap::from(expected));
}

#[tokio::test]
async fn out_6_the_10_001st_letter_is_dismissed_and_a_cursor_belongs_to_its_filter() {
    let server = Running::new().await;
    import_many(&server).await;
    let dismiss = async |body: Value| server.post("/v1/dead-letters/dismiss", &body).await;
    let filter = json!({"code": "http_409"});
    let body = json!({"filter": filter, "dry_run": false, "reason": "known"});
    let first = dismiss(body.clone()).await.body;
    assert_eq!(first["matched"], 10_000);
    let cursor = first["next_cursor"].clone();
    let strange = json!({"filter": {}, "dry_run": false, "reason": "known", "cursor": cursor});
    dismiss(strange).await.is_problem(400, "invalid_request");
    let mut rest = body;
    rest["cursor"] = cursor;
    let second = dismiss(rest).await.body;
    assert_eq!(
        (&second["matched"], &second["next_cursor"]),
        (&json!(5_375), &Value::Null)
    );
    let left = server.get("/v1/overview").await.body;
    assert_eq!(left["dead_letters_open"], 5_126, "{left}");
}
