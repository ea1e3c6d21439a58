//! The fake over HTTP/1.1.
//!
//! It uses bare sockets: a web framework always sends a complete answer, and here some answers must
//! end in the middle or never begin.

use std::future::poll_fn;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Fake, Get, Links, Reply};
use crate::{ApiAnswer, Token};

/// Real request heads are far smaller.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A running server. Dropping it leaves the server running.
pub struct Served {
    /// Its origin, as in its links: `http://127.0.0.1:4567`.
    pub base: String,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Served {
    /// Accepts no more connections, and returns when every request that has arrived is answered.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // The task ends by itself; it may have been cancelled with its runtime.
        let _ = self.task.await;
    }
}

/// Serves a fake on this listener.
pub fn serve(listener: TcpListener, fake: Fake) -> io::Result<Served> {
    let base = base(listener.local_addr()?);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(accept(listener, fake, Arc::from(base.as_str()), stopped));
    Ok(Served { base, stop, task })
}

fn base(address: SocketAddr) -> String {
    format!("http://{address}")
}

async fn accept(listener: TcpListener, fake: Fake, base: Arc<str>, stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Some(accepted) = unless_stopped(&stopped, listener.accept()).await {
        // A connection that fails during accept is the client's problem.
        if let Ok((stream, _)) = accepted {
            let (fake, base, stopped) = (fake.clone(), Arc::clone(&base), stopped.clone());
            connections.spawn(async move {
                // An error means that the client has disconnected.
                let _ = converse(&stream, &fake, &base, &stopped).await;
            });
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// `None`: the server was stopped first.
async fn unless_stopped<T>(
    stopped: &watch::Receiver<bool>,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut stopped = stopped.clone();
    let mut stop = pin!(stopped.wait_for(|stopped| *stopped));
    let mut future = pin!(future);
    poll_fn(|context| {
        if let Poll::Ready(done) = future.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        stop.as_mut().poll(context).map(|_| None)
    })
    .await
}

async fn converse(
    stream: &TcpStream,
    fake: &Fake,
    base: &str,
    stopped: &watch::Receiver<bool>,
) -> io::Result<()> {
    let mut unread = Vec::new();
    loop {
        let Some(head) = unless_stopped(stopped, read_head(stream, &mut unread)).await else {
            return Ok(());
        };
        let Some(head) = head? else {
            return Ok(());
        };
        let Some(mut request) = Request::parse(&head) else {
            let bytes =
                b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            return write(stream, bytes).await;
        };
        let get = Get {
            is_post: request.is_post,
            base,
            target: &request.target,
            token: request.token.as_ref(),
            if_none_match: request.if_none_match.as_deref(),
            timeout: None,
        };
        let links = {
            let setup = &fake.state().setup;
            request.takes_gzip &= !setup.is_uncompressed;
            setup.links
        };
        match fake.answer(&get).await {
            Reply::Answer(answer) => {
                let answer = request.encoded(answer)?;
                write(stream, &bytes(&answer, links)).await?;
            }
            Reply::Cut(answer) => {
                let answer = request.encoded(answer)?;
                let mut bytes = bytes(&answer, links);
                bytes.truncate(bytes.len() - answer.body.len().div_ceil(2));
                return write(stream, &bytes).await;
            }
            Reply::Lost => return Ok(()),
        }
    }
}

struct Request {
    is_post: bool,
    target: String,
    token: Option<Token>,
    if_none_match: Option<String>,
    /// The client takes compressed answers.
    takes_gzip: bool,
}

impl Request {
    /// The answer, compressed if the client takes that.
    fn encoded(&self, mut answer: ApiAnswer) -> io::Result<ApiAnswer> {
        if self.takes_gzip && !answer.body.is_empty() {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&answer.body)?;
            answer.body = encoder.finish()?;
            let (name, value) = ("content-encoding".to_owned(), "gzip".to_owned());
            answer.headers.insert(name, value);
        }
        Ok(answer)
    }

    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let (method, target) = lines.next()?.split_once(' ')?;
        let target = target.strip_suffix(" HTTP/1.1")?;
        let mut request = Self {
            is_post: match method {
                "GET" => false,
                "POST" => true,
                _ => return None,
            },
            target: target.to_owned(),
            token: None,
            if_none_match: None,
            takes_gzip: false,
        };
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "authorization" => {
                    let (_, secret) = value.split_once(' ').unwrap_or(("", value));
                    request.token = Some(Token::new(secret));
                }
                "accept-encoding" => request.takes_gzip = value.contains("gzip"),
                "if-none-match" => request.if_none_match = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(request)
    }
}

fn bytes(answer: &ApiAnswer, links: Links) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Fake\r\n", answer.status);
    for (name, line) in links.header_lines(answer) {
        head.push_str(&format!("{name}: {line}\r\n"));
    }
    // These two never have a body.
    if !matches!(answer.status, 204 | 304) {
        head.push_str(&format!("content-length: {}\r\n", answer.body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&answer.body);
    bytes
}

/// The head of the next request; `None`: the client is done. Bytes after it stay in `unread`.
async fn read_head(stream: &TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = unread.split_off(end + 4);
            let head = std::mem::replace(unread, rest);
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if unread.len() >= HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.readable().await?;
        let mut buffer = [0; 4 * 1024];
        match stream.try_read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => unread.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
