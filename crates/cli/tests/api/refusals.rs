//! Refusals that are the same on every route.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::github::Hub;
use crate::http::Client;
use crate::process::{Process, key, key_of};
use crate::table::Route;
use crate::world::{World, command, config};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A token that no lease has.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A valid body, except for the thing that it is about.
fn sample(route: &Route) -> Value {
    match route.template.as_str() {
        "/v1/operations" => command("away", "x", &uuid::Uuid::now_v7().to_string()),
        "/v1/operations/bulk" | "/v1/batches/{batch_id}/operations" => {
            json!({"operations": [command("away", "x", &uuid::Uuid::now_v7().to_string())]})
        }
        "/v1/operations/{op_id}/resolve" => json!({"as": "retry"}),
        "/v1/dead-letters/redrive" => json!({"filter": {}, "dry_run": false}),
        "/v1/dead-letters/dismiss" | "/v1/dead-letters/reopen" => {
            json!({"filter": {}, "dry_run": false, "reason": "a test"})
        }
        "/v1/github/runs" => json!({"login": "monalisa"}),
        "/v1/github/users/{login}/tokens" => json!({"token": "fake-monalisa-1"}),
        "/v1/github/switch" => json!({"live": "main"}),
        "/v1/leases" => json!({"domain": "away"}),
        "/v1/leases/{op_id}/checkpoint" => {
            json!({"fence": 1, "token": TOKEN, "checkpoint": 1})
        }
        "/v1/leases/{op_id}/outcome" => json!({"fence": 1, "token": TOKEN, "type": "ok"}),
        path if path.starts_with("/v1/leases/") => json!({"fence": 1, "token": TOKEN}),
        _ => json!({}),
    }
}

/// The same, as the worker that holds this lease.
fn ask_as(client: &Client, route: &Route, path: &str, lease: &Value) -> crate::http::Reply {
    if !route.template.starts_with("/v1/leases/") {
        return ask(client, route, path);
    }
    let mut report = sample(route);
    report["token"] = lease["token"].clone();
    client.post(path, &report)
}

fn ask(client: &Client, route: &Route, path: &str) -> crate::http::Reply {
    match route.method.as_str() {
        "GET" => client.get(path),
        "DELETE" => client.send("DELETE", path, &[], ""),
        method => client.send(method, path, &[JSON], &sample(route).to_string()),
    }
}

/// Invalid bodies, and names that do not exist.
pub(crate) fn of_requests(world: &World) {
    let client = &world.client;
    let batch = client.post("/v1/batches", &json!({})).is(200).body;
    let batch = batch["batch_id"].as_str().expect("an id");
    for route in world.routes() {
        if route.has_body {
            let path = route.path_with(batch);
            let method = route.method.as_str();
            let text = client.send(method, &path, &[("content-type", "text/plain")], "{}");
            text.refused(415, "unsupported_media_type");
            let long = "x".repeat(101 * 1024);
            let long = client.send(method, &path, &[JSON], &long);
            long.refused(413, "payload_too_large");
            let torn = client.send(method, &path, &[JSON], "{");
            torn.refused(400, "invalid_request");
        }
        // Only keys of other domains do not find these: see `of_other_domains`.
        let is_there = [
            "/v1/batches",
            "/v1/domains/{domain}/pause",
            "/v1/domains/{domain}/resume",
        ];
        if route.answers(404) && !is_there.contains(&route.template.as_str()) {
            ask(client, &route, &route.path()).refused(404, "not_found");
        }
        if route.template.contains('{') {
            let start = route.template.find('{').unwrap_or_default();
            let end = route.template.find('}').unwrap_or_default();
            let path = format!(
                "{}%ff{}",
                &route.template[..start],
                &route.template[end + 1..]
            );
            let path = path.replace("{token}", "0123456789abcdef");
            ask(client, &route, &path).refused(400, "invalid_request");
        }
    }
}

/// A body that does not arrive.
pub(crate) fn of_slow_bodies(world: &World) {
    let text = config(&world.provider).replace("[server]", "[server]\nbody_timeout = \"50ms\"");
    let slow = World::with("slow", &text, world.provider.clone(), &world.seen);
    for route in slow.routes().into_iter().filter(|route| route.has_body) {
        let path = route.path();
        let method = route.method.as_str();
        let mut stream = slow.client.open(method, &path, &[JSON], 100);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let reply = slow.client.saw(method, &path, &answer);
        reply.refused(408, "request_timeout");
    }
}

