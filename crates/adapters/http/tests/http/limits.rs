//! Bounds on what a provider can make us do, and on what a configuration can.

use std::net::IpAddr;
use std::time::Duration;

use clinch_core::{Outcome, Retry};
use clinch_http::{AddressKind, Egress, HttpClient, HttpExecutor, kind_of};
use proptest::prelude::*;

use crate::support::{
    Provider, Reply, Told, Vault, call, client, executor, executor_on, route, status,
};

#[tokio::test]
async fn a_refusal_does_not_wait_for_a_slow_body() {
    let slow = b"HTTP/1.1 402 Payment Required\r\nContent-Length: 50\r\n\r\n{".to_vec();
    let provider = Provider::start([Reply::Raw(slow)]).await;
    let clock = Told::new(Duration::from_millis(500));
    clock.go.notify_one();
    let client = HttpClient::builder(clock).build().expect("a client");
    let failed = call(&executor_on(&client, route(provider.url("/")))).await;
    let Outcome::Fail(fail) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!((fail.code.as_str(), fail.cause), ("http_402", None));
}

#[tokio::test]
async fn an_answer_with_more_headers_than_anyone_sends_is_unknown() {
    let head = "X-Pad: y\r\n".repeat(1_000);
    let provider = Provider::start([status("200 OK", &head, "{}")]).await;
    let lost = Retry::unknown("connection_lost: not an HTTP answer");
    assert_eq!(
        call(&executor(route(provider.url("/")))).await,
        Outcome::Retry(lost)
    );
}

#[tokio::test]
async fn a_long_error_is_not_read_to_its_end() {
    let long = "x".repeat(1 << 20);
    let provider = Provider::start([status("500 Oops", "", &long)]).await;
    let outcome = call(&executor(route(provider.url("/")))).await;
    assert_eq!(outcome, Outcome::Retry(Retry::unknown("http_500")));
}

/// Texts near URLs: random ones rarely get past the scheme.
fn url() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![Just("http://"), Just("https://"), Just("HTTP:/"), Just("")];
    let number = prop_oneof![
        any::<u32>().prop_map(|n| n.to_string()),
        any::<u32>().prop_map(|n| format!("{n:#x}")),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| format!("{a}.{b}.{c}.{d}")),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| format!("0{a:o}.{b}.{c:#x}.{d}")),
        any::<u128>().prop_map(|n| format!("[{}]", std::net::Ipv6Addr::from_bits(n))),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| format!("[::ffff:{a}.{b}.{c}.{d}]")),
        any::<u16>().prop_map(|n| format!("[64:ff9b::{n:x}]")),
        "[a-z0-9.@:%\\[\\]-]{0,20}",
        any::<String>(),
    ];
    let rest = prop_oneof![
        Just(String::new()),
        "[/?#:@a-z0-9.{}]{0,12}",
        any::<String>()
    ];
    (scheme, number, rest).prop_map(|(scheme, number, rest)| format!("{scheme}{number}{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_panics_and_no_literal_that_passes_is_private(text in url()) {
        thread_local!(static CLIENT: HttpClient = client());
        let built = CLIENT.with(|client| HttpExecutor::new(client, route(text.clone()), Egress::default(), &Vault));
        if let Ok(executor) = built {
            let authority = executor.authority();
            let host = match authority.rsplit_once(':') {
                Some((host, port)) if !port.ends_with(']') => host,
                _ => authority.as_str(),
            };
            if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
                prop_assert_eq!(kind_of(ip).0, AddressKind::Public, "{}", text);
            }
        }
    }
}
