//! A payment provider that charges whatever is asked for, and keeps its own book.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::server::PATIENCE;

/// One call: whose payment, and under which key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Charge {
    pub(crate) biz_key: String,
    pub(crate) key: String,
}

/// Ends with the test's process.
#[derive(Clone)]
pub(crate) struct Provider {
    address: SocketAddr,
    book: Arc<Mutex<Vec<Charge>>>,
}

/// Calls that are applied and not answered until the test says so.
pub(crate) struct Stops {
    reached: Receiver<usize>,
    go_on: Sender<()>,
}

impl Stops {
    /// Waits for the next of these calls, acts, and lets it be answered.
    pub(crate) fn at_next(&self, act: impl FnOnce()) {
        let number = self.reached.recv_timeout(PATIENCE);
        number.expect("a call");
        act();
        self.go_on.send(()).expect("a provider");
    }
}

impl Provider {
    /// Charges everything; the calls with these numbers, from 1, wait for the test.
    pub(crate) fn with_stops(stops: &'static [usize]) -> (Self, Stops) {
        let (reaching, reached) = channel();
        let (go_on, going_on) = channel();
        let going_on = Mutex::new(going_on);
        let provider = Self::start(move |number, _| {
            if stops.contains(&number) && reaching.send(number).is_ok() {
                let going_on = going_on.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = going_on.recv();
            }
            200
        });
        (provider, Stops { reached, go_on })
    }

    /// `answer` gets the number of the call, from 1, and the call, which is applied already, and
    /// returns the status of the answer.
    pub(crate) fn start(answer: impl Fn(usize, &Charge) -> u16 + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let provider = Self {
            address: listener.local_addr().expect("an address"),
            book: Arc::default(),
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

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn charges(&self) -> Vec<Charge> {
        let book = self.book.lock();
        book.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn serve(&self, mut stream: TcpStream, answer: &(dyn Fn(usize, &Charge) -> u16 + Sync)) {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        while let Some(charge) = request(&mut reader) {
            let number = {
                let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
                book.push(charge.clone());
                book.len()
            };
            let status = answer(number, &charge);
            let body = format!(r#"{{"id":"tx-{}"}}"#, charge.key);
            let whole = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(whole.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<Charge> {
    let (mut path, mut key, mut length) = (None, String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
        let line = line.trim_end();
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => {
                key = value.to_owned();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            _ if line.is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let biz_key = path?.rsplit('/').next()?.to_owned();
    Some(Charge { biz_key, key })
}
