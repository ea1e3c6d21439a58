//! Runs that are bounded by time.

use std::collections::BTreeSet;

use clinch::types::ErrorKind;
use clinch_github::fake::{BASE, Setup, Size, World};
use clinch_github::{Bounds, JobKind, Run, Settings, Space, Start, Token};
use serde_json::Value;

use crate::lab::{Bare, Lab, assert_whole};

async fn lab(seed: u64) -> Lab {
    let size = Size {
        users: 1,
        repositories: 4,
        documents: 400,
    };
    let world = World::generate(seed, &size).with_streams();
    Lab::with(world, Setup::default(), |settings| {
        *settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            streams: JobKind::all().filter(|kind| kind.is_selectable()).collect(),
            page_size: 5,
            ..Settings::default()
        };
    })
    .await
}

async fn bounded(lab: &Lab, since: Option<&str>, until: Option<&str>) -> Run {
    let start = Start {
        bounds: Bounds::new(since, until).expect("times"),
        ..Start::default()
    };
    let run = lab.collector.start_with("octocat", &start).await;
    let run = lab.end(&run.expect("it begins").run_id).await;
    assert_whole(&run);
    assert_eq!((run.is_full, run.pages.removed), (false, 0), "{run:?}");
    run
}

/// The time by which documents of a kind are bounded; `None`: they are not.
fn time(document: &Bare) -> Option<String> {
    let body: Value = serde_json::from_str(&document.3).expect("JSON");
    let at = match document.0.as_str() {
        "issue" | "pull_request" | "issue_comment" | "review_comment" => "/updated_at",
        "event" | "issue_event" | "workflow_run" => "/created_at",
        "commit" => "/commit/committer/date",
        _ => return None,
    };
    body.pointer(at).and_then(Value::as_str).map(str::to_owned)
}

/// Documents of these kinds are not bounded. The others belong to items that are.
fn is_undated(kind: &str) -> bool {
    let below = [
        "review",
        "reaction",
        "timeline",
        "pull_request_detail",
        "commit_detail",
        "workflow_job",
    ];
    !below.contains(&kind)
}

/// The times of a world's dated documents, oldest first.
fn times(lab: &Lab) -> Vec<String> {
    let mut times: Vec<String> = lab.world(&["octocat"]).iter().filter_map(time).collect();
    times.sort();
    times
}

#[tokio::test]
async fn col_4_a_bounded_run_collects_what_is_of_its_time() {
    for seed in 0..3 {
        let lab = lab(seed).await;
        let times = times(&lab);
        let (since, until) = (&times[times.len() / 4], &times[times.len() * 3 / 4]);
        bounded(&lab, Some(since), Some(until)).await;
        let is_of_it = |document: &&Bare| match time(document) {
            Some(at) => at >= *since && at <= *until,
            None => is_undated(&document.0),
        };
        let wanted = lab.world(&["octocat"]);
        let wanted: BTreeSet<&Bare> = wanted.iter().filter(is_of_it).collect();
        let all = lab.documents(Space::Main).await;
        let is: BTreeSet<&Bare> = all
            .iter()
            .filter(|one| time(one).is_some() || is_undated(&one.0))
            .collect();
        assert_eq!(is, wanted);
        let below = all.iter().filter(|one| one.0 == "pull_request_detail");
        let pulls = all.iter().filter(|one| one.0 == "pull_request");
        assert_eq!(below.count(), pulls.count());
        // The next run without bounds misses nothing.
        assert_whole(&lab.run("octocat").await);
        lab.assert_equal(&["octocat"]).await;
    }
}

#[tokio::test]
async fn col_4_a_bounded_run_moves_no_cursor() {
    for seed in 3..6 {
        let lab = lab(seed).await;
        assert_whole(&lab.run("octocat").await);
        let cursors = lab.collector.cursors("octocat", None, 500).await;
        let before = times(&lab);
        lab.fake.with_world(|world| world.change(seed, 30));
        // It sees the first pages of every list, and leaves out what is new.
        bounded(&lab, None, before.last().map(String::as_str)).await;
        bounded(&lab, before.first().map(String::as_str), Some(&before[0])).await;
        let after = lab.collector.cursors("octocat", None, 500).await;
        assert_eq!(after.expect("cursors"), cursors.expect("cursors"));
        let next = lab.run("octocat").await;
        assert_whole(&next);
        assert!(!next.is_full, "what changed is enough");
        lab.assert_equal(&["octocat"]).await;
    }
}

#[tokio::test]
async fn col_9_a_bounded_run_puts_nothing_aside_and_hides_nothing_that_is_gone() {
    let lab = lab(7).await;
    assert_whole(&lab.run("octocat").await);
    assert_whole(&lab.run("octocat").await);
    let name = lab.fake.with_world(|world| world.full_names()).remove(0);
    lab.fake
        .with_world(|world| assert!(world.delete_repository(&name)));
    bounded(&lab, Some("2020-01-01"), None).await;
    let next = lab.run("octocat").await;
    assert!(next.pages.removed > 0 && !next.is_full, "{next:?}");
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_1_a_bounded_run_is_neither_full_nor_a_shadow() {
    let lab = lab(8).await;
    for (is_full, space) in [(true, Space::Main), (false, Space::Shadow)] {
        let start = Start {
            is_full,
            space,
            bounds: Bounds::new(Some("2026-01-01"), None).expect("a day"),
            ..Start::default()
        };
        let refused = lab.collector.start_with("octocat", &start).await;
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Invalid);
    }
}
