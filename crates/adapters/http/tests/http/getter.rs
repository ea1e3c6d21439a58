//! Plain GETs of an application.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clinch_http::{Getter, HttpClient, Unanswered};
use clinch_system::SystemClock;
use tokio::net::TcpListener;

use crate::support::{FakeNetwork, Provider, Reply, client_on, status};

const SECRET: &str = "Bearer canary";

fn getter(url: &str, timeout: Duration) -> Getter {
    let clock = Arc::new(SystemClock::new());
    let client = HttpClient::builder(clock).build().expect("a client");
    Getter::new(&client, url, false, timeout, 64).expect("an origin")
}

fn patient(url: &str) -> Getter {
    getter(url, Duration::from_secs(30))
}

#[tokio::test]
async fn an_answer_of_any_status_comes_whole_and_no_redirect_is_followed() {
    let elsewhere = status("302 Found", "Location: /other\r\nETag: \"a\"\r\n", "moved");
    let mut provider = Provider::start([elsewhere]).await;
    let headers = [("authorization", SECRET), ("if-none-match", "\"a\"")];
    let url = provider.url("/page?n=1");
    let getter = patient(&url);
    let got = getter.get(&url, &headers).await.expect("an answer");
    assert_eq!(
        (got.status, got.body.as_slice()),
        (302, b"moved".as_slice())
    );
    let etag = ("etag".to_owned(), "\"a\"".to_owned());
    assert!(got.headers.contains(&etag), "{:?}", got.headers);
    let (first, text) = provider.request().await;
    assert!(text.starts_with("GET /page?n=1 HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("authorization: Bearer canary\r\n"), "{text}");
    // The connection is used again.
    getter.get(&url, &[]).await.expect("an answer");
    let (second, text) = provider.request().await;
    assert_eq!(first, second);
    assert!(!text.contains("canary"), "{text}");
    assert_eq!(provider.requests(), 0);
}

#[tokio::test]
async fn what_never_left_is_told_from_what_was_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let free = listener.local_addr().expect("an address");
    drop(listener);
    let headers = [("authorization", SECRET)];
    for url in [
        format!("http://{free}/"),
        "https://clinch.invalid/".to_owned(),
    ] {
        let unanswered = patient(&url).get(&url, &headers).await;
        let unanswered = unanswered.expect_err("nobody");
        assert!(
            matches!(unanswered, Unanswered::NotSent(_)),
            "{unanswered:?}"
        );
        assert!(!format!("{unanswered:?}").contains("canary"));
    }
    let short = Reply::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1,2".to_vec());
    let long = status("200 OK", "", &"x".repeat(65));
    for reply in [Reply::Reset, short, long] {
        let provider = Provider::start([reply]).await;
        let url = provider.url("/");
        let unanswered = patient(&url).get(&url, &headers).await;
        let unanswered = unanswered.expect_err("not whole");
        assert!(matches!(unanswered, Unanswered::Lost(_)), "{unanswered:?}");
    }
    let provider = Provider::start([Reply::Silent]).await;
    let url = provider.url("/");
    let hasty = getter(&url, Duration::from_millis(50));
    let late = hasty.get(&url, &headers).await;
    assert_eq!(late, Err(Unanswered::Lost("no answer in time".to_owned())));
}

#[tokio::test]
async fn a_host_whose_name_leads_inside_is_not_called() {
    // With allow_private: those of a site, never link-local ones and never by a detour.
    let addresses = [
        ("127.0.0.1", true),
        ("10.0.0.1", true),
        ("fd00::1", true),
        ("::1", true),
        ("169.254.169.254", false),
        ("fe80::1", false),
        ("::ffff:169.254.169.254", false),
        ("::ffff:10.0.0.1", false),
        ("64:ff9b::a9fe:a9fe", false),
        ("192.0.0.192", false),
        ("0.0.0.0", false),
    ];
    let url = "http://api.example/";
    for (address, is_of_a_site) in addresses {
        for allow_private in [false, true] {
            let network = Arc::new(FakeNetwork::default().name("api.example", &[&[address]]));
            let client = client_on(&network);
            let timeout = Duration::from_secs(30);
            let getter = Getter::new(&client, url, allow_private, timeout, 64);
            let got = getter.expect("an origin").get(url, &[]).await;
            assert!(
                matches!(got, Err(Unanswered::NotSent(_))),
                "{address}: {got:?}"
            );
            let is_dialled = !network.dials().is_empty();
            assert_eq!(is_dialled, allow_private && is_of_a_site, "{address}");
        }
    }
}

#[tokio::test]
async fn an_address_that_is_named_is_meant_unless_it_is_nobody_s() {
    let network = Arc::new(FakeNetwork::default());
    let client = client_on(&network);
    let made = |url: &str| Getter::new(&client, url, false, Duration::from_secs(30), 64);
    for url in [
        "http://127.0.0.1:1/",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://localhost/",
        "http://1.1.1.1/",
    ] {
        assert!(made(url).is_ok(), "{url}");
    }
    for url in [
        "http://169.254.169.254/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0/",
        "http://2852039166/",
        "ftp://api.example/",
        "http://user@api.example/",
    ] {
        assert!(made(url).is_err(), "{url}");
    }
    // A name that means this machine leads nowhere else.
    let network = Arc::new(FakeNetwork::default().name("localhost", &[&["10.0.0.1"]]));
    let client = client_on(&network);
    let url = "http://localhost/";
    let getter = Getter::new(&client, url, true, Duration::from_secs(30), 64);
    let got = getter.expect("an origin").get(url, &[]).await;
    assert!(matches!(got, Err(Unanswered::NotSent(_))), "{got:?}");
    assert_eq!(network.dials(), Vec::<String>::new());
}

#[tokio::test]
async fn no_other_origin_is_asked_and_no_header_leaves() {
    let mut provider = Provider::start([status("200 OK", "", "{}")]).await;
    let ours = provider.url("/");
    let getter = patient("http://127.0.0.1:9/");
    let https = ours.replacen("http://", "https://", 1);
    let name = ours.replacen("127.0.0.1", "localhost", 1);
    for url in [
        ours,
        https,
        name,
        "http://127.0.0.1:9@evil.example/".to_owned(),
    ] {
        let got = getter.get(&url, &[("authorization", SECRET)]).await;
        assert!(matches!(got, Err(Unanswered::NotSent(_))), "{url}: {got:?}");
    }
    assert_eq!(provider.requests(), 0);
}

fn compressed(body: &str, encoding: &str) -> Reply {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body.as_bytes()).expect("written");
    let body = encoder.finish().expect("compressed");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.extend(body);
    Reply::Raw(bytes)
}

