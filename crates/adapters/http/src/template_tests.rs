use clinch_core::{Command, Keys, Payload};
use proptest::prelude::*;
use serde_json::json;

use super::*;

struct NoSecrets;

impl Secrets for NoSecrets {
    fn env(&self, name: &str) -> Option<String> {
        (name == "KEY").then(|| "hunter2{biz_key}".to_owned())
    }
    fn file(&self, _: &str) -> Option<String> {
        None
    }
}

fn envelope(biz_key: &str, payload: &Value) -> Envelope {
    let keys = Keys {
        domain: "payments".parse().expect("a domain"),
        event_type: "charge".parse().expect("an event type"),
        biz_key: biz_key.parse().expect("a key"),
        idem_key: "c0ffee".parse().expect("a key"),
    };
    let outbound_key = keys.outbound_key();
    Envelope {
        op_id: "01917f5e-0000-7000-8000-000000000001"
            .parse()
            .expect("an id"),
        command: Command::new(
            keys,
            Payload::from_value(payload, 1 << 20).expect("a payload"),
        ),
        seq: 1,
        attempt: 1,
        fence: 1,
        outbound_key,
        deadline: None,
        checkpoint: None,
        trace: None,
    }
}

fn fill(template: &str, biz_key: &str, payload: &Value) -> Result<String, String> {
    let template = UrlTemplate::new(template, "url").expect("a template");
    template.fill(&Values::new(&envelope(biz_key, payload)), &[])
}

#[test]
fn values_are_data_wherever_they_stand() {
    let payload = json!({"a": {"b": ["x y", 7]}, "t": true, "e": "", "n": null});
    let cases = [
        ("", "k", "/"),
        ("?a={biz_key}", "k&b=c#d", "/?a=k%26b%3Dc%23d"),
        ("/v1/{biz_key}/x", "a/b?c=d#e", "/v1/a%2Fb%3Fc%3Dd%23e/x"),
        ("/v1/{biz_key}", "%2e%2e%2f", "/v1/%252e%252e%252f"),
        ("/v1/{biz_key}", "주문-1", "/v1/%EC%A3%BC%EB%AC%B8-1"),
        ("/v1/{biz_key}", "...", "/v1/..."),
        (
            "/{payload.a.b.0}/{payload.a.b.1}/{payload.t}",
            "k",
            "/x%20y/7/true",
        ),
        ("/x?{biz_key}={payload.e}", "../..", "/x?..%2F..="),
        ("/{op_id}", "k", "/01917f5e-0000-7000-8000-000000000001"),
    ];
    for (template, biz_key, expected) in cases {
        assert_eq!(
            fill(template, biz_key, &payload).as_deref(),
            Ok(expected),
            "{template}"
        );
    }
}

#[test]
fn values_that_a_server_could_take_for_structure_are_refused() {
    let payload = json!({"e": "", "n": null, "d": ".", "o": {}});
    let climbs = [
        "..",
        ".",
        "../../admin?x=1#",
        "a/../b",
        "a/..",
        "..\\x",
        "%2e%2E",
        "a/%2e/b",
    ];
    for biz_key in climbs {
        assert!(
            fill("/v1/{biz_key}/x", biz_key, &payload).is_err(),
            "{biz_key}"
        );
    }
    for template in [
        "/{payload.e}",
        "/{payload.n}",
        "/{payload.o}",
        "/{payload.x}",
        "/.{payload.d}",
        "/%2e{payload.d}",
    ] {
        assert!(fill(template, "canary", &payload).is_err(), "{template}");
    }
    let long = json!({"x": "y".repeat(URL_BYTES_MAX)});
    let problem = fill("/{payload.x}", "k", &long).expect_err("too long");
    assert!(!problem.contains("yy"), "{problem}");
}

#[test]
fn templates_that_cannot_be_meant_are_refused_with_the_nearest_name() {
    let problem = |text| UrlTemplate::new(text, "url").expect_err(text).problem;
    assert!(problem("/{bizkey}").ends_with("did you mean {biz_key}?"));
    assert!(problem("/{outbound-key}").ends_with("did you mean {outbound_key}?"));
    assert!(problem("/{payload}").ends_with("did you mean {payload.field}?"));
    assert!(problem("/{payload.a..b}").contains("unknown placeholder"));
    assert!(problem("/{biz_key").contains("without its '}'"));
    assert!(problem("/${env:KEY}").contains("put it in a header"));
    assert!(problem("/a|b").contains("percent-encode"));
    assert!(problem("/a}b").contains("percent-encode"));
    assert!(problem("/a/../b").contains("'..'"));
    assert!(problem("/a/%2e%2E/b").contains("'..'"));
}

#[test]
fn core_16_header_values_are_marked_and_secrets_are_not_templates() {
    let payload = json!({"a": "x"});
    let header = |text: &str| HeaderTemplate::new(text, &NoSecrets);
    let filled = |text: &str, biz_key| {
        let envelope = envelope(biz_key, &payload);
        header(text).expect(text).fill(&Values::new(&envelope))
    };
    let value = filled("Bearer ${env:KEY} {payload.a}", "k").expect("filled");
    assert_eq!(value.to_str().expect("text"), "Bearer hunter2{biz_key} x");
    assert_eq!(format!("{value:?}"), "Sensitive");
    assert!(filled("{biz_key}", "주문").is_err());
    assert!(header("a\r\nb").is_err());
    assert!(
        header("${env:NONE}")
            .err()
            .expect("not set")
            .problem
            .contains("NONE")
    );
    let injected = json!({"a": "x\r\nevil: 1"});
    let envelope = envelope("k", &injected);
    let refused = header("{payload.a}")
        .expect("valid")
        .fill(&Values::new(&envelope));
    assert!(!refused.expect_err("refused").contains("evil"));
}

proptest! {
    #[test]
    fn no_value_changes_the_structure_of_a_url(value in any::<String>(), other in ".{0,40}") {
        let payload = json!({"v": value, "o": other});
        let template = "/v1/{payload.v}/x{payload.o}?a={payload.v}&b={payload.o}";
        let Ok(url) = fill(template, "k", &payload) else { return Ok(()) };
        let parsed: hyper::http::uri::PathAndQuery = url.parse().expect("valid");
        let segments: Vec<&str> = parsed.path().split('/').collect();
        prop_assert_eq!(segments.len(), 4);
        prop_assert_eq!(segments[1], "v1");
        prop_assert!(segments.iter().all(|one| !["", ".", ".."].contains(one) || std::ptr::eq(*one, segments[0])));
        let query: Vec<&str> = parsed.query().expect("a query").split('&').collect();
        prop_assert_eq!(query.len(), 2);
        prop_assert!(query[0].starts_with("a=") && query[1].starts_with("b="));
        prop_assert!(url.is_ascii() && !url.contains('#'));
    }
}
