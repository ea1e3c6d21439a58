//! Errors, in one line each, and the choice of the server.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;

use crate::documents::{OP, operation, page};
use crate::run::{command, command_at, ended, folder, run};
use crate::server::{Answer, Seen, Server};

#[test]
fn nobody_there() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{port}");
    let ran = ended(command(&["ops", "ls", "--url", &url]).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err.lines().count(), 1);
    assert!(
        ran.err
            .starts_with(&format!("error: cannot reach the server at {url} ("))
    );
    assert!(
        ran.err.contains("is `clinch serve` running there?"),
        "{}",
        ran.err
    );
}

#[test]
fn problems_by_status() {
    let codes = [
        (400, "invalid_request", 2, ""),
        (400, "unknown_route", 2, ""),
        (
            401,
            "unauthenticated",
            1,
            " (give a key by CLINCH_API_KEY or --api-key)",
        ),
        (403, "forbidden", 1, " (use a key with the scope for this)"),
        (404, "not_found", 3, ""),
        (409, "not_held", 4, ""),
        (413, "payload_too_large", 2, ""),
        (415, "unsupported_media_type", 2, ""),
        (422, "idempotency_mismatch", 4, ""),
        (429, "shed", 1, " (try again in 7 s)"),
        (503, "unavailable", 1, " (try again in 7 s)"),
        (500, "internal", 1, ""),
    ];
    for (status, code, exit, advice) in codes {
        let server = Server::new(move |_| {
            Answer::problem(status, code, "what happened").header("retry-after", "7")
        });
        let ran = run(&server, &["ops", "get", OP]);
        let line = format!("error: {code}: what happened{advice}\n");
        assert_eq!((ran.code, ran.err, ran.out.as_str()), (exit, line, ""));
    }
}

#[test]
fn somebody_else_answers() {
    let server = Server::always(502, "<html>\n\x1b[2Jbad gateway</html>");
    let ran = run(&server, &["ops", "ls"]);
    let line = "error: http_502: <html> \u{fffd}[2Jbad gateway</html>\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, line));
    for body in ["<html>", "[]", "{}", "null", ""] {
        let server = Server::always(200, body);
        let ran = run(&server, &["ops", "ls"]);
        assert_eq!(ran.code, 1, "{body}");
        assert!(
            ran.err.contains("does not answer like a Clinch server"),
            "{}",
            ran.err
        );
    }
    // A key is not sent to any other server.
    let other = Server::always(200, &page(&[], None));
    let url = other.url();
    let server = Server::new(move |_| Answer::new(307, "").header("location", &url));
    let ran = run(&server, &["ops", "ls"]);
    assert_eq!((ran.code, other.seen().len()), (1, 0));
    assert!(
        ran.err.contains("redirects are not followed"),
        "{}",
        ran.err
    );
}

#[test]
fn text_of_others_never_moves_the_cursor() {
    let nasty = r#"a\u001b[2Jb\nc\u202e"#;
    let document = operation(OP, "FAILED").replace("order-123", nasty);
    let server = Server::always(200, &page(&[document], None));
    for format in ["table", "json", "jsonl"] {
        let ran = run(&server, &["ops", "ls", "-o", format]);
        assert_eq!(ran.code, 0);
        let is_active = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!ran.out.contains(is_active), "{}", ran.out);
    }
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    let wrong: [&[&str]; 5] = [
        &[],
        &["opps"],
        &["ops", "ls", "--state", "DONE"],
        &["submit", "d", "e", "b"],
        &["ops", "ls", "--all", "--limit", "5"],
    ];
    for args in wrong {
        let ran = ended(command(args).output().unwrap());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
    }
    let ran = ended(command(&["ops", "cancel", "--help"]).output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.contains("Examples:\n  clinch ops cancel"),
        "{}",
        ran.out
    );
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let [file, environment, flag] = [(); 3].map(|()| {
        let memory = |answer: Answer| answer.header("clinch-store", "1; kind=memory");
        Server::new(move |_| memory(Answer::new(200, page(&[], None))))
    });
    let dir = folder();
    let config = |name: &str, text: String| std::fs::write(dir.join(name), text).unwrap();
    config(
        "clinch.toml",
        format!(
            "[store]\nurl = \"memory:\"\n[server]\nlisten = \"{}\"\n",
            file.address()
        ),
    );
    config(
        "far.toml",
        "[server]\nlisten = \"192.0.2.1:7070\"\n".to_owned(),
    );
    config("broken.toml", "[server]\nlisten = canary\n".to_owned());
    let ls = |args: &[&str], url: Option<&Server>| {
        let mut command = command(&[&["ops", "ls"], args].concat());
        if let Some(server) = url {
            command.env("CLINCH_URL", server.url());
        }
        ended(command.current_dir(&dir).output().unwrap())
    };
    assert_eq!(ls(&[], None).code, 0);
    assert_eq!(
        file.lines(),
        ["GET /healthz", "GET /v1/operations?limit=50"]
    );
    assert_eq!(ls(&[], Some(&environment)).code, 0);
    assert_eq!(environment.seen().len(), 1);
    assert_eq!(ls(&["--url", &flag.url()], Some(&environment)).code, 0);
    assert_eq!(flag.seen().len(), 1);
    // A file cannot send keys to other machines, and errors do not quote it.
    assert_eq!(ls(&["--config", "far.toml"], None).code, 2);
    assert_eq!(ls(&["--config", "missing.toml"], None).code, 3);
    let broken = ls(&["--config", "broken.toml"], None);
    assert_eq!(
        (broken.code, broken.err.contains("canary")),
        (2, false),
        "{}",
        broken.err
    );
    assert_eq!(
        file.seen().len() + environment.seen().len() + flag.seen().len(),
        4
    );
}

#[test]
fn no_proxy_of_the_environment_is_used() {
    let proxy = Server::always(200, &page(&[], None));
    let server = Server::always(200, &page(&[], None));
    let mut command = command_at(&server, &["ops", "ls"]);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, proxy.url());
    }
    assert_eq!(ended(command.output().unwrap()).code, 0);
    assert_eq!((server.seen().len(), proxy.seen().len()), (1, 0));
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    // A list without end.
    let server = Server::new(|seen: &Seen| {
        let cursor = seen.target.split("cursor=").nth(1).unwrap_or("0");
        let next = (cursor.parse::<u64>().unwrap() + 1).to_string();
        let operations = vec![operation(OP, "COMPLETED"); 100];
        Answer::new(200, page(&operations, Some(&next)))
    });
    for format in ["table", "json", "jsonl"] {
        let mut child = command_at(&server, &["ops", "ls", "--all", "-o", format])
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        drop(out);
        let mut err = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        let code = child.wait().unwrap().code();
        assert_eq!((code, err.as_str()), (Some(141), ""), "{format}");
    }
}
