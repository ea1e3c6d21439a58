//! Runs the program, and servers that end with their test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clinch_testbed::wait_until;
use serde_json::Value;

/// Longer than any step takes on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A temporary folder with a configuration, removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Its configured server address is one where no process listens.
    pub(crate) fn with(config: &str) -> Self {
        let path = std::env::temp_dir().join(format!("clinch-github-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).expect("a folder");
        let folder = Self(path);
        folder.configure(config);
        folder
    }

    pub(crate) fn configure(&self, config: &str) {
        let port = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = port.local_addr().expect("an address");
        let config = format!("{config}\n[server]\nlisten = \"{address}\"\n");
        std::fs::write(self.0.join("clinch.toml"), config).expect("a file");
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        clinch(&self.0).args(arguments).output().expect("it runs")
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

/// All output, for an assertion message.
pub(crate) fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Asserts the exit code; returns the standard output.
pub(crate) fn ends(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The printed document.
pub(crate) fn document(output: &Output, code: i32) -> Value {
    serde_json::from_str(&ends(output, code)).expect("JSON")
}

/// A `clinch serve` process, killed with the test.
pub(crate) struct Server {
    child: Child,
    address: Option<SocketAddr>,
    log: Arc<Mutex<String>>,
}

impl Server {
    pub(crate) fn start(folder: &Folder, roles: &str) -> Self {
        Self::start_with(folder, roles, &[])
    }

    /// The same with these values set.
    pub(crate) fn start_with(folder: &Folder, roles: &str, values: &[&str]) -> Self {
        Self::of(&mut clinch(&folder.0), roles, values)
    }

    /// A server that is started with this command.
    pub(crate) fn of(command: &mut Command, roles: &str, values: &[&str]) -> Self {
        let mut set = vec!["--set", "server.listen=127.0.0.1:0"];
        values.iter().for_each(|value| set.extend(["--set", value]));
        let mut child = command
            .args(["serve", "--roles", roles, "--log-filter", "debug"])
            .args(set)
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
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("it has the role api")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn log(&self) -> String {
        let log = self.log.lock();
        log.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process")
    }

    /// Kills it without warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Status, head and body of an answer.
    pub(crate) fn exchange(&self, method: &str, path: &str, body: &str) -> (u16, String, String) {
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
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), head.to_owned(), body.to_owned())
    }

    /// Asserts the status of the answer; returns its document.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str, status: u16) -> Value {
        let (answered, _, body) = self.exchange(method, path, body);
        assert_eq!(answered, status, "{method} {path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Repeats the request until the answer fulfils the condition.
    pub(crate) fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let came = wait_until(PATIENCE, || {
            last = self.ask("GET", path, "", 200);
            is_so(&last)
        });
        assert!(came, "{last:#}\n{}", self.log());
        last
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Another program on a port: answers this text to everything, and records what it received. Ends
/// with the test.
pub(crate) fn stranger(body: &'static str) -> (SocketAddr, Arc<Mutex<String>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let heard: Arc<Mutex<String>> = Arc::default();
    let keeps = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let mut kept = keeps.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_str(&String::from_utf8_lossy(&head[..read]));
            drop(kept);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, heard)
}
