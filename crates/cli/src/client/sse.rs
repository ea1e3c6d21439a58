//! Server-sent events.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use tokio::time::timeout;

use super::{Base, connect};
use crate::error::CliError;

/// The connection counts as dead after this silence: servers send a comment far more often.
const SILENCE: Duration = Duration::from_secs(90);
/// Largest event. Events carry states and counters; a larger one is an error.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    /// `message` if the server sent none.
    pub(crate) name: String,
    /// Usually JSON.
    pub(crate) data: String,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Incoming,
    /// Kept because dropping it would close the connection.
    _connection: Option<SendRequest<Full<Bytes>>>,
    origin: String,
    parser: Parser,
}

impl Events {
    pub(super) fn new(
        body: Incoming,
        connection: Option<SendRequest<Full<Bytes>>>,
        base: &Base,
    ) -> Self {
        Self {
            body,
            _connection: connection,
            origin: base.to_string(),
            parser: Parser::default(),
        }
    }

    /// The next event; an error if the stream ends, because it should not.
    pub(crate) async fn next(&mut self) -> Result<Event, CliError> {
        loop {
            if let Some(event) = self.parser.next() {
                return Ok(event);
            }
            let why = match timeout(SILENCE, self.body.frame()).await {
                Err(_) => "the server was silent for too long".to_owned(),
                Ok(None) => "the server ended the stream".to_owned(),
                Ok(Some(Err(error))) => connect::cause(&error),
                Ok(Some(Ok(frame))) => match frame.data_ref() {
                    Some(data) if !self.parser.feed(data) => "an event is too large".to_owned(),
                    _ => continue,
                },
            };
            return Err(CliError::Lost {
                origin: self.origin.clone(),
                why,
                advice: "try again",
            });
        }
    }
}

/// Parses lines to events. `\n` and `\r\n` end a line.
#[derive(Debug, Default)]
struct Parser {
    bytes: Vec<u8>,
}

impl Parser {
    /// False: an event is too large.
    fn feed(&mut self, data: &[u8]) -> bool {
        self.bytes.extend_from_slice(data);
        self.bytes.len() <= EVENT_BYTES_MAX
    }

    /// The next complete event; comments are skipped.
    fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.blank_line() {
            let block: Vec<u8> = self.bytes.drain(..end).collect();
            if let Some(event) = read(&String::from_utf8_lossy(&block)) {
                return Some(event);
            }
        }
        None
    }

    /// The end of the first block, its blank line included.
    fn blank_line(&self) -> Option<usize> {
        let ends = self
            .bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n');
        ends.map(|(at, _)| at)
            .find_map(|at| match self.bytes.get(at + 1..) {
                Some([b'\n', ..]) => Some(at + 2),
                Some([b'\r', b'\n', ..]) => Some(at + 3),
                _ => None,
            })
    }
}

/// `None`: the block holds only comments.
fn read(block: &str) -> Option<Event> {
    let mut name = "message";
    let mut data: Vec<&str> = Vec::new();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value,
            "data" => data.push(value),
            _ => {}
        }
    }
    (!data.is_empty()).then(|| Event {
        name: name.to_owned(),
        data: data.join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_are_found_however_the_bytes_arrive() {
        let stream = ": hello\n\nevent: operation\ndata: {\"a\":\ndata: 1}\nid: 7\n\n\
                      data:bare\r\n\r\n: tick\n\nevent: half\ndata: not yet\n";
        let expected = [event("operation", "{\"a\":\n1}"), event("message", "bare")];
        for size in 1..=stream.len() {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                assert!(parser.feed(piece));
                found.extend(std::iter::from_fn(|| parser.next()));
            }
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        assert!(parser.feed(b"data: "));
        assert!(!parser.feed(&vec![b'a'; EVENT_BYTES_MAX]));
    }
}
