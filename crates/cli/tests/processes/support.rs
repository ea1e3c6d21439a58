//! Runs the program, and servers that end with their test.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

/// A temporary folder, removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("clinch-{name}-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program in this folder, with a clean environment.
pub(crate) fn clinch(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clinch"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLINCH_")) {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    clinch(folder).args(arguments).output().expect("it runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server that is killed with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Server {
    pub(crate) fn start(folder: &Path, listen: &str) -> Self {
        let mut command = clinch(folder);
        Self::of(command.args(["serve", "--set", &format!("server.listen={listen}")]))
    }

    /// A server that is started with this command.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = String::new();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            said.push_str(&line);
            line.strip_prefix("listening on http://")?.parse().ok()
        });
        assert!(address.is_some(), "it does not listen: {said}");
        let address = address.expect("it listens");
        // The later output must be read, or the process would block.
        let log = std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| {
                said.push_str(&line);
                said.push('\n');
            });
            said
        });
        Self {
            child,
            address,
            log: Some(log),
        }
    }

    /// Stops it with a signal, and returns its log.
    pub(crate) fn stop(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        assert!(self.child.wait().expect("it ends").success());
        let log = self.log.take().expect("not read yet");
        log.join().expect("read to its end")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) const CONFIG: &str = r#"
[[route]]
name = "remote"
domain = "payments"
event_type = "charge"
remote = true
"#;

/// Submits one operation.
pub(crate) fn submit(folder: &Path, url: &str, key: &str) -> Output {
    let payload = json!({"key": key}).to_string();
    let arguments = [
        "submit",
        "payments",
        "charge",
        key,
        "--idem-key",
        "a",
        "--payload",
        &payload,
        "-o",
        "json",
        "--url",
        url,
    ];
    run(folder, &arguments)
}

/// The id in the printed operation.
pub(crate) fn op_id(output: &Output) -> Option<String> {
    let document: Value = serde_json::from_slice(&output.stdout).ok()?;
    document["op_id"].as_str().map(str::to_owned)
}

/// The printed document.
pub(crate) fn document(output: &Output) -> Value {
    let read = serde_json::from_slice(&output.stdout);
    assert!(
        read.is_ok(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    read.expect("JSON")
}

/// The exit code, and the text on standard error.
pub(crate) fn refused(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}
