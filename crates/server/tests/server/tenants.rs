//! Keys that are restricted to a domain.

use clinch_core::ports::Inspect;
use clinch_core::{BizKey, Command, Domain, EventType, IdemKey, Keys, Payload};
use clinch_server::Role;
use clinch_server::auth::{Restriction, Scope, create_restricted};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::{ask, key};
use crate::auth::now;
use crate::harness::{ROUTES, Running, command, store};

/// A server with an unrestricted key, a key of `pay` and a key of `away`.
async fn served() -> (Running, String, String, String) {
    let memory = store();
    let whole = key(&memory, &[Scope::Admin], &[]).await;
    let pay = key(&memory, &[Scope::Admin], &["pay"]).await;
    let away = key(&memory, &[Scope::Admin], &["away"]).await;
    let server = Running::with(ROUTES, memory, &Role::ALL).await;
    (server, whole, pay, away)
}

async fn post(server: &Running, key: &str, path: &str, body: Value) -> crate::harness::Reply {
    ask(server, key, "POST", path, &body).await
}

async fn look(server: &Running, key: &str, path: &str) -> crate::harness::Reply {
    ask(server, key, "GET", path, &Value::Null).await
}

fn ids(reply: &crate::harness::Reply, list: &str) -> Vec<String> {
    let items = reply.body[list].as_array().expect("a list").iter();
    let id = |item: &Value| item["op_id"].as_str().expect("an id").to_owned();
    items.map(id).collect()
}

