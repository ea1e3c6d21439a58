//! Every table at 80 columns: the reason and the last error are always there.

use serde_json::{Value, json};

use crate::documents::{OP, OTHER, operation, page};
use crate::pty::on_terminal;
use crate::run::{command, command_at, ended, folder, run};
use crate::server::{Answer, Server};

/// The lines of the command's output at 80 columns.
fn at_80(server: &Server, arguments: &[&str]) -> Vec<String> {
    let mut all = arguments.to_vec();
    all.push("--no-color");
    let session = on_terminal(command_at(server, &all), 80, "");
    assert_eq!(session.code, 0, "{}", session.screen);
    let lines: Vec<String> = session.screen.lines().map(str::to_owned).collect();
    // The first line names the server.
    for line in lines.iter().skip(1) {
        assert!(
            line.chars().count() <= 80,
            "{} columns: {line}",
            line.chars().count()
        );
    }
    lines
}

fn waiting() -> String {
    let mut waiting: Value = serde_json::from_str(&operation(OP, "IN_PROGRESS/waiting")).unwrap();
    waiting["domain"] = json!("payments-of-the-whole-company");
    waiting["biz_key"] = json!("order-123-with-a-very-long-key-of-its-own");
    waiting["hold"] = json!({"reason": "backoff", "until": "2026-11-15T09:00:00.000Z"});
    waiting["last_error"] =
        json!({"code": "retry", "message": "http 503", "at": "2026-11-15T08:59:00.000Z"});
    waiting.to_string()
}

#[test]
fn operations_say_why_until_when_and_the_last_error() {
    let other = "01917f5e-0000-7abc-8000-000000000002";
    let server = Server::always(200, &page(&[waiting(), operation(other, "FAILED")], None));
    let lines = at_80(&server, &["ops", "ls"]).join("\n");
    assert!(lines.contains("WHY"), "{lines}");
    assert!(lines.contains("backoff until Nov 15 09:00"), "{lines}");
    assert!(lines.contains("http_402: card refused"), "{lines}");
    assert!(lines.contains("IN_PROGRESS/waiting"), "{lines}");
    let piped = run(&server, &["ops", "ls"]).out;
    assert!(
        piped.contains("backoff until 2026-11-15T09:00:00.000Z: http 503"),
        "{piped}"
    );
    assert!(
        piped.contains("order-123-with-a-very-long-key-of-its-own"),
        "{piped}"
    );
}

#[test]
fn ids_that_differ_at_their_end_are_whole_and_why_is_still_there() {
    let server = Server::always(200, &page(&[waiting(), operation(OTHER, "FAILED")], None));
    let lines = at_80(&server, &["ops", "ls"]).join("\n");
    assert!(lines.contains(OP) && lines.contains(OTHER), "{lines}");
    assert!(lines.contains("backoff until Nov"), "{lines}");
}

#[test]
fn an_id_is_short_on_a_terminal_and_whole_in_a_pipe() {
    let other = "01917f5e-0000-7abc-8000-000000000002";
    let operations = [operation(OP, "FAILED"), operation(other, "COMPLETED")];
    let server = Server::always(200, &page(&operations, None));
    let lines = at_80(&server, &["ops", "ls"]).join("\n");
    assert!(
        lines.contains(&OP[..18]) && !lines.contains(&OP[..19]),
        "{lines}"
    );
    assert!(lines.contains(&other[..18]), "{lines}");
    let piped = run(&server, &["ops", "ls"]).out;
    assert!(
        piped.contains(OP) && piped.contains("2026-11-15T08:00:00.123Z"),
        "{piped}"
    );
}

#[test]
fn the_path_of_an_operation_keeps_errors_and_notes() {
    let ledger = json!({
        "attempts": [{"number": 1, "started_at": "2026-11-15T08:00:00.123Z", "ended_at": "2026-11-15T08:00:01.123Z",
            "outcome": "retry", "latency_ms": 1000, "worker": "clinch-1234-0a1b2c3d4e5f", "error": "http 503 from the provider"}],
        "late_answers": [],
        "ledger": [{"at": "2026-11-15T08:00:00.123Z", "event": "Reschedule", "state": "IN_PROGRESS", "phase": "waiting",
            "fence": 1, "by": "clinch-1234-0a1b2c3d4e5f", "note": "http 503 from the provider", "refused": null}],
    });
    let server = Server::new(move |seen| match seen.target.ends_with("/attempts") {
        true => Answer::new(200, ledger.to_string()),
        false => Answer::new(200, operation(OP, "IN_PROGRESS/waiting")),
    });
    let mut get = vec!["ops", "get", OP, "--path"];
    get.push("--no-color");
    let session = on_terminal(command_at(&server, &get), 80, "");
    let tables = session.screen.split("NUMBER").nth(1).unwrap();
    for line in tables.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert_eq!(
        tables.matches("http 503 from the pro").count(),
        2,
        "{tables}"
    );
}

