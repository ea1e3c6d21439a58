//! The console without a browser: who gets in, what a page sends, and what a form does.

use clinch_core::ports::{ApiKeys, Scope};
use clinch_core::{Domain, Timestamp};
use clinch_server::Role;
use clinch_server::auth::{self, Restriction};

use super::harness::{ROUTES, Reply, Running, parts, store};

/// A server with records, so that sessions are stored.
async fn running(memory: clinch_memory::Memory) -> Running {
    let provider = super::harness::Provider::default();
    let mut parts = parts(&memory, &provider);
    parts.records = Some(std::sync::Arc::new(memory.clone()));
    Running::of(ROUTES, parts, memory, provider, &Role::ALL).await
}

async fn key(
    memory: &clinch_memory::Memory,
    scopes: &[Scope],
    domains: &[&str],
) -> (String, String) {
    let restriction = Restriction {
        domains: domains
            .iter()
            .map(|name| Domain::new(*name).expect("a name"))
            .collect(),
        event_types: Vec::new(),
    };
    let now = Timestamp::from_millis(1_794_729_600_000);
    let made = auth::create_restricted(memory, "night", scopes, restriction, now, None).await;
    let (key, secret) = made.expect("a key");
    (key.id, secret.reveal().to_owned())
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const ORIGIN: (&str, &str) = ("origin", "http://localhost");

async fn sign_in(server: &Running, secret: &str) -> Reply {
    let body = format!("key={secret}&next=%2Foperations");
    server
        .send("POST", "/sign-in", &[FORM, ORIGIN], &body)
        .await
}

/// The cookie that a sign-in set.
fn cookie(reply: &Reply) -> String {
    let cookie = reply.header("set-cookie").expect("a cookie");
    cookie.split(';').next().expect("a pair").to_owned()
}

/// The form token of a page.
fn csrf(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
    rest.split('"').next().expect("a value").to_owned()
}

async fn page(server: &Running, path: &str, cookie: &str) -> Reply {
    server.send("GET", path, &[("cookie", cookie)], "").await
}

#[tokio::test]
async fn core_16_pages_of_a_server_without_keys_are_for_this_machine() {
    let server = Running::new().await;
    for path in [
        "/",
        "/operations",
        "/dead-letters",
        "/destinations",
        "/domains",
        "/keys",
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path} {name}");
        }
        assert!(
            !reply.text.contains(" style="),
            "{path}: the policy forbids inline style"
        );
        let strange = server
            .send("GET", path, &[("host", "evil.example")], "")
            .await;
        assert_eq!(strange.status, 403, "{path}");
    }
    assert!(server.stop().await);
}

#[tokio::test]
async fn core_16_a_person_signs_in_with_a_key_and_out_again() {
    let memory = store();
    let (id, secret) = key(&memory, &[Scope::Operate], &[]).await;
    let server = running(memory.clone()).await;
    let turned = server.get("/operations?state=FAILED").await;
    assert_eq!(turned.status, 303);
    let to = "/sign-in?next=%2Foperations%3Fstate%3DFAILED";
    assert_eq!(turned.header("location"), Some(to));

    let wrong = sign_in(&server, &format!("clk_{}", "0".repeat(72))).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.header("set-cookie").is_none());
    let right = sign_in(&server, &secret).await;
    assert_eq!(
        (right.status, right.header("location")),
        (303, Some("/operations"))
    );
    let set = right.header("set-cookie").expect("a cookie").to_owned();
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Lax"),
        "{set}"
    );
    assert!(!set.contains(&secret), "the cookie is not the key");

    let cookie = cookie(&right);
    let shown = page(&server, "/operations", &cookie).await;
    assert_eq!(shown.status, 200);
    assert!(!shown.text.contains(&secret));
    let token = csrf(&shown.text);
    let no_token = server
        .send(
            "POST",
            "/sign-out",
            &[FORM, ORIGIN, ("cookie", &cookie)],
            "x=1",
        )
        .await;
    assert_eq!(no_token.status, 403);
    assert_eq!(
        page(&server, "/", &cookie).await.status,
        200,
        "still signed in"
    );
    let body = format!("csrf={token}");
    let out = server
        .send(
            "POST",
            "/sign-out",
            &[FORM, ORIGIN, ("cookie", &cookie)],
            &body,
        )
        .await;
    assert_eq!(out.status, 303);
    assert_eq!(page(&server, "/", &cookie).await.status, 303, "signed out");

    // A session ends with its key, also on a page that was open.
    let again = self::cookie(&sign_in(&server, &secret).await);
    assert_eq!(page(&server, "/", &again).await.status, 200);
    memory
        .revoke(&[id], Timestamp::from_millis(1))
        .await
        .expect("revoked");
    let mut status = 200;
    while status == 200 {
        status = page(&server, "/", &again).await.status;
        tokio::task::yield_now().await;
    }
    assert_eq!(status, 303);
    assert!(server.stop().await);
}

#[tokio::test]
async fn core_16_a_session_holds_after_a_restart() {
    let memory = store();
    let (_, secret) = key(&memory, &[Scope::Read], &[]).await;
    let server = running(memory.clone()).await;
    let cookie = cookie(&sign_in(&server, &secret).await);
    assert!(server.stop().await);
    let server = running(memory).await;
    assert_eq!(page(&server, "/", &cookie).await.status, 200);
    let forged = format!("clinch_session={}", "a".repeat(64));
    assert_eq!(page(&server, "/", &forged).await.status, 303);
    assert!(server.stop().await);
}

