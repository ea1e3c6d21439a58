//! Runs the binary away from whatever surrounds the test.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::server::Server;

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// An empty folder of its own.
pub(crate) fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cli-{}-{number}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// The binary with these arguments, no terminal, and nothing of ours in its environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clinch"));
    command
        .args(arguments)
        .env_clear()
        .current_dir(folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The same, pointed at a server.
pub(crate) fn command_at(server: &Server, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("CLINCH_URL", server.url());
    command
}

/// Runs it to its end.
pub(crate) fn run(server: &Server, arguments: &[&str]) -> Run {
    ended(command_at(server, arguments).output().unwrap())
}

/// Runs it with something on standard input.
pub(crate) fn run_with_input(server: &Server, arguments: &[&str], input: &str) -> Run {
    let mut command = command_at(server, arguments);
    let mut child: Child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have refused and gone before it read anything.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    ended(child.wait_with_output().unwrap())
}

/// Reads what a run left.
pub(crate) fn ended(output: Output) -> Run {
    Run {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
