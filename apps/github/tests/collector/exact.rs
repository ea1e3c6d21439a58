//! Nothing is missed, and what is gone is noticed.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch::ports::{Clock as _, DocumentFilter, DocumentSink, RecordList, Records as _};
use clinch::testing::advance;
use clinch::types::ErrorKind;
use clinch_github::Space;
use clinch_github::fake::{Setup, Size, World};

use crate::lab::{Bare, Lab, assert_whole};

const TOKEN: &str = "fake-robot-1";
/// Seconds of a day.
const DAY: i64 = 86_400;
/// The year 2099, as a computer with a wrong clock has it.
const FAR: i64 = 4_070_908_800;

fn small(seed: u64) -> World {
    let size = Size {
        users: 1,
        repositories: 6,
        documents: 900,
    };
    World::generate(seed, &size)
}

/// Changes every repository of the world.
fn change_all(lab: &Lab, mut change: impl FnMut(&mut World, &str) -> bool) {
    let names = lab.fake.with_world(|world| world.full_names());
    let changed = names
        .iter()
        .filter(|name| lab.fake.with_world(|world| change(world, name)));
    assert!(changed.count() > 0);
}

/// Ids of the documents that were put aside.
async fn removed(lab: &Lab) -> BTreeSet<String> {
    let all = DocumentFilter::default();
    let page = lab.memory.scan(Space::Main.removed(), &all, None, 1_000);
    page.await
        .expect("read")
        .into_iter()
        .map(|one| one.id)
        .collect()
}

#[tokio::test]
async fn col_4_commits_that_are_merged_late_or_dated_wrongly_are_read() {
    let lab = Lab::new(small(3), Setup::default(), &[TOKEN]).await;
    assert_whole(&lab.run("octocat").await);
    let now = lab.clock.now().as_millis() / 1_000;
    // A date in the future hides nothing that comes later.
    change_all(&lab, |world, name| world.push(name, &[FAR]));
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
    // Another token has no ETag of any page.
    for token in ["fake-ann-1", "fake-bob-1", "fake-eve-1"] {
        let dates = [now - 1_000 * DAY, now - 10 * DAY, now];
        change_all(&lab, |world, name| world.merge(name, &dates));
        let next = lab.restarted(&[token]).await;
        let run = next.run("octocat").await;
        assert_whole(&run);
        assert!(!run.is_full, "what changed is enough");
        next.assert_equal(&["octocat"]).await;
    }
}

#[tokio::test]
async fn col_4_a_rewritten_history_is_read_as_it_is_now() {
    for keeps_old in [true, false] {
        let lab = Lab::new(small(4), Setup::default(), &[TOKEN]).await;
        assert_whole(&lab.run("octocat").await);
        let now = lab.clock.now().as_millis() / 1_000;
        change_all(&lab, |world, name| {
            let is_done = world.force_push(name, 3, &[now - DAY, now]);
            is_done && (keeps_old || world.collect_garbage(name))
        });
        let run = lab.run("octocat").await;
        assert_whole(&run);
        lab.assert_equal(&["octocat"]).await;
        assert!(!run.is_full && run.pages.removed > 0, "{run:?}");
        let removed = removed(&lab).await;
        assert_eq!(removed.len() as u64, run.pages.removed);
        assert!(removed.iter().all(|id| id.starts_with("commit:")));
    }
}

