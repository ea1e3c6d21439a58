//! A provider on loopback that answers by path, and keeps the requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Ends with the test's process.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<String>>,
}

impl Provider {
    /// `answer` returns status and body for a path.
    pub(crate) fn start(answer: fn(&str) -> (u16, String)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let heads = Arc::new(Mutex::new(String::new()));
        let kept = heads.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                std::thread::spawn(move || serve(stream, answer, &kept));
            }
        });
        Self { address, heads }
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> String {
        let heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.clone()
    }
}

fn serve(stream: TcpStream, answer: fn(&str) -> (u16, String), kept: &Mutex<String>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut stream = stream;
    while let Some((head, path)) = request(&mut reader) {
        kept.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_str(&head);
        let (status, body) = answer(&path);
        let length = body.len();
        let whole = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        if stream.write_all(whole.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    Some((head, path))
}

/// Sends one request and reads its complete answer, on a connection of its own.
pub(crate) fn http(
    address: SocketAddr,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connects");
    let mut whole = format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        whole.push_str(&format!("{name}: {value}\r\n"));
    }
    whole.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    // A refusal may come before everything is sent.
    let _ = stream.write_all(whole.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or(0), answer)
}