#[tokio::test]
async fn answers_are_asked_for_compressed_and_come_decompressed() {
    let body = "[1,2,3]";
    let mut provider = Provider::start([compressed(body, "gzip")]).await;
    let url = provider.url("/");
    let got = patient(&url).get(&url, &[]).await.expect("an answer");
    assert_eq!(got.body, body.as_bytes());
    let is_encoding = |(name, _): &(String, String)| name == "content-encoding";
    assert!(!got.headers.iter().any(is_encoding), "{:?}", got.headers);
    let (_, text) = provider.request().await;
    assert!(text.contains("accept-encoding: gzip\r\n"), "{text}");
}

#[tokio::test]
async fn a_compressed_answer_is_bounded_by_its_length_when_decompressed() {
    // Less than the limit of 64 bytes as it is sent.
    let bomb = compressed(&"x".repeat(10_000), "gzip");
    let no_gzip = status("200 OK", "Content-Encoding: gzip\r\n", "plain");
    let unasked = compressed("[1]", "br");
    for (reply, why) in [
        (bomb, "the answer is too long"),
        (no_gzip, "the answer cannot be decompressed"),
        (unasked, "the answer has an encoding that was not asked for"),
    ] {
        let provider = Provider::start([reply]).await;
        let url = provider.url("/");
        let got = patient(&url).get(&url, &[]).await;
        assert_eq!(got, Err(Unanswered::Lost(why.to_owned())));
    }
}
