//! Routes that are internal to their application.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clinch::{Call, Fail, Route};
use clinch_server::Role;
use clinch_server::auth::Scope;
use serde_json::{Value, json};

use crate::access::{ask, key};
use crate::harness::{Provider, ROUTES, Reply, Running, command, parts, store};
use crate::tenants::{leased, spawns_nothing};

fn collect() -> Route<Value, ()> {
    Route::new("app", "collect").internal().natural()
}

/// A server with an application whose operations fail, and the number of their executions.
async fn served(roles: &[Role]) -> (Running, String, Arc<AtomicUsize>) {
    let (memory, provider) = (store(), Provider::default());
    let admin = key(&memory, &[Scope::Admin], &[]).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, works) = (calls.clone(), roles.contains(&Role::Worker));
    let mut parts = parts(&memory, &provider);
    parts.tune = Box::new(move |builder| {
        let handler = move |_: Call<Value>| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Err::<(), _>(Fail::new("told_to", "it was told to")) }
        };
        match works {
            true => builder.handle(&collect(), handler),
            false => builder.remote(&collect()),
        }
    });
    let server = Running::of(ROUTES, parts, memory, provider, roles).await;
    (server, admin, calls)
}

/// Every caller is refused, and no answer says that an operation was accepted.
fn refused(reply: &Reply) {
    reply.is_problem(403, "forbidden");
    assert!(reply.text.contains("app/collect"), "{}", reply.text);
}

#[tokio::test]
async fn core_16_operations_of_an_application_are_not_for_callers() {
    let (server, admin, calls) = served(&Role::ALL).await;
    let post = async |path: &str, body: Value| ask(&server, &admin, "POST", path, &body).await;
    let collect = || command("app", "collect", "k1");
    refused(&post("/v1/operations", collect()).await);
    let many = json!({"operations": [collect(), command("pay", "ok", "k2")]});
    let bulk = post("/v1/operations/bulk", many.clone()).await;
    assert_eq!(bulk.body["results"][0]["error"]["code"], "forbidden");
    assert_eq!(bulk.body["results"][1]["replayed"], false);
    refused(&post("/v1/batches", json!({"on_complete": collect()})).await);
    let batch = post("/v1/batches", json!({})).await;
    let path = format!(
        "/v1/batches/{}",
        batch.body["batch_id"].as_str().expect("an id")
    );
    let added = post(&format!("{path}/operations"), many).await;
    assert_eq!(added.body["results"][0]["error"]["code"], "forbidden");
    let (op_id, outcome) = leased(&server, &admin).await;
    spawns_nothing(&server, &admin, &op_id, outcome, collect()).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn core_16_an_application_and_its_operators_go_on() {
    let (server, admin, calls) = served(&Role::ALL).await;
    let request = collect().request("order-1", "k1", &json!({}));
    let submitted = server
        .clinch
        .submit(vec![request])
        .await
        .expect("submitted");
    let op_id = submitted
        .into_iter()
        .next()
        .expect("one")
        .expect("accepted");
    let path = format!("/v1/operations/{op_id}?wait=30s");
    let ended = ask(&server, &admin, "GET", &path, &Value::Null).await;
    assert_eq!(ended.body["failure"]["code"], "told_to");
    let body = json!({"filter": {"op_ids": [op_id.to_string()]}, "dry_run": false});
    let redriven = ask(&server, &admin, "POST", "/v1/dead-letters/redrive", &body).await;
    assert_eq!(redriven.body["redriven"], 1, "{}", redriven.text);
    let again = redriven.body["results"][0]["redriven_by"].as_str();
    let path = format!("/v1/operations/{}?wait=30s", again.expect("an id"));
    let ended = ask(&server, &admin, "GET", &path, &Value::Null).await;
    assert_eq!(ended.body["state"], "FAILED");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn core_16_no_remote_worker_gets_operations_of_an_application() {
    let (server, admin, _) = served(&[Role::Api]).await;
    let request = collect().request("order-1", "k1", &json!({}));
    let submitted = server
        .clinch
        .submit(vec![request])
        .await
        .expect("submitted");
    let op_id = submitted
        .into_iter()
        .next()
        .expect("one")
        .expect("accepted");
    let post = async |path: &str, body: Value| ask(&server, &admin, "POST", path, &body).await;
    let named = json!({"domain": "app", "event_types": ["collect"]});
    refused(&post("/v1/leases", named).await);
    let all = post("/v1/leases", json!({"domain": "app"})).await;
    all.is_problem(400, "unknown_route");
    for what in ["heartbeat", "release", "checkpoint", "outcome"] {
        let path = format!("/v1/leases/{op_id}/{what}");
        let mut body = json!({"fence": 1});
        match what {
            "checkpoint" => body["checkpoint"] = json!(1),
            "outcome" => body["type"] = json!("ok"),
            _ => {}
        }
        let reply = post(&path, body).await;
        assert!([400, 404].contains(&reply.status), "{}", reply.text);
    }
    let path = format!("/v1/operations/{op_id}");
    let found = ask(&server, &admin, "GET", &path, &Value::Null).await;
    assert_eq!(found.body["state"], "PENDING", "{}", found.text);
}
