//! Every stream, against a world that has them all.

use std::collections::BTreeSet;

use clinch_github::fake::{BASE, Fault, Faults, Setup, Size, World};
use clinch_github::{JobKind, Settings, Space, Start, Token, Unavailable, selected};

use crate::lab::{Lab, assert_whole};

const USERS: [&str; 3] = ["octocat", "hubot", "monalisa"];

fn world(seed: u64) -> World {
    let size = Size {
        users: 3,
        repositories: 5,
        documents: 260,
    };
    let mut world = World::generate(seed, &size).with_streams();
    for name in world.full_names() {
        world.branch(&name, &[1_700_000_000, 1_700_000_100]);
    }
    world
}

async fn lab(seed: u64, setup: Setup) -> Lab {
    Lab::with(world(seed), setup, |settings| {
        *settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            streams: JobKind::all().collect(),
            page_size: 7,
            ..Settings::default()
        };
    })
    .await
}

async fn run_all(lab: &Lab, is_full: bool) {
    for user in USERS {
        let start = Start {
            is_full,
            ..Start::default()
        };
        let run = lab.collector.start_with(user, &start).await;
        let run = lab.end(&run.expect("it begins").run_id).await;
        assert_whole(&run);
    }
}

#[tokio::test]
async fn col_3_every_stream_is_collected_field_by_field() {
    for seed in 0..4 {
        let lab = lab(seed, Setup::default()).await;
        run_all(&lab, false).await;
        lab.assert_equal(&USERS).await;
        let kinds = lab.documents(Space::Main).await.into_iter();
        let kinds: BTreeSet<String> = kinds.map(|one| one.0).collect();
        let all: BTreeSet<String> = JobKind::all().map(|kind| kind.document().into()).collect();
        assert_eq!(kinds, all);
        // What changed is read by what changed; what is gone, when everything is read.
        for round in 0..3 {
            lab.fake.with_world(|world| world.upset(seed + round, 12));
            run_all(&lab, round == 1).await;
            if round == 1 {
                lab.assert_equal(&USERS).await;
            }
        }
    }
}

#[tokio::test]
async fn col_4_an_unchanged_world_costs_a_request_for_each_list_and_no_budget() {
    let lab = lab(9, Setup::default()).await;
    run_all(&lab, false).await;
    let before = lab.fake.tally();
    run_all(&lab, false).await;
    let after = lab.fake.tally();
    let (asked, unchanged) = (
        after.requests - before.requests,
        after.not_modified - before.not_modified,
    );
    // Empty repositories, disabled issues and full last pages have no ETag that would tell.
    assert!(unchanged * 10 >= asked * 8, "{unchanged} of {asked}");
    assert!(
        asked * 3 < before.requests,
        "{asked} of {}",
        before.requests
    );
}

/// The list of pull requests goes on although the details of some could not be read.
#[tokio::test]
async fn col_4_what_could_not_be_read_of_an_item_is_read_by_the_next_run() {
    let refused = Faults::none().first("/reviews", 1_000, Fault::Status(502));
    let setup = Setup {
        faults: refused,
        ..Setup::default()
    };
    let lab = lab(2, setup).await;
    let run = lab.run("octocat").await;
    assert!(run.jobs.failed > 0, "{run:?}");
    lab.fake.set_faults(Faults::none());
    let next = lab.run("octocat").await;
    assert_whole(&next);
    lab.assert_equal(&["octocat"]).await;
    let last = lab.run("octocat").await;
    assert!(
        last.jobs.total < next.jobs.total,
        "nothing is owed any more"
    );
}

/// What a job noted of its page is there, but its end was not recorded.
#[tokio::test]
async fn col_16_a_job_that_is_executed_twice_reads_the_same() {
    for seed in 0..6 {
        let lab = lab(seed, Setup::default()).await;
        lab.records.lose_each_once();
        run_all(&lab, false).await;
        lab.assert_equal(&USERS).await;
        for round in 0..3 {
            lab.fake.with_world(|world| world.change(seed + round, 12));
            lab.records.lose_each_once();
            run_all(&lab, false).await;
            lab.assert_has_all(&USERS).await;
        }
        // Lists that are read whole show what is gone, the second time too.
        let name = lab.fake.with_world(|world| world.full_names()).remove(0);
        let is_deleted = lab.fake.with_world(|world| world.delete_repository(&name));
        assert!(is_deleted);
        lab.records.lose_each_once();
        run_all(&lab, false).await;
        lab.assert_has_all(&USERS).await;
        let left = lab.documents(Space::Main).await;
        assert!(left.iter().all(|one| one.2 != format!("repo:{name}")));
    }
}

#[tokio::test]
async fn a_run_may_collect_less_than_the_settings_say() {
    let lab = lab(3, Setup::default()).await;
    let names = ["release".to_owned(), "label".to_owned()];
    let start = Start {
        streams: selected(&names).expect("streams"),
        ..Start::default()
    };
    let run = lab.collector.start_with("octocat", &start).await;
    assert_whole(&lab.end(&run.expect("it begins").run_id).await);
    let kinds = lab.documents(Space::Main).await.into_iter();
    let kinds: BTreeSet<String> = kinds.map(|one| one.0).collect();
    let needed = ["label", "release", "repository", "user"];
    assert!(kinds.iter().eq(needed), "{kinds:?}");
}

