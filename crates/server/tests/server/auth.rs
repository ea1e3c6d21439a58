//! Authentication and scopes.

use clinch_core::Timestamp;
use clinch_core::ports::ApiKeys;
use clinch_memory::Memory;
use clinch_server::auth::{Scope, create, revoke};
use clinch_server::{Role, Server};
use clinch_system::SystemClock;
use serde_json::json;

use crate::harness::{Provider, ROUTES, Running, command, config, parts, store};

pub(crate) fn now() -> Timestamp {
    clinch_core::ports::Clock::now(&SystemClock::new())
}

async fn key(memory: &Memory, scopes: &[Scope]) -> String {
    let (_, secret) = create(memory, "tests", scopes, now(), None)
        .await
        .expect("made");
    secret.reveal().to_owned()
}

async fn with_key(server: &Running, method: &str, path: &str, key: &str) -> crate::harness::Reply {
    let bearer = format!("Bearer {key}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let body = if method == "POST" {
        command("pay", "ok", "k1").to_string()
    } else {
        String::new()
    };
    server.send(method, path, &headers, &body).await
}

#[tokio::test]
async fn core_16_without_keys_no_web_page_can_submit() {
    let server = Running::new().await;
    let json = ("content-type", "application/json");
    let body = command("pay", "ok", "k1").to_string();
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io:7070",
        "192.168.1.1",
    ] {
        let reply = server
            .send("POST", "/v1/operations", &[("host", host), json], &body)
            .await;
        reply.is_problem(403, "forbidden");
        server
            .send("GET", "/v1/operations", &[("host", host)], "")
            .await
            .is_problem(403, "forbidden");
    }
    for origin in ["https://evil.example", "null", "http://localhost:1"] {
        let headers = [("origin", origin), json];
        server
            .send("POST", "/v1/operations", &headers, &body)
            .await
            .is_problem(403, "forbidden");
        let empty = [("origin", origin)];
        server
            .send("POST", "/v1/domains/pay/pause", &empty, "")
            .await
            .is_problem(403, "forbidden");
    }
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
    ] {
        let reply = server
            .send(
                "POST",
                "/v1/operations",
                &[("content-type", content_type)],
                &body,
            )
            .await;
        reply.is_problem(415, "unsupported_media_type");
    }
    server
        .send("POST", "/v1/operations", &[], &body)
        .await
        .is_problem(415, "unsupported_media_type");
    assert_eq!(server.provider.calls(), 0);
    for host in ["localhost", "localhost:7070", "127.0.0.1", "[::1]:7070"] {
        let reply = server
            .send("POST", "/v1/operations", &[("host", host), json], &body)
            .await;
        assert_eq!(reply.status, 200, "{host}: {}", reply.text);
    }
}

#[tokio::test]
async fn core_16_keys_are_needed_judged_by_scope_and_ended() {
    let memory = store();
    let submit = key(&memory, &[Scope::Submit]).await;
    let read = key(&memory, &[Scope::Read]).await;
    let server = Running::with(ROUTES, memory.clone(), &Role::ALL).await;
    let none = server.get("/v1/operations").await;
    assert!(
        none.is_problem(401, "unauthenticated")
            .header("www-authenticate")
            .is_some()
    );
    let mut wrong = submit.clone();
    wrong.replace_range(
        10..11,
        if wrong.as_bytes()[10] == b'0' {
            "1"
        } else {
            "0"
        },
    );
    for key in [wrong.as_str(), "clk_", "hunter2"] {
        with_key(&server, "GET", "/v1/operations", key)
            .await
            .is_problem(401, "unauthenticated");
    }
    let op = with_key(&server, "POST", "/v1/operations", &submit).await;
    assert_eq!(op.status, 200, "{}", op.text);
    let one = format!("/v1/operations/{}", op.op_id());
    assert_eq!(with_key(&server, "GET", &one, &submit).await.status, 200);
    with_key(&server, "GET", "/v1/operations", &submit)
        .await
        .is_problem(403, "forbidden");
    with_key(&server, "POST", "/v1/operations", &read)
        .await
        .is_problem(403, "forbidden");
    assert_eq!(
        with_key(&server, "GET", "/v1/operations", &read)
            .await
            .status,
        200
    );
    assert_eq!(
        with_key(&server, "GET", "/metrics", &read).await.status,
        200
    );
}

