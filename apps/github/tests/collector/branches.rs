//! Commits of branches beside the default one.

use clinch_github::fake::{BASE, Fault, Faults, Setup, Size, World};
use clinch_github::{Settings, Space, Token, selected};

use crate::lab::{Lab, assert_whole};

const DAY: i64 = 86_400;
const KIND: &str = "branch_commit";

async fn lab(page_size: u32) -> (Lab, String) {
    let size = Size {
        users: 1,
        repositories: 1,
        documents: 80,
    };
    let world = World::generate(4, &size).with_streams();
    let name = world.full_names().remove(0);
    let lab = Lab::with(world, Setup::default(), |settings| {
        *settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            streams: selected(&[KIND.to_owned(), "commit".to_owned()]).expect("streams"),
            page_size,
            ..Settings::default()
        };
    })
    .await;
    (lab, name)
}

/// Adds branches of one to several commits each.
fn branch(lab: &Lab, name: &str, count: usize) -> Vec<u64> {
    lab.fake.with_world(|world| {
        let one = |n: usize| {
            let n = i64::try_from(n).expect("few");
            // Some dates are long past, and some are in the future.
            let dates: Vec<i64> = (0..=n % 7).map(|day| (n * 900 + day) * DAY).collect();
            world.branch(name, &dates).expect("a branch")
        };
        (0..count).map(one).collect()
    })
}

async fn count(lab: &Lab) -> usize {
    let all = lab.documents(Space::Main).await;
    all.iter().filter(|one| one.0 == KIND).count()
}

/// The commits equal the world's; no commit of a branch is missing or too many.
async fn assert_equal(lab: &Lab) {
    let is_of = |one: &crate::lab::Bare| ["branch", "commit", KIND].contains(&one.0.as_str());
    let mut is = lab.documents(Space::Main).await;
    let mut wanted = lab.world(&["octocat"]);
    is.retain(is_of);
    wanted.retain(is_of);
    let count = |all: &[crate::lab::Bare]| {
        let mut kinds = std::collections::BTreeMap::<String, usize>::new();
        for one in all {
            *kinds.entry(one.0.clone()).or_default() += 1;
        }
        kinds
    };
    assert_eq!(count(&is), count(&wanted));
    let first = is.iter().zip(&wanted).find(|(is, wanted)| is != wanted);
    assert_eq!(first, None, "the first that differs");
}

#[tokio::test]
async fn col_3_commits_of_other_branches_are_exact() {
    let (lab, name) = lab(3).await;
    let numbers = branch(&lab, &name, 12);
    assert_whole(&lab.run("octocat").await);
    assert_equal(&lab).await;
    assert!(count(&lab).await > 30);
    // Nothing has moved: no branch is asked for.
    let requests = lab.fake.tally().requests;
    assert_whole(&lab.run("octocat").await);
    assert!(lab.fake.tally().requests - requests < 15);
    // One branch grows, and one is new.
    lab.fake.with_world(|world| {
        assert!(world.push_branch(&name, numbers[4], 0, &[1_000 * DAY, 5 * DAY]));
    });
    branch(&lab, &name, 1);
    let requests = lab.fake.tally().requests;
    assert_whole(&lab.run("octocat").await);
    assert_equal(&lab).await;
    assert!(
        lab.fake.tally().requests - requests < 25,
        "two branches, and the lists"
    );
    // One is rewritten, one deleted, and the old commits are collected as garbage.
    lab.fake.with_world(|world| {
        assert!(world.push_branch(&name, numbers[6], 3, &[7 * DAY]));
        assert!(world.delete_branch(&name, numbers[5]));
        world.collect_garbage(&name);
    });
    assert_whole(&lab.run("octocat").await);
    let full = lab.run_full("octocat").await;
    assert_whole(&full);
    assert!(full.pages.removed > 0, "{full:?}");
    assert_equal(&lab).await;
}

/// A branch that holds a site, for example, has no commit in common with the default branch.
#[tokio::test]
async fn col_3_a_branch_without_a_common_ancestor_is_read_whole() {
    let (lab, name) = lab(3).await;
    let numbers = branch(&lab, &name, 2);
    lab.fake.with_world(|world| {
        let dates: Vec<i64> = (0..8).map(|day| day * DAY).collect();
        assert!(world.push_branch(&name, numbers[0], 10_000, &dates));
    });
    assert_whole(&lab.run("octocat").await);
    assert_equal(&lab).await;
    assert!(count(&lab).await >= 8);
}

#[tokio::test]
async fn col_3_what_could_not_be_read_of_a_branch_is_read_by_the_next_run() {
    let (lab, name) = lab(100).await;
    branch(&lab, &name, 3);
    let refused = Faults::none().first("/compare/", 1_000, Fault::Status(502));
    lab.fake.set_faults(refused);
    let run = lab.run("octocat").await;
    assert!(run.jobs.failed >= 3, "{run:?}");
    lab.fake.set_faults(Faults::none());
    assert_whole(&lab.run("octocat").await);
    assert_equal(&lab).await;
}
