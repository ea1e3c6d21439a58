//! What is collected later than other things: streams that are added, what was owed, full runs of a
//! few streams.

use std::time::Duration;

use clinch::testing::advance;
use clinch_github::fake::{BASE, Fault, Faults, Setup, Size, World};
use clinch_github::{JobFilter, JobKind, Run, Settings, Space, Start, Token, selected};

use crate::lab::{Bare, Lab, assert_whole};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Streams of items, without anything of an item.
const ITEMS: [&str; 5] = ["issue", "pull_request", "commit", "branch", "workflow_run"];

fn world(seed: u64) -> World {
    let size = Size {
        users: 1,
        repositories: 3,
        documents: 200,
    };
    let mut world = World::generate(seed, &size).with_streams();
    for name in world.full_names() {
        world.branch(&name, &[1_700_000_000, 1_700_000_100]);
    }
    world
}

async fn lab(seed: u64) -> Lab {
    Lab::with(world(seed), Setup::default(), |settings| {
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

async fn run_of(lab: &Lab, streams: &[&str], is_full: bool) -> Run {
    let names: Vec<String> = streams.iter().map(|one| (*one).to_owned()).collect();
    let start = Start {
        streams: match names.is_empty() {
            true => Vec::new(),
            false => selected(&names).expect("streams"),
        },
        is_full,
        ..Start::default()
    };
    let run = lab.collector.start_with("octocat", &start).await;
    let run = lab.end(&run.expect("it begins").run_id).await;
    assert_whole(&run);
    run
}

/// Asserts that what has a date, or changes with something that has one, is as it is in the world.
async fn assert_read(lab: &Lab) {
    let undated = ["reaction", "timeline", "branch_commit"];
    let is_dated = |one: &Bare| !undated.contains(&one.0.as_str());
    let is = lab.documents(Space::Main).await;
    for document in lab.world(&["octocat"]).into_iter().filter(is_dated) {
        assert!(is.contains(&document), "{document:?}");
    }
}

/// Reviews, details, jobs and reactions of old items are read by the first run that collects them,
/// although the items have not changed, and although that run does not read everything.
#[tokio::test]
async fn col_3_a_stream_that_is_added_reads_something_of_every_item() {
    for seed in 0..4 {
        let lab = lab(seed).await;
        run_of(&lab, &ITEMS, false).await;
        run_of(&lab, &ITEMS, false).await;
        let run = run_of(&lab, &[], false).await;
        assert!(!run.is_full);
        lab.assert_equal(&["octocat"]).await;
    }
}

/// What changed while a stream was not collected is read when it is collected again.
#[tokio::test]
async fn col_3_a_stream_that_was_left_out_for_a_run_misses_nothing() {
    for seed in 0..4 {
        let lab = lab(seed).await;
        run_of(&lab, &[], false).await;
        for round in 0..3 {
            lab.fake.with_world(|world| world.change(seed + round, 12));
            run_of(&lab, &ITEMS, false).await;
            let run = run_of(&lab, &[], false).await;
            assert!(!run.is_full);
            assert_read(&lab).await;
        }
        // Nothing has changed: a run with fewer streams makes the next one read nothing again.
        run_of(&lab, &ITEMS, false).await;
        let before = lab.fake.tally();
        let run = run_of(&lab, &[], false).await;
        let spent = lab.fake.tally().requests - before.requests;
        let unchanged = lab.fake.tally().not_modified - before.not_modified;
        assert!(spent - unchanged < 30, "{spent} {unchanged} {run:?}");
    }
}

/// A workflow run that is repeated keeps its place, on a page after one that has not changed.
#[tokio::test]
async fn col_4_a_run_that_is_repeated_behind_an_unchanged_page_is_read() {
    let lab = lab(2).await;
    let name = lab.fake.with_world(|world| {
        let names = world.full_names();
        let mut started = names.into_iter().filter(|name| world.start_runs(name, 20));
        started.next().expect("a repository with a workflow")
    });
    run_of(&lab, &["workflow_job"], false).await;
    run_of(&lab, &["workflow_job"], false).await;
    assert!(lab.fake.with_world(|world| world.repeat_run(&name)));
    run_of(&lab, &["workflow_job"], false).await;
    let is = lab.documents(Space::Main).await;
    let of_runs = |one: &Bare| one.0.starts_with("workflow_");
    for document in lab.world(&["octocat"]).into_iter().filter(of_runs) {
        assert!(is.contains(&document), "{document:?}");
    }
}

/// A run that reads everything of a few streams puts off nothing for the others.
#[tokio::test]
async fn col_9_everything_is_read_again_stream_by_stream() {
    let lab = lab(3).await;
    assert!(run_of(&lab, &[], false).await.is_full);
    advance(&lab.clock, 20 * DAY).await;
    assert!(run_of(&lab, &["issue"], true).await.is_full);
    advance(&lab.clock, 11 * DAY).await;
    let issues = run_of(&lab, &["issue"], false).await;
    // The list of repositories belongs to every run, and was read whole by the one of issues.
    assert!(!issues.is_full);
    assert!(run_of(&lab, &[], false).await.is_full);
    assert!(!run_of(&lab, &[], false).await.is_full);
}

/// Nothing is asked for again and again of a repository that is gone.
#[tokio::test]
async fn col_9_what_a_repository_owes_is_forgotten_when_it_is_gone() {
    let lab = lab(1).await;
    let name = lab.fake.with_world(|world| {
        let names = world.full_names();
        let mut open = names.into_iter().filter(|name| world.open_pulls(name, 3));
        open.next().expect("a repository")
    });
    run_of(&lab, &["review"], false).await;
    lab.fake.with_world(|world| world.open_pulls(&name, 3));
    let refused = Faults::none().first("/reviews", 1_000, Fault::Status(502));
    lab.fake.set_faults(refused);
    let run = lab.run("octocat").await;
    assert!(run.jobs.failed > 0, "{run:?}");
    lab.fake.set_faults(Faults::none());
    assert!(lab.fake.with_world(|world| world.delete_repository(&name)));
    let place = format!("repo:{name}#");
    let of_items = async || {
        let run = lab.run("octocat").await;
        assert_whole(&run);
        let all = JobFilter::default();
        let jobs = lab.collector.jobs(&run.run_id, &all, None, 500).await;
        let (jobs, _) = jobs.expect("jobs");
        jobs.iter()
            .filter(|job| job.resource.starts_with(&place))
            .count()
    };
    assert!(
        of_items().await > 0,
        "the run does not know yet that it is gone"
    );
    assert_eq!(of_items().await, 0);
}
