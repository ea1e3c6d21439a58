//! Callers without a key that use up all file descriptors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::provider::Provider;
use crate::support::{Folder, Server, run, text};

/// More connections than the server may open.
const STRANGERS: usize = 1_100;

/// This process needs a descriptor for each stranger.
fn raise_own_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("raised");
    let enough = limit.maximum.is_none_or(|most| most > 2 * STRANGERS as u64);
    assert!(enough, "this test opens {STRANGERS} sockets");
}

/// Paths that need a key, and paths that do not.
fn path(number: usize) -> &'static str {
    ["/v1/operations", "/healthz"][number % 2]
}

/// Sends one request without a key, and keeps the connection if possible.
fn knock(address: SocketAddr, path: &str, kept: &mut Option<TcpStream>) -> bool {
    let stream = kept.take().or_else(|| {
        let stream = TcpStream::connect(address).ok()?;
        // A server without free descriptors does not answer.
        stream
            .set_read_timeout(Some(Duration::from_millis(500)))
            .ok()?;
        Some(stream)
    });
    let Some(mut stream) = stream else {
        return false;
    };
    let ask = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    if stream.write_all(ask.as_bytes()).is_err() {
        return false;
    }
    let mut answer = [0; 4_096];
    let is_answered = matches!(stream.read(&mut answer), Ok(1..));
    *kept = Some(stream);
    is_answered
}

fn submit(connection: &mut TcpStream, key: &str, name: &str) -> Value {
    let body = format!(
        r#"{{"domain":"pay","event_type":"charge","biz_key":"{name}","idem_key":"{name}","payload":1}}"#
    );
    exchange(connection, "POST /v1/operations?wait=60s", key, &body)
}

#[test]
fn core_16_strangers_with_every_descriptor_neither_lock_out_nor_cost_attempts() {
    raise_own_limit();
    let provider = Provider::start(|_| (200, r#"{"id":"tx_1"}"#.to_owned()));
    let folder = Folder::new("strangers");
    let config = format!(
        r#"
[[route]]
name = "charge"
domain = "pay"
event_type = "charge"
url = "http://{}/charge"
allow_private = true
safety = "natural"
retry = {{ base = "10ms", cap = "10ms", budget = 1.0 }}
"#,
        provider.address
    );
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let made = run(
        &folder.0,
        &["keys", "create", "shop", "--scopes", "submit,read"],
    );
    let key = text(&made.stdout).trim().to_owned();
    // The usual limit of a shell, which the server may not raise.
    let mut command = Command::new("sh");
    command.current_dir(&folder.0).args([
        "-c",
        "ulimit -n 1024; exec \"$0\" serve --set server.listen=127.0.0.1:0",
        env!("CARGO_BIN_EXE_clinch"),
    ]);
    let server = Server::of(&mut command);
    let mut early = TcpStream::connect(server.address).expect("it answers");
    exchange(&mut early, "GET /v1/domains", &key, "");
    let mut strangers: Vec<Option<TcpStream>> = Vec::new();
    for number in 0..STRANGERS {
        let mut stranger = None;
        let is_answered = knock(server.address, path(number), &mut stranger);
        strangers.push(stranger);
        if !is_answered {
            break;
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let address = server.address;
    let knocking = std::thread::spawn(move || {
        while !stopped.load(Ordering::SeqCst) {
            for (number, stranger) in strangers.iter_mut().enumerate() {
                knock(address, path(number), stranger);
            }
        }
    });
    // One client was connected before the strangers, one comes later.
    let first = submit(&mut early, &key, "first");
    let mut late = TcpStream::connect(server.address).expect("it answers");
    let second = submit(&mut late, &key, "second");
    stop.store(true, Ordering::SeqCst);
    knocking.join().expect("it ends");
    for document in [first, second] {
        assert_eq!(document["state"], "COMPLETED", "{document}");
        assert_eq!(document["attempts"], 1, "{document}");
    }
    assert_eq!(provider.heads().matches("POST /charge").count(), 2);
    let log = server.stop();
    let lowered = "server.connections_max is lowered from 4096 to 512";
    assert!(log.contains(lowered), "{log}");
}

#[test]
fn a_call_without_a_descriptor_is_not_called_and_costs_no_attempt() {
    let provider = Provider::start(|_| (200, r#"{"id":"tx_1"}"#.to_owned()));
    let folder = Folder::new("descriptors");
    let config = format!(
        r#"
[server]
connections_max = 10000
[[route]]
name = "charge"
domain = "pay"
event_type = "charge"
url = "http://{}/charge"
allow_private = true
safety = "natural"
retry = {{ max_attempts = 2, base = "10ms", cap = "10ms" }}
"#,
        provider.address
    );
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    // From now on the server gets no descriptor, not for callers either; this caller is connected
    // already.
    let mut caller = TcpStream::connect(server.address).expect("it answers");
    exchange(&mut caller, "GET /healthz", "", "");
    let pid = rustix::process::Pid::from_child(&server.child);
    let limit = |limit| rustix::process::prlimit(Some(pid), Resource::Nofile, limit);
    let none = Rlimit {
        current: Some(3),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let before = limit(none).expect("lowered");
    let body = r#"{"domain":"pay","event_type":"charge","biz_key":"a","idem_key":"a","payload":1}"#;
    let accepted = exchange(&mut caller, "POST /v1/operations?wait=0", "", body);
    let op_id = accepted["op_id"].as_str().expect("an id").to_owned();
    let attempts = format!("GET /v1/operations/{op_id}/attempts");
    let ended = loop {
        let attempts = exchange(&mut caller, &attempts, "", "")["attempts"].clone();
        if !attempts[0]["outcome"].is_null() {
            break attempts[0].clone();
        }
    };
    limit(before).expect("raised");
    assert_eq!(ended["outcome"], "not_called", "{ended}");
    let why = "exhausted: no file descriptor is free";
    assert_eq!(ended["error"], why, "{ended}");
    let settled = format!("GET /v1/operations/{op_id}?wait=60s");
    let settled = exchange(&mut caller, &settled, "", "");
    assert_eq!(settled["state"], "COMPLETED", "{settled}");
    assert_eq!(settled["attempts"], 1, "{settled}");
}

/// Sends a request and reads its answer on a connection that stays open.
fn exchange(caller: &mut TcpStream, line: &str, key: &str, body: &str) -> Value {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // A caller that is locked out fails instead of hanging.
    let patience = Some(Duration::from_secs(90));
    caller.set_read_timeout(patience).expect("set");
    caller.write_all(request.as_bytes()).expect("written");
    let mut reader = BufReader::new(caller);
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).expect("read") > 0, "no answer");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("read");
    serde_json::from_slice(&body).expect("JSON")
}
