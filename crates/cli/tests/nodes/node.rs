//! One `clinch serve` process in a folder of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clinch_testbed::wait_until;
use serde_json::{Value, json};

/// A temporary folder, removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn with(config: &str) -> Self {
        let path = std::env::temp_dir().join(format!("clinch-nodes-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("clinch.toml"), config).expect("a file");
        Self(path)
    }

    /// The address of a store in one file, for nodes in folders of their own.
    pub(crate) fn store_url(&self) -> String {
        format!("sqlite://{}/clinch.db", self.0.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program in this folder, with a clean environment.
pub(crate) fn clinch(folder: &Path, inside: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_clinch");
    let mut command = match inside.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLINCH_")) {
        command.env_remove(name);
    }
    command
}

/// Killed with the test.
pub(crate) struct Node {
    child: Child,
    address: Option<SocketAddr>,
    log: Arc<Mutex<String>>,
    folder: Arc<Folder>,
}

impl Node {
    /// Starts the program with the prefix `inside`, such as `ip netns exec`; waits until it is
    /// ready.
    pub(crate) fn start(config: &str, roles: &str, inside: &[&str]) -> Self {
        Self::start_in(Arc::new(Folder::with(config)), roles, inside)
    }

    /// Starts in a folder that another node may have used.
    pub(crate) fn start_in(folder: Arc<Folder>, roles: &str, inside: &[&str]) -> Self {
        let mut command = clinch(&folder.0, inside);
        let set = "server.listen=127.0.0.1:0";
        let mut child = command
            .args(["serve", "--roles", roles, "--set", set])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = String::new();
        let mut address = None;
        let works = lines.by_ref().map_while(Result::ok).any(|line| {
            said.push_str(&line);
            said.push('\n');
            let listens = line.strip_prefix("listening on http://");
            address = listens.and_then(|address| address.parse().ok());
            address.is_some() || line == "working"
        });
        assert!(works, "it does not start: {said}");
        let log = Arc::new(Mutex::new(said));
        let kept = log.clone();
        // The later output must be read, or the process would block.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        Self {
            child,
            address,
            log,
            folder,
        }
    }

    pub(crate) fn folder(&self) -> Arc<Folder> {
        self.folder.clone()
    }

    /// Sends SIGTERM; returns when the process has ended.
    pub(crate) fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends");
    }

    pub(crate) fn log(&self) -> String {
        let log = self.log.lock();
        log.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request; returns the answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        serde_json::from_str(&self.answer(method, path, body)).expect("JSON")
    }

    /// The text at this path.
    pub(crate) fn text(&self, path: &str) -> String {
        self.answer("GET", path, "")
    }

    fn answer(&self, method: &str, path: &str, body: &str) -> String {
        let address = self.address.expect("it has the role api");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let is_good = head
            .split(' ')
            .nth(1)
            .is_some_and(|code| code.starts_with('2'));
        assert!(is_good, "{method} {path}: {answer}");
        body.to_owned()
    }

    /// Submits an operation; returns its id.
    pub(crate) fn submit(&self, domain: &str, event_type: &str, key: &str) -> String {
        let body = json!({
            "domain": domain, "event_type": event_type, "biz_key": key, "idem_key": "a",
            "payload": {"key": key},
        });
        let said = self.ask("POST", "/v1/operations?wait=0s", &body.to_string());
        said["op_id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn operation(&self, id: &str) -> Value {
        self.ask("GET", &format!("/v1/operations/{id}"), "")
    }

    pub(crate) fn attempts(&self, id: &str) -> Value {
        self.ask("GET", &format!("/v1/operations/{id}/attempts"), "")
    }

    /// Waits until the operation fulfils the condition.
    pub(crate) fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let came = wait_until(Duration::from_secs(90), || {
            last = self.operation(id);
            is_so(&last)
        });
        assert!(came, "{last:#}\n{:#}\n{}", self.attempts(id), self.log());
        last
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