#[tokio::test]
async fn core_16_operators_and_admins_may_do_more() {
    let memory = store();
    let read = key(&memory, &[Scope::Read]).await;
    let operate = key(&memory, &[Scope::Operate]).await;
    let admin = key(&memory, &[Scope::Admin]).await;
    let server = Running::with(ROUTES, memory.clone(), &Role::ALL).await;
    with_key(&server, "POST", "/v1/leases", &read)
        .await
        .is_problem(403, "forbidden");
    assert_eq!(
        with_key(&server, "GET", "/v1/domains", &operate)
            .await
            .status,
        200
    );
    // The operate scope does not include the work scope.
    let work = key(&memory, &[Scope::Work]).await;
    with_key(&server, "POST", "/v1/leases", &operate)
        .await
        .is_problem(403, "forbidden");
    for worker in [&work, &admin] {
        with_key(&server, "POST", "/v1/leases", worker)
            .await
            .is_problem(400, "invalid_request");
    }
    assert_eq!(
        with_key(&server, "POST", "/v1/operations", &admin)
            .await
            .status,
        200
    );
    // Health checks carry no key; any host is fine.
    let headers = [("host", "clinch.internal")];
    assert_eq!(
        server.send("GET", "/healthz", &headers, "").await.status,
        200
    );
    assert_eq!(
        server.send("GET", "/readyz", &headers, "").await.status,
        200
    );
}

#[tokio::test]
async fn core_16_keys_rotate_expire_and_are_revoked() {
    let memory = store();
    let (old, old_secret) = create(&memory, "shop", &[Scope::Read], now(), None)
        .await
        .expect("made");
    let (_, new_secret) = create(&memory, "shop", &[Scope::Read], now(), None)
        .await
        .expect("made");
    let server = Running::with(ROUTES, memory.clone(), &Role::ALL).await;
    // The key was not used before, so it is not cached.
    assert!(revoke(&memory, &old.id, now()).await.expect("revoked"));
    assert!(
        !revoke(&memory, &old.id, now())
            .await
            .expect("twice is once")
    );
    let reply = with_key(&server, "GET", "/v1/domains", old_secret.reveal()).await;
    reply.is_problem(401, "unauthenticated");
    assert_eq!(
        with_key(&server, "GET", "/v1/domains", new_secret.reveal())
            .await
            .status,
        200
    );
    let soon = Timestamp::from_millis(now().as_millis() + 1);
    let (_, brief) = create(&memory, "brief", &[Scope::Read], now(), Some(soon))
        .await
        .expect("made");
    while now() < soon {
        tokio::task::yield_now().await;
    }
    let reply = with_key(&server, "GET", "/v1/domains", brief.reveal()).await;
    reply.is_problem(401, "unauthenticated");
    let kept = memory.list().await.expect("listed");
    assert_eq!(kept.len(), 3);
    assert!(kept.iter().all(|key| {
        !new_secret
            .reveal()
            .as_bytes()
            .windows(32)
            .any(|w| w == key.hash)
    }));
    assert!(
        create(&memory, "", &[Scope::Read], now(), None)
            .await
            .is_err()
    );
    assert!(create(&memory, "x", &[], now(), None).await.is_err());
    assert!(
        create(&memory, "x", &[Scope::Read], now(), Some(now()))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn core_16_another_address_needs_a_key() {
    let open = ROUTES.replace("127.0.0.1:0", "0.0.0.0:0");
    let memory = store();
    let refused = Server::bind(
        config(&open),
        parts(&memory, &Provider::default()),
        &Role::ALL,
    )
    .await;
    let error = refused.err().expect("it does not start").to_string();
    assert!(
        error.contains("clinch keys create") && !error.contains('\n'),
        "{error}"
    );
    let admin = key(&memory, &[Scope::Admin]).await;
    let bound = Server::bind(
        config(&open),
        parts(&memory, &Provider::default()),
        &Role::ALL,
    )
    .await;
    assert!(bound.is_ok());
    assert!(!json!(admin).is_null());
}