/// The details of a pull request are owed, and then its repository gets another name.
#[tokio::test]
async fn col_9_what_is_owed_is_read_under_the_name_that_its_repository_has_now() {
    for is_seen in [false, true] {
        let refused = Faults::none().first("/reviews", 1_000, Fault::Status(502));
        let setup = Setup {
            faults: refused.clone(),
            ..Setup::default()
        };
        let lab = lab(2, setup).await;
        let run = lab.run("octocat").await;
        assert!(run.jobs.failed > 0, "{run:?}");
        let names = lab.fake.with_world(|world| world.full_names());
        for name in names.iter().filter(|name| name.starts_with("octocat/")) {
            let new = format!("renamed-{}", name.len());
            lab.fake.with_world(|world| world.rename(name, &new));
        }
        if is_seen {
            // Another run knows the new names before anything of what is owed can be read.
            assert!(lab.run("octocat").await.jobs.failed > 0);
        }
        lab.fake.set_faults(Faults::none());
        for round in 0..3 {
            let run = lab.run("octocat").await;
            if is_seen || round > 0 {
                assert_whole(&run);
            } else {
                // The first run that sees the new names says what it could not read under the old ones.
                assert!(run.jobs.unavailable > 0, "{run:?}");
                let told = |one: &Unavailable| one.reason.contains("another name");
                assert!(run.unavailable.iter().all(told), "{run:?}");
            }
        }
        lab.assert_equal(&["octocat"]).await;
        let before = lab.fake.tally().requests;
        let last = lab.run("octocat").await;
        assert_whole(&last);
        assert!(
            lab.fake.tally().requests - before < 200,
            "nothing is owed any more"
        );
    }
}

/// A collector of every stream that has read the repositories of one user, and the names of two of
/// these, of which the first has been deleted since.
async fn with_a_deleted_repository() -> (Lab, String, String) {
    let size = Size {
        users: 1,
        repositories: 6,
        documents: 260,
    };
    let world = World::generate(2, &size).with_streams();
    let lab = Lab::with(world, Setup::default(), |settings| {
        settings.tokens = vec![Token::new("fake-robot-1")];
        settings.streams = JobKind::all().collect();
    })
    .await;
    assert_whole(&lab.run("octocat").await);
    let all = lab.world(&["octocat"]);
    let is_used = |name: &&String| {
        let place = format!("repo:{name}");
        let of = all.iter().filter(|one| one.2 == place);
        let kinds: BTreeSet<&str> = of.map(|one| one.0.as_str()).collect();
        kinds.contains("issue") && kinds.contains("commit")
    };
    let names = lab.fake.with_world(|world| world.full_names());
    let mut used = names.iter().filter(is_used);
    let (deleted, other) = (used.next().expect("one"), used.next().expect("another"));
    assert!(
        lab.fake
            .with_world(|world| world.delete_repository(deleted))
    );
    (lab, deleted.clone(), other.clone())
}

async fn assert_nothing_of(lab: &Lab, name: &str) {
    let place = format!("repo:{name}");
    let left = lab.documents(Space::Main).await;
    let left = left.iter().filter(|one| one.2 == place);
    let kinds: BTreeSet<&str> = left.map(|one| one.0.as_str()).collect();
    assert!(kinds.is_empty(), "{kinds:?}");
}

#[tokio::test]
async fn col_9_a_repository_goes_with_everything_although_other_lists_are_not_read() {
    // As the teams of an organization, which only its members see; and a list of another repository.
    for (part, status) in [("/users/octocat/orgs", 404), ("/issues?", 502)] {
        let (lab, deleted, other) = with_a_deleted_repository().await;
        let part = match status {
            404 => part.to_owned(),
            _ => format!("/{other}{part}"),
        };
        let faults = Faults::none().always(&[part.as_str()], Fault::Status(status));
        lab.fake.set_faults(faults);
        let run = lab.run("octocat").await;
        let not_read = run.jobs.failed + run.jobs.unavailable;
        assert!(not_read > 0 && run.pages.removed > 0, "{run:?}");
        assert_nothing_of(&lab, &deleted).await;
        lab.assert_has_all(&["octocat"]).await;
    }
}

#[tokio::test]
async fn col_9_a_repository_goes_with_everything_whatever_the_run_collects() {
    let (lab, deleted, _) = with_a_deleted_repository().await;
    let start = Start {
        streams: selected(&["issue".to_owned()]).expect("a stream"),
        ..Start::default()
    };
    let run = lab.collector.start_with("octocat", &start).await;
    let run = lab.end(&run.expect("it begins").run_id).await;
    assert_whole(&run);
    assert_nothing_of(&lab, &deleted).await;
    lab.assert_equal(&["octocat"]).await;
}
