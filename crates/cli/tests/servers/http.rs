//! Sends one request and reads its complete answer, on a connection of its own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    send(address, &format!("GET {path}"), "")
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> String {
    send(address, &format!("POST {path}"), body)
}

fn send(address: SocketAddr, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    let length = body.len();
    let whole = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(whole.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The value of a metric, summed over its labels; `None` if it is missing.
pub(crate) fn metric(address: SocketAddr, name: &str) -> Option<f64> {
    let text = get(address, "/metrics");
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once("} ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.trim().parse::<f64>().ok()
    });
    values.reduce(|sum, value| sum + value)
}

/// Repeats until the metric fulfils the condition. If it never does, the test hangs.
pub(crate) fn until(address: SocketAddr, name: &str, is_so: impl Fn(f64) -> bool) {
    while !metric(address, name).is_some_and(&is_so) {
        std::thread::yield_now();
    }
}