#[tokio::test]
async fn core_16_pages_of_a_restricted_key_hold_its_operations_alone() {
    let (server, whole, pay, _) = served().await;
    let mut own = Vec::new();
    for n in 0..5 {
        let path = "/v1/operations?wait=30s";
        let of_pay = command("pay", "fail", &format!("p{n}"));
        own.push(post(&server, &whole, path, of_pay).await.op_id());
        let path = "/v1/operations?wait=0";
        for m in 0..3 {
            let of_away = command("away", "call", &format!("a{n}-{m}"));
            post(&server, &whole, path, of_away).await;
        }
    }
    own.reverse();
    for (list, path) in [
        ("operations", "/v1/operations?limit=2"),
        ("operations", "/v1/operations?limit=2&biz_key=order-1"),
        ("dead_letters", "/v1/dead-letters?limit=2"),
    ] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = look(&server, &pay, &format!("{path}{cursor}")).await;
            seen.extend(ids(&page, list));
            match page.body["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen, own, "{path}");
    }
    for path in [
        "/v1/operations?domain=away",
        "/v1/operations?domain=nowhere",
        "/v1/operations?event_type=call",
        "/v1/operations?idem_key=a1-1",
    ] {
        let page = look(&server, &pay, path).await;
        assert_eq!(
            page.body,
            json!({"operations": [], "next_cursor": null}),
            "{path}"
        );
    }
    let groups = look(&server, &pay, "/v1/dead-letters?group=true").await;
    assert_eq!(groups.body["groups"][0]["count"], 5, "{}", groups.text);
    let domains = look(&server, &pay, "/v1/domains").await;
    assert_eq!(domains.body["domains"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn core_16_a_provider_id_finds_nothing_of_others() {
    let (server, whole, pay, away) = served().await;
    let path = "/v1/operations?wait=30s";
    let op_id = post(&server, &whole, path, command("pay", "ok", "k1"))
        .await
        .op_id();
    let by_txn = "/v1/operations?provider_txn_id=tx_9";
    let found = ids(&look(&server, &pay, by_txn).await, "operations");
    assert_eq!(found, [op_id.as_str()]);
    assert!(ids(&look(&server, &away, by_txn).await, "operations").is_empty());
    let body = json!({"filter": {"op_ids": [op_id]}, "dry_run": false});
    let redriven = post(&server, &away, "/v1/dead-letters/redrive", body).await;
    assert_eq!(redriven.body["matched"], 0, "{}", redriven.text);
}

#[tokio::test]
async fn core_16_a_batch_belongs_to_whoever_covers_its_opener() {
    let (server, whole, pay, away) = served().await;
    let both = key(&server.memory, &[Scope::Admin], &["pay", "away"]).await;
    let open = async |key: &str| {
        let batch = post(&server, key, "/v1/batches", json!({})).await;
        batch.body["batch_id"].as_str().expect("an id").to_owned()
    };
    let (of_pay, of_both, of_whole) = (open(&pay).await, open(&both).await, open(&whole).await);
    for (batch, key, is_seen) in [
        (&of_pay, &pay, true),
        (&of_pay, &both, true),
        (&of_pay, &whole, true),
        (&of_pay, &away, false),
        (&of_both, &pay, false),
        (&of_both, &both, true),
        (&of_whole, &both, false),
        (&of_whole, &whole, true),
    ] {
        let path = format!("/v1/batches/{batch}");
        let status = if is_seen { 200 } else { 404 };
        assert_eq!(look(&server, key, &path).await.status, status, "{path}");
        let member = json!({"operations": []});
        let added = post(&server, key, &format!("{path}/operations"), member).await;
        assert_eq!(added.status, status, "{path}: {}", added.text);
        // Opening the batch again changes nothing; another caller learns nothing of the batch.
        let again = post(&server, key, "/v1/batches", json!({"batch_id": batch})).await;
        assert_eq!(again.status, status, "{path}: {}", again.text);
        if !is_seen {
            let sealed = post(&server, key, &format!("{path}/seal"), json!({})).await;
            sealed.is_problem(404, "not_found");
        }
    }
    let path = format!("/v1/batches/{of_pay}");
    assert_eq!(look(&server, &pay, &path).await.body["sealed"], false);
    let members =
        json!({"operations": [command("away", "call", "k1"), command("pay", "ok", "k2")]});
    let added = post(&server, &pay, &format!("{path}/operations"), members).await;
    assert_eq!(added.body["results"][0]["status"], 403, "{}", added.text);
    assert_eq!(look(&server, &pay, &path).await.body["total"], 1);
}

#[tokio::test]
async fn core_16_events_tell_a_key_of_its_operations_alone() {
    let (server, whole, pay, _) = served().await;
    let mut stream = TcpStream::connect(server.addr).await.expect("it answers");
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {pay}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut text = String::new();
    let mut until = async |wanted: &str| {
        let mut chunk = [0; 4_096];
        while !text.contains(wanted) {
            let count = stream.read(&mut chunk).await.expect("read");
            assert!(count > 0, "it ended: {text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        text.clone()
    };
    until("event: counters").await;
    let path = "/v1/operations?wait=0";
    let other = post(&server, &whole, path, command("away", "call", "k1"))
        .await
        .op_id();
    let path = "/v1/operations?wait=30s";
    let own = post(&server, &whole, path, command("pay", "ok", "k2"))
        .await
        .op_id();
    until(&own).await;
    let told = until("\"COMPLETED\":1").await;
    assert!(!told.contains(&other) && !told.contains("away"), "{told}");
}

#[tokio::test]
async fn core_16_event_types_narrow_a_key_further() {
    let (server, whole, ..) = served().await;
    let restriction = Restriction {
        domains: ["away", "pay"]
            .map(|name| Domain::new(name).expect("a name"))
            .to_vec(),
        event_types: ["ok", "call"]
            .map(|name| EventType::new(name).expect("a name"))
            .to_vec(),
    };
    let scopes = [Scope::Admin];
    let made = create_restricted(&server.memory, "x", &scopes, restriction, now(), None).await;
    let some = made.expect("made").1.reveal().to_owned();
    let path = "/v1/operations?wait=30s";
    let fails = post(&server, &whole, path, command("pay", "fail", "k1"))
        .await
        .op_id();
    post(&server, &some, path, command("pay", "fail", "k1"))
        .await
        .is_problem(403, "forbidden");
    let reply = look(&server, &some, &format!("/v1/operations/{fails}")).await;
    reply.is_problem(404, "not_found");
    assert_eq!(
        post(&server, &some, path, command("pay", "ok", "k2"))
            .await
            .status,
        200
    );
    // A pause would stop event types that the key may not touch.
    let paused = post(&server, &some, "/v1/domains/pay/pause", json!({})).await;
    paused.is_problem(403, "forbidden");
    let path = "/v1/operations?wait=0";
    post(&server, &whole, path, command("away", "other", "k3")).await;
    let call = post(&server, &whole, path, command("away", "call", "k4"))
        .await
        .op_id();
    let named = json!({"domain": "away", "event_types": ["other"]});
    post(&server, &some, "/v1/leases", named)
        .await
        .is_problem(403, "forbidden");
    let all = json!({"domain": "away", "max": 9, "wait": "30s"});
    let leased = post(&server, &some, "/v1/leases", all).await;
    assert_eq!(ids(&leased, "deliveries"), [call]);
    let none = json!({"domain": "pay"});
    post(&server, &some, "/v1/leases", none)
        .await
        .is_problem(403, "forbidden");
}

/// A leased operation, and an ok report on it.
pub(crate) async fn leased(server: &Running, key: &str) -> (String, Value) {
    let new = command("away", "call", "leased");
    let op_id = server.clinch.orchestrator().accept(read(&new)).await;
    let op_id = op_id.expect("accepted").known.op_id.to_string();
    let lease = json!({"domain": "away", "wait": "30s"});
    let leased = post(server, key, "/v1/leases", lease).await;
    let leased = leased.body["deliveries"][0].clone();
    assert_eq!(leased["op_id"], json!(op_id));
    let mut outcome = json!({"fence": leased["fence"], "type": "ok"});
    if let Some(token) = leased.get("token") {
        outcome["token"] = token.clone();
    }
    (op_id, outcome)
}

/// The report is refused, or stored without the operations that it spawns.
pub(crate) async fn spawns_nothing(
    server: &Running,
    key: &str,
    op_id: &str,
    mut outcome: Value,
    spawned: Value,
) {
    outcome["spawn"] = json!([spawned]);
    let path = format!("/v1/leases/{op_id}/outcome");
    let reply = post(server, key, &path, outcome).await;
    let is_left_out = reply.body["left_out"] == json!(["spawn[0]"]);
    assert!(reply.status == 403 || is_left_out, "{}", reply.text);
    let keys = read(&spawned).keys;
    let found = server.memory.find(&[keys]).await.expect("found");
    assert_eq!(found, [None], "{spawned}");
}

pub(crate) fn read(command: &Value) -> Command {
    let text = |name: &str| command[name].as_str().expect("a text").to_owned();
    let keys = Keys {
        domain: Domain::new(text("domain")).expect("a name"),
        event_type: EventType::new(text("event_type")).expect("a name"),
        biz_key: BizKey::new(text("biz_key")).expect("a key"),
        idem_key: IdemKey::new(text("idem_key")).expect("a key"),
    };
    Command::new(keys, Payload::null())
}

#[tokio::test]
async fn core_16_a_worker_spawns_within_its_key_and_reports_on_its_own() {
    let (server, whole, ..) = served().await;
    let worker = key(&server.memory, &[Scope::Work], &["away"]).await;
    let stranger = key(&server.memory, &[Scope::Work], &["pay"]).await;
    let operator = key(&server.memory, &[Scope::Operate], &["away"]).await;
    for other in [&stranger, &operator] {
        let refused = post(&server, other, "/v1/leases", json!({"domain": "away"})).await;
        refused.is_problem(403, "forbidden");
    }
    let (op_id, mut outcome) = leased(&server, &worker).await;
    let report = format!("/v1/leases/{op_id}/outcome");
    let theirs = post(&server, &stranger, &report, outcome.clone()).await;
    theirs.is_problem(404, "not_found");
    // Within its domain the key needs no submit scope.
    outcome["spawn"] = json!([command("away", "other", "k3")]);
    let taken = post(&server, &worker, &report, outcome).await;
    assert_eq!(taken.body["state"], "COMPLETED", "{}", taken.text);
    let spawned = look(&server, &whole, "/v1/operations?idem_key=k3").await;
    let spawned = ids(&spawned, "operations");
    let all = json!({"domain": "away", "event_types": ["other"], "wait": "30s"});
    let next = post(&server, &worker, "/v1/leases", all).await;
    assert_eq!(ids(&next, "deliveries"), spawned);
    let mut outcome = json!({"fence": next.body["deliveries"][0]["fence"], "type": "ok"});
    if let Some(token) = next.body["deliveries"][0].get("token") {
        outcome["token"] = token.clone();
    }
    let outside = command("pay", "ok", "k2");
    spawns_nothing(&server, &worker, &spawned[0], outcome, outside).await;
}
