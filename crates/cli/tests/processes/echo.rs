//! `clinch echo` as the upstream of a route.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{Folder, clinch};

struct Echo {
    child: Child,
    address: SocketAddr,
}

impl Echo {
    fn start(folder: &Folder, more: &[&str]) -> Self {
        let mut command = clinch(&folder.0);
        let command = command.args(["echo", "--listen", "127.0.0.1:0", "-o", "jsonl"]);
        let command = command.args(more).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("text");
        let address = first
            .strip_prefix("listening on http://")
            .expect("an address");
        let address = address.split(';').next().expect("an address");
        let address = address.parse().expect("an address");
        Self { child, address }
    }

    /// The status and the document of one request.
    fn post(&self, path: &str, headers: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: echo\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        // A server that refuses a long body need not read all of it.
        let _ = stream.write_all(body);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let status = answer.get(9..12).and_then(|status| status.parse().ok());
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        (
            status.unwrap_or(0),
            serde_json::from_str(body).unwrap_or_default(),
        )
    }

    /// The printed lines.
    fn stop(mut self) -> Vec<Value> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        assert!(self.child.wait().expect("it ends").success());
        let out = BufReader::new(self.child.stdout.take().expect("piped"));
        let lines = out.lines().map_while(Result::ok);
        lines
            .map(|line| serde_json::from_str(&line).expect("JSON"))
            .collect()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn echo_answers_what_it_got_and_prints_no_body() {
    let folder = Folder::new("echo");
    let echo = Echo::start(&folder, &[]);
    let keys = "idempotency-key: k1\r\nx-clinch-attempt: 2\r\nauthorization: Bearer canary\r\n";
    let (status, got) = echo.post("/hello?a=1", keys, br#"{"name":"Ada"}"#);
    assert_eq!(status, 200);
    assert_eq!(got["body"], json!({"name": "Ada"}));
    assert_eq!(
        (&got["method"], &got["path"]),
        (&json!("POST"), &json!("/hello?a=1"))
    );
    assert_eq!(
        (&got["attempt"], &got["idempotency_key"]),
        (&json!(2), &json!("k1"))
    );
    assert!(
        !got.to_string().contains("canary"),
        "credentials are not repeated: {got}"
    );
    let (_, text) = echo.post("/", "", b"plain");
    assert_eq!(
        (&text["body"], &text["number"]),
        (&json!("plain"), &json!(2))
    );
    let lines = echo.stop();
    assert_eq!(lines.len(), 2);
    assert!(
        lines.iter().all(|line| line.get("body").is_none()),
        "{lines:?}"
    );
}

#[test]
fn echo_fails_as_often_as_it_is_told_and_takes_no_endless_body() {
    let folder = Folder::new("echo-fails");
    let echo = Echo::start(&folder, &["--fail-every", "2"]);
    let statuses = [(); 4].map(|()| echo.post("/", "", b"1").0);
    assert_eq!(statuses, [200, 503, 200, 503]);
    echo.post("/", "", &vec![b'a'; 2 * 1024 * 1024]);
    assert_eq!(echo.stop()[4]["status"], 413);
}