/// Requests without a key, and with keys that allow something else.
pub(crate) fn of_strangers(world: &World) {
    let stranger = world.client.clone().with("host", "evil.example");
    for route in world.routes() {
        ask(&stranger, &route, &route.path()).refused(403, "forbidden");
    }
    let keyed = World::with(
        "keyed",
        &config(&world.provider),
        world.provider.clone(),
        &world.seen,
    );
    let submitter = key(&keyed.folder.0, "submit");
    // The server caches the check for keys for up to a second.
    while keyed.client.get("/v1/domains").status == 200 {
        std::thread::yield_now();
    }
    for route in keyed
        .routes()
        .into_iter()
        .filter(|route| route.answers(401))
    {
        let refused = ask(&keyed.client, &route, &route.path());
        let refused = refused.refused(401, "unauthenticated");
        assert!(refused.header("www-authenticate").is_some());
    }
    let submitter = keyed.client.clone().keyed(&submitter);
    submitter.submit(&command("away", "x", "k1")).is(202);
    submitter.get("/v1/operations").refused(403, "forbidden");
    let pause = submitter.post("/v1/domains/pay/pause", &json!({}));
    pause.refused(403, "forbidden");
    let batch = submitter.post("/v1/batches", &json!({})).is(200).body;
    of_other_domains(&keyed, &batch["batch_id"]);
}

/// A key of another domain does not see operations of this domain.
fn of_other_domains(keyed: &World, batch: &Value) {
    let mailer = key_of(&keyed.folder.0, "admin", &["--domains", "mail"]);
    let mailer = keyed.client.clone().keyed(&mailer);
    for path in ["/v1/domains/pay/pause", "/v1/domains/pay/resume"] {
        mailer.post(path, &json!({})).refused(404, "not_found");
    }
    let again = mailer.post("/v1/batches", &json!({"batch_id": batch}));
    again.refused(404, "not_found");
    mailer.get("/metrics").refused(403, "forbidden");
    assert_eq!(
        mailer.get("/v1/operations").is(200).body["operations"],
        json!([])
    );
}

/// The operation's route was removed from the configuration: the operation can still be ended.
pub(crate) fn of_lost_routes(world: &World) {
    let mut lost = World::with(
        "lost",
        &config(&world.provider),
        world.provider.clone(),
        &world.seen,
    );
    let held = lost.held("u1");
    let waiting = lost.submit("away", "x", "u2");
    lost.process.terminate();
    lost.process.ended();
    lost.folder
        .configure("[server]\nlisten = \"127.0.0.1:0\"\n");
    lost.process = Process::start(&lost.folder);
    let client = Client::new(lost.process.address, &world.seen);
    let cancel = client.post(&format!("/v1/operations/{waiting}/cancel"), &json!({}));
    assert_eq!(cancel.is(200).body["state"], "FAILED");
    let failed = json!({"as": "failed", "reason": "not there"});
    let resolve = client.post(&format!("/v1/operations/{held}/resolve"), &failed);
    assert_eq!(resolve.is(200).body["state"], "FAILED");
}

/// Submissions are refused while work that could run is waiting, but replays never are.
pub(crate) fn of_overload(world: &World) {
    let text = config(&world.provider).replace("[server]", "[server]\nshed_queue_age = \"1ms\"");
    let busy = World::with("busy", &text, world.provider.clone(), &world.seen);
    let first = busy.submit("pay", "narrow", "o1");
    busy.provider.arrival("o1");
    let shed = loop {
        let key = uuid::Uuid::now_v7().to_string();
        let reply = busy.client.submit(&command("pay", "narrow", &key));
        if reply.status != 202 {
            break reply;
        }
    };
    shed.refused(429, "shed");
    assert_eq!(busy.submit("pay", "narrow", "o1"), first);
}

/// Makes a dead letter and dismisses it.
fn dismiss_one(client: &Client, key: &str) {
    let failed = client.post("/v1/operations?wait=60s", &command("pay", "fail", key));
    let filter = json!({"op_id": failed.is(200).op_id()});
    let dismiss = json!({"filter": filter, "dry_run": false, "reason": "a test"});
    client.post("/v1/dead-letters/dismiss", &dismiss).is(200);
}

/// Submits an operation that waits for its time.
fn submit_for_later(client: &Client, key: &str) -> String {
    let mut later = command("away", "x", key);
    later["run_at"] = json!("2096-01-01T00:00:00Z");
    client.submit(&later).is(202).op_id()
}

/// Opens a batch; returns its id.
fn open_batch(client: &Client) -> String {
    let batch = client.post("/v1/batches", &json!({})).is(200).body;
    batch["batch_id"].as_str().expect("an id").to_owned()
}

