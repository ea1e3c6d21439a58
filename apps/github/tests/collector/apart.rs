//! What fails of one resource, and how slow the API is, says nothing of the others.

use std::time::Duration;

use clinch::ports::CircuitState;
use clinch::testing::advance;
use clinch_github::fake::{Fault, Faults, Setup, Size, World};
use clinch_github::{Job, JobFilter, JobKind, JobState, Run, RunId, RunStatus, Start, selected};

use crate::lab::{Lab, assert_whole};

const TOKENS: [&str; 3] = ["fake-ann-1", "fake-bob-1", "fake-cy-1"];
/// The transport's own timeout.
const TIMEOUT: Duration = Duration::from_secs(15);

fn setup(faults: Faults) -> Setup {
    Setup {
        faults,
        latency: Duration::from_millis(200),
        timeout: Some(TIMEOUT),
        ..Setup::default()
    }
}

/// A collector with the default settings.
async fn lab(world: World, setup: Setup) -> Lab {
    Lab::new(world, setup, &TOKENS).await
}

async fn begin(lab: &Lab, login: &str, streams: &[&str]) -> RunId {
    let names: Vec<String> = streams.iter().map(|name| (*name).to_owned()).collect();
    let start = Start {
        streams: selected(&names).expect("streams"),
        ..Start::default()
    };
    let run = lab.collector.start_with(login, &start).await;
    run.expect("it begins").run_id
}

fn breaker(lab: &Lab) -> CircuitState {
    let mut all = lab.clinch.destinations().into_iter();
    let github = all.find(|one| one.name == "github");
    github.expect("a destination").breaker
}

/// Moves the clock until the run has ended. The breaker stays closed.
async fn end_calmly(lab: &Lab, id: &RunId) -> Run {
    for _ in 0..3_600 {
        advance(&lab.clock, Duration::from_secs(1)).await;
        assert_eq!(breaker(lab), CircuitState::Closed, "{id}");
        let run = lab.collector.run(id).await.expect("it is there");
        if run.status.is_terminal() {
            return run;
        }
    }
    panic!("{id} does not end within an hour");
}

fn took(run: &Run) -> Duration {
    run.completed_at.expect("ended").since(run.created_at)
}

async fn failed(lab: &Lab, run: &Run) -> Vec<Job> {
    let filter = JobFilter {
        state: Some(JobState::Failed),
        ..JobFilter::default()
    };
    let jobs = lab.collector.jobs(&run.run_id, &filter, None, 500).await;
    jobs.expect("jobs").0
}

#[tokio::test]
async fn col_16_the_items_of_one_bad_repository_are_one_resource() {
    let size = Size {
        users: 2,
        repositories: 2,
        documents: 300,
    };
    let world = World::generate(5, &size).with_streams();
    let names = world.full_names();
    let (bad, other) = (&names[0], names[1].split('/').next().expect("an owner"));
    let bad_owner = bad.split('/').next().expect("an owner");
    let path = format!("/repos/{bad}/pulls/");
    let faults = Faults::none().always(&[&path, "/reviews"], Fault::Status(502));
    let alone = lab(world.clone(), setup(Faults::none())).await;
    let id = begin(&alone, other, &["review"]).await;
    let alone = took(&end_calmly(&alone, &id).await);

    let lab = lab(world, setup(faults)).await;
    let run = begin(&lab, bad_owner, &["review"]).await;
    // By then nothing else is asked for: only reviews of this repository are tried again.
    for _ in 0..12 {
        advance(&lab.clock, Duration::from_secs(1)).await;
        assert_eq!(breaker(&lab), CircuitState::Closed);
    }
    let id = begin(&lab, other, &["review"]).await;
    let neighbor = end_calmly(&lab, &id).await;
    assert_whole(&neighbor);
    assert!(took(&neighbor) <= alone * 2, "{:?}", took(&neighbor));
    let run = end_calmly(&lab, &run).await;
    assert_eq!(run.status, RunStatus::Completed);
    let failed = failed(&lab, &run).await;
    assert!(failed.len() > 10, "enough to open a breaker: {failed:?}");
    let review = JobKind::named("review").expect("a stream");
    for job in failed {
        assert_eq!(job.kind, review, "{job:?}");
        // After twenty failures in a row the others fail at once.
        let error = job.error.as_deref().unwrap_or_default();
        let is_tried = job.attempts == 5 && error.contains("HTTP 502");
        assert!(is_tried || error.starts_with("resource_fails"), "{job:?}");
        assert!(job.resource.starts_with(&format!("repo:{bad}#")), "{job:?}");
    }
}

/// An API that is slow for everybody is not one that fails.
#[tokio::test]
async fn col_16_a_slow_api_is_not_a_failing_one() {
    let size = Size {
        users: 1,
        repositories: 15,
        documents: 400,
    };
    let slow = Setup {
        latency: Duration::from_secs(4),
        ..setup(Faults::none())
    };
    let lab = lab(World::generate(6, &size), slow).await;
    let id = begin(&lab, "octocat", &[]).await;
    let run = end_calmly(&lab, &id).await;
    assert_whole(&run);
    assert!(run.jobs.total > 20, "{run:?}");
    lab.assert_has_all(&["octocat"]).await;
    // Eight at a time, four seconds each, and as much again for the order of things: a list comes
    // after the list of repositories, a page after the one before.
    let rounds = u32::try_from(run.jobs.total.div_ceil(8)).expect("few");
    let most = Duration::from_secs(4) * rounds * 2;
    assert!(took(&run) <= most, "{:?} {most:?}", took(&run));
}
