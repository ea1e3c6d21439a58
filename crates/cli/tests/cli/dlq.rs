//! `clinch dlq`.

use crate::documents::{OP, OTHER};
use crate::run::{command_at, run};
use crate::server::{Answer, Seen, Server};

fn letter(op_id: &str) -> String {
    format!(
        r#"{{"op_id":"{op_id}","domain":"payments","event_type":"charge","biz_key":"order-123","idem_key":"k","failure":{{"code":"http_402","message":"card refused","cause":null,"effect":"none"}},"attempts":3,"failed_at":"T","fingerprint":"5f2c"}}"#
    )
}

#[test]
fn a_table_of_dead_letters() {
    let body = format!(r#"{{"dead_letters":[{}],"next_cursor":null}}"#, letter(OP));
    let server = Server::always(200, &body);
    let args = [
        "dlq",
        "ls",
        "--domain",
        "payments",
        "--code",
        "http_402",
        "--fingerprint",
        "5f2c",
        "--from",
        "2026-11-15T08:00:00Z",
    ];
    let ran = run(&server, &args);
    let expected = format!(
        "\
OP_ID                                 CODE      EFFECT  DOMAIN    EVENT_TYPE  BIZ_KEY    ATTEMPTS  FAILED_AT  MESSAGE
{OP}  http_402  none    payments  charge      order-123  3         T          card refused
"
    );
    assert_eq!((ran.code, ran.out), (0, expected));
    let expected = "GET /v1/dead-letters?domain=payments&code=http_402&fingerprint=5f2c\
                    &from=2026-11-15T08%3A00%3A00Z&limit=50";
    assert_eq!(server.lines(), [expected]);
    let ran = run(&server, &["dlq", "ls", "-o", "jsonl"]);
    assert_eq!(ran.out, letter(OP) + "\n");
}

#[test]
fn groups_and_one() {
    let group = r#"{"fingerprint":"5f2c","domain":"payments","event_type":"charge","code":"http_402","message":"card refused","count":7,"first_failed_at":"T1","last_failed_at":"T2","example_op_id":"x"}"#;
    let server = Server::always(200, &format!(r#"{{"groups":[{group}],"truncated":false}}"#));
    let ran = run(&server, &["dlq", "ls", "--group"]);
    let expected = "\
COUNT  CODE      DOMAIN    EVENT_TYPE  LAST_FAILED_AT  FINGERPRINT  MESSAGE
7      http_402  payments  charge      T2              5f2c         card refused
";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected));
    assert_eq!(
        server.lines(),
        ["GET /v1/dead-letters?group=true&limit=100"]
    );
    // Groups of several answers are added up, and the largest are shown.
    let other = group.replace("5f2c", "77aa").replace(":7,", ":9,");
    let server = Server::new(move |seen: &Seen| match seen.line().contains("cursor=") {
        false => Answer::new(
            200,
            format!(r#"{{"groups":[{group},{other}],"next_cursor":"c1"}}"#),
        ),
        true => Answer::new(200, format!(r#"{{"groups":[{group}],"next_cursor":null}}"#)),
    });
    let ran = run(&server, &["dlq", "ls", "--group", "--limit", "1"]);
    assert!(ran.out.contains("\n14     http_402"), "{}", ran.out);
    assert!(!ran.out.contains("77aa"), "{}", ran.out);
    assert!(ran.err.contains("1 more: use --all"), "{}", ran.err);

    let server = Server::always(200, &letter(OP));
    let ran = run(&server, &["dlq", "show", OP]);
    assert!(
        ran.out.contains("failure.message   card refused\n"),
        "{}",
        ran.out
    );
    assert_eq!(server.lines(), [format!("GET /v1/dead-letters/{OP}")]);
    let server = Server::new(|_| Answer::problem(404, "not_found", "no such dead letter"));
    let ran = run(&server, &["dlq", "show", OP]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (3, "error: not_found: no such dead letter\n")
    );
}

/// One may be redriven, one may not.
fn redrives() -> Server {
    Server::new(|seen: &Seen| {
        let body: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
        let one = match body["dry_run"].as_bool().unwrap() {
            true => format!(
                r#"{{"op_id":"{OP}","verdict":"redrive","redriven_by":null,"reason":null}}"#
            ),
            false => format!(
                r#"{{"op_id":"{OP}","verdict":"redrive","redriven_by":"NEW","reason":null}}"#
            ),
        };
        let other = format!(
            r#"{{"op_id":"{OTHER}","verdict":"refused","redriven_by":null,"reason":"may not be repeated"}}"#
        );
        let results = match body["dry_run"].as_bool().unwrap() {
            true => format!("{one},{other}"),
            false => one,
        };
        Answer::new(
            200,
            format!(r#"{{"dry_run":true,"truncated":false,"results":[{results}]}}"#),
        )
    })
}

#[test]
fn only_what_the_plan_showed_is_redriven() {
    let server = redrives();
    let ran = run(&server, &["dlq", "redrive", "--domain", "payments", "-y"]);
    let expected = "1 redriven, 0 already, 1 refused\n".to_owned();
    let note = "1 refused; --dry-run says why\n".to_owned();
    assert_eq!((ran.code, ran.out, ran.err), (0, expected, note));
    assert_eq!(server.lines(), ["POST /v1/dead-letters/redrive"; 2]);
    let bodies: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(
        bodies[0],
        r#"{"dry_run":true,"filter":{"domain":"payments"}}"#
    );
    let done = format!(r#"{{"dry_run":false,"filter":{{"domain":"payments","op_ids":["{OP}"]}}}}"#);
    assert_eq!(bodies[1], done);
}

#[test]
fn the_plan_is_shown_before_the_question() {
    let server = redrives();
    let command = command_at(&server, &["dlq", "redrive", OP, OTHER]);
    let session = crate::pty::on_terminal(command, 200, "no");
    assert_eq!((session.code, server.seen().len()), (1, 1));
    let asked = session.screen.find("redrive 1 operations? [y/N]").unwrap();
    assert!(session.screen.find("may not be repeated").unwrap() < asked);
    let expected = format!(r#"{{"dry_run":true,"filter":{{"op_ids":["{OP}","{OTHER}"]}}}}"#);
    assert_eq!(server.seen()[0].body, expected);
    let ran = run(&redrives(), &["dlq", "redrive", OP, "--dry-run"]);
    assert!(ran.out.contains("may not be repeated"), "{}", ran.out);
}

#[test]
fn a_redrive_that_does_nothing_says_why() {
    let refused = format!(
        r#"{{"results":[{{"op_id":"{OP}","verdict":"refused","redriven_by":null,"reason":"may not be repeated"}}]}}"#
    );
    for (body, code) in [(refused.as_str(), 4), (r#"{"results":[]}"#, 3)] {
        let server = Server::always(200, body);
        let ran = run(&server, &["dlq", "redrive", OP, "-y"]);
        assert_eq!((ran.code, server.seen().len()), (code, 1));
        assert!(ran.err.ends_with("nothing to redrive\n"), "{}", ran.err);
    }
}

#[test]
fn a_program_gets_an_empty_list_where_nothing_changes() {
    let refused = format!(
        r#"{{"results":[{{"op_id":"{OP}","verdict":"refused","reason":"may not be repeated"}}]}}"#
    );
    let empty = r#"{"results":[],"next_cursor":null}"#;
    let commands: [&[&str]; 3] = [
        &["dlq", "redrive"],
        &["dlq", "dismiss", "--reason", "known"],
        &["dlq", "reopen", "--reason", "known"],
    ];
    for command in commands {
        for (body, code) in [(refused.as_str(), 4), (r#"{"results":[]}"#, 0)] {
            for (format, expected) in [("json", empty), ("jsonl", ""), ("table", "")] {
                let server = Server::always(200, body);
                let more = ["--code", "http_402", "-y", "-o", format];
                let ran = run(&server, &[command, &more].concat());
                let out: String = ran.out.split_whitespace().collect();
                assert_eq!((ran.code, out.as_str()), (code, expected), "{command:?}");
                let note = format!("nothing to {}\n", command[1]);
                assert!(ran.err.ends_with(&note), "{}", ran.err);
            }
        }
        for (format, expected) in [("json", empty), ("jsonl", ""), ("table", "")] {
            let server = Server::always(200, r#"{"results":[]}"#);
            let more = ["--code", "http_402", "--dry-run", "-o", format];
            let ran = run(&server, &[command, &more].concat());
            let out: String = ran.out.split_whitespace().collect();
            assert_eq!((ran.code, out.as_str()), (0, expected), "{command:?}");
            assert_eq!(ran.err, "none found\n");
        }
    }
}

#[test]
fn a_plan_goes_to_the_last_page_and_a_dismissal_says_why() {
    let server = Server::new(|seen: &Seen| {
        let body: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
        let one = |op: &str| format!(r#"{{"op_id":"{op}","verdict":"dismiss","reason":null}}"#);
        let (results, cursor) = match (&body["dry_run"], &body["cursor"]) {
            (serde_json::Value::Bool(false), _) => (one(OP) + "," + &one(OTHER), "null"),
            (_, serde_json::Value::Null) => (one(OP), r#""next""#),
            _ => (one(OTHER), "null"),
        };
        let body = format!(r#"{{"next_cursor":{cursor},"results":[{results}]}}"#);
        Answer::new(200, body)
    });
    let args = [
        "dlq", "dismiss", "--code", "http_402", "--reason", "known", "-y",
    ];
    let ran = run(&server, &args);
    let expected = "2 dismissed, 0 already, 0 refused\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected));
    let seen: Vec<serde_json::Value> = server
        .seen()
        .iter()
        .map(|seen| serde_json::from_str(&seen.body).unwrap())
        .collect();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[1]["cursor"], "next");
    assert_eq!(seen[2]["filter"]["op_ids"], serde_json::json!([OP, OTHER]));
    assert_eq!(
        (&seen[2]["reason"], &seen[2]["dry_run"]),
        (&"known".into(), &false.into())
    );
    let ran = run(&server, &["dlq", "dismiss", OP, "-y"]);
    assert_eq!((ran.code, server.seen().len()), (2, 3), "{}", ran.err);
}
