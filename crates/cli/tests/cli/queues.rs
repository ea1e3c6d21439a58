//! `clinch domains`, `destinations`, `batches`, `retention`, `completions`.

use crate::documents::OP;
use crate::run::{command, ended, run};
use crate::server::Server;

const DOMAIN: &str = r#"{"domain":"payments","paused":true,"counts":{"PENDING":1,"IN_PROGRESS":9,"COMPLETED":5,"FAILED":6,"live":2,"waiting":3,"held":4},"depth":4,"oldest_age_ms":1200}"#;

#[test]
fn domains() {
    let server = Server::always(200, &format!(r#"{{"domains":[{DOMAIN}]}}"#));
    let ran = run(&server, &["domains", "ls"]);
    let expected = "\
DOMAIN    PAUSED  PENDING  LIVE  WAITING  HELD  FAILED  OLDEST_MS  COMPLETED  DEPTH
payments  paused  1        2     3        4     6       1200       5          4
";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected));
    assert_eq!(server.lines(), ["GET /v1/domains"]);
    let ran = run(&server, &["domains", "ls", "-o", "jsonl"]);
    assert_eq!(ran.out, format!("{DOMAIN}\n"));
    let ran = run(&server, &["domains", "ls", "-o", "json"]);
    let read: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(read["domains"][0]["depth"], 4);
}

#[test]
fn pause_and_resume() {
    let server = Server::always(200, DOMAIN);
    let ran = run(&server, &["domains", "pause", "pay/ments"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "pay/ments is paused\n"));
    let expected = "domain              payments\npaused              true\n";
    assert!(ran.out.starts_with(expected), "{}", ran.out);
    assert!(ran.out.contains("counts.IN_PROGRESS  9\n"), "{}", ran.out);
    assert_eq!(run(&server, &["domains", "resume", "payments"]).code, 0);
    let expected = [
        "POST /v1/domains/pay%2Fments/pause",
        "POST /v1/domains/payments/resume",
    ];
    assert_eq!(server.lines(), expected);
    for seen in server.seen() {
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!(seen.body, "{}");
    }
}

#[test]
fn destinations_and_batches() {
    let body = r#"{"destinations":[{"destination":"psp","state":"down","breaker":"open","breaker_since":"S","open_until":"U","backlog":3,"recent":{"calls":9,"failed":8},"rate":{"available":7,"again_at":null},"concurrency":{"available":null,"again_at":null},"paused_until":null,"last_error":{"code":"timeout","message":"no answer","at":"T"}}]}"#;
    let server = Server::always(200, body);
    let ran = run(&server, &["destinations", "ls"]);
    let expected = "\
DESTINATION  STATE      SINCE  UNTIL  BACKLOG  CALLS_5M  FAILED_5M  ROOM  RATE_ROOM  LAST_ERROR
psp          down       S      U      3        9         8                7          T no answer
";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected));
    assert_eq!(server.lines(), ["GET /v1/destinations"]);

    let body = format!(
        r#"{{"batch_id":"{OP}","sealed":true,"complete":false,"total":3,"completed":1,"failed":1,"completed_at":null}}"#
    );
    let server = Server::always(200, &body);
    let ran = run(&server, &["batches", "get", OP]);
    let expected = format!(
        "batch_id          {OP}\ncomplete          false\nsealed            true\ntotal             3\ncompleted         1\nfailed            1\n"
    );
    assert_eq!((ran.code, ran.out), (0, expected));
    assert_eq!(server.lines(), [format!("GET /v1/batches/{OP}")]);
}

#[test]
fn a_destination_is_reset_and_opened() {
    let body = r#"{"destination":"psp","state":"ok","breaker":"closed"}"#;
    let server = Server::always(200, body);
    let ran = run(
        &server,
        &["destinations", "reset", "psp", "--reason", "it is back"],
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, "psp is ok\n"));
    let ran = run(&server, &["destinations", "open", "p/sp", "--for", "30m"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let expected = [
        "POST /v1/destinations/psp/reset",
        "POST /v1/destinations/p%2Fsp/open",
    ];
    assert_eq!(server.lines(), expected);
    assert_eq!(server.seen()[0].body, r#"{"reason":"it is back"}"#);
    assert_eq!(server.seen()[1].body, r#"{"for":1800.0,"reason":null}"#);
}

#[test]
fn retention_is_shown_and_confirmed() {
    let body = r#"{"now":"N","seen_at":"S","held_back":true,"ahead_ms":43200000000}"#;
    let server = Server::always(200, body);
    let ran = run(&server, &["retention", "show"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out
            .starts_with("now               N\nseen_at           S\n"),
        "{}",
        ran.out
    );
    let ran = run(&server, &["retention", "confirm"]);
    let told = "retention goes by the store's clock from now on\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, told));
    let expected = ["GET /v1/retention", "POST /v1/retention/confirm"];
    assert_eq!(server.lines(), expected);
}

#[test]
fn completions_for_every_shell_without_a_server() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = ended(command(&["completions", shell]).output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("redrive"), "{shell}");
    }
    let ran = ended(command(&["completions", "tcsh"]).output().unwrap());
    assert_eq!(ran.code, 2);
}
