//! Runs over a part of a user's repositories.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch::testing::advance;
use clinch::types::ErrorKind;
use clinch_github::fake::{Limits, Setup, Size, World};
use clinch_github::{JobFilter, JobState, Run, Selection, Space, Start, Token, selected};

use crate::lab::{Lab, assert_whole};

const TOKEN: &str = "fake-robot-1";
/// How often everything is read, in tests that wait for it.
const HOUR: Duration = Duration::from_secs(60 * 60);

fn world(seed: u64) -> World {
    let size = Size {
        users: 2,
        repositories: 8,
        documents: 700,
    };
    World::generate(seed, &size)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|one| (*one).to_owned()).collect()
}

async fn begin(lab: &Lab, start: &Start) -> Run {
    let run = lab.collector.start_with("octocat", start).await;
    lab.end(&run.expect("it begins").run_id).await
}

fn of(repositories: &[&str], search: Option<&str>) -> Start {
    let selection = Selection::new("octocat", &names(repositories), search);
    Start {
        selection: selection.expect("a selection"),
        ..Start::default()
    }
}

/// The user's repositories, by full name.
fn owned(lab: &Lab) -> Vec<String> {
    let all = lab.fake.with_world(|world| world.full_names());
    let own = all.into_iter().filter(|name| name.starts_with("octocat/"));
    own.collect()
}

/// Repositories of which something is stored.
async fn places(lab: &Lab) -> BTreeSet<String> {
    let all = lab.documents(Space::Main).await.into_iter();
    let places = all.filter_map(|one| one.2.strip_prefix("repo:").map(str::to_owned));
    places.collect()
}

