//! `clinch ops cancel` and `resolve`.

use crate::documents::{OP, OTHER, operation, page};
use crate::run::{run, run_with_input};
use crate::server::{Answer, Seen, Server};

fn posts(server: &Server) -> Vec<(String, String)> {
    let posts = server
        .seen()
        .into_iter()
        .filter(|seen| seen.method == "POST");
    posts.map(|seen| (seen.target, seen.body)).collect()
}

#[test]
fn one_operation_is_canceled_without_asking() {
    let server = Server::always(200, &operation(OP, "FAILED"));
    let ran = run(
        &server,
        &["ops", "cancel", OP, "--reason", "order \"withdrawn\""],
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with(&format!(
        "op_id             {OP}\nstate             FAILED\n"
    )));
    let path = format!("/v1/operations/{OP}/cancel");
    assert_eq!(
        posts(&server),
        [(path, r#"{"reason":"order \"withdrawn\""}"#.to_owned())]
    );

    let server = Server::always(202, &operation(OP, "IN_PROGRESS/live"));
    let ran = run(&server, &["ops", "cancel", OP]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.err, "cancel requested; the provider's answer decides\n");
    assert_eq!(posts(&server)[0].1, "{}");

    let server = Server::new(|_| Answer::problem(409, "terminal", "it is COMPLETED"));
    let ran = run(&server, &["ops", "cancel", OP]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (4, "error: terminal: it is COMPLETED\n")
    );
}

/// One open operation a state; the second one is terminal by the time it is canceled.
fn open_ones() -> Server {
    Server::new(|seen: &Seen| match seen.target.as_str() {
        target if target.contains("state=PENDING") => {
            Answer::new(200, page(&[operation(OP, "PENDING")], None))
        }
        target if target.contains("state=IN_PROGRESS") => {
            Answer::new(200, page(&[operation(OTHER, "IN_PROGRESS/live")], None))
        }
        target if target.contains(OTHER) => Answer::problem(409, "terminal", "it is COMPLETED"),
        _ => Answer::new(200, operation(OP, "FAILED")),
    })
}

#[test]
fn a_filter_takes_open_operations_only() {
    let server = open_ones();
    let ran = run(&server, &["ops", "cancel", "--domain", "payments", "-y"]);
    // One refusal is that operation's alone.
    let expected = format!(
        "\
OP_ID                                 RESULT                DETAIL
{OP}  canceled
{OTHER}  terminal              it is COMPLETED
"
    );
    let summary = "cancel: 1 done, 1 refused\n".to_owned();
    assert_eq!((ran.code, ran.out, ran.err), (4, expected, summary));
    let expected = [
        "GET /v1/operations?domain=payments&state=PENDING&limit=100".to_owned(),
        "GET /v1/operations?domain=payments&state=IN_PROGRESS&limit=100".to_owned(),
        format!("POST /v1/operations/{OP}/cancel"),
        format!("POST /v1/operations/{OTHER}/cancel"),
    ];
    assert_eq!(server.lines(), expected);

    let server = open_ones();
    let args = ["ops", "cancel", "--domain", "payments", "-y", "-o", "json"];
    let read: serde_json::Value = serde_json::from_str(&run(&server, &args).out).unwrap();
    assert_eq!(read["results"][0]["operation"]["op_id"], OP);
    assert_eq!(read["results"][1]["code"], "terminal");
}

#[test]
fn nothing_is_sent_where_nobody_can_be_asked() {
    let server = open_ones();
    let filters: [&[&str]; 3] = [
        &["ops", "cancel", "--state", "PENDING"],
        &["ops", "resolve", "--domain", "payments", "--as", "retry"],
        &["dlq", "redrive", "--domain", "payments"],
    ];
    for args in filters {
        let ran = run_with_input(&server, args, "y\ny\n");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert_eq!(ran.err.lines().count(), 1);
    }
    assert!(server.seen().is_empty());
}

#[test]
fn a_dry_run_lists_and_changes_nothing() {
    let server = open_ones();
    let ran = run(
        &server,
        &["ops", "cancel", "--domain", "payments", "--dry-run"],
    );
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains(OP) && ran.out.contains(OTHER));
    assert!(posts(&server).is_empty());

    let server = Server::always(200, &operation(OP, "PENDING"));
    let ran = run(&server, &["ops", "cancel", OP, "--dry-run"]);
    assert_eq!(
        (ran.code, server.lines()),
        (0, vec![format!("GET /v1/operations/{OP}")])
    );
    assert!(ran.out.contains(OP), "{}", ran.out);
}

#[test]
fn a_program_gets_an_empty_list_where_nothing_matches() {
    let server = Server::new(|seen: &Seen| match seen.target.as_str() {
        "/v1/domains" => Answer::new(200, r#"{"domains":[{"domain":"payments"}]}"#),
        _ => Answer::new(200, page(&[], None)),
    });
    let filter = ["ops", "cancel", "--domain", "payments"];
    for (more, expected) in [
        (
            &["--dry-run", "-o", "json"][..],
            r#"{"operations":[],"next_cursor":null}"#,
        ),
        (
            &["-y", "-o", "json"],
            r#"{"results":[],"next_cursor":null}"#,
        ),
        (&["--dry-run", "-o", "jsonl"], ""),
        (&["--dry-run"], ""),
    ] {
        let ran = run(&server, &[&filter[..], more].concat());
        let out: String = ran.out.split_whitespace().collect();
        assert_eq!((ran.code, out.as_str()), (0, expected), "{more:?}");
        assert_eq!(ran.err, "none found\n");
    }
}

#[test]
fn the_limit_bounds_what_is_taken() {
    let server = open_ones();
    let args = [
        "ops", "cancel", "--domain", "payments", "--limit", "1", "-y",
    ];
    let ran = run(&server, &args);
    assert_eq!((ran.code, posts(&server).len()), (0, 1));
    assert!(ran.err.contains("only the first 1"), "{}", ran.err);
}

#[test]
fn a_server_that_goes_away_ends_it() {
    let server = Server::new(|seen: &Seen| match seen.target.contains(OTHER) {
        true => Answer::lost(),
        false => Answer::new(200, operation(OP, "FAILED")),
    });
    let ran = run(&server, &["ops", "cancel", OP, OTHER, OP]);
    assert_eq!((ran.code, server.seen().len()), (1, 2));
    assert!(
        ran.err
            .starts_with("stopped after 1 of 3\nerror: the answer of"),
        "{}",
        ran.err
    );
}

#[test]
fn a_connection_that_the_server_closed_is_no_trouble() {
    let server = Server::new(|_| Answer::new(200, operation(OP, "FAILED")).close());
    let ran = run(&server, &["ops", "cancel", OP, OTHER]);
    assert_eq!(
        (ran.code, ran.err.as_str(), server.seen().len()),
        (0, "cancel: 2 done, 0 refused\n", 2)
    );
}

#[test]
fn targets_are_named_or_found_not_both_and_not_neither() {
    let server = open_ones();
    let wrong: [&[&str]; 5] = [
        &["ops", "cancel"],
        &["ops", "cancel", "-y"],
        &["ops", "cancel", OP, "--domain", "payments", "-y"],
        &["ops", "cancel", "--state", "COMPLETED", "-y"],
        &["dlq", "redrive", "-y"],
    ];
    for args in wrong {
        assert_eq!(run(&server, args).code, 2, "{args:?}");
    }
    assert!(server.seen().is_empty());
}

#[test]
fn a_person_settles_a_held_operation() {
    let server = Server::always(200, &operation(OP, "COMPLETED"));
    let ends: [(&[&str], &str); 3] = [
        (
            &[
                "--as",
                "completed",
                "--provider-txn-id",
                "tx_9",
                "--payload",
                "{\"a\":1.0}",
                "--reason",
                "seen",
            ],
            r#"{"as":"completed","provider_txn_id":"tx_9","payload":{"a":1.0},"reason":"seen"}"#,
        ),
        (
            &[
                "--as",
                "failed",
                "--code",
                "refused",
                "--message",
                "no",
                "--effect",
                "none",
            ],
            r#"{"as":"failed","code":"refused","message":"no","effect":"none"}"#,
        ),
        (&["--as", "retry"], r#"{"as":"retry"}"#),
    ];
    for (flags, body) in ends {
        let args = [&["ops", "resolve", OP], flags].concat();
        assert_eq!(run(&server, &args).code, 0);
        let last = server.seen().pop().unwrap();
        assert_eq!(last.target, format!("/v1/operations/{OP}/resolve"));
        assert_eq!(last.body, body);
    }
}

#[test]
fn resolving_by_filter_takes_held_operations() {
    let server = Server::new(|seen: &Seen| match seen.method.as_str() {
        "GET" => Answer::new(200, page(&[operation(OP, "IN_PROGRESS/held")], None)),
        _ => Answer::new(200, operation(OP, "IN_PROGRESS/waiting")),
    });
    let args = [
        "ops", "resolve", "--domain", "payments", "--as", "retry", "-y",
    ];
    let ran = run(&server, &args);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("resolved"), "{}", ran.out);
    let expected = [
        "GET /v1/operations?domain=payments&phase=held&limit=100".to_owned(),
        format!("POST /v1/operations/{OP}/resolve"),
    ];
    assert_eq!(server.lines(), expected);
}

#[test]
fn flags_that_would_be_passed_over_are_refused() {
    let server = Server::always(500, "");
    let wrong: [&[&str]; 5] = [
        &[OP],
        &[OP, "--as", "retry", "--provider-txn-id", "tx_9"],
        &[OP, "--as", "completed", "--effect", "none"],
        &[
            "--domain",
            "payments",
            "--as",
            "completed",
            "--provider-txn-id",
            "tx_9",
            "-y",
        ],
        &[OP, "--as", "completed", "--payload", "{"],
    ];
    for flags in wrong {
        let args = [&["ops", "resolve"], flags].concat();
        assert_eq!(run(&server, &args).code, 2, "{args:?}");
    }
    assert!(server.seen().is_empty());
}
