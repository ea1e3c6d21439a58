//! Plain GETs of an application.

use std::sync::Arc;
use std::time::Duration;

use clinch_http::{Getter, HttpClient, Unanswered};
use clinch_system::SystemClock;
use tokio::net::TcpListener;

use crate::support::{Provider, Reply, status};

const SECRET: &str = "Bearer canary";

fn getter(timeout: Duration) -> Getter {
    let clock = Arc::new(SystemClock::new());
    let client = HttpClient::builder(clock).build().expect("a client");
    Getter::new(&client, timeout, 64)
}

fn patient() -> Getter {
    getter(Duration::from_secs(30))
}

#[tokio::test]
async fn an_answer_of_any_status_comes_whole_and_no_redirect_is_followed() {
    let elsewhere = status("302 Found", "Location: /other\r\nETag: \"a\"\r\n", "moved");
    let mut provider = Provider::start([elsewhere]).await;
    let getter = patient();
    let headers = [("authorization", SECRET), ("if-none-match", "\"a\"")];
    let url = provider.url("/page?n=1");
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
        "ftp://host/".to_owned(),
        "http://0.0.0.0/".to_owned(),
    ] {
        let unanswered = patient().get(&url, &headers).await.expect_err("nobody");
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
        let unanswered = patient().get(&provider.url("/"), &headers).await;
        let unanswered = unanswered.expect_err("not whole");
        assert!(matches!(unanswered, Unanswered::Lost(_)), "{unanswered:?}");
    }
    let provider = Provider::start([Reply::Silent]).await;
    let hasty = getter(Duration::from_millis(50));
    let late = hasty.get(&provider.url("/"), &headers).await;
    assert_eq!(late, Err(Unanswered::Lost("no answer in time".to_owned())));
}