#[tokio::test]
async fn col_3_a_run_reads_the_repositories_that_it_names() {
    let lab = Lab::new(world(1), Setup::default(), &[TOKEN]).await;
    let own = owned(&lab);
    let (first, second) = (
        own[0].as_str(),
        own[1].split('/').next_back().expect("a name"),
    );
    let run = begin(&lab, &of(&[&first.to_uppercase(), second], None)).await;
    assert_whole(&run);
    assert!(run.missing.is_empty() && run.is_partial, "{run:?}");
    let read: BTreeSet<String> = own[..2].iter().cloned().collect();
    assert_eq!(places(&lab).await, read);
    // The list of repositories is read whole, and so is the user.
    let stored = lab.documents(Space::Main).await;
    let repositories = stored.iter().filter(|one| one.0 == "repository");
    assert_eq!(repositories.count(), own.len());
    // A part does not count as everything: the next run reads it.
    let next = lab.run("octocat").await;
    assert!(next.is_full && !next.is_partial);
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_9_repositories_that_were_not_selected_are_not_gone() {
    let lab = Lab::with(world(2), Setup::default(), |settings| {
        settings.tokens = vec![Token::new(TOKEN)];
        settings.full_every = HOUR;
    })
    .await;
    assert_whole(&lab.run("octocat").await);
    let own = owned(&lab);
    let (kept, renamed, deleted) = (&own[0], &own[1], &own[2]);
    lab.fake.with_world(|world| {
        assert!(world.delete_issue(kept, 1));
        assert!(world.rename(renamed, "another-name"));
        assert!(world.delete_repository(deleted));
    });
    advance(&lab.clock, HOUR).await;
    let before = places(&lab).await;
    // What is gone in a selected repository is put aside, and nothing else.
    let full = Start {
        is_full: true,
        ..of(&[kept], None)
    };
    let run = begin(&lab, &full).await;
    assert_whole(&run);
    assert_eq!(run.pages.removed, 1, "{run:?}");
    assert_eq!(places(&lab).await, before);
    // The hour has passed for a run through all repositories.
    let next = lab.run("octocat").await;
    assert!(next.is_full, "a part of the repositories was read");
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_9_a_repository_that_went_before_a_partial_run_goes_with_its_cursors() {
    let lab = Lab::new(world(3), Setup::default(), &[TOKEN]).await;
    assert_whole(&lab.run("octocat").await);
    let own = owned(&lab);
    let given = own[1].clone();
    lab.fake
        .with_world(|world| assert!(world.transfer(&given, "hubot")));
    // The partial run sees the new list of repositories first.
    assert_whole(&begin(&lab, &of(&[&own[0]], None)).await);
    let next = lab.run("octocat").await;
    assert!(!next.is_full && next.pages.removed > 0, "{next:?}");
    lab.assert_equal(&["octocat"]).await;
    let back = given.replace("octocat/", "hubot/");
    lab.fake
        .with_world(|world| assert!(world.transfer(&back, "octocat")));
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_3_a_name_that_the_user_does_not_own_is_said() {
    let lab = Lab::new(world(4), Setup::default(), &[TOKEN]).await;
    let own = owned(&lab);
    let run = begin(&lab, &of(&[&own[0], "no-such", "other.one"], None)).await;
    assert_eq!(run.missing, ["octocat/no-such", "octocat/other.one"]);
    assert_eq!(places(&lab).await.len(), 1);
}

#[tokio::test]
async fn col_3_a_search_selects_repositories_and_spends_its_own_budget() {
    let limits = Limits {
        search: 2,
        ..Limits::default()
    };
    let setup = Setup {
        limits,
        ..Setup::default()
    };
    let lab = Lab::with(world(5), setup, |settings| {
        settings.tokens = vec![Token::new(TOKEN)];
        settings.page_size = 1;
    })
    .await;
    let own = owned(&lab);
    let part = "o";
    let has_part = |name: &&String| name["octocat/".len()..].contains(part);
    let found: BTreeSet<String> = own.iter().filter(has_part).cloned().collect();
    assert!(found.len() > 1 && found.len() < own.len(), "{own:?}");
    let run = begin(&lab, &of(&[], Some(part))).await;
    assert_whole(&run);
    assert_eq!(places(&lab).await, found);
    let tally = lab.fake.tally();
    assert_eq!(tally.primary_refusals, 0, "{tally:?}");
    assert_eq!(tally.searches_max.get("robot"), Some(&2), "{tally:?}");
    // Repositories of others are not found, although the words fit.
    assert!(
        places(&lab)
            .await
            .iter()
            .all(|one| one.starts_with("octocat/"))
    );
}

#[tokio::test]
async fn col_16_a_search_that_finds_too_much_or_ends_early_fails_with_the_reason() {
    for (unlisted, code) in [(1_000, "search_too_broad"), (1, "ended after 4 of 5")] {
        let setup = Setup {
            unlisted,
            ..Setup::default()
        };
        let lab = Lab::new(world(6), setup, &[TOKEN]).await;
        let run = begin(&lab, &of(&[], Some("user:octocat"))).await;
        assert_eq!(run.jobs.failed, 1, "{run:?}");
        let failed = JobFilter {
            state: Some(JobState::Failed),
            ..JobFilter::default()
        };
        let jobs = lab.collector.jobs(&run.run_id, &failed, None, 10).await;
        let (jobs, _) = jobs.expect("jobs");
        let error = jobs[0].error.clone().unwrap_or_default();
        assert!(error.contains(code), "{error}");
        if unlisted == 1_000 {
            assert!(
                places(&lab).await.is_empty(),
                "nothing of a cut list is read"
            );
        }
    }
}

#[tokio::test]
async fn col_1_contradictions_are_refused_before_anything_begins() {
    let lab = Lab::new(world(7), Setup::default(), &[TOKEN]).await;
    let shadow = Start {
        space: Space::Shadow,
        ..of(&["api"], None)
    };
    let no_repository = Start {
        streams: selected(&names(&["user"])).expect("a stream"),
        ..of(&["api"], None)
    };
    for start in [shadow, no_repository] {
        let refused = lab.collector.start_with("octocat", &start).await;
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn col_3_configured_repositories_are_the_usual_ones() {
    let first = Lab::new(world(8), Setup::default(), &[TOKEN]).await;
    let own = owned(&first);
    let lab = Lab::with(world(8), Setup::default(), |settings| {
        settings.tokens = vec![Token::new(TOKEN)];
        settings.repositories = vec![own[0].clone(), "hubot/other".to_owned()];
        settings.full_every = HOUR;
    })
    .await;
    let run = lab.run("octocat").await;
    assert_whole(&run);
    assert!(run.is_full && !run.is_partial);
    assert_eq!(places(&lab).await, BTreeSet::from([own[0].clone()]));
    assert!(!lab.run("octocat").await.is_full, "the hour has not passed");
    advance(&lab.clock, HOUR).await;
    assert!(lab.run("octocat").await.is_full);
}
