//! What only happens on a terminal: questions, colours, widths, progress.

use crate::documents::{OP, OTHER, operation, page};
use crate::pty::on_terminal;
use crate::run::{command, command_at, run};
use crate::server::{Answer, Seen, Server};

/// Two open operations; canceling succeeds.
fn open_ones() -> Server {
    Server::new(
        |seen: &Seen| match (seen.method.as_str(), seen.target.as_str()) {
            ("GET", target) if target.contains("state=PENDING") => {
                Answer::new(200, page(&[operation(OP, "PENDING")], None))
            }
            ("GET", _) => Answer::new(200, page(&[operation(OTHER, "IN_PROGRESS/waiting")], None)),
            _ => Answer::new(200, operation(OP, "FAILED")),
        },
    )
}

const CANCEL: [&str; 4] = ["ops", "cancel", "--domain", "payments"];

#[test]
fn a_yes_cancels_what_was_listed() {
    let server = open_ones();
    let session = on_terminal(command_at(&server, &CANCEL), 120, "y");
    assert_eq!(session.code, 0, "{}", session.screen);
    let asked = session
        .screen
        .find("cancel these 2 operations? [y/N]")
        .unwrap();
    assert!(session.screen.find(&OP[..18]).unwrap() < asked);
    assert!(
        session
            .screen
            .contains("cancel 1/2 [############------------]")
    );
    let posts = server.lines().split_off(2);
    let expected = [OP, OTHER].map(|id| format!("POST /v1/operations/{id}/cancel"));
    assert_eq!(posts, expected);
}

#[test]
fn anything_else_changes_nothing() {
    for answer in ["n", "", "yess", "Y E S"] {
        let server = open_ones();
        let session = on_terminal(command_at(&server, &CANCEL), 120, answer);
        assert_eq!(session.code, 1);
        assert!(session.screen.ends_with("error: nothing was changed\n"));
        assert!(server.seen().iter().all(|seen| seen.method == "GET"));
    }
}

#[test]
fn answers_of_a_pipe_are_not_a_persons() {
    let server = open_ones();
    let ran = crate::run::run_with_input(&server, &CANCEL, "y\n");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("-y"), "{}", ran.err);
    assert!(server.seen().is_empty());
}

#[test]
fn run_11_the_live_line_of_the_demo_gives_way_to_other_lines() {
    let demo = command(&["demo", "--payments", "60"]);
    let session = on_terminal(demo, 120, "");
    assert_eq!(session.code, 0, "{}", session.screen);
    assert!(session.screen.contains("accepted "), "{}", session.screen);
    // On a terminal, each line shows what follows the last erasure.
    let shown = session.screen.lines();
    let shown = shown.map(|line| line.rsplit("\r\x1b[2K").next().unwrap_or_default());
    let shown: Vec<&str> = shown.collect();
    let kill = shown.iter().find(|line| line.contains("kill -9")).unwrap();
    assert!(kill.starts_with("kill -9"), "{kill}");
    let accounts = shown.iter().find(|line| line.contains("clients were told"));
    assert!(accounts.unwrap().starts_with("what clients were told"));
    assert!(
        !shown.iter().any(|line| line.contains("answers dropped")),
        "{shown:#?}"
    );
}

#[test]
fn colours_are_for_terminals_and_can_be_had_without() {
    let failed = page(&[operation(OP, "FAILED")], None);
    let server = Server::always(200, &failed);
    let list = |args: &[&str], variable: Option<&str>| {
        let mut command = command_at(&server, args);
        if let Some(name) = variable {
            command.env(name, "1");
        }
        on_terminal(command, 200, "").screen
    };
    assert!(list(&["ops", "ls"], None).contains("\x1b[31mFAILED\x1b[0m"));
    assert!(!list(&["ops", "ls", "--no-color"], None).contains('\x1b'));
    assert!(!list(&["ops", "ls"], Some("NO_COLOR")).contains('\x1b'));
    assert!(!list(&["--help", "--no-color"], None).contains('\x1b'));
    assert!(!run(&server, &["ops", "ls"]).out.contains('\x1b'));
}

#[test]
fn tables_fit_the_terminal() {
    let server = Server::always(200, &page(&[operation(OP, "FAILED")], None));
    let command = command_at(&server, &["ops", "ls", "--no-color"]);
    let session = on_terminal(command, 90, "");
    assert!(session.screen.contains(&OP[..18]));
    for line in session.screen.lines() {
        assert!(line.chars().count() <= 90, "{line}");
    }
}
