//! A scripted HTTP server: records what it is asked, and answers what the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// `GET`, `POST`.
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// As text.
    pub(crate) body: String,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
}

impl Seen {
    /// `GET /v1/…`.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// The header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What to answer.
pub(crate) struct Answer {
    status: u16,
    headers: String,
    body: String,
    end: End,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    KeepAlive,
    Close,
    Never,
    Silent,
}

impl Answer {
    /// A JSON document.
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        let kind = match status {
            200..=299 => "application/json",
            _ => "application/problem+json",
        };
        Self {
            status,
            headers: format!("content-type: {kind}\r\n"),
            body: body.into(),
            end: End::KeepAlive,
        }
    }

    /// A problem document.
    pub(crate) fn problem(status: u16, code: &str, detail: &str) -> Self {
        let body = format!(
            r#"{{"type":"about:blank","title":"t","status":{status},"code":"{code}","detail":"{detail}"}}"#
        );
        Self::new(status, body)
    }

    /// Server-sent events; the stream ends, or stays open until the client goes.
    pub(crate) fn events(body: &str, ends: bool) -> Self {
        Self {
            status: 200,
            headers: "content-type: text/event-stream\r\n".to_owned(),
            body: body.to_owned(),
            end: if ends { End::Close } else { End::Never },
        }
    }

    /// Closes the connection instead of answering.
    pub(crate) fn lost() -> Self {
        Self {
            end: End::Silent,
            ..Self::new(200, "")
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }

    /// Closes the connection after the answer.
    pub(crate) fn close(self) -> Self {
        Self {
            end: End::Close,
            ..self
        }
    }
}

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// A server on a free port, for as long as the test runs.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) fn new(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::wrapped(script, |stream| stream)
    }

    /// With something between TCP and HTTP.
    pub(crate) fn wrapped<S: Read + Write + 'static>(
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
        wrap: impl Fn(std::net::TcpStream) -> S + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, wrap): (Script, _) = (Arc::new(script), Arc::new(wrap));
        let record = seen.clone();
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (script, wrap, record) = (script.clone(), wrap.clone(), record.clone());
                let stream = stream.unwrap();
                thread::spawn(move || serve(wrap(stream), connection, &script, &record));
            }
        });
        Self { address, seen }
    }

    /// Answers the same to everything.
    pub(crate) fn always(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::new(move |_| Answer::new(status, body.clone()))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that was asked so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The same as lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }
}

fn serve(stream: impl Read + Write, connection: usize, script: &Script, record: &Mutex<Vec<Seen>>) {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read(&mut stream, connection) {
        record.lock().unwrap().push(seen.clone());
        let answer = script(&seen);
        let length = match answer.end {
            End::Silent => return,
            End::Never => String::new(),
            _ => format!("content-length: {}\r\n", answer.body.len()),
        };
        let connection = match answer.end {
            End::KeepAlive => "",
            _ => "connection: close\r\n",
        };
        let text = format!(
            "HTTP/1.1 {} X\r\n{}{length}{connection}\r\n{}",
            answer.status, answer.headers, answer.body
        );
        let out = stream.get_mut();
        if out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
        match answer.end {
            End::KeepAlive => {}
            End::Never => {
                let _ = stream.read_to_end(&mut Vec::new());
                return;
            }
            _ => return,
        }
    }
}

fn read(stream: &mut impl BufRead, connection: usize) -> Option<Seen> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut parts = line.split_whitespace();
    let (method, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Seen {
        method,
        target,
        headers,
        body: String::from_utf8(body).unwrap(),
        connection,
    })
}
