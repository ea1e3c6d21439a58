//! A client that sends exactly the given bytes, and records the answers.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Method, path and status; the code of a problem, or nothing.
pub(crate) type Line = (String, String, u16, String);

/// All answers, of any server.
pub(crate) type Seen = Arc<Mutex<BTreeSet<Line>>>;

/// A client of one server; every request uses a connection of its own.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    seen: Seen,
    headers: Vec<(String, String)>,
}

const JSON: (&str, &str) = ("content-type", "application/json");

impl Client {
    pub(crate) fn new(address: SocketAddr, seen: &Seen) -> Self {
        Self {
            address,
            seen: seen.clone(),
            headers: Vec::new(),
        }
    }

    /// Adds this header to every request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this API key.
    pub(crate) fn keyed(self, key: &str) -> Self {
        self.with("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[JSON], &body.to_string())
    }

    pub(crate) fn submit(&self, body: &Value) -> Reply {
        self.post("/v1/operations?wait=0", body)
    }

    /// Sends one request; returns its complete answer.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut stream = self.open(method, path, headers, body.len());
        // A server that has refused already may have stopped reading.
        let _ = stream.write_all(body.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        self.saw(method, path, &answer)
    }

    /// Sends the head of a request; the caller sends the rest.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
    ) -> TcpStream {
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        let own = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let all: Vec<(&str, &str)> = own.chain(headers.iter().copied()).collect();
        if !all.iter().any(|(name, _)| *name == "host") {
            text.push_str("host: localhost\r\n");
        }
        for (name, value) in all {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if length > 0 {
            text.push_str(&format!("content-length: {length}\r\n"));
        }
        text.push_str("\r\n");
        let mut stream = TcpStream::connect(self.address).expect("it answers");
        stream.write_all(text.as_bytes()).expect("written");
        stream
    }

    /// Parses an answer and records it.
    pub(crate) fn saw(&self, method: &str, path: &str, answer: &[u8]) -> Reply {
        let reply = Reply::parse(&String::from_utf8_lossy(answer));
        let code = reply.body["code"].as_str().filter(|_| reply.status >= 400);
        let code = code.unwrap_or_default().to_owned();
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let line = (method.to_owned(), path, reply.status, code);
        self.seen.lock().expect("seen").insert(line);
        reply
    }

    /// Repeats the request until the answer fulfils the condition.
    pub(crate) fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let body = self.get(path).body;
            if is_so(&body) {
                return body;
            }
            std::thread::yield_now();
        }
    }

    /// The operation, as soon as it is held for this reason.
    pub(crate) fn held(&self, op_id: &str, reason: &str) -> Value {
        let path = format!("/v1/operations/{op_id}");
        self.until(&path, |body| body["hold"]["reason"] == reason)
    }

    /// The operation, as soon as it is in this phase.
    pub(crate) fn phase(&self, op_id: &str, phase: &str) -> Value {
        let path = format!("/v1/operations/{op_id}");
        self.until(&path, |body| body["phase"] == phase)
    }

    /// The operation, as soon as it is settled.
    pub(crate) fn settled(&self, op_id: &str) -> Value {
        self.get(&format!("/v1/operations/{op_id}?wait=60s")).body
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Reply {
    fn parse(answer: &str) -> Self {
        let whole = || panic!("no whole answer: {answer:?}");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(whole);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.and_then(|status| status.parse().ok());
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        Self {
            status: status.expect("a status"),
            headers: lines.filter_map(header).collect(),
            text: text.to_owned(),
            body: serde_json::from_str(text).unwrap_or(Value::Null),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn op_id(&self) -> String {
        let id = self.body["op_id"].as_str();
        id.unwrap_or_else(|| panic!("no op_id: {}", self.text))
            .to_owned()
    }

    /// Asserts the status.
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Asserts a problem document with this status and code.
    pub(crate) fn refused(self, status: u16, code: &str) -> Self {
        let reply = self.is(status);
        assert_eq!(reply.body["code"], code, "{}", reply.text);
        assert_eq!(reply.body["status"], status);
        let kind = reply.header("content-type");
        assert_eq!(kind, Some("application/problem+json"));
        let retry_after = reply.header("retry-after").is_some();
        assert_eq!(retry_after, matches!(status, 429 | 503), "{}", reply.text);
        reply
    }
}
