//! A provider that records its calls, with its own times.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clinch_testbed::wait_until;

/// A recorded call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at: Duration,
    pub(crate) from: IpAddr,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// The answer to a call.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
}

impl Answer {
    pub(crate) const OK: Self = Self {
        status: 200,
        headers: "",
    };
}

/// Ends with the test's process.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    book: Arc<Book>,
}

struct Book {
    start: Instant,
    calls: Mutex<Vec<Call>>,
    written: Condvar,
}

impl Book {
    /// Records a call; returns how many came before.
    fn write(&self, from: IpAddr, path: String, body: String) -> usize {
        let at = self.start.elapsed();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(Call {
            at,
            from,
            path,
            body,
        });
        self.written.notify_all();
        calls.len() - 1
    }
}

impl Provider {
    /// `answer` gets the call and the earlier calls, and may block.
    pub(crate) fn start(
        listen: &str,
        answer: impl Fn(&Provider, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(listen).expect("a port");
        let provider = Self {
            address: listener.local_addr().expect("an address"),
            book: Arc::new(Book {
                start: Instant::now(),
                calls: Mutex::default(),
                written: Condvar::new(),
            }),
        };
        let (own, answer) = (provider.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (own, answer) = (own.clone(), answer.clone());
                std::thread::spawn(move || own.serve(stream, &*answer));
            }
        });
        provider
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        let calls = self.book.calls.lock();
        calls.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Blocks the answer to a call until this number of calls has arrived.
    pub(crate) fn wait_for_calls(&self, count: usize) {
        let mut calls = (self.book.calls.lock()).unwrap_or_else(PoisonError::into_inner);
        while calls.len() < count {
            let woken = self.book.written.wait(calls);
            calls = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the recorded calls fulfil the condition.
    pub(crate) fn until(&self, is_so: impl Fn(&[Call]) -> bool) {
        let limit = Duration::from_secs(60);
        assert!(
            wait_until(limit, || is_so(&self.calls())),
            "the provider never saw it: {:#?}",
            self.calls()
        );
    }

    fn serve(&self, stream: TcpStream, answer: &dyn Fn(&Self, usize) -> Answer) {
        let Ok(peer) = stream.peer_addr() else { return };
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        let mut stream = stream;
        while let Some((path, body)) = request(&mut reader) {
            let number = self.book.write(peer.ip(), path, body);
            let Answer { status, headers } = answer(self, number);
            let whole = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: 2\r\n\r\n{{}}"
            );
            if stream.write_all(whole.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let (mut path, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path?, String::from_utf8_lossy(&body).into_owned()))
}
