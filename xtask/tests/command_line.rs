//! What the command line answers to wrong and to curious callers.

use std::io;
use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .output()
}

#[test]
fn help_lists_every_command() {
    for word in ["help", "--help"] {
        let output = xtask(&[word]).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{word}");
        assert!(
            text.contains("\n  test ") && text.contains("\n  tidy "),
            "{text}"
        );
    }
}

#[test]
fn a_command_line_that_makes_no_sense_exits_2_with_the_usage() {
    for (arguments, complaint) in [
        (&[][..], "xtask: no command given\n"),
        (&["nonsense"], "xtask: unknown command `nonsense`\n"),
        (&["test", "name"], "xtask: `test` does not know `name`"),
        (
            &["tidy", "name"],
            "xtask: `tidy` takes no arguments, got `name`\n",
        ),
    ] {
        let output = xtask(arguments).unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text.starts_with(complaint), "{text}");
        assert!(text.contains("usage: cargo xtask"), "{text}");
    }
}
