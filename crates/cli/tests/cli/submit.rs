//! `clinch submit`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::documents::{OP, operation};
use crate::run::{folder, run, run_with_input};
use crate::server::{Answer, Seen, Server};

const ARGS: [&str; 6] = [
    "submit",
    "payments",
    "charge",
    "order-123",
    "--payload",
    r#"{"z":1.50,"a":[1]}"#,
];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    ARGS.iter().chain(more).copied().collect()
}

#[test]
fn it_sends_the_command_and_prints_the_operation() {
    let server = Server::always(202, &operation(OP, "PENDING"));
    let ran = run(&server, &with(&["--idem-key", "c0ffee"]));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let expected = format!(
        "op_id             {OP}
state             PENDING
domain            payments
event_type        charge
biz_key           order-123
idem_key          c0ffee
attempts          1
effect            none
accepted_at       2026-11-15T08:00:00.123Z
cancel_requested  false
labels.team       shop
priority          0
seq               7
trace_id          7f
version           4
"
    );
    assert_eq!(ran.out, expected);
    let [seen] = server.seen().try_into().unwrap();
    assert_eq!(seen.line(), "POST /v1/operations");
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("prefer"), Some("respond-async"));
    assert_eq!(
        seen.header("host"),
        Some(server.address().to_string().as_str())
    );
    assert_eq!(seen.header("authorization"), None);
    // The payload goes out as it was written.
    let body = r#"{"domain":"payments","event_type":"charge","biz_key":"order-123","idem_key":"c0ffee","payload":{"z":1.50,"a":[1]},"run_at":null,"deadline":null,"priority":0,"labels":{}}"#;
    assert_eq!(seen.body, body);
}

#[test]
fn json_is_what_the_server_sent() {
    let document = operation(OP, "COMPLETED");
    let server = Server::always(200, &document);
    let ran = run(&server, &with(&["--idem-key", "k", "-o", "jsonl"]));
    assert_eq!(ran.out, format!("{document}\n"));
    let ran = run(&server, &with(&["--idem-key", "k", "-o", "json"]));
    assert!(
        ran.out
            .starts_with(&format!("{{\n  \"op_id\": \"{OP}\",\n  \"domain\""))
    );
    assert!(
        ran.out
            .contains("    \"payload\": {\n      \"z\": 1.50,\n      \"a\": 2\n    }")
    );
}

#[test]
fn a_generated_key_is_printed_and_sent() {
    let server = Server::always(202, &operation(OP, "PENDING"));
    for format in ["table", "json", "jsonl"] {
        let ran = run(&server, &with(&["-o", format]));
        let key = ran.err.strip_prefix("idem_key ").unwrap().trim_end();
        assert_eq!(uuid::Uuid::parse_str(key).unwrap().get_version_num(), 7);
        let last = server.seen().pop().unwrap();
        assert!(last.body.contains(&format!("\"idem_key\":\"{key}\"")));
    }
}

#[test]
fn core_8_exit_codes_of_a_wait() {
    for (state, code) in [("COMPLETED", 0), ("FAILED", 1)] {
        let server = Server::always(200, &operation(OP, state));
        let ran = run(&server, &with(&["--wait", "3s"]));
        assert_eq!(ran.code, code, "{state}");
        assert_eq!(server.seen()[0].header("prefer"), Some("wait=3"));
    }
    // The time is over as soon as the server has answered.
    let server = Server::always(202, &operation(OP, "IN_PROGRESS/live"));
    let ran = run(&server, &with(&["--wait", "1ms"]));
    assert_eq!(ran.code, 5);
    assert!(ran.out.contains("IN_PROGRESS"));
    assert_eq!(server.seen()[0].header("prefer"), Some("wait=1"));
    // Without a wait, accepted is all that was asked.
    let server = Server::always(200, &operation(OP, "FAILED"));
    assert_eq!(run(&server, &ARGS).code, 0);
}

#[test]
fn a_long_wait_goes_on_after_the_servers_longest() {
    let server = Server::new(|seen: &Seen| match seen.method.as_str() {
        "POST" => Answer::new(202, operation(OP, "PENDING")),
        _ => Answer::new(200, operation(OP, "COMPLETED")),
    });
    let ran = run(&server, &with(&["--wait", "10m"]));
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("COMPLETED") && !ran.out.contains("PENDING"));
    let lines = [
        "POST /v1/operations".to_owned(),
        format!("GET /v1/operations/{OP}"),
    ];
    assert_eq!(server.lines(), lines);
    let prefers: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.header("prefer").map(str::to_owned))
        .collect();
    assert_eq!(
        prefers,
        [Some("wait=60".to_owned()), Some("wait=60".to_owned())]
    );
}

#[test]
fn a_wait_outlives_a_restart_of_the_server() {
    let asked = AtomicUsize::new(0);
    let server = Server::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::new(202, operation(OP, "PENDING")),
        1 => Answer::lost(),
        _ => Answer::new(200, operation(OP, "COMPLETED")),
    });
    let ran = run(&server, &with(&["--idem-key", "k", "--wait", "10m"]));
    assert_eq!((ran.code, server.seen().len()), (0, 3), "{}", ran.err);
    assert!(ran.err.contains("trying again"), "{}", ran.err);
}