#[tokio::test]
async fn col_9_what_is_gone_is_put_aside_with_its_content() {
    let lab = Lab::new(small(5), Setup::default(), &[TOKEN]).await;
    let first = lab.run("octocat").await;
    assert!(first.is_full, "there is nothing yet");
    let before: BTreeSet<Bare> = lab.documents(Space::Main).await.into_iter().collect();
    change_all(&lab, |world, name| world.delete_issue(name, 1));
    // A list by time of change does not show it.
    let second = lab.run("octocat").await;
    assert_eq!((second.is_full, second.pages.removed), (false, 0));
    // A month later everything is read.
    advance(&lab.clock, Duration::from_secs(31 * 24 * 60 * 60)).await;
    let third = lab.run("octocat").await;
    assert!(third.is_full);
    assert_whole(&third);
    lab.assert_equal(&["octocat"]).await;
    let all = DocumentFilter::default();
    let aside = lab.memory.scan(Space::Main.removed(), &all, None, 1_000);
    let aside = aside.await.expect("read");
    assert_eq!(aside.len() as u64, third.pages.removed);
    assert!(!aside.is_empty());
    for one in aside {
        let body: serde_json::Value = serde_json::from_str(&one.body).expect("JSON");
        assert!(before.contains(&(one.kind, one.user, one.resource, body.to_string())));
    }
    let fourth = lab.run("octocat").await;
    assert!(!fourth.is_full, "the next month has not passed");
}

#[tokio::test]
async fn col_9_a_repository_goes_with_everything_in_it() {
    let size = Size {
        users: 2,
        repositories: 6,
        documents: 900,
    };
    let lab = Lab::new(World::generate(6, &size), Setup::default(), &[TOKEN]).await;
    for user in ["octocat", "hubot"] {
        assert_whole(&lab.run(user).await);
    }
    let names = lab.fake.with_world(|world| world.full_names());
    let mut own = names.iter().filter(|name| name.starts_with("octocat/"));
    let (given, deleted) = (own.next().expect("one"), own.next().expect("another"));
    lab.fake.with_world(|world| {
        assert!(world.transfer(given, "hubot"));
        assert!(world.delete_repository(deleted));
    });
    for user in ["hubot", "octocat"] {
        let run = lab.run(user).await;
        assert_whole(&run);
        assert!(!run.is_full, "the list of repositories is enough");
    }
    lab.assert_equal(&["octocat", "hubot"]).await;
}

#[tokio::test]
async fn col_4_a_new_token_earns_etags_of_its_own() {
    let lab = Lab::new(small(7), Setup::default(), &[TOKEN]).await;
    assert_whole(&lab.run("octocat").await);
    let next = lab.restarted(&["fake-ann-1"]).await;
    let earning = next.run("octocat").await;
    assert!(earning.pages.fetched > earning.pages.not_modified);
    let again = next.run("octocat").await;
    // Empty repositories and disabled issues have no ETag.
    assert!(again.pages.fetched <= 4, "{again:?}");
    assert!(again.pages.not_modified >= 15, "{again:?}");
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_17_a_user_is_forgotten_and_may_come_back() {
    let size = Size {
        users: 2,
        repositories: 6,
        documents: 900,
    };
    let lab = Lab::new(World::generate(8, &size), Setup::default(), &[TOKEN]).await;
    for user in ["octocat", "hubot"] {
        assert_whole(&lab.run(user).await);
    }
    change_all(&lab, |world, name| {
        world.force_push(name, 1, &[1_700_000_000])
    });
    assert!(lab.run("octocat").await.pages.removed > 0);
    let forgotten = lab.collector.forget("OctoCat").await.expect("forgotten");
    assert!(forgotten > 100);
    // Nothing is left but the number of the latest run.
    let all = RecordList {
        prefix: String::new(),
        descending: false,
        after: None,
        limit: 1_000,
    };
    let records = lab.memory.list_records(&all).await.expect("listed");
    let about = records
        .iter()
        .filter(|one| one.key.contains("octocat") && !one.key.contains("hubot"));
    let keys: Vec<&str> = about.map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["github/user/octocat"]);
    assert!(removed(&lab).await.is_empty());
    lab.run("hubot").await;
    lab.assert_equal(&["hubot"]).await;
    let unknown = lab.collector.forget("nobody").await;
    assert_eq!(unknown.expect_err("no run").kind(), ErrorKind::NotFound);
    let run = lab.run("octocat").await;
    assert_whole(&run);
    assert_eq!((run.run_id.number, run.is_full), (3, true));
    lab.assert_equal(&["octocat", "hubot"]).await;
}
