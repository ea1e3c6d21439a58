//! `clinch ops watch`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::documents::{OP, OTHER, operation};
use crate::run::{command_at, run};
use crate::server::{Answer, Server};

#[test]
fn one_operation_until_it_settles() {
    for (state, code) in [("COMPLETED", 0), ("FAILED", 1)] {
        let server = Server::always(200, &operation(OP, state));
        let ran = run(&server, &["ops", "watch", OP]);
        assert_eq!((ran.code, ran.out.lines().count()), (code, 2));
        assert_eq!(server.lines(), [format!("GET /v1/operations/{OP}")]);
        assert_eq!(server.seen()[0].header("prefer"), Some("wait=5"));
    }
    let server = Server::always(200, &operation(OP, "IN_PROGRESS/held"));
    let ran = run(
        &server,
        &["ops", "watch", OP, "--wait", "1ms", "-o", "jsonl"],
    );
    assert_eq!(ran.code, 5);
    assert_eq!(ran.out, format!("{}\n", operation(OP, "IN_PROGRESS/held")));
    let server = Server::new(|_| Answer::problem(404, "not_found", "no such operation"));
    assert_eq!(run(&server, &["ops", "watch", OP]).code, 3);
}

#[test]
fn every_change_shows_once_and_a_restart_is_waited_for() {
    let asked = AtomicUsize::new(0);
    let server = Server::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::new(200, operation(OP, "PENDING")),
        1 => Answer::lost(),
        _ => Answer::new(200, operation(OP, "COMPLETED")),
    });
    let ran = run(&server, &["ops", "watch", OP]);
    assert_eq!(ran.code, 0);
    let states: Vec<&str> = ran
        .out
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(states, ["PENDING", "COMPLETED"]);
    assert!(ran.err.contains("trying again"), "{}", ran.err);
}

#[test]
fn core_8_a_server_that_is_lost_before_its_first_answer_is_waited_for() {
    let asked = AtomicUsize::new(0);
    let server = Server::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::lost(),
        _ => Answer::new(200, operation(OP, "COMPLETED")),
    });
    let ran = run(&server, &["ops", "watch", OP]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn core_8_a_server_that_stays_away_is_not_a_failed_operation() {
    let server = Server::new(|_| Answer::lost());
    let ran = run(&server, &["ops", "watch", OP, "--wait", "1ms"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let last = ran.err.lines().last().unwrap();
    assert!(last.contains(&format!("clinch ops watch {OP}")), "{last}");
    // The last known state is printed all the same.
    let asked = AtomicUsize::new(0);
    let server = Server::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::new(200, operation(OP, "PENDING")),
        _ => Answer::lost(),
    });
    let ran = run(&server, &["ops", "watch", OP, "--wait", "1500ms"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(ran.out.contains("PENDING"), "{}", ran.out);
    assert!(ran.err.contains("clinch ops watch"), "{}", ran.err);
    // An address that never answered is probably wrong.
    let away = ["ops", "watch", OP, "--url", "http://127.0.0.1:1"];
    assert_eq!(run(&server, &away).code, 1);
}

fn events(domain: &str, op_id: &str) -> String {
    let document = operation(op_id, "FAILED").replace("payments", domain);
    format!(
        ": hello\n\nevent: counters\ndata: {{\"domains\":[]}}\n\nevent: operation\ndata: {document}\n\n"
    )
}

fn lines(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

fn line(lines: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line
}

#[test]
fn all_of_them_through_a_restart() {
    let asked = AtomicUsize::new(0);
    let server = Server::new(move |seen| match seen.target.as_str() {
        "/v1/domains" => Answer::new(200, r#"{"domains":[{"domain":"payments"}]}"#),
        _ if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            Answer::events(&events("payments", OP), true)
        }
        _ => Answer::events(&(events("sms", OP) + &events("payments", OTHER)), false),
    });
    let args = ["ops", "watch", "--domain", "payments"];
    let mut child = command_at(&server, &args).spawn().unwrap();
    let mut out = lines(&mut child);
    assert!(line(&mut out).starts_with("OP_ID "));
    let expected = |id| {
        format!(
            "{id}  FAILED               payments      charge        order-123         http_402: card refused\n"
        )
    };
    assert_eq!(line(&mut out), expected(OP));
    assert_eq!(line(&mut out), expected(OTHER));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(server.lines()[..2], ["GET /v1/domains", "GET /v1/events"]);
    assert_eq!(server.seen()[1].header("accept"), Some("text/event-stream"));
}

#[test]
fn as_lines_of_json_with_counters() {
    let server = Server::new(|_| Answer::events(&events("payments", OP), false));
    let mut child = command_at(&server, &["ops", "watch", "-o", "jsonl"])
        .spawn()
        .unwrap();
    let mut out = lines(&mut child);
    assert_eq!(
        line(&mut out),
        "{\"event\":\"counters\",\"data\":{\"domains\":[]}}\n"
    );
    let document = operation(OP, "FAILED");
    let expected = format!("{{\"event\":\"operation\",\"data\":{document}}}\n");
    assert_eq!(line(&mut out), expected);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_server_without_events_is_an_error() {
    let server = Server::always(200, "{}");
    let ran = run(&server, &["ops", "watch"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("does not answer like a Clinch server"),
        "{}",
        ran.err
    );
}
