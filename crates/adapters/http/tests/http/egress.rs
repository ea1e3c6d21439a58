//! No forbidden address is ever dialled, however it is written, named or hidden.

use std::sync::Arc;

use clinch_core::{Outcome, Retry};
use clinch_http::{Egress, HttpClient, HttpExecutor, HttpRoute};

use crate::support::{FakeNetwork, Provider, Vault, call, client_on, executor_on, route, status};

const REFUSED: &str = include_str!("../egress/refused.txt");
const ALLOWED: &str = include_str!("../egress/allowed.txt");

/// One line of a list: a URL and what its name resolves to.
struct Case {
    url: String,
    answers: Vec<String>,
    /// Of the section of hosts that are literally loopback.
    is_loopback: bool,
}

fn cases(list: &str) -> Vec<Case> {
    let mut is_loopback = false;
    let mut cases = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("## ") {
            is_loopback = title.starts_with("literally loopback");
            continue;
        }
        let (url, answers) = line.split_once(" => ").unwrap_or((line, ""));
        // Characters that no text file should hold as themselves.
        let url = url
            .replace("\\t", "\t")
            .replace("\\n", "\n")
            .replace("\\0", "\0");
        cases.push(Case {
            url,
            answers: answers.split_whitespace().map(str::to_owned).collect(),
            is_loopback,
        });
    }
    cases
}

/// A client to whom the names of these cases mean what they say. Nobody answers.
struct World {
    network: Arc<FakeNetwork>,
    client: HttpClient,
}

impl World {
    fn of(cases: &[Case]) -> Self {
        let mut network = FakeNetwork::default();
        for case in cases {
            let answers: Vec<&str> = case.answers.iter().map(String::as_str).collect();
            let after = case.url.split_once("://").map_or("", |(_, rest)| rest);
            let host = after.split([':', '/', '?']).next().unwrap_or_default();
            network = network.name(&host.to_ascii_lowercase(), &[&answers]);
        }
        let network = Arc::new(network);
        let client = client_on(&network);
        Self { network, client }
    }

    /// How a call to this URL ended, and what was dialled; `None`: refused when built.
    async fn call(
        &self,
        case: &Case,
        egress: Egress,
        allow_private: bool,
    ) -> Option<(Outcome, Vec<String>)> {
        let route = HttpRoute {
            allow_private,
            ..route(case.url.clone())
        };
        let executor = HttpExecutor::new(&self.client, route, egress, &Vault).ok()?;
        let outcome = call(&executor).await;
        let dials = self.network.dials();
        self.network.dialled.lock().expect("not poisoned").clear();
        Some((outcome, dials))
    }
}

fn is_refusal(outcome: &Outcome) -> bool {
    let Outcome::Retry(retry) = outcome else {
        return false;
    };
    let expected = Retry::not_applied(retry.reason.clone());
    retry.reason.starts_with("egress_refused: ") && *retry == expected
}

#[tokio::test]
async fn two_hundred_ways_around_the_guard_are_refused() {
    let cases = cases(REFUSED);
    assert!(cases.len() >= 200, "{}", cases.len());
    let world = World::of(&cases);
    let (mut built, mut resolved) = (0, 0);
    for case in &cases {
        for is_loopback_server in [false, true] {
            if is_loopback_server && case.is_loopback {
                continue;
            }
            let egress = Egress::default().loopback_allowed(is_loopback_server);
            match world.call(case, egress, false).await {
                None => built += 1,
                Some((outcome, dials)) => {
                    assert!(is_refusal(&outcome), "{}: {outcome:?}", case.url);
                    assert_eq!(dials, [""; 0], "{}", case.url);
                    resolved += 1;
                }
            }
        }
    }
    // Both lines of defence were tried.
    assert!(built > 300 && resolved > 80, "{built} {resolved}");
}

#[tokio::test]
async fn each_url_appears_once() {
    let mut urls: Vec<String> = cases(REFUSED).into_iter().map(|case| case.url).collect();
    let count = urls.len();
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), count);
}

#[tokio::test]
async fn a_loopback_server_reaches_literal_loopback_and_nothing_else() {
    let egress = Egress::default().loopback_allowed(true);
    let mut count = 0;
    let cases = cases(REFUSED);
    let world = World::of(&cases);
    for case in cases.iter().filter(|case| case.is_loopback) {
        let called = world.call(case, egress, false).await;
        let (outcome, dials) = called.expect("allowed");
        assert!(!is_refusal(&outcome), "{}: {outcome:?}", case.url);
        assert!(!dials.is_empty(), "{}", case.url);
        count += 1;
    }
    assert!(count >= 5);
    // A name below localhost that leads elsewhere.
    let case = Case {
        url: "http://localhost/".into(),
        answers: vec!["10.0.0.1".into(), "1.1.1.1".into()],
        is_loopback: true,
    };
    let cases = [case];
    let called = World::of(&cases).call(&cases[0], egress, false).await;
    let (outcome, dials) = called.expect("built");
    assert!(is_refusal(&outcome) && dials.is_empty(), "{outcome:?}");
}

#[tokio::test]
async fn public_addresses_are_dialled() {
    let cases = cases(ALLOWED);
    let world = World::of(&cases);
    for case in &cases {
        let called = world.call(case, Egress::default(), false).await;
        let (outcome, dials) = called.expect(&case.url);
        assert!(!is_refusal(&outcome), "{}: {outcome:?}", case.url);
        assert!(!dials.is_empty(), "{}", case.url);
    }
}

