//! A provider whose path selects its behaviour.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

#[derive(Default)]
struct Book {
    /// Calls that have arrived, by path and biz key.
    calls: Vec<(String, String)>,
    /// The answers to calls that wait at the gate, by biz key.
    verdicts: BTreeMap<String, u16>,
}

/// A running provider; it ends with the test.
#[derive(Clone)]
pub(crate) struct Provider {
    address: SocketAddr,
    book: Arc<(Mutex<Book>, Condvar)>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let provider = Self {
            address: listener.local_addr().expect("an address"),
            book: Arc::default(),
        };
        let serving = provider.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (serving, stream) = (serving.clone(), stream.expect("a connection"));
                thread::spawn(move || serving.serve(stream));
            }
        });
        provider
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.0.lock().expect("the book")
    }

    /// Calls so far on this path.
    pub(crate) fn calls(&self, path: &str) -> usize {
        let book = self.book();
        book.calls.iter().filter(|(of, _)| of == path).count()
    }

    /// Returns when a call with this key waits at the gate.
    pub(crate) fn arrival(&self, biz_key: &str) {
        let book = self.book();
        let away = |book: &mut Book| !book.calls.iter().any(|(_, key)| key == biz_key);
        drop(self.book.1.wait_while(book, away).expect("the book"));
    }

    /// Answers calls with this key that wait at the gate, now and later.
    pub(crate) fn answer(&self, biz_key: &str, status: u16) {
        self.book().verdicts.insert(biz_key.to_owned(), status);
        self.book.1.notify_all();
    }

    fn serve(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some((path, biz_key)) = read(&mut stream) {
            let status = self.verdict(&path, &biz_key);
            let body = r#"{"id":"tx_9"}"#;
            let text = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.get_mut().write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn verdict(&self, path: &str, biz_key: &str) -> u16 {
        let mut book = self.book();
        book.calls.push((path.to_owned(), biz_key.to_owned()));
        self.book.1.notify_all();
        match path {
            "gate" => {
                let shut = |book: &mut Book| !book.verdicts.contains_key(biz_key);
                let book = self.book.1.wait_while(book, shut).expect("the book");
                book.verdicts[biz_key]
            }
            status => status.parse().expect("a status"),
        }
    }
}

/// `/<what>/<biz key>` of one request.
fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let target = line.split_whitespace().nth(1)?;
    let mut parts = target.trim_start_matches('/').splitn(2, '/');
    let (path, key) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    stream.read_exact(&mut vec![0; length]).ok()?;
    Some((path, key))
}