/// Stores a token of the user; returns its hash.
fn store_token(client: &Client, login: &str) -> String {
    let path = format!("/v1/github/users/{login}/tokens");
    let token = json!({"token": "fake-stored-1"}).to_string();
    let stored = client.send("PUT", &path, &[JSON], &token).is(200).body;
    stored["token"].as_str().expect("a hash").to_owned()
}

/// The disk is full: every change is refused, nothing is lost, and the server recovers by itself.
pub(crate) fn of_a_store_without_room(world: &World) {
    let hub = Hub::start();
    let text = hub.instead_of_none(&config(&world.provider));
    let folder = crate::process::Folder::with("full", &text);
    let process = Process::start_limited(&folder);
    let client = Client::new(process.address, &world.seen);
    let kept = client.submit(&command("away", "x", "w1")).is(202).op_id();
    let held = client
        .submit(&command("pay", "unsure", "w2"))
        .is(202)
        .op_id();
    client.phase(&held, "held");
    let leased = json!({"domain": "away", "wait": "60s", "lease": "10m"});
    let leased = client.post("/v1/leases", &leased).is(200).body;
    assert_eq!(leased["deliveries"][0]["op_id"], kept.as_str());
    client.submit(&command("away", "x", "w3")).is(202);
    let fails = command("pay", "fail", "w4");
    client.post("/v1/operations?wait=60s", &fails).is(200);
    dismiss_one(&client, "w6");
    let later = submit_for_later(&client, "w7");
    let batch = open_batch(&client);
    client.post("/v1/domains/resume/pause", &json!({})).is(200);
    let ended = hub.run_with_failed_jobs(&client);
    let active = hub.run_that_waits(&client);
    let token = store_token(&client, &hub.owner);
    process.limit_files(Some(4_096));
    let routes = crate::table::routes(&client.get("/openapi.json").body);
    let writes = |route: &&Route| {
        let is_guard = route.template.starts_with("/v1/destinations/");
        route.method != "GET" && route.template != "/v1/leases" && !is_guard
    };
    for route in routes.iter().filter(writes) {
        let id = match route.template.rsplit('/').next() {
            Some("resolve") => &held,
            Some("retry-now") => &later,
            _ => &kept,
        };
        let path = route
            .template
            .replace("{op_id}", id)
            .replace("{batch_id}", &batch)
            .replace("{login}", &hub.owner)
            .replace("{token}", &token);
        let path = path.replace("{run_id}/cancel", &format!("{active}/cancel"));
        let path = path.replace("{run_id}/retry", &format!("{ended}/retry"));
        // Each request must change something: one domain is paused, the other is not.
        let path = path.replace("{domain}/pause", "pause/pause");
        let path = path.replace("{domain}/resume", "resume/resume");
        let path = match path.as_str() {
            "/v1/operations" => "/v1/operations?wait=0",
            _ => &path,
        };
        let reply = ask_as(&client, route, path, &leased["deliveries"][0]);
        reply.refused(503, "unavailable");
    }
    while client.get("/readyz").status == 200 {
        std::thread::yield_now();
    }
    client.get("/readyz").refused(503, "unavailable");
    client.get("/healthz").is(200);
    process.limit_files(None);
    client.until("/readyz", |body| body["status"] == "ok");
    client.submit(&command("away", "x", "w5")).is(202);
    let listed = client.get("/v1/operations?domain=away").is(200).body;
    let count = listed["operations"].as_array().map(Vec::len);
    assert_eq!(count, Some(4), "w1, w3, w5 and w7");
    assert!(!process.log().contains("panicked"));
}

/// Another process keeps a write transaction on the file open.
pub(crate) fn of_a_store_that_is_busy(world: &World) {
    let folder = crate::process::Folder::with("locked", &config(&world.provider));
    let process = Process::start_as(&folder, "api");
    let client = Client::new(process.address, &world.seen);
    client.submit(&command("away", "x", "y1")).is(202);
    let turns = ["next", "run"].map(|name| folder.0.join("clinch.db.wake").join(name));
    let turns = turns.map(|path| std::fs::File::open(path).expect("a lock file"));
    turns.iter().for_each(|turn| turn.lock().expect("our turn"));
    let asked = client.post("/v1/leases", &json!({"domain": "away"}));
    asked.refused(503, "unavailable");
    drop(turns);
    let leased = client.post("/v1/leases", &json!({"domain": "away", "wait": "60s"}));
    assert_eq!(leased.is(200).body["deliveries"][0]["attempt"], 1);
}
