//! Commands that wait for an operation while the server is killed.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::provider::http;
use crate::support::{CONFIG, Folder, Server, clinch, op_id, submit};

/// A command that runs while the server is killed. What it prints is read line by line.
struct Waiting {
    child: Child,
    out: BufReader<ChildStdout>,
    notes: BufReader<ChildStderr>,
}

impl Waiting {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = clinch(folder);
        let command = command.args(arguments).args(["-o", "jsonl"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        Self {
            out: BufReader::new(child.stdout.take().expect("piped")),
            notes: BufReader::new(child.stderr.take().expect("piped")),
            child,
        }
    }

    /// Returns once the command has shown a document with this.
    fn shows(&mut self, words: &str) {
        read_until(&mut self.out, words);
    }

    /// Returns once the command has said this on standard error.
    fn says(&mut self, words: &str) {
        read_until(&mut self.notes, words);
    }

    /// Its exit code, and what it printed since the last call.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        self.notes.read_to_string(&mut rest).expect("text");
        let status = self.child.wait().expect("it ends");
        (status.code(), rest)
    }
}

fn read_until(lines: &mut impl BufRead, words: &str) {
    let (mut said, mut line) = (String::new(), String::new());
    while !line.contains(words) {
        line.clear();
        let read = lines.read_line(&mut line).expect("text");
        said.push_str(&line);
        assert!(read > 0, "it ended without {words:?}: {said}");
    }
}

fn kill(server: &mut Server) {
    server.child.kill().expect("a kill");
    server.child.wait().expect("an end");
}

/// What a worker of the route in [`CONFIG`] does with the one operation that is queued.
fn charge(server: &Server, outcome: &Value) {
    let post = |path: &str, body: &Value| {
        let headers = [("content-type", "application/json")];
        let line = format!("POST /v1/leases{path}");
        let (status, answer) = http(server.address, &line, &headers, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        let body = answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned());
        serde_json::from_str::<Value>(&body.expect("a body")).expect("JSON")
    };
    let ask = json!({"domain": "payments", "wait": "60s", "lease": "10m", "worker": "w"});
    let leased = post("", &ask);
    let delivery = &leased["deliveries"][0];
    let mut report = outcome.clone();
    for name in ["fence", "token"] {
        report[name] = delivery[name].clone();
    }
    let id = delivery["op_id"].as_str().expect("a delivery");
    post(&format!("/{id}/outcome"), &report);
}

#[test]
fn core_19_a_submit_waits_through_a_killed_server() {
    let folder = Folder::new("killed-submit");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let ok = json!({"type": "ok", "payload": 7});
    let fail = json!({"type": "fail", "code": "refused", "message": "no"});
    for (end, outcome, code, state) in [("ok", ok, 0, "COMPLETED"), ("fail", fail, 1, "FAILED")] {
        let mut server = Server::start(&folder.0, "127.0.0.1:0");
        let (listen, url) = (server.address.to_string(), server.url());
        let submit = [
            "submit",
            "payments",
            "charge",
            end,
            "--idem-key",
            end,
            "--payload",
            "1",
        ];
        let wait = ["--wait", "5m", "--url", &url];
        let mut waiting = Waiting::start(&folder.0, &[&submit[..], &wait].concat());
        accepted(&server);
        kill(&mut server);
        waiting.says("the server was lost");
        let server = Server::start(&folder.0, &listen);
        charge(&server, &outcome);
        let (ended, said) = waiting.end();
        assert_eq!(ended, Some(code), "{said}");
        assert!(said.contains(&format!("\"state\":{state:?}")), "{said}");
    }
}

/// Returns once the server has an operation that waits for a worker.
fn accepted(server: &Server) {
    loop {
        let line = "GET /v1/operations?state=PENDING&limit=1";
        let (status, answer) = http(server.address, line, &[], "");
        assert_eq!(status, 200, "{answer}");
        if answer.contains("\"op_id\"") {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn core_19_a_watch_waits_through_a_killed_server_or_ends_with_5() {
    let folder = Folder::new("killed-watch");
    std::fs::write(folder.0.join("clinch.toml"), CONFIG).expect("a file");
    let mut server = Server::start(&folder.0, "127.0.0.1:0");
    let (listen, url) = (server.address.to_string(), server.url());
    let id = op_id(&submit(&folder.0, &url, "order-1")).expect("accepted");
    let arguments = ["ops", "watch", &id, "--url", &url, "--wait"];
    let watch = |wait: &str| Waiting::start(&folder.0, &[&arguments[..], &[wait]].concat());
    let (mut waiting, mut short) = (watch("5m"), watch("8s"));
    // Both reach the server first: an address that never answered is an error. The server answers
    // after the five seconds that each request lets it wait.
    for command in [&mut waiting, &mut short] {
        command.shows("PENDING");
    }
    kill(&mut server);
    for command in [&mut waiting, &mut short] {
        command.says("trying again");
    }
    let (ended, said) = short.end();
    assert_eq!(ended, Some(5), "{said}");
    assert!(said.contains(&format!("clinch ops watch {id}")), "{said}");
    let server = Server::start(&folder.0, &listen);
    charge(&server, &json!({"type": "ok"}));
    let (ended, said) = waiting.end();
    assert_eq!(ended, Some(0), "{said}");
    assert!(said.contains("COMPLETED"), "{said}");
}
