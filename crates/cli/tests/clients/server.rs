//! `clinch serve` as a process in a folder of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clinch_testbed::wait_until;
use serde_json::Value;

/// Longer than any of these tests takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A temporary folder, removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let name = format!("clinch-clients-{}", uuid::Uuid::now_v7());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("a file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that is killed with the test.
pub(crate) struct Server {
    folder: Folder,
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// With this configuration, on a free port.
    pub(crate) fn start(config: &str) -> Self {
        let folder = Folder::new();
        folder.write("clinch.toml", config);
        Self::start_in(folder)
    }

    pub(crate) fn start_in(folder: Folder) -> Self {
        let (child, address) = serve(&folder, "127.0.0.1:0");
        Self {
            folder,
            child,
            address,
        }
    }

    /// Kills the server, and starts it again at the same address.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
        let (child, address) = serve(&self.folder, &self.address.to_string());
        assert_eq!(address, self.address);
        self.child = child;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The JSON of an answer with status 200.
    pub(crate) fn get(&self, path: &str) -> Value {
        self.send("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.send("POST", path, &body.to_string())
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(self.address).expect("it answers");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("written");
        stream.write_all(body.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        serde_json::from_str(body).expect("JSON")
    }

    /// The number of operations of the domain `payments` in this state or phase.
    pub(crate) fn count(&self, state: &str) -> u64 {
        let domains = self.get("/v1/domains");
        let domains = domains["domains"].as_array().expect("domains");
        let domain = domains.iter().find(|one| one["domain"] == "payments");
        domain.map_or(0, |one| one["counts"][state].as_u64().expect("a count"))
    }

    /// Waits until every operation is settled or held.
    pub(crate) fn until_quiet(&self, operations: usize) {
        let ended = ["COMPLETED", "FAILED", "held"];
        let count = || ended.iter().map(|state| self.count(state)).sum::<u64>();
        let is_so = wait_until(PATIENCE, || count() == operations as u64);
        assert!(is_so, "{}", self.get("/v1/domains"));
    }

    /// Every operation of the domain `payments`.
    pub(crate) fn operations(&self) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/operations?domain=payments&limit=1000{cursor}");
            let mut page = self.get(&path);
            let Value::Array(operations) = page["operations"].take() else {
                return all;
            };
            all.extend(operations);
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary with a clean environment.
pub(crate) fn clinch(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clinch"));
    command.current_dir(&folder.0).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLINCH_")) {
        command.env_remove(name);
    }
    command
}

fn serve(folder: &Folder, listen: &str) -> (Child, SocketAddr) {
    let mut child = clinch(folder)
        .args(["serve", "--set", &format!("server.listen={listen}")])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut said = String::new();
    let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
        said.push_str(&line);
        line.split_once("listening on http://")?.1.parse().ok()
    });
    // The later output must be read, or the process would block.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let address = address.unwrap_or_else(|| panic!("it does not listen: {said}"));
    (child, address)
}