#[tokio::test]
async fn core_16_wrong_keys_are_slowed_down_and_other_sites_cannot_sign_in() {
    let memory = store();
    let (_, secret) = key(&memory, &[Scope::Read], &[]).await;
    let server = running(memory).await;
    let body = format!("key={secret}");
    for headers in [
        vec![FORM],
        vec![FORM, ("origin", "https://evil.example")],
        vec![FORM, ("origin", "null")],
    ] {
        let reply = server.send("POST", "/sign-in", &headers, &body).await;
        assert_eq!(reply.status, 403, "{headers:?}");
    }
    let mut slowed = false;
    for _ in 0..8 {
        let reply = sign_in(&server, "clk_wrong").await;
        slowed |= reply.status == 429 && reply.header("retry-after").is_some();
    }
    assert!(slowed, "eight wrong keys in a row");
    assert!(server.stop().await);
}

/// A reader may do nothing, and an operator of another domain finds nothing.
async fn refuses_actions(server: &Running, path: &str, reader: &str, other: &str) {
    let token = csrf(&page(server, path, reader).await.text);
    for action in [
        "cancel",
        "redrive",
        "reveal",
        "dismiss",
        "retry-now",
        "resolve",
    ] {
        let body = format!("csrf={token}&reason=x&as=retry");
        let headers = [FORM, ORIGIN, ("cookie", reader)];
        let reply = server
            .send("POST", &format!("{path}/{action}"), &headers, &body)
            .await;
        assert_eq!(
            reply.status, 403,
            "{action} with the scope read: {}",
            reply.text
        );
    }
    let listed = page(server, "/operations", other).await;
    let body = format!("csrf={}&reason=x", csrf(&listed.text));
    let headers = [FORM, ORIGIN, ("cookie", other)];
    let reply = server
        .send("POST", &format!("{path}/redrive"), &headers, &body)
        .await;
    assert_eq!(reply.status, 404, "an operation of another domain");
    let reply = server
        .send("POST", "/domains/pay/pause", &headers, &body)
        .await;
    assert_eq!(reply.status, 404, "a domain of somebody else");
}

#[tokio::test]
async fn core_16_a_page_shows_and_does_what_the_key_allows() {
    let memory = store();
    let (_, reader) = key(&memory, &[Scope::Read], &["pay"]).await;
    let (_, other) = key(&memory, &[Scope::Operate], &["lane"]).await;
    let (_, worker) = key(&memory, &[Scope::Work], &[]).await;
    let (_, admin) = key(&memory, &[Scope::Admin], &[]).await;
    let server = running(memory).await;
    let bearer = format!("Bearer {admin}");
    let json = [
        ("content-type", "application/json"),
        ("authorization", bearer.as_str()),
    ];
    let command = super::harness::command("pay", "fail", "k1").to_string();
    let made = server
        .send("POST", "/v1/operations?wait=60s", &json, &command)
        .await;
    let id = made.body["op_id"].as_str().expect("an id").to_owned();

    assert_eq!(sign_in(&server, &worker).await.status, 403, "no scope read");
    let reader = cookie(&sign_in(&server, &reader).await);
    let other = cookie(&sign_in(&server, &other).await);
    let path = format!("/operations/{id}");
    let shown = page(&server, &path, &reader).await;
    assert_eq!(shown.status, 200);
    assert!(shown.text.contains("card_declined"), "{}", shown.text);
    assert!(!shown.text.contains("5000"), "the payload is hidden");
    assert_eq!(
        page(&server, &path, &other).await.status,
        404,
        "another domain"
    );
    assert!(
        !page(&server, "/operations", &other)
            .await
            .text
            .contains(&id)
    );
    assert!(
        !page(&server, "/dead-letters?view=list", &other)
            .await
            .text
            .contains(&id)
    );
    assert_eq!(page(&server, "/keys", &reader).await.status, 403);

    refuses_actions(&server, &path, &reader, &other).await;
    assert!(server.stop().await);
}

#[tokio::test]
async fn core_16_text_of_callers_and_providers_is_only_text() {
    let server = Running::new().await;
    let mut command = super::harness::command("pay", "fail", "k1");
    command["biz_key"] = "<script>alert(1)</script>".into();
    command["labels"] = serde_json::json!({ "team": "\"><img src=x onerror=alert(1)>" });
    let made = server.post("/v1/operations?wait=60s", &command).await;
    let id = made.body["op_id"].as_str().expect("an id");
    for path in [
        "/operations",
        &format!("/operations/{id}"),
        "/dead-letters?view=list",
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(!reply.text.contains("<script>alert"), "{path}");
        assert!(!reply.text.contains("<img src=x"), "{path}");
        assert!(reply.text.contains("&lt;script&gt;alert(1)"), "{path}");
    }
    let strange = server.get("/operations?state=%3Cb%3E").await;
    assert_eq!(
        strange.status, 200,
        "a wrong filter is explained on the page"
    );
    assert!(
        strange.text.contains("The filter cannot be read"),
        "{}",
        strange.text
    );
    assert_eq!(server.get("/operations/zzz").await.status, 404);
    assert!(server.stop().await);
}
