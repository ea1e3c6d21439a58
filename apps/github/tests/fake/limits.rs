//! Budgets, windows and secondary limits, on a clock that is moved by hand.

use std::time::Duration;

use clinch::ports::Clock;
use clinch_github::Transport;
use clinch_github::fake::{Limits, Secondary, Setup};

use crate::support::{TOKEN, json, message, number, request, small, start};

fn setup(limits: Limits) -> Setup {
    Setup {
        limits,
        ..Setup::default()
    }
}

#[tokio::test]
async fn two_tokens_of_an_account_share_a_budget_until_its_window_ends() {
    let test = start(
        small(),
        setup(Limits {
            primary: 4,
            ..Limits::default()
        }),
    );
    test.clock.advance(Duration::from_millis(300));
    let opened = test.clock.now().as_millis();
    let mut reset = 0;
    for used in 1..=4 {
        let token = ["fake-octocat-1", "fake-octocat-2"][used % 2];
        let answer = test.get_as(Some(token), "/users/octocat").await;
        assert_eq!(answer.status, 200);
        assert_eq!(number(&answer, "x-ratelimit-limit"), 4);
        assert_eq!(number(&answer, "x-ratelimit-used"), used as i64);
        assert_eq!(number(&answer, "x-ratelimit-remaining"), 4 - used as i64);
        assert_eq!(answer.header("x-ratelimit-resource"), Some("core"));
        reset = number(&answer, "x-ratelimit-reset");
        test.clock.advance(Duration::from_secs(60));
    }
    // Rounded up: never before the window's end.
    assert_eq!(reset, (opened + 3_600_000) / 1_000 + 1);
    let refused = test.get("/users/octocat").await;
    assert_eq!(refused.status, 403);
    assert_eq!(number(&refused, "x-ratelimit-remaining"), 0);
    assert_eq!(number(&refused, "x-ratelimit-reset"), reset);
    assert_eq!(refused.header("retry-after"), None);
    assert!(message(&refused).starts_with("API rate limit exceeded for user ID 1000"));
    let other = test.get_as(Some("fake-hubot-1"), "/users/octocat").await;
    assert_eq!(other.status, 200);

    test.clock.advance(Duration::from_secs(3_600 - 240));
    assert_eq!(test.get("/users/octocat").await.status, 403);
    test.clock.advance(Duration::from_secs(1));
    assert_eq!(test.clock.now().as_millis() / 1_000, reset);
    let fresh = test.get("/users/octocat").await;
    assert_eq!((fresh.status, number(&fresh, "x-ratelimit-used")), (200, 1));

    let tally = test.fake.tally();
    assert_eq!(tally.primary_refusals, 2);
    assert_eq!(tally.window_max["octocat"], 4);
    assert_eq!(tally.by_account["octocat"], 7);
    assert_eq!(tally.by_status[&403], 2);
    assert_eq!(tally.by_url["/users/octocat"], 8);
}

#[tokio::test]
async fn a_window_begins_with_its_first_request() {
    let test = start(small(), setup(Limits::default()));
    let first = test.get("/users/octocat").await;
    test.clock.advance(Duration::from_secs(10_000));
    let now = test.clock.now().as_millis() / 1_000;
    let second = test.get("/users/octocat").await;
    assert_eq!(number(&second, "x-ratelimit-reset"), now + 3_600);
    assert_eq!(number(&first, "x-ratelimit-reset"), now - 10_000 + 3_600);
}

#[tokio::test]
async fn asking_for_the_limit_costs_nothing_and_those_without_a_token_have_sixty() {
    let test = start(small(), setup(Limits::default()));
    for _ in 0..61 {
        test.get_as(None, "/users/octocat").await;
    }
    let rate = json(&test.get_as(None, "/rate_limit").await);
    assert_eq!(rate["resources"]["core"]["limit"], 60);
    assert_eq!(rate["resources"]["core"]["remaining"], 0);
    assert_eq!(rate["rate"]["used"], 60);
    let refused = test.get_as(None, "/users/octocat").await;
    assert_eq!(refused.status, 403);
    assert!(message(&refused).contains("higher rate limit"));
    for _ in 0..3 {
        let rate = json(&test.get("/rate_limit").await);
        assert_eq!(rate["rate"]["used"], 0);
    }
    assert_eq!(test.fake.tally().window_max["anonymous"], 60);
}

#[tokio::test]
async fn haste_stops_the_whole_account_for_a_minute() {
    let test = start(
        small(),
        setup(Limits {
            per_minute: 3,
            ..Limits::default()
        }),
    );
    for _ in 0..3 {
        assert_eq!(test.get("/users/octocat").await.status, 200);
        test.clock.advance(Duration::from_secs(10));
    }
    let refused = test.get("/users/octocat").await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (403, Some("60"))
    );
    assert!(message(&refused).starts_with("You have exceeded a secondary rate limit"));
    assert_eq!(number(&refused, "x-ratelimit-used"), 3);
    test.clock.advance(Duration::from_millis(59_500));
    let still = test.get_as(Some("fake-octocat-2"), "/users/octocat").await;
    assert_eq!(
        (still.status, still.header("retry-after")),
        (403, Some("1"))
    );
    test.clock.advance(Duration::from_millis(500));
    assert_eq!(test.get("/users/octocat").await.status, 200);
    assert_eq!(test.fake.tally().secondary_refusals, 2);
}

#[tokio::test]
async fn too_many_at_a_time_are_refused_with_or_without_a_header() {
    let limits = Limits {
        concurrent: 2,
        secondary: Secondary {
            status: 429,
            has_retry_after: false,
        },
        ..Limits::default()
    };
    let setup = Setup {
        latency: Duration::from_millis(50),
        ..setup(limits)
    };
    let test = start(small(), setup);
    let ask = || {
        let fake = test.fake.clone();
        tokio::spawn(async move { fake.get(&request("/users/octocat", Some(TOKEN))).await })
    };
    let asked = [ask(), ask(), ask()];
    while test.fake.tally().concurrent_max < 3 {
        tokio::task::yield_now().await;
    }
    test.clock.advance(Duration::from_millis(50));
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.expect("no panic").expect("an answer"));
    }
    let (refused, answered): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 429);
    assert_eq!(answered.len(), 2);
    let refused = refused[0];
    assert_eq!(refused.header("retry-after"), None);
    assert!(message(refused).contains("secondary rate limit"));
    assert_eq!(test.fake.tally().concurrent_max, 3);
}
