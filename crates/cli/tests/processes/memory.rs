//! How much memory one request can take.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::provider::{Provider, http};
use crate::support::{Folder, Server};

/// Long results, together several times the size of a page.
const RESULTS: usize = 200;
const RESULT_BYTES: usize = 250 * 1024;

/// Peak memory of the process, in KiB.
fn peak_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()));
    let status = status.expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.expect("a number")
}

fn list(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("it answers");
    let ask =
        "GET /v1/operations?limit=1000 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).expect("written");
    stream
}

#[test]
fn core_20_lists_of_long_results_take_little_memory_read_or_unread() {
    let provider = Provider::start(|_| (200, format!("\"{}\"", "x".repeat(RESULT_BYTES))));
    let folder = Folder::new("memory");
    let config = format!(
        r#"
[[route]]
name = "fetch"
domain = "pay"
event_type = "fetch"
url = "http://{}/"
allow_private = true
safety = "natural"
"#,
        provider.address
    );
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let operation = |n: usize| json!({"domain": "pay", "event_type": "fetch", "biz_key": n.to_string(), "idem_key": "a", "payload": 1});
    let bulk = json!({"operations": (0..RESULTS).map(operation).collect::<Vec<_>>()});
    let headers = [("content-type", "application/json")];
    let ask = |line: &str, body: &str| {
        let (status, answer) = http(server.address, line, &headers, body);
        assert_eq!(status, 200, "{}", &answer[..answer.len().min(1_000)]);
        let (_, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
        serde_json::from_str::<Value>(body).expect("JSON")
    };
    let accepted = ask("POST /v1/operations/bulk", &bulk.to_string());
    for result in accepted["results"].as_array().expect("a list") {
        let op_id = result["op_id"].as_str().expect("an id");
        let settled = ask(&format!("GET /v1/operations/{op_id}?wait=60s"), "");
        assert_eq!(settled["state"], "COMPLETED");
    }
    let before = peak_kib(&server);
    // Reads the whole answer, so that the process has created all of it.
    let mut answer = Vec::new();
    list(&server).read_to_end(&mut answer).expect("an answer");
    let one = peak_kib(&server) - before;
    let unread: Vec<TcpStream> = (0..5).map(|_| list(&server)).collect();
    for stream in &unread {
        // The head has arrived: the process has created the answer.
        let mut first = [0; 12];
        (&*stream).read_exact(&mut first).expect("it answers");
    }
    let six = peak_kib(&server) - before;
    println!("one list: {one} KiB more; five unread besides: {six} KiB more");
    let all_kib = (RESULTS * RESULT_BYTES / 1024) as u64;
    assert!(one < all_kib / 2, "one list took {one} KiB");
    assert!(six < all_kib * 2, "six lists took {six} KiB");
}
