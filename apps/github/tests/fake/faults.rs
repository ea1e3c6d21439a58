//! Scripted faults, and that the seed decides them.

use std::time::Duration;

use clinch_github::Broken;
use clinch_github::fake::{Fault, Faults, Secondary, Setup};

use crate::support::{Test, json, message, number, small, start};

fn with(faults: Faults) -> Test {
    let setup = Setup {
        faults,
        ..Setup::default()
    };
    start(small(), setup)
}

fn stormy(seed: u64) -> Faults {
    Faults::seeded(seed)
        .chance(0.2, Fault::Status(502))
        .chance(0.1, Fault::LostAfter)
        .chance(0.1, Fault::Malformed)
}

/// The outcomes of each page if each is requested four times, in this order of pages.
async fn outcomes(faults: Faults, pages: &[u32]) -> Vec<(u32, Vec<String>)> {
    let test = with(faults);
    let mut all = Vec::new();
    for page in pages {
        let target = format!("/users/octocat/repos?per_page=1&page={page}");
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(match test.send(&target).await {
                Ok(answer)
                    if serde_json::from_slice::<serde_json::Value>(&answer.body).is_err() =>
                {
                    "malformed".to_owned()
                }
                Ok(answer) => answer.status.to_string(),
                Err(_) => "lost".to_owned(),
            });
        }
        all.push((*page, seen));
    }
    all.sort();
    all
}

#[tokio::test]
async fn a_seed_decides_the_script_and_the_order_of_requests_does_not() {
    let pages: Vec<u32> = (1..=40).collect();
    let backwards: Vec<u32> = (1..=40).rev().collect();
    let one = outcomes(stormy(1), &pages).await;
    assert_eq!(one, outcomes(stormy(1), &pages).await);
    assert_eq!(one, outcomes(stormy(1), &backwards).await);
    assert_ne!(one, outcomes(stormy(2), &pages).await);
    let count = |what: &str| {
        let all = one.iter().flat_map(|(_, seen)| seen);
        all.filter(|seen| *seen == what).count()
    };
    for what in ["200", "502", "lost", "malformed"] {
        assert!(count(what) > 4, "{what}: {}", count(what));
    }
}

#[tokio::test]
async fn a_client_that_asks_again_gets_through() {
    let always = Faults::seeded(1).chance(1.0, Fault::Status(500)).at_most(2);
    let seen = outcomes(always, &[1, 2, 3]).await;
    assert!(
        seen.iter()
            .all(|(_, seen)| seen == &["500", "500", "200", "200"])
    );
}

#[tokio::test]
async fn a_lost_answer_is_counted_or_not() {
    let faults = Faults::none()
        .at(1, Fault::LostBefore)
        .at(2, Fault::LostAfter)
        .at(3, Fault::Cut);
    let test = with(faults);
    for _ in 0..3 {
        assert!(matches!(
            test.send("/users/octocat").await,
            Err(Broken::Lost(_))
        ));
    }
    let answer = test.get("/users/octocat").await;
    assert_eq!(number(&answer, "x-ratelimit-used"), 3);
    let tally = test.fake.tally();
    assert_eq!(
        (tally.requests, tally.lost, tally.by_status[&200]),
        (4, 3, 1)
    );
}

#[tokio::test]
async fn an_answer_may_be_accepted_first_or_come_in_half() {
    let faults =
        Faults::none()
            .first("/events", 2, Fault::Accepted)
            .first("/repos", 1, Fault::Malformed);
    let test = with(faults);
    for status in [202, 202, 200] {
        let answer = test.get("/users/octocat/events").await;
        assert_eq!(
            (answer.status, answer.body.is_empty()),
            (status, status == 202)
        );
    }
    let half = test.get("/users/octocat/repos").await;
    assert_eq!(half.status, 200);
    assert!(serde_json::from_slice::<serde_json::Value>(&half.body).is_err());
    assert!(json(&test.get("/users/octocat/repos").await).is_array());
}

#[tokio::test]
async fn a_slow_answer_waits_for_the_clock_and_is_lost_if_it_takes_too_long() {
    let setup = Setup {
        faults: Faults::none()
            .at(1, Fault::Slow(Duration::from_secs(9)))
            .at(2, Fault::Slow(Duration::from_secs(11))),
        timeout: Some(Duration::from_secs(10)),
        ..Setup::default()
    };
    let test = start(small(), setup);
    for (wait, is_answered) in [(9, true), (10, false)] {
        let (answer, ()) = tokio::join!(test.send("/users/octocat"), async {
            while test.clock.next_wake().is_none() {
                tokio::task::yield_now().await;
            }
            test.clock.advance(Duration::from_secs(wait));
        });
        assert_eq!(answer.is_ok(), is_answered);
    }
}

#[tokio::test]
async fn a_scripted_secondary_limit_stops_the_account() {
    let how = Secondary {
        status: 429,
        has_retry_after: true,
    };
    let test = with(Faults::none().at(1, Fault::Secondary(how, Duration::from_secs(30))));
    let refused = test.get("/users/octocat").await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("30"))
    );
    assert_eq!(test.get("/users/hubot").await.status, 403);
    let other = test.get_as(Some("fake-hubot-1"), "/users/octocat").await;
    assert_eq!(other.status, 200);
    test.clock.advance(Duration::from_secs(30));
    assert_eq!(test.get("/users/octocat").await.status, 200);
}

#[tokio::test]
async fn a_repository_and_a_token_can_be_refused_for_good() {
    let test = with(Faults::none());
    let names = test.fake.with_world(|world| world.full_names());
    test.fake.set_faults(
        Faults::none()
            .repository(&names[0], 451)
            .repository(&names[3], 404)
            .token("fake-octocat-2"),
    );
    for (name, status) in [(&names[0], 451), (&names[3], 404), (&names[4], 200)] {
        for list in ["", "/issues", "/pulls", "/commits"] {
            let answer = test.get(&format!("/repos/{name}{list}")).await;
            assert_eq!(answer.status, status, "{name}{list}");
        }
    }
    let refused = test.get_as(Some("fake-octocat-2"), "/users/octocat").await;
    assert_eq!(refused.status, 401);
    assert_eq!(test.get("/users/octocat").await.status, 200);
}

#[tokio::test]
async fn a_stray_401_refuses_the_credentials_of_one_request() {
    let test = with(Faults::none().at(2, Fault::Status(401)));
    assert_eq!(test.get("/users/octocat").await.status, 200);
    let refused = test.get("/users/octocat").await;
    assert_eq!(
        (refused.status, message(&refused).as_str()),
        (401, "Bad credentials")
    );
    assert_eq!(refused.header("x-ratelimit-used"), None);
    let answer = test.get("/users/octocat").await;
    assert_eq!(
        (answer.status, number(&answer, "x-ratelimit-used")),
        (200, 2)
    );
}

#[tokio::test]
async fn a_refused_repository_says_why() {
    let test = with(Faults::none());
    let name = test.fake.with_world(|world| world.full_names()[0].clone());
    let id = json(&test.get(&format!("/repos/{name}")).await)["id"].clone();
    for (status, expected) in [
        (502, "Server Error"),
        (409, "Git Repository is empty."),
        (451, "Repository access blocked"),
    ] {
        test.fake
            .set_faults(Faults::none().repository(&name, status));
        for target in [
            format!("/repos/{name}"),
            format!("/repos/{name}/issues"),
            format!("/repositories/{id}/commits"),
        ] {
            let refused = test.get(&target).await;
            assert_eq!(
                (refused.status, message(&refused).as_str()),
                (status, expected)
            );
        }
    }
}