#[tokio::test]
async fn allow_private_allows_private_and_not_what_no_call_can_mean() {
    let private = "http://10.1.2.3/\nhttp://127.0.0.1/\nhttp://[::1]/\nhttp://[fd00::1]/\n\
                   http://169.254.1.1/\nhttp://[::ffff:10.0.0.1]/\nhttp://[64:ff9b::a00:1]/\n\
                   http://db.internal/ => 192.168.0.9";
    let never = "http://0.0.0.0/\nhttp://255.255.255.255/\nhttp://224.0.0.1/\nhttp://[::]/\n\
                 http://[ff02::1]/\nhttp://[::ffff:0.0.0.0]/\nhttp://240.0.0.1/\n\
                 http://2130706433/\nhttp://x.internal/ => 0.0.0.0 ::";
    for (list, is_allowed) in [(private, true), (never, false)] {
        let cases = cases(list);
        let world = World::of(&cases);
        for case in &cases {
            let called = world.call(case, Egress::default(), true).await;
            let is_dialled = called.is_some_and(|(outcome, dials)| {
                assert_eq!(is_refusal(&outcome), dials.is_empty(), "{}", case.url);
                !dials.is_empty()
            });
            assert_eq!(is_dialled, is_allowed, "{}", case.url);
        }
    }
}

#[tokio::test]
async fn a_name_that_turns_private_is_not_followed_there() {
    // Each answer closes the connection, so that every call resolves anew.
    let close = || status("200 OK", "Connection: close\r\n", "{}");
    let mut provider = Provider::start([close(), close()]).await;
    let network = FakeNetwork::to(&provider);
    let network = network.name(
        "rebind.example",
        &[&["1.1.1.1"], &["127.0.0.1"], &["1.1.1.1"]],
    );
    let network = Arc::new(network);
    let executor = executor_on(&client_on(&network), route("http://rebind.example/"));
    assert!(matches!(call(&executor).await, Outcome::Ok(_)));
    assert!(is_refusal(&call(&executor).await));
    assert!(matches!(call(&executor).await, Outcome::Ok(_)));
    assert_eq!(network.dials(), ["1.1.1.1", "1.1.1.1"]);
    // Once a connection, never between check and dial.
    assert_eq!(network.resolved.lock().expect("not poisoned").len(), 3);
    assert_eq!(provider.requests(), 2);
}

#[tokio::test]
async fn of_mixed_answers_only_the_public_ones_are_dialled() {
    let mixed: &[&str] = &[
        "10.0.0.1",
        "::ffff:1.1.1.1",
        "1.1.1.1",
        "::1",
        "169.254.169.254",
        "1.1.1.1",
    ];
    let provider = Provider::start([]).await;
    let network = Arc::new(FakeNetwork::to(&provider).name("mixed.example", &[mixed]));
    let executor = executor_on(&client_on(&network), route("http://mixed.example/"));
    assert!(matches!(call(&executor).await, Outcome::Ok(_)));
    assert_eq!(network.dials(), ["1.1.1.1"]);
    // Also if the public one does not answer.
    let network = Arc::new(FakeNetwork::default().name("mixed.example", &[mixed]));
    let executor = executor_on(&client_on(&network), route("http://mixed.example/"));
    let expected = Retry::not_applied("connect_failed: connection refused");
    assert_eq!(call(&executor).await, Outcome::Retry(expected));
    assert_eq!(network.dials(), ["1.1.1.1"]);
}

#[tokio::test]
async fn a_connection_that_one_route_may_use_is_no_way_around_for_another() {
    let provider = Provider::start([]).await;
    let network = Arc::new(FakeNetwork::to(&provider).name("db.example", &[&["10.0.0.1"]]));
    let client = client_on(&network);
    let private = HttpRoute {
        allow_private: true,
        ..route("http://db.example/")
    };
    let private = executor_on(&client, private);
    let public = executor_on(&client, route("http://db.example/"));
    for _ in 0..3 {
        assert!(matches!(call(&private).await, Outcome::Ok(_)));
        assert!(is_refusal(&call(&public).await));
    }
}

#[tokio::test]
async fn no_redirect_leads_anywhere() {
    let mut provider = Provider::start([]).await;
    let network = Arc::new(FakeNetwork::to(&provider).name("psp.example", &[&["1.1.1.1"]]));
    let executor = executor_on(&client_on(&network), route("http://psp.example/v1"));
    let mut count = 0;
    let codes = ["301 A", "302 B", "303 C", "307 D", "308 E"];
    for (case, code) in cases(REFUSED).iter().zip(codes.iter().cycle()) {
        if case.url.contains(['\t', '\n', '\0', '\r']) {
            continue;
        }
        provider.then(status(code, &format!("Location: {}\r\n", case.url), ""));
        let outcome = call(&executor).await;
        assert_eq!(
            outcome,
            Outcome::Retry(Retry::unknown("redirect_refused")),
            "{}",
            case.url
        );
        count += 1;
    }
    assert!(count >= 200);
    assert_eq!(provider.requests(), count);
    assert!(network.dials().iter().all(|address| address == "1.1.1.1"));
    let resolved = network.resolved.lock().expect("not poisoned");
    assert!(resolved.iter().all(|name| name == "psp.example"));
}
