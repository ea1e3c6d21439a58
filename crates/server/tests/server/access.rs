//! Every route with every kind of key: 401, 403, 404, or allowed.

use std::collections::BTreeSet;

use clinch_core::{Domain, ports::ApiKeys};
use clinch_memory::Memory;
use clinch_server::auth::{Restriction, Scope, create_restricted};
use clinch_server::{Role, openapi};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::auth::now;
use crate::harness::{Provider, ROUTES, Reply, Running, applications, command, parts, store};

/// The answer to a key with a matching scope.
#[derive(Debug, Clone, Copy)]
enum Seen {
    /// Neither 401 nor 403 nor 404.
    Allowed,
    Forbidden,
    Missing,
    /// 200, without any name of the domains and operations in [`World`].
    Nothing,
    /// 200, with a refusal of each item.
    Refused,
}

/// One route.
struct Row {
    method: &'static str,
    route: &'static str,
    path: String,
    body: Value,
    scopes: &'static [Scope],
    /// The answers to a key of the right domain, and to a key of another domain.
    right: Seen,
    wrong: Seen,
}

/// Operations and batches to ask for, in the domains `pay` and `away`.
struct World {
    server: Running,
    memory: Memory,
    settled: String,
    failed: String,
    leased: String,
    /// The fence and the token of reports on the leased operation.
    report: Value,
    batch: String,
}

const SUBMIT: &[Scope] = &[Scope::Submit];
const READ: &[Scope] = &[Scope::Read];
const BOTH: &[Scope] = &[Scope::Read, Scope::Submit];
const WORK: &[Scope] = &[Scope::Work];
const OPERATE: &[Scope] = &[Scope::Operate];

fn row(
    method: &'static str,
    route: &'static str,
    body: Value,
    scopes: &'static [Scope],
    wrong: Seen,
) -> Row {
    Row {
        method,
        route,
        path: route.replace("{domain}", "pay").replace("{name}", "psp"),
        body,
        scopes,
        right: Seen::Allowed,
        wrong,
    }
}

fn look(route: &'static str, scopes: &'static [Scope], wrong: Seen) -> Row {
    row("GET", route, Value::Null, scopes, wrong)
}

fn post(route: &'static str, body: Value, scopes: &'static [Scope], wrong: Seen) -> Row {
    row("POST", route, body, scopes, wrong)
}

/// A change of something that other keys do not find.
fn operate(route: &'static str) -> Row {
    post(route, json!({}), OPERATE, Seen::Missing)
}

impl Row {
    /// The path of this operation or batch.
    fn of(mut self, id: &str) -> Self {
        self.path = self.path.replace("{op_id}", id).replace("{batch_id}", id);
        self
    }
}

/// A key that is restricted to some domains may not use the route.
fn whole_store(row: Row) -> Row {
    Row {
        right: Seen::Forbidden,
        ..row
    }
}

fn domains() -> Vec<Row> {
    vec![
        look("/v1/domains", READ, Seen::Nothing),
        operate("/v1/domains/{domain}/pause"),
        operate("/v1/domains/{domain}/resume"),
        look("/v1/destinations", READ, Seen::Nothing),
        operate("/v1/destinations/{name}/open"),
        operate("/v1/destinations/{name}/reset"),
        look("/v1/overview", READ, Seen::Nothing),
        look("/v1/events", READ, Seen::Nothing),
        // These routes show every domain, or change the retention of every domain.
        whole_store(look("/metrics", READ, Seen::Forbidden)),
        whole_store(look("/v1/retention", READ, Seen::Forbidden)),
        whole_store(post(
            "/v1/retention/confirm",
            json!({}),
            OPERATE,
            Seen::Forbidden,
        )),
    ]
}

const RIGHT: [&str; 2] = ["away", "pay"];
const WRONG: [&str; 1] = ["lane"];

pub(crate) async fn key(memory: &Memory, scopes: &[Scope], domains: &[&str]) -> String {
    let domain = |name: &&str| Domain::new(*name).expect("a name");
    let restriction = Restriction {
        domains: domains.iter().map(domain).collect(),
        event_types: Vec::new(),
    };
    let made = create_restricted(memory, "tests", scopes, restriction, now(), None).await;
    made.expect("made").1.reveal().to_owned()
}

