//! A provider that does nothing: answers every request with the same small JSON.

use clinch_peers_load::{Job, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The only argument of the program. It prints its port, and serves until it is killed.
pub(crate) const ARGUMENT: &str = "upstream";
const HEAD_MAX: usize = 16_384;

pub(crate) fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                // The caller may leave at any time.
                let _ = serve(stream).await;
            });
        }
    })
}

/// Answers one request after the other.
async fn serve(mut stream: TcpStream) -> Result<()> {
    let result = Job::result();
    let length = result.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{result}"
    );
    let mut seen = Vec::new();
    loop {
        while !take_request(&mut seen)? {
            if stream.read_buf(&mut seen).await? == 0 {
                return Ok(());
            }
        }
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Removes one whole request from the front, if there is one.
fn take_request(seen: &mut Vec<u8>) -> Result<bool> {
    let Some(head) = seen.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match seen.len() {
            0..HEAD_MAX => Ok(false),
            _ => Err("the head of a request is too long".into()),
        };
    };
    let text = String::from_utf8_lossy(&seen[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let end = head + 4 + length.unwrap_or(0);
    if seen.len() < end {
        return Ok(false);
    }
    seen.drain(..end);
    Ok(true)
}
