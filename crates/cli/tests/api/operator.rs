//! What an operator does at night: reads the last error, retries now, types the beginning of an
//! id, filters, and is named in the ledger.

use serde_json::{Value, json};

use crate::http::Client;
use crate::process::{Process, key, key_of};
use crate::world::{World, command};

const LATER: &str = "2099-01-01T00:00:00Z";

/// An operation of this domain that is due in many years.
fn delayed(client: &Client, domain: &str, name: &str) -> String {
    let mut delayed = command(domain, "x", name);
    delayed["run_at"] = json!(LATER);
    client.submit(&delayed).is(202).op_id()
}

pub(crate) fn retry_now(world: &World) {
    let client = &world.client;
    let retry = |id: &str| {
        let path = format!("/v1/operations/{id}/retry-now");
        client.post(&path, &json!({"reason": "the provider is back"}))
    };
    let id = delayed(client, "away", "n1");
    let due = retry(&id).is(200).body;
    assert_eq!(due["state"], "PENDING");
    assert_ne!(due["next_attempt_at"], LATER);
    retry(&id).is(200);
    let ledger = client.get(&format!("/v1/operations/{id}/attempts")).is(200);
    let ledger = ledger.body["ledger"].as_array().cloned().expect("lines");
    let lines: Vec<&Value> = ledger.iter().filter(|l| l["event"] == "RetryNow").collect();
    assert_eq!(lines.len(), 2, "{ledger:?}");
    assert_eq!(lines[0]["by"], "local");
    assert_eq!(lines[0]["note"], "the provider is back");
    client
        .post(&format!("/v1/operations/{id}/cancel"), &json!({}))
        .is(200);
    retry(&id).refused(409, "not_waiting");
    let held = world.held("n2");
    let refused = retry(&held).refused(409, "not_waiting");
    let detail = refused.body["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("resolve"), "{detail}");
    let held = client.get(&format!("/v1/operations/{held}")).is(200).body;
    assert_eq!(held["last_error"]["code"], "http_500", "{held}");
    assert!(held["last_error"]["at"].is_string() && held["outbound_key"].is_string());
    let destination = held["destination"].as_str().expect("a destination");
    let listed = |query: &str| -> Vec<String> {
        let page = client.get(&format!("/v1/operations?limit=1000&{query}"));
        let page = page.is(200).body;
        let all = page["operations"].as_array().cloned().expect("a list");
        all.iter().map(|op| op["op_id"].to_string()).collect()
    };
    let id = held["op_id"].to_string();
    assert!(listed(&format!("destination={destination}")).contains(&id));
    assert!(listed(&format!("destination={destination}&code=effect_unknown")).contains(&id));
    assert!(!listed("code=not_a_code").contains(&id));
    assert!(listed("destination=nowhere").is_empty());
}

pub(crate) fn prefixes(world: &World) {
    let client = &world.client;
    // Ids begin with the time: two of the same minute begin alike.
    let mut number = 0;
    let (one, two) = loop {
        let ids = [0, 1].map(|n| delayed(client, "away", &format!("p{number}-{n}")));
        number += 1;
        if ids[0][..8] == ids[1][..8] {
            break (ids[0].clone(), ids[1].clone());
        }
    };
    assert_ne!(one, two);
    let short = one[..8].to_owned();
    for path in [
        format!("/v1/operations/{short}"),
        format!("/v1/operations/{short}/attempts"),
    ] {
        client.get(&path).refused(409, "ambiguous_id");
    }
    client
        .get(&format!("/v1/dead-letters/{short}"))
        .refused(409, "ambiguous_id");
    for action in ["cancel", "resolve", "retry-now"] {
        let body = match action {
            "resolve" => json!({"as": "retry"}),
            _ => json!({}),
        };
        let path = format!("/v1/operations/{short}/{action}");
        client.post(&path, &body).refused(409, "ambiguous_id");
    }
    // All digits but the last one are unique, with dashes and without, in either case.
    let long = &one[..one.len() - 1];
    for text in [long.to_owned(), long.replace('-', ""), long.to_uppercase()] {
        let found = client.get(&format!("/v1/operations/{text}")).is(200);
        assert_eq!(found.op_id(), one);
    }
    for wrong in [
        &one[..7],
        "zzzzzzzz",
        "00000000",
        "%25%25%25%25%25%25%25%25",
    ] {
        client
            .get(&format!("/v1/operations/{wrong}"))
            .refused(404, "not_found");
    }
    for id in [&one, &two] {
        client
            .post(&format!("/v1/operations/{}/cancel", &id[..]), &json!({}))
            .is(200);
    }
}

pub(crate) fn listed_batches(world: &World) {
    let client = &world.client;
    let open = || client.post("/v1/batches", &json!({})).is(200).body;
    let ids = [open(), open()].map(|batch| batch["batch_id"].clone());
    let page = client.get("/v1/batches?limit=1").is(200).body;
    let cursor = page["next_cursor"].as_str().expect("there are more");
    let next = client.get(&format!("/v1/batches?limit=1&cursor={cursor}"));
    let shown = [&page, &next.is(200).body].map(|page| page["batches"][0]["batch_id"].clone());
    let expected: [Value; 2] = [ids[1].clone(), ids[0].clone()];
    assert_eq!(shown, expected, "newest first");
    for wrong in ["cursor=7", "limit=0", "state=open"] {
        client
            .get(&format!("/v1/batches?{wrong}"))
            .refused(400, "invalid_request");
    }
}

/// The ledger of an operation: event, and by whom.
fn ledger(client: &Client, id: &str) -> Vec<(String, String)> {
    let lines = client.get(&format!("/v1/operations/{id}/attempts")).is(200);
    let text = |line: &Value, member: &str| line[member].as_str().unwrap_or_default().to_owned();
    let lines = lines.body["ledger"].as_array().cloned().expect("lines");
    let pair = |line: &Value| (text(line, "event"), text(line, "by"));
    lines.iter().map(pair).collect()
}

fn no_worker_signs_as_an_operator(worker: &Client) {
    for forged in ["local", "key:0011223344556677 (anna)", "KEY:x"] {
        let lease = json!({"domain": "away", "worker": forged, "wait": "0s"});
        worker
            .post("/v1/leases", &lease)
            .refused(400, "invalid_request");
    }
}

/// Keys are named in ledgers and pauses, restarts keep that, and a lesser key learns nothing of
/// what it may not touch.
#[test]
fn sec_keys_are_named_and_strangers_learn_nothing() {
    let world = World::new("actors");
    let all = key(&world.folder.0, "submit,read,operate,work");
    let own = key_of(
        &world.folder.0,
        "submit,read,operate,work",
        &["--domains", "away"],
    );
    let (anna, stranger) = (
        world.client.clone().keyed(&all),
        world.client.clone().keyed(&own),
    );
    let id = delayed(&anna, "spare", "k1");
    let cancel = format!("/v1/operations/{id}/cancel");
    stranger.post(&cancel, &json!({})).refused(404, "not_found");
    for length in [8, 13, 35] {
        let path = format!("/v1/operations/{}", &id[..length]);
        stranger.get(&path).refused(404, "not_found");
    }
    // Its own operation is unique among the foreign ones that begin alike.
    let mine = delayed(&stranger, "away", "k2");
    delayed(&anna, "spare", "k3");
    let found = stranger
        .get(&format!("/v1/operations/{}", &mine[..8]))
        .is(200);
    assert_eq!(found.op_id(), mine);
    let retry = format!("/v1/operations/{id}/retry-now");
    stranger.post(&retry, &json!({})).refused(404, "not_found");
    anna.post("/v1/batches", &json!({})).is(200);
    let batches = stranger.get("/v1/batches").is(200).body;
    assert_eq!(batches["batches"], json!([]), "{batches}");
    no_worker_signs_as_an_operator(&stranger);
    anna.post(&cancel, &json!({"reason": "not wanted"})).is(200);
    let lines = ledger(&anna, &id);
    let (_, by) = lines
        .iter()
        .find(|(event, _)| event == "Cancel")
        .expect("a cancel");
    assert!(by.starts_with("key:") && by.ends_with("(test)"), "{by}");
    let pause = json!({"reason": "ticket 7"});
    let paused = anna.post("/v1/domains/spare/pause", &pause).is(200).body;
    assert_eq!(
        (&paused["paused"], &paused["paused_reason"]),
        (&json!(true), &json!("ticket 7"))
    );
    assert_eq!(paused["paused_by"], by.as_str());
    let again = stranger
        .post("/v1/domains/away/pause", &json!({}))
        .is(200)
        .body;
    assert_eq!(again["paused_reason"], Value::Null);
    after_a_restart(world, &all, &paused);
}

/// The pause is as it was, and a resume forgets who paused.
fn after_a_restart(world: World, key: &str, paused: &Value) {
    drop(world.process);
    let process = Process::start(&world.folder);
    let anna = Client::new(process.address, &world.seen).keyed(key);
    let domains = anna.get("/v1/domains").is(200).body;
    let spare = domains["domains"].as_array().expect("a list").iter();
    let spare = spare
        .clone()
        .find(|one| one["domain"] == "spare")
        .expect("it");
    for member in ["paused", "paused_at", "paused_by", "paused_reason"] {
        assert_eq!(spare[member], paused[member], "{member} after a restart");
    }
    let resumed = anna
        .post("/v1/domains/spare/resume", &json!({}))
        .is(200)
        .body;
    assert_eq!(
        (&resumed["paused"], &resumed["paused_by"]),
        (&json!(false), &Value::Null)
    );
}
