//! The same rules over a socket.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use clinch_github::ApiAnswer;
use clinch_github::fake::{Fault, Faults, Links, Setup, serve};
use tokio::net::TcpListener;

use crate::support::{TOKEN, Test, json, link, message, small, start};

/// One plain connection. `None`: no complete answer came.
struct Client(TcpStream);

impl Client {
    fn connect(base: &str) -> Self {
        let address = base.strip_prefix("http://").expect("a base");
        Self(TcpStream::connect(address).expect("a connection"))
    }

    fn send(&mut self, target: &str, headers: &str) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: fake\r\n{headers}\r\n");
        self.0.write_all(request.as_bytes()).expect("sent");
    }

    fn read(&mut self) -> Option<ApiAnswer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        let mut answer = ApiAnswer {
            status,
            headers: headers.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            body: Vec::new(),
        };
        let length = answer.header("content-length").unwrap_or("0");
        answer.body = vec![0; length.parse().ok()?];
        self.0.read_exact(&mut answer.body).ok()?;
        Some(answer)
    }

    fn get(&mut self, target: &str, headers: &str) -> Option<ApiAnswer> {
        self.send(target, headers);
        self.read()
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

async fn served(test: &Test) -> clinch_github::fake::Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    serve(listener, test.fake.clone()).expect("served")
}

/// Runs a blocking client while the server runs.
async fn beside<T: Send + 'static>(client: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(client).await.expect("no panic")
}

#[tokio::test]
async fn a_served_fake_answers_as_the_one_in_process() {
    let test = start(small(), Setup::default());
    let target = "/users/octocat/repos?per_page=5";
    let here = test.get(target).await;
    let served = served(&test).await;
    let base = served.base.clone();
    let there = beside(move || {
        let mut client = Client::connect(&base);
        let first = client.get(target, &bearer(TOKEN)).expect("an answer");
        assert_eq!(first.status, 200);
        let etag = first.header("etag").expect("an ETag");
        let known = format!("{}If-None-Match: {etag}\r\n", bearer(TOKEN));
        let known = client.get(target, &known).expect("an answer");
        assert_eq!((known.status, known.body.len()), (304, 0));
        let next = link(&first, "next").expect("a next page");
        let next = next.strip_prefix(&base).expect("its own base").to_owned();
        let second = client.get(&next, &bearer(TOKEN)).expect("an answer");
        assert_eq!(json(&second).as_array().map(Vec::len), Some(5));
        let bad = client.get(target, &bearer("ghp_x")).expect("an answer");
        assert_eq!(message(&bad), "Bad credentials");
        let anonymous = client.get(target, "").expect("an answer");
        assert_eq!(anonymous.header("x-ratelimit-limit"), Some("60"));
        first
    })
    .await;
    assert_eq!(json(&here), json(&there));
    assert_eq!(here.header("etag"), there.header("etag"));
    assert_eq!(test.fake.tally().by_account["octocat"], 4);
    served.stop().await;
}

#[tokio::test]
async fn a_client_that_takes_gzip_gets_less_than_half() {
    let test = start(small(), Setup::default());
    let served = served(&test).await;
    let base = served.base.clone();
    let (plain, zipped) = beside(move || {
        let mut client = Client::connect(&base);
        let target = "/users/octocat/repos?per_page=100";
        let plain = client.get(target, &bearer(TOKEN)).expect("an answer");
        let headers = format!("{}Accept-Encoding: gzip\r\n", bearer(TOKEN));
        let zipped = client.get(target, &headers).expect("an answer");
        (plain, zipped)
    })
    .await;
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert_eq!(plain.header("etag"), zipped.header("etag"));
    let (long, short) = (plain.body.len(), zipped.body.len());
    assert!(short * 2 < long, "{short} of {long}");
    served.stop().await;
}

#[tokio::test]
async fn lost_and_cut_answers_end_the_connection() {
    let faults = Faults::none()
        .at(1, Fault::LostAfter)
        .at(2, Fault::Cut)
        .at(3, Fault::Malformed);
    let setup = Setup {
        faults,
        ..Setup::default()
    };
    let test = start(small(), setup);
    let served = served(&test).await;
    let base = served.base.clone();
    beside(move || {
        let ask = |client: &mut Client| client.get("/users/octocat", &bearer(TOKEN));
        assert_eq!(ask(&mut Client::connect(&base)), None);
        let mut cut = Client::connect(&base);
        cut.send("/users/octocat", &bearer(TOKEN));
        let mut bytes = Vec::new();
        cut.0.read_to_end(&mut bytes).expect("an end");
        let text = String::from_utf8(bytes).expect("text");
        assert!(
            text.starts_with("HTTP/1.1 200") && !text.ends_with('}'),
            "{text}"
        );
        let mut client = Client::connect(&base);
        let half = ask(&mut client).expect("an answer");
        assert!(serde_json::from_slice::<serde_json::Value>(&half.body).is_err());
        assert_eq!(ask(&mut client).map(|answer| answer.status), Some(200));
    })
    .await;
    served.stop().await;
}

#[tokio::test]
async fn a_stop_ends_idle_connections_and_answers_what_has_arrived() {
    let setup = Setup {
        latency: std::time::Duration::from_secs(5),
        ..Setup::default()
    };
    let test = start(small(), setup);
    let served = served(&test).await;
    let base = served.base.clone();
    let idle = Client::connect(&base);
    let asking = base.clone();
    let answer =
        tokio::task::spawn_blocking(move || Client::connect(&asking).get("/users/octocat", ""));
    while test.clock.next_wake().is_none() {
        tokio::task::yield_now().await;
    }
    let stopping = tokio::spawn(served.stop());
    let address = base.strip_prefix("http://").expect("a base").to_owned();
    let refused = loop {
        match TcpStream::connect(&address) {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(refused, ErrorKind::ConnectionRefused);
    test.clock.advance(std::time::Duration::from_secs(5));
    stopping.await.expect("stopped");
    let answer = answer.await.expect("no panic").expect("an answer");
    assert_eq!(answer.status, 200);
    let mut idle = idle;
    assert_eq!(beside(move || idle.read()).await, None);
}

#[tokio::test]
async fn what_is_neither_get_nor_post_is_refused() {
    let test = start(small(), Setup::default());
    let served = served(&test).await;
    let base = served.base.clone();
    let status = beside(move || {
        let mut client = Client::connect(&base);
        let sent = client.0.write_all(b"PUT /users/octocat HTTP/1.1\r\n\r\n");
        sent.expect("sent");
        client.read().map(|answer| answer.status)
    });
    assert_eq!(status.await, Some(400));
    served.stop().await;
}

#[tokio::test]
async fn two_lines_of_links_are_two_headers() {
    for (links, expected) in [(Links::Plain, 1), (Links::TwoLines, 2)] {
        let setup = Setup {
            links,
            ..Setup::default()
        };
        let test = start(small(), setup);
        let served = served(&test).await;
        let base = served.base.clone();
        let lines = beside(move || {
            let mut client = Client::connect(&base);
            client.send(
                "/users/octocat/repos?per_page=5&page=2",
                "Connection: close\r\n",
            );
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.0.read_exact(&mut byte).expect("a head");
                bytes.push(byte[0]);
            }
            let head = String::from_utf8(bytes).expect("text");
            let lines = head.lines().filter(|line| line.starts_with("link: "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        })
        .await;
        assert_eq!(lines.len(), expected, "{lines:?}");
        let relations = ["prev", "next", "last", "first"];
        let all = lines.join(", ");
        for relation in relations {
            assert!(all.contains(&format!("rel=\"{relation}\"")), "{all}");
        }
        served.stop().await;
    }
}
