//! A receiver that accepts documents and keeps them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::Value;

type Taken = Vec<(String, Value)>;

/// Accepts documents on any path; the first few may be refused.
#[derive(Clone)]
pub(crate) struct Collector {
    address: SocketAddr,
    taken: Arc<(Mutex<Taken>, Condvar)>,
}

impl Collector {
    /// Answers 500 to the first `refused` requests.
    pub(crate) fn start(refused: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let collector = Self {
            address: listener.local_addr().expect("an address"),
            taken: Arc::default(),
        };
        let serving = collector.clone();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (serving, stream) = (serving.clone(), stream.expect("a connection"));
                thread::spawn(move || serving.take(stream, number >= refused));
            }
        });
        collector
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn take(&self, stream: TcpStream, is_taken: bool) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let path = line.split_whitespace().nth(1)?.to_owned();
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
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let status = if is_taken { 200 } else { 500 };
        if is_taken {
            let body = serde_json::from_slice(&body).expect("JSON");
            self.taken.0.lock().expect("taken").push((path, body));
            self.taken.1.notify_all();
        }
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\n{{}}");
        stream.get_mut().write_all(answer.as_bytes()).ok()
    }

    /// All documents on this path, as soon as there are enough.
    pub(crate) fn until(&self, path: &str, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let of_path = |taken: &Taken| -> Vec<Value> {
            let of_it = taken.iter().filter(|(of, _)| of == path);
            of_it.map(|(_, body)| body.clone()).collect()
        };
        let taken = self.taken.0.lock().expect("taken");
        let wait = |taken: &mut Taken| !is_enough(&of_path(taken));
        let taken = self.taken.1.wait_while(taken, wait).expect("taken");
        of_path(&taken)
    }
}
