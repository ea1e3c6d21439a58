//! Callers over HTTP: each has one connection, and waits for every answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clinch_peers_load::{Failure, Job, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Makes the request of a job: path, extra headers, body.
pub(crate) type MakeRequest = fn(&Job) -> (String, String, String);

/// A server under load. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    port: u16,
    make: MakeRequest,
    next: Arc<AtomicU64>,
}

impl Client {
    pub(crate) fn new(port: u16, make: MakeRequest) -> Self {
        Self {
            port,
            make,
            next: Arc::default(),
        }
    }

    /// Answers per second over this number of connections. Every answer must be 200.
    pub(crate) async fn rate(&self, connections: usize, total: u64) -> Result<f64> {
        let left = Arc::new(AtomicU64::new(total));
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            stream.set_nodelay(true)?;
            streams.push(BufReader::new(stream));
        }
        let from = Instant::now();
        let caller = |mut stream: BufReader<TcpStream>| {
            let (this, left) = (self.clone(), left.clone());
            tokio::spawn(async move {
                let take = |left: u64| left.checked_sub(1);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                    .is_ok()
                {
                    let job = Job::new(this.next.fetch_add(1, Ordering::Relaxed));
                    let (path, headers, body) = (this.make)(&job);
                    let status = request(&mut stream, "POST", &path, &headers, &body).await?;
                    ensure(status == 200, &format!("a server answered {status}"))?;
                }
                Ok::<(), Failure>(())
            })
        };
        let callers: Vec<_> = streams.into_iter().map(caller).collect();
        for caller in callers {
            caller.await??;
        }
        Ok(total as f64 / from.elapsed().as_secs_f64())
    }
}

/// Sends one request on a kept connection; returns the status once the whole answer is read.
pub(crate) async fn request(
    stream: &mut BufReader<TcpStream>,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<u16> {
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.get_mut().write_all(text.as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or("a server closed a connection")?;
    let (mut length, mut is_chunked) = (0, false);
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        is_chunked |= header.starts_with("transfer-encoding:") && header.contains("chunked");
    }
    if !is_chunked {
        skip(stream, length).await?;
        return Ok(status);
    }
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let size = usize::from_str_radix(line.trim(), 16)?;
        skip(stream, size + 2).await?;
        if size == 0 {
            return Ok(status);
        }
    }
}

async fn skip(stream: &mut BufReader<TcpStream>, length: usize) -> Result<()> {
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(())
}

/// The status of one request on a connection of its own; none while nobody listens.
pub(crate) async fn once(port: u16, method: &str, path: &str, body: &str) -> Option<u16> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let mut stream = BufReader::new(stream);
    request(&mut stream, method, path, "", body).await.ok()
}
