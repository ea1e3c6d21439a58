//! `clinch demo` on a server that is harmed meanwhile. The demo checks its own books; what is
//! done to the server is up to whoever started both.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::clock::wait_until;
use crate::nursery;

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const START_LIMIT: Duration = Duration::from_secs(120);

/// A demo that runs.
pub struct Demo {
    child: Child,
    address: SocketAddr,
    log: JoinHandle<String>,
}

/// How a demo ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The three accounts agree.
    pub is_balanced: bool,
    /// The books, and what was noted on the way.
    pub said: String,
}

/// What the API said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The status.
    pub status: u16,
    /// With a `Retry-After`.
    pub names_a_time: bool,
    body: String,
}

impl Demo {
    /// Starts `clinch demo` with these arguments and waits until its API is up.
    pub fn start(program: &Path, arguments: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg("demo")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = nursery::spawn(command)?;
        let pipe = child.stderr.take();
        let lines = BufReader::new(pipe.ok_or_else(|| io::Error::other("no pipe"))?);
        match address(lines) {
            Ok((address, log)) => Ok(Self {
                child,
                address,
                log,
            }),
            Err(said) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(io::Error::other(said))
            }
        }
    }

    /// The domain of its payments, once there is one.
    pub fn domain(&self) -> Option<String> {
        let domain = self.document()?;
        domain["domain"].as_str().map(str::to_owned)
    }

    /// Payments that have ended so far.
    pub fn ended(&self) -> Option<u64> {
        let counts = &self.document()?["counts"];
        Some(counts["COMPLETED"].as_u64()? + counts["FAILED"].as_u64()?)
    }

    fn document(&self) -> Option<Value> {
        let said = self.ask("GET", "/v1/domains", "").ok()?;
        let mut document: Value = serde_json::from_str(&said.body).ok()?;
        let domains = document["domains"].as_array_mut()?;
        let at = domains.iter().position(is_demo)?;
        Some(domains.swap_remove(at))
    }

    /// Waits until so many have ended. False if that never comes.
    pub fn reaches(&self, payments: u64) -> bool {
        wait_until(START_LIMIT, || {
            self.ended().is_some_and(|ended| ended >= payments)
        })
    }

    /// Submits the demo's first payment once more, as a client that heard no answer does.
    pub fn submit(&self, domain: &str) -> io::Result<Said> {
        let body = format!(
            r#"{{"domain":"{domain}","event_type":"charge","biz_key":"order-0","idem_key":"charge","payload":{{"amount":0}}}}"#
        );
        self.ask("POST", "/v1/operations?wait=0s", &body)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> io::Result<Said> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len(),
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok(Said {
            status: status.ok_or_else(|| io::Error::other("not an answer"))?,
            names_a_time: head.to_ascii_lowercase().contains("\r\nretry-after:"),
            body: body.to_owned(),
        })
    }

    /// Waits for its end.
    pub fn finish(mut self) -> io::Result<Ended> {
        let mut said = String::new();
        if let Some(mut books) = self.child.stdout.take() {
            books.read_to_string(&mut said)?;
        }
        let status = self.child.wait()?;
        let log = self.log.join();
        said.push_str(&log.unwrap_or_default());
        Ok(Ended {
            is_balanced: status.success(),
            said,
        })
    }
}

fn is_demo(domain: &Value) -> bool {
    let name = domain["domain"].as_str().unwrap_or_default();
    name.starts_with("demo-") || name == "payments"
}

/// What it says later is read by a thread, or the demo would wait for a reader.
fn address(mut lines: BufReader<ChildStderr>) -> Result<(SocketAddr, JoinHandle<String>), String> {
    let mut said = String::new();
    loop {
        let before = said.len();
        match lines.read_line(&mut said) {
            Ok(0) | Err(_) => return Err(said),
            Ok(_) => {}
        }
        let words = said[before..].split("http://").nth(1);
        let found = words.and_then(|rest| rest.split([',', ' ', '\n']).next()?.parse().ok());
        if let Some(address) = found {
            let log = std::thread::spawn(move || {
                let _ = lines.read_to_string(&mut said);
                said
            });
            return Ok((address, log));
        }
    }
}
