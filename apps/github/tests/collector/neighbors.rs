//! Trouble of one resource stays with that resource.

use std::time::Duration;

use crate::lab::{Lab, assert_whole};
use clinch::ports::CircuitState;
use clinch::testing::advance;
use clinch_github::fake::{Fault, Faults, Setup, Size, World};
use clinch_github::{JobFilter, JobState, Run, RunStatus, Space, Token, Trigger};

const TOKENS: [&str; 3] = ["fake-ann-1", "fake-bob-1", "fake-cy-1"];

/// Three users with 70 repositories.
fn world() -> World {
    let size = Size {
        users: 3,
        repositories: 70,
        documents: 3_000,
    };
    World::generate(11, &size)
}

async fn lab(faults: Faults) -> Lab {
    let setup = Setup {
        faults,
        latency: Duration::from_millis(200),
        ..Setup::default()
    };
    Lab::with(world(), setup, |settings| {
        settings.tokens = TOKENS.iter().map(|one| Token::new(*one)).collect();
        // So many that three runs at once do not wait for each other.
        settings.concurrency = 200;
    })
    .await
}

/// The users, each with the names of the user's repositories.
fn users(world: &World) -> Vec<(String, Vec<String>)> {
    let mut users: Vec<(String, Vec<String>)> = Vec::new();
    for name in world.full_names() {
        let (owner, _) = name.split_once('/').expect("OWNER/NAME");
        let login = owner.to_lowercase();
        match users.iter_mut().find(|(user, _)| *user == login) {
            Some((_, names)) => names.push(name),
            None => users.push((login, vec![name])),
        }
    }
    users
}

fn took(run: &Run) -> Duration {
    let ended = run.completed_at.expect("ended");
    ended.since(run.created_at)
}

/// Starts a run of the first user, those of the others `later`, and moves the clock until all have
/// ended.
async fn together(lab: &Lab, users: &[(String, Vec<String>)], later: Duration) -> Vec<Run> {
    let mut begun = Vec::new();
    for (login, _) in users {
        let run = lab.collector.start(login, Trigger::Manual, Space::Main);
        begun.push(run.await.expect("it begins").run_id);
        if begun.len() == 1 {
            advance(&lab.clock, later).await;
        }
    }
    let mut ended = Vec::new();
    for id in begun {
        ended.push(lab.end(&id).await);
    }
    ended
}

#[tokio::test]
async fn col_16_two_bad_repositories_of_seventy_delay_no_other_user() {
    let users = users(&world());
    assert_eq!(users.len(), 3);
    let bad = &users[0].1[..2];
    let mut alone = Vec::new();
    for (login, _) in &users {
        alone.push(took(&lab(Faults::none()).await.run(login).await));
    }
    let refused = |all: Faults, name: &String| all.repository(name, 502);
    for later in [Duration::ZERO, Duration::from_secs(5)] {
        let lab = lab(bad.iter().fold(Faults::none(), refused)).await;
        let ended = together(&lab, &users, later).await;
        for (run, alone) in ended.iter().zip(&alone).skip(1) {
            assert_whole(run);
            let took = took(run);
            assert!(took <= *alone * 2, "{}: {took:?}, {alone:?}", run.run_id);
        }
        assert_failed_by_name(&lab, &ended[0], bad).await;
    }
}

/// Asserts that the run ended soon, and that its failed jobs are those of the bad repositories.
async fn assert_failed_by_name(lab: &Lab, run: &Run, bad: &[String]) {
    assert_eq!((run.status, run.jobs.failed), (RunStatus::Completed, 6));
    // Five attempts: pauses of 1, 2, 4 and 8 seconds.
    assert!(took(run) <= Duration::from_secs(60), "{:?}", took(run));
    let filter = JobFilter {
        state: Some(JobState::Failed),
        ..JobFilter::default()
    };
    let failed = lab.collector.jobs(&run.run_id, &filter, None, 100).await;
    let (failed, _) = failed.expect("jobs");
    assert_eq!(failed.len(), 6);
    for job in &failed {
        let name = job.resource.strip_prefix("repo:").expect("a repository");
        assert!(bad.iter().any(|one| one == name), "{job:?}");
        let error = job.error.as_deref().unwrap_or_default();
        assert!(error.contains("HTTP 502"), "{job:?}");
        assert_eq!(job.attempts, 5);
    }
}

#[tokio::test]
async fn col_16_an_api_that_fails_for_every_resource_is_left_alone() {
    let lab = lab(Faults::none()).await;
    let users = users(&world());
    together(&lab, &users, Duration::ZERO).await;
    let state = || {
        let github = lab.clinch.destinations().into_iter();
        let mut github = github.filter(|one| one.name == "github");
        github.next().expect("a destination").breaker
    };
    assert_eq!(state(), CircuitState::Closed);
    lab.fake
        .set_faults(Faults::seeded(1).chance(1.0, Fault::Status(502)));
    for (login, _) in &users {
        let run = lab.collector.start(login, Trigger::Manual, Space::Main);
        run.await.expect("it begins");
    }
    advance(&lab.clock, Duration::from_secs(25)).await;
    assert_eq!(state(), CircuitState::Open);
}