#[test]
fn core_8_a_server_that_is_lost_during_the_submission_gets_the_same_keys_again() {
    let asked = AtomicUsize::new(0);
    let server = Server::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::lost(),
        1 => Answer::problem(503, "unavailable", "the store is away"),
        _ => Answer::new(200, operation(OP, "COMPLETED")).header("Idempotency-Replayed", "true"),
    });
    let ran = run(&server, &with(&["--wait", "10m"]));
    assert_eq!((ran.code, server.seen().len()), (0, 3), "{}", ran.err);
    let bodies: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    assert!(ran.err.contains("accepted only once"), "{}", ran.err);
    assert!(
        !ran.err.contains("accepted before"),
        "the command itself repeated it"
    );
}

#[test]
fn core_8_a_server_that_stays_away_ends_a_wait_with_5_and_says_how_to_go_on() {
    let server = Server::new(|_| Answer::lost());
    let ran = run(&server, &with(&["--idem-key", "k", "--wait", "1ms"]));
    assert_eq!(ran.code, 5, "{}", ran.err);
    let last = ran.err.lines().last().unwrap();
    assert!(last.contains("--idem-key k"), "{}", ran.err);
    // A server that was never reached is an error at once: the address is probably wrong.
    let away = ["--url", "http://127.0.0.1:1", "--wait", "10m"];
    assert_eq!(run(&server, &with(&away)).code, 1);
}

#[test]
fn options_go_into_the_body() {
    let server = Server::always(202, &operation(OP, "PENDING"));
    let args = with(&[
        "--delay",
        "5m",
        "--deadline",
        "2026-11-15T09:00:00+01:00",
        "--priority",
        "-3",
        "--label",
        "team=shop",
        "--label",
        "ref=a=b",
    ]);
    let before = jiff::Timestamp::now();
    assert_eq!(run(&server, &args).code, 0);
    let after = jiff::Timestamp::now();
    let body: serde_json::Value = serde_json::from_str(&server.seen()[0].body).unwrap();
    let run_at: jiff::Timestamp = body["run_at"].as_str().unwrap().parse().unwrap();
    let delay = Duration::from_secs(300);
    let slack = Duration::from_millis(1);
    assert!(run_at >= before + delay - slack && run_at <= after + delay + slack);
    assert_eq!(body["deadline"], "2026-11-15T08:00:00Z");
    assert_eq!(body["priority"], -3);
    assert_eq!(
        body["labels"],
        serde_json::json!({"team": "shop", "ref": "a=b"})
    );
}

#[test]
fn payloads_come_from_files_and_pipes() {
    let server = Server::always(202, &operation(OP, "PENDING"));
    let file = folder().join("charge.json");
    std::fs::write(&file, " {\"a\": 1.0} ").unwrap();
    let at = format!("@{}", file.display());
    let args = |payload| ["submit", "d", "e", "b", "--payload", payload];
    assert_eq!(run(&server, &args(&at)).code, 0);
    assert_eq!(run_with_input(&server, &args("-"), "[2.50]").code, 0);
    let bodies: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert!(
        bodies[0].contains("\"payload\":{\"a\": 1.0}"),
        "{}",
        bodies[0]
    );
    assert!(bodies[1].contains("\"payload\":[2.50]"), "{}", bodies[1]);
}

#[test]
fn wrong_payloads_are_refused_before_anything_is_sent() {
    let server = Server::always(500, "");
    for (payload, code) in [
        ("{canary", 2),
        ("", 2),
        ("{} canary", 2),
        ("@there-is-no-such-file", 3),
    ] {
        let ran = run(&server, &["submit", "d", "e", "b", "--payload", payload]);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{payload}");
        assert!(!ran.err.contains("canary"), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1);
    }
    assert!(server.seen().is_empty());
}

#[test]
fn a_lost_answer_says_how_to_repeat() {
    let server = Server::new(|_| Answer::lost());
    let ran = run(&server, &ARGS);
    assert_eq!(ran.code, 1);
    let key = ran
        .err
        .lines()
        .next()
        .unwrap()
        .strip_prefix("idem_key ")
        .unwrap();
    assert!(
        ran.err.contains(&format!("--idem-key {key}")),
        "{}",
        ran.err
    );
    // What may have been done is not sent twice.
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_mismatch_is_a_conflict_and_a_replay_is_said() {
    let body = format!(
        r#"{{"status":422,"code":"idempotency_mismatch","detail":"another payload","op_id":"{OP}"}}"#
    );
    let server = Server::always(422, &body);
    let ran = run(&server, &with(&["--idem-key", "k"]));
    let line = format!(
        "error: idempotency_mismatch: another payload (the operation with these keys is {OP})\n"
    );
    assert_eq!((ran.code, ran.err), (4, line));
    let server = Server::new(|_| {
        Answer::new(200, operation(OP, "COMPLETED")).header("idempotency-replayed", "true")
    });
    let ran = run(&server, &with(&["--idem-key", "k"]));
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("accepted before"), "{}", ran.err);
}
