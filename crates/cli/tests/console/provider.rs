//! A provider whose path says how it behaves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A provider until the test ends.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    is_well: Arc<AtomicBool>,
    book: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let provider = Self {
            address: listener.local_addr().expect("an address"),
            is_well: Arc::default(),
            book: Arc::default(),
        };
        let shared = provider.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || answer(stream, &shared));
            }
        });
        provider
    }

    /// From now on every call succeeds.
    pub(crate) fn heal(&self) {
        self.is_well.store(true, Ordering::SeqCst);
    }

    /// How many calls succeeded.
    pub(crate) fn calls(&self) -> usize {
        self.book.lock().expect("the book").len()
    }

    /// The bodies of the calls that succeeded, in order.
    pub(crate) fn book(&self) -> Vec<String> {
        self.book.lock().expect("the book").clone()
    }
}

fn answer(mut stream: TcpStream, shared: &Provider) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
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
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let path = head.split(' ').nth(1)?.to_owned();
        let path = match shared.is_well.load(Ordering::SeqCst) {
            true => "/ok",
            false => path.as_str(),
        };
        if path == "/ok" {
            let text = String::from_utf8_lossy(&body).into_owned();
            shared.book.lock().expect("the book").push(text);
        }
        let (status, more) = match path {
            "/ok" => ("200 OK", ""),
            "/refuse" => ("422 Refused", ""),
            "/break" => ("500 Broken", ""),
            "/throttle" => ("429 Slow Down", "retry-after: 3600\r\n"),
            // Closed without an answer: the effect is unknown.
            _ => return None,
        };
        let body = "{\"id\":\"tx_9\"}";
        let text = format!(
            "HTTP/1.1 {status}\r\n{more}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).ok()?;
    }
}