#[test]
fn dead_letters_keep_their_message() {
    let letter = json!({"op_id": OP, "domain": "payments-of-the-whole-company", "event_type": "charge", "biz_key": "order-123",
        "idem_key": "k", "failure": {"code": "card_declined", "message": "the card was declined by the bank", "cause": null, "effect": "none"},
        "attempts": 5, "failed_at": "2026-11-15T08:00:00.123Z", "late_ok": false, "fingerprint": "5f2c1d0e9a8b7c6d"});
    let server = Server::always(
        200,
        &json!({"dead_letters": [letter], "next_cursor": null}).to_string(),
    );
    let lines = at_80(&server, &["dlq", "ls"]).join("\n");
    assert!(lines.contains("the card was declined"), "{lines}");
    assert!(lines.contains("card_declined"), "{lines}");
    let group = json!({"fingerprint": "5f2c1d0e9a8b7c6d", "count": 1200, "code": "card_declined", "domain": "payments-of-the-whole-company",
        "event_type": "charge", "last_failed_at": "2026-11-15T08:00:00.123Z", "message": "the card was declined by the bank"});
    let server = Server::always(
        200,
        &json!({"groups": [group], "next_cursor": null}).to_string(),
    );
    let lines = at_80(&server, &["dlq", "ls", "--group"]).join("\n");
    assert!(lines.contains("the card was declined"), "{lines}");
    assert!(lines.contains("5f2c1d0e9a8b7c6d"), "{lines}");
}

#[test]
fn destinations_keep_their_last_error() {
    let psp = json!({"destination": "payments-provider-of-the-company", "state": "down", "breaker": "open", "forced": false,
        "breaker_since": "2026-11-15T08:00:00.123Z", "open_until": "2026-11-15T08:05:00.123Z", "paused_until": null, "paused_since": null,
        "backlog": 1200, "recent": {"window_ms": 300000, "calls": 400, "failed": 399},
        "rate": {"available": 7, "again_at": null}, "concurrency": {"available": 16, "again_at": null},
        "last_error": {"code": "effect_unknown", "message": "http 503", "at": "2026-11-15T08:00:00.123Z"}});
    let server = Server::always(200, &json!({"destinations": [psp]}).to_string());
    let lines = at_80(&server, &["destinations", "ls"]).join("\n");
    assert!(lines.contains("down"), "{lines}");
    assert!(lines.contains("Nov 15 08:00 http 503"), "{lines}");
}

#[test]
fn domains_and_runs_fit() {
    let domain = json!({"domain": "payments-of-the-whole-company", "paused": true, "depth": 100_000, "oldest_age_ms": 123_456,
        "counts": {"PENDING": 100_000, "IN_PROGRESS": 9, "COMPLETED": 12_345_678, "FAILED": 6, "live": 2, "waiting": 3, "held": 4}});
    let server = Server::always(200, &json!({"domains": [domain]}).to_string());
    let lines = at_80(&server, &["domains", "ls"]).join("\n");
    assert!(
        lines.contains("paused") && lines.contains("HELD"),
        "{lines}"
    );
    let batch = json!({"batch_id": OP, "sealed": true, "complete": false, "total": 3, "completed": 1, "failed": 1, "completed_at": null});
    let server = Server::always(200, &batch.to_string());
    at_80(&server, &["batches", "get", OP]);
}

#[test]
fn runs_of_the_collector_fit() {
    let run = json!({"run_id": "octocat.7", "login": "octocat", "status": "COMPLETED", "trigger": "scheduled",
        "jobs": {"total": 1234, "failed": 12}, "pages": {"documents": 123_456},
        "created_at": "2026-11-15T08:00:00.123Z", "completed_at": "2026-11-15T08:10:00.123Z"});
    let server = Server::always(
        200,
        &json!({"runs": [run], "next_cursor": null}).to_string(),
    );
    let lines = at_80(&server, &["github", "status"]).join("\n");
    assert!(lines.contains("octocat.7"), "{lines}");
    assert!(lines.contains("Nov 15 08:00"), "{lines}");
}

#[test]
fn core_16_keys_are_a_table_on_a_terminal_and_documents_in_a_pipe() {
    let folder = folder();
    let mut create = command(&[
        "keys",
        "create",
        "shop",
        "--domains",
        "payments,mail,parcels",
    ]);
    let made = ended(create.current_dir(&folder).output().unwrap());
    assert_eq!(made.code, 0, "{}", made.err);
    let mut list = command(&["keys", "ls", "--no-color"]);
    list.current_dir(&folder);
    let session = on_terminal(list, 80, "");
    assert!(
        session.screen.contains("ID                NAME"),
        "{}",
        session.screen
    );
    assert!(
        session.screen.contains("mail,parcels,payments"),
        "{}",
        session.screen
    );
    for line in session.screen.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let mut list = command(&["keys", "ls"]);
    let piped = ended(list.current_dir(&folder).output().unwrap());
    let key: Value = serde_json::from_str(&piped.out).unwrap();
    assert_eq!(key["name"], "shop");
}
