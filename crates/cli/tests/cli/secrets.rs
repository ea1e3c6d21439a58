//! The API key reaches the server and nobody else.

use crate::documents::{OP, operation};
use crate::run::{command, command_at, ended};
use crate::server::{Answer, Seen, Server};

const KEY: &str = "clk_canary0123456789";

#[test]
fn the_key_is_sent_as_a_bearer_token() {
    let server = Server::always(200, &operation(OP, "COMPLETED"));
    let by_flag = command_at(&server, &["ops", "get", OP, "--api-key", KEY]).output();
    assert_eq!(ended(by_flag.unwrap()).code, 0);
    let mut by_environment = command_at(&server, &["ops", "get", OP]);
    let by_environment = by_environment.env("CLINCH_API_KEY", KEY).output();
    assert_eq!(ended(by_environment.unwrap()).code, 0);
    let expected = format!("Bearer {KEY}");
    for seen in server.seen() {
        assert_eq!(seen.header("authorization"), Some(expected.as_str()));
    }
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn core_16_the_key_is_never_printed() {
    // A server that repeats whatever it was sent.
    let echo = Server::new(|seen: &Seen| {
        let key = seen.header("authorization").unwrap_or_default();
        Answer::problem(401, "unauthenticated", &format!("{key} is not a key"))
    });
    let garbage = Server::new(|seen: &Seen| {
        Answer::new(
            500,
            format!("<html>{:?}</html>", seen.header("authorization")),
        )
    });
    let runs: [&[&str]; 8] = [
        &["ops", "get", OP],
        &["ops", "watch"],
        &["submit", "d", "e", "b", "--payload", "{}"],
        &["--help"],
        &["ops", "ls", "--help"],
        &["ops", "ls", "--no-such-flag"],
        &[
            "ops",
            "ls",
            "--url",
            "http://user:clk_canary0123456789@127.0.0.1:1",
        ],
        &["ops", "ls", "--url", "http://127.0.0.1:1"],
    ];
    for server in [&echo, &garbage] {
        for args in runs {
            let mut command = command_at(server, args);
            let ran = ended(command.env("CLINCH_API_KEY", KEY).output().unwrap());
            assert!(!ran.out.contains("canary"), "{args:?}: {}", ran.out);
            assert!(!ran.err.contains("canary"), "{args:?}: {}", ran.err);
        }
    }
    // Neither is one that no header can carry.
    for key in ["canary\n", "canary\u{7f}"] {
        let ran = command_at(&echo, &["ops", "ls", "--api-key", key]).output();
        let ran = ended(ran.unwrap());
        assert_eq!(ran.code, 2);
        assert!(!ran.err.contains("canary"), "{}", ran.err);
    }
}

#[test]
fn a_key_in_the_clear_is_warned_about() {
    // That name never resolves; the warning comes before the attempt.
    let args = [
        "ops",
        "ls",
        "--url",
        "http://clinch.invalid",
        "--api-key",
        KEY,
    ];
    let ran = ended(command(&args).output().unwrap());
    assert_eq!(ran.code, 1);
    let warning = "warning: the API key travels unencrypted to http://clinch.invalid; use https";
    assert_eq!(ran.err.lines().next(), Some(warning));
}