pub(crate) async fn ask(
    server: &Running,
    key: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Reply {
    let bearer = format!("Bearer {key}");
    let mut headers = vec![("content-type", "application/json")];
    if !key.is_empty() {
        headers.push(("authorization", bearer.as_str()));
    }
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    server.send(method, path, &headers, &body).await
}

/// Applications in the domains `pay` and `lane`; the second also has routes outside of its domain.
impl World {
    async fn new() -> Self {
        let (memory, provider) = (store(), Provider::default());
        let admin = key(&memory, &[Scope::Admin], &RIGHT).await;
        let mut parts = parts(&memory, &provider);
        parts.applications = applications();
        let server = Running::of(ROUTES, parts, memory.clone(), provider, &Role::ALL).await;
        let submit = async |domain, event_type, wait: &str| {
            let path = format!("/v1/operations?wait={wait}");
            let body = command(domain, event_type, event_type);
            ask(&server, &admin, "POST", &path, &body).await.op_id()
        };
        let settled = submit("pay", "ok", "30s").await;
        let failed = submit("pay", "fail", "30s").await;
        let leased = submit("away", "call", "0").await;
        let lease = json!({"domain": "away", "event_types": ["call"], "wait": "30s"});
        let lease = ask(&server, &admin, "POST", "/v1/leases", &lease).await;
        let delivery = &lease.body["deliveries"][0];
        assert_eq!(delivery["op_id"], json!(leased));
        let mut report = json!({"fence": delivery["fence"]});
        if let Some(token) = delivery.get("token") {
            report["token"] = token.clone();
        }
        let batch = ask(&server, &admin, "POST", "/v1/batches", &json!({})).await;
        let batch = batch.body["batch_id"].as_str().expect("an id").to_owned();
        Self {
            server,
            memory,
            settled,
            failed,
            leased,
            report,
            batch,
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            look("/healthz", &[], Seen::Allowed),
            look("/readyz", &[], Seen::Allowed),
        ];
        rows.extend(self.operations());
        rows.extend(self.dead_letters());
        rows.extend(domains());
        rows.extend(self.leases());
        rows.extend(self.batches());
        rows
    }

    fn operations(&self) -> Vec<Row> {
        let op = self.settled.as_str();
        let new = command("pay", "ok", "new");
        let many = json!({"operations": [new]});
        let retry = json!({"as": "retry"});
        vec![
            post("/v1/operations", new, SUBMIT, Seen::Forbidden),
            look("/v1/operations", READ, Seen::Nothing),
            post("/v1/operations/bulk", many, SUBMIT, Seen::Refused),
            look("/v1/operations/{op_id}", BOTH, Seen::Missing).of(op),
            look("/v1/operations/{op_id}/attempts", READ, Seen::Missing).of(op),
            post(
                "/v1/operations/{op_id}/cancel",
                json!({}),
                OPERATE,
                Seen::Missing,
            )
            .of(op),
            post(
                "/v1/operations/{op_id}/retry-now",
                json!({}),
                OPERATE,
                Seen::Missing,
            )
            .of(op),
            post(
                "/v1/operations/{op_id}/resolve",
                retry,
                OPERATE,
                Seen::Missing,
            )
            .of(op),
        ]
    }

    fn dead_letters(&self) -> Vec<Row> {
        let all = json!({"filter": {}, "dry_run": true});
        let why = json!({"filter": {}, "reason": "x", "dry_run": true});
        vec![
            look("/v1/dead-letters", READ, Seen::Nothing),
            look("/v1/dead-letters/{op_id}", READ, Seen::Missing).of(&self.failed),
            post("/v1/dead-letters/redrive", all, OPERATE, Seen::Nothing),
            post(
                "/v1/dead-letters/dismiss",
                why.clone(),
                OPERATE,
                Seen::Nothing,
            ),
            post("/v1/dead-letters/reopen", why, OPERATE, Seen::Nothing),
        ]
    }

    fn leases(&self) -> Vec<Row> {
        let lease = json!({"domain": "away"});
        let report = |what: &'static str, more: Value| {
            let mut report = self.report.clone();
            let more = more.as_object().expect("an object").clone();
            report.as_object_mut().expect("an object").extend(more);
            post(what, report, WORK, Seen::Missing).of(&self.leased)
        };
        vec![
            post("/v1/leases", lease, WORK, Seen::Forbidden),
            report("/v1/leases/{op_id}/heartbeat", json!({})),
            report("/v1/leases/{op_id}/release", json!({})),
            report("/v1/leases/{op_id}/checkpoint", json!({"checkpoint": 1})),
            report("/v1/leases/{op_id}/outcome", json!({"type": "retry"})),
        ]
    }

    fn batches(&self) -> Vec<Row> {
        let batch = self.batch.as_str();
        let new = command("pay", "ok", "new");
        let end = json!({"on_complete": new});
        let many = json!({"operations": [new]});
        vec![
            post("/v1/batches", end, SUBMIT, Seen::Forbidden),
            look("/v1/batches", READ, Seen::Nothing),
            look("/v1/batches/{batch_id}", READ, Seen::Missing).of(batch),
            post(
                "/v1/batches/{batch_id}/operations",
                many,
                SUBMIT,
                Seen::Missing,
            )
            .of(batch),
            post(
                "/v1/batches/{batch_id}/seal",
                json!({}),
                SUBMIT,
                Seen::Missing,
            )
            .of(batch),
        ]
    }

    /// The answer to a request; for the event stream, its beginning.
    async fn ask(&self, key: &str, row: &Row) -> Reply {
        if row.route != "/v1/events" {
            return ask(&self.server, key, row.method, &row.path, &row.body).await;
        }
        let mut stream = TcpStream::connect(self.server.addr)
            .await
            .expect("it answers");
        let request = format!(
            "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("written");
        let (mut text, mut chunk) = (String::new(), [0; 4_096]);
        while !text.contains("\r\n\r\n")
            || (text.starts_with("HTTP/1.1 200") && !text.contains("event: counters"))
        {
            let count = stream.read(&mut chunk).await.expect("read");
            assert!(count > 0, "it ended: {text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        Reply::parse(&text)
    }

    fn check(&self, reply: &Reply, seen: Seen, why: &str) {
        let status = reply.status;
        let is_told = |word: &&str| reply.text.contains(*word);
        let ours = [&self.settled, &self.failed, &self.leased, &self.batch];
        let ours = ours
            .map(String::as_str)
            .into_iter()
            .chain(["pay", "away", "psp"]);
        match seen {
            Seen::Allowed => assert!(![401, 403, 404].contains(&status), "{why}: {}", reply.text),
            Seen::Forbidden => assert_eq!(status, 403, "{why}: {}", reply.text),
            Seen::Missing => {
                assert_eq!(status, 404, "{why}: {}", reply.text);
                let about = ["there is no such", "there is nothing at this path"];
                assert!(about.iter().any(is_told), "{why}: {}", reply.text);
            }
            Seen::Nothing => {
                assert_eq!(status, 200, "{why}: {}", reply.text);
                let told: Vec<&str> = ours.filter(is_told).collect();
                assert!(told.is_empty(), "{why}: tells of {told:?}: {}", reply.text);
            }
            Seen::Refused => {
                assert_eq!(status, 200, "{why}: {}", reply.text);
                let refused = is_told(&"\"code\":\"forbidden\"") && !is_told(&"op_id");
                assert!(refused, "{why}: {}", reply.text);
            }
        }
    }
}

fn described() -> BTreeSet<(String, String)> {
    let api = openapi();
    let paths = api["paths"].as_object().expect("paths").iter();
    let routes = paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods").keys();
        methods.map(|method| (method.to_uppercase(), path.clone()))
    });
    routes.collect()
}

#[tokio::test]
async fn core_16_every_route_is_judged_by_scope_and_domain() {
    let world = World::new().await;
    let rows = world.rows();
    let named = rows
        .iter()
        .map(|row| (row.method.to_owned(), row.route.to_owned()));
    assert_eq!(
        named.collect::<BTreeSet<_>>(),
        described(),
        "a row for each route"
    );
    let mut keys = Vec::new();
    for scope in Scope::ALL {
        for domains in [&[] as &[&str], &RIGHT, &WRONG] {
            keys.push((scope, domains, key(&world.memory, &[scope], domains).await));
        }
    }
    for row in &rows {
        let (method, route) = (row.method, row.route);
        if row.scopes.is_empty() {
            let reply = world.ask("", row).await;
            assert_eq!(reply.status, 200, "{method} {route}: {}", reply.text);
            continue;
        }
        for stranger in ["", "clk_", "hunter2"] {
            let reply = world.ask(stranger, row).await;
            assert_eq!(reply.status, 401, "{method} {route}: {}", reply.text);
        }
        for (scope, domains, key) in &keys {
            let covers = row.scopes.iter().any(|wanted| scope.covers(*wanted));
            let seen = match *domains {
                _ if !covers => Seen::Forbidden,
                [] => Seen::Allowed,
                domains if *domains == RIGHT => row.right,
                _ => row.wrong,
            };
            let why = format!("{method} {route} as {} of {domains:?}", scope.as_str());
            world.check(&world.ask(key, row).await, seen, &why);
        }
    }
}

#[tokio::test]
async fn core_16_routes_of_an_application_belong_to_its_domain() {
    let world = World::new().await;
    let whole = key(&world.memory, &[Scope::Read], &[]).await;
    let pay = key(&world.memory, &[Scope::Read], &["pay"]).await;
    let away = key(&world.memory, &[Scope::Read], &["away"]).await;
    let submit = key(&world.memory, &[Scope::Submit], &["pay"]).await;
    let charges = Restriction {
        domains: vec![Domain::new("pay").expect("a name")],
        event_types: vec![clinch_core::EventType::new("ok").expect("a name")],
    };
    let some = create_restricted(&world.memory, "x", &[Scope::Read], charges, now(), None).await;
    let some = some.expect("made").1;
    for (key, path, status) in [
        (whole.as_str(), "/v1/pay/report", 200),
        (&whole, "/v1/lane/report", 200),
        (&whole, "/unknown", 200),
        (&pay, "/v1/pay/report", 200),
        (&pay, "/v1/lane/report", 404),
        (&pay, "/unknown", 404),
        // No application has registered this domain.
        (&whole, "/v1/away/report", 200),
        (&away, "/v1/away/report", 404),
        (&submit, "/v1/pay/report", 403),
        // The key covers some event types of the domain; the application's route needs all of them.
        (some.reveal(), "/v1/pay/report", 404),
        ("", "/v1/pay/report", 401),
    ] {
        let reply = ask(&world.server, key, "GET", path, &Value::Null).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
    }
}

#[tokio::test]
async fn core_16_no_spelling_of_a_path_goes_around_the_guard() {
    let world = World::new().await;
    let submit = key(&world.memory, &[Scope::Submit], &RIGHT).await;
    let wrong = key(&world.memory, &[Scope::Admin], &WRONG).await;
    let op = &world.settled;
    for path in [
        "//v1/operations".to_owned(),
        "/v1//operations".to_owned(),
        "/v1/operations/".to_owned(),
        format!("/v1/operations/{op}/"),
        format!("/v1/operations//{op}"),
        format!("/v1/operations/{op}/attempts/"),
        format!("/v1/operations/{op}%2Fattempts"),
        format!("/v1/%6fperations/{op}"),
        format!("/V1/operations/{op}"),
        format!("/v1/operations/../operations/{op}"),
        format!("/v1/operations/{op};x=1"),
        "/%6detrics".to_owned(),
        "/metrics/".to_owned(),
        "/healthz/../metrics".to_owned(),
        "/healthz/".to_owned(),
    ] {
        for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS"] {
            let none = ask(&world.server, "", method, &path, &Value::Null).await;
            assert_eq!(none.status, 401, "{method} {path}: {}", none.text);
            for key in [&submit, &wrong] {
                let reply = ask(&world.server, key, method, &path, &Value::Null).await;
                let status = reply.status;
                assert!(
                    [400, 403, 404, 405].contains(&status),
                    "{method} {path}: {status}"
                );
            }
        }
    }
    for path in ["/v1/operations", "/v1/dead-letters", "/metrics"] {
        let none = ask(&world.server, "", "HEAD", path, &Value::Null).await;
        assert_eq!(none.status, 401, "HEAD {path}");
        let reply = ask(&world.server, &submit, "HEAD", path, &Value::Null).await;
        assert_eq!(reply.status, 403, "HEAD {path}");
    }
    let path = format!("/v1/operations/{op}");
    let hidden = ask(&world.server, &wrong, "HEAD", &path, &Value::Null).await;
    assert_eq!(hidden.status, 404);
    assert!(world.memory.list().await.expect("listed").len() > 2);
}
