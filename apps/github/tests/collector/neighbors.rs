//! Trouble of one resource stays with that resource.

use std::time::Duration;

use crate::lab::{Lab, assert_whole};
use clinch::ports::CircuitState;
use clinch::testing::advance;
use clinch_github::fake::{Fault, Faults, Setup, Size, World};
use clinch_github::{
    JobFilter, JobState, Run, RunStatus, Selection, Settings, Space, Start, Token, Trigger,
};

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

/// The transport's own timeout.
const TIMEOUT: Duration = Duration::from_secs(15);

/// What a bad repository does.
#[derive(Debug, Clone, Copy)]
enum Bad {
    Fails,
    Hangs,
}

impl Bad {
    fn faults(self, names: &[String]) -> Faults {
        let add = |all: Faults, name: &String| match self {
            Self::Fails => all.repository(name, 502),
            Self::Hangs => {
                let hangs = Fault::Slow(Duration::from_secs(3_600));
                all.always(&[&format!("/repos/{name}/")], hangs)
            }
        };
        names.iter().fold(Faults::none(), add)
    }
}

/// As the settings are by default.
async fn lab(faults: Faults) -> Lab {
    lab_with(faults, Settings::default().concurrency).await
}

async fn lab_with(faults: Faults, concurrency: usize) -> Lab {
    let setup = Setup {
        faults,
        latency: Duration::from_millis(200),
        timeout: Some(TIMEOUT),
        ..Setup::default()
    };
    Lab::with(world(), setup, |settings| {
        settings.tokens = TOKENS.iter().map(|one| Token::new(*one)).collect();
        settings.concurrency = concurrency;
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

/// With the slots that are the default, other runs end within twice their time alone.
#[tokio::test]
async fn col_16_two_bad_repositories_of_seventy_delay_no_other_user() {
    let users = users(&world());
    assert_eq!(users.len(), 3);
    let bad = &users[0].1[..2];
    let mut alone = Vec::new();
    for (login, _) in &users {
        let lab = lab(Faults::none()).await;
        alone.push(took(&lab.run(login).await));
    }
    for kind in [Bad::Fails, Bad::Hangs] {
        for later in [Duration::ZERO, Duration::from_secs(5)] {
            let lab = lab(kind.faults(bad)).await;
            let ended = together(&lab, &users, later).await;
            for (run, alone) in ended.iter().zip(&alone).skip(1) {
                assert_whole(run);
                let took = took(run);
                let id = &run.run_id;
                assert!(took <= *alone * 2, "{kind:?} {id}: {took:?}, {alone:?}");
            }
            assert_failed_by_name(&lab, &ended[0], bad, kind).await;
        }
    }
}

/// With eight slots three runs share too few, bad repositories or not: a run alone uses all of them,
/// so three at once cannot each end as soon as alone. The bad ones hold two.
#[tokio::test]
async fn col_16_bad_repositories_take_two_of_eight_slots_at_most() {
    let users = users(&world());
    let bad = &users[0].1[..2];
    for later in [Duration::ZERO, Duration::from_secs(5)] {
        let calm = together(&lab_with(Faults::none(), 8).await, &users, later).await;
        for kind in [Bad::Fails, Bad::Hangs] {
            let lab = lab_with(kind.faults(bad), 8).await;
            let ended = together(&lab, &users, later).await;
            for (run, calm) in ended.iter().zip(&calm).skip(1) {
                assert_whole(run);
                let (is, most) = (took(run), took(calm) * 8 / 6 + Duration::from_secs(1));
                assert!(
                    is <= most,
                    "{kind:?} {later:?} {}: {is:?}, {most:?}",
                    run.run_id
                );
            }
            assert_failed_by_name(&lab, &ended[0], bad, kind).await;
        }
    }
}

/// GitHub takes only so many requests of an account in a minute; two accounts have twice as many.
#[tokio::test]
async fn col_8_an_account_makes_so_many_requests_a_minute() {
    let world = || {
        World::generate(
            11,
            &Size {
                users: 1,
                repositories: 12,
                documents: 900,
            },
        )
    };
    for accounts in [1, 2] {
        let lab = Lab::with(world(), Setup::default(), |settings| {
            let tokens = TOKENS.iter().take(accounts);
            settings.tokens = tokens.map(|one| Token::new(*one)).collect();
            settings.page_size = 10;
            settings.requests_per_minute = Some(30);
        })
        .await;
        let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
        let id = run.await.expect("it begins").run_id;
        let mut by_second = vec![0];
        while !lab
            .collector
            .run(&id)
            .await
            .expect("read")
            .status
            .is_terminal()
        {
            advance(&lab.clock, Duration::from_secs(1)).await;
            by_second.push(lab.fake.tally().requests);
        }
        assert_whole(&lab.collector.run(&id).await.expect("read"));
        // Whose a token is costs two requests more, once.
        let most = (30 + 2) * accounts as u64;
        let minutes = by_second.windows(60);
        assert!(minutes.clone().all(|one| one[59] - one[0] <= most));
        assert!(minutes.clone().any(|one| one[59] - one[0] >= most / 2));
        let (all, minutes) = (lab.fake.tally().requests, by_second.len() as u64 / 60);
        assert!(all > 100 && minutes >= all / most - 1, "{all} {minutes}");
    }
}

/// The jobs of a run that makes many are not all before those of one that makes a few.
#[tokio::test]
async fn col_16_a_small_run_does_not_wait_for_a_large_one() {
    let size = Size {
        users: 2,
        repositories: 600,
        documents: 6_000,
    };
    let world = World::generate(12, &size);
    let users = users(&world);
    let setup = || Setup {
        latency: Duration::from_millis(200),
        ..Setup::default()
    };
    let small = |lab: &Lab| {
        let start = Start {
            selection: Selection::new(&users[1].0, &users[1].1[..3], None).expect("its own"),
            ..Start::default()
        };
        let collector = lab.collector.clone();
        let login = users[1].0.clone();
        async move {
            collector
                .start_with(&login, &start)
                .await
                .expect("begun")
                .run_id
        }
    };
    let lab = Lab::new(world.clone(), setup(), &TOKENS).await;
    let id = small(&lab).await;
    let alone = took(&lab.end(&id).await);
    let lab = Lab::new(world, setup(), &TOKENS).await;
    let large = lab
        .collector
        .start(&users[0].0, Trigger::Manual, Space::Main);
    let large = large.await.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(4)).await;
    let open = lab
        .collector
        .run(&large)
        .await
        .expect("it is there")
        .jobs
        .open();
    assert!(open > 200, "{open} jobs are due");
    let id = small(&lab).await;
    let beside = took(&lab.end(&id).await);
    assert!(
        beside <= alone * 2,
        "{beside:?} beside the large one, {alone:?} alone"
    );
    assert_whole(&lab.end(&large).await);
}

/// Asserts that the run ended soon, and that its failed jobs are those of the bad repositories.
async fn assert_failed_by_name(lab: &Lab, run: &Run, bad: &[String], kind: Bad) {
    assert_eq!((run.status, run.jobs.failed), (RunStatus::Completed, 6));
    // Five attempts of three jobs, with pauses of 1, 2, 4 and 8 seconds; one request at a time hangs.
    let (most, reason) = match kind {
        Bad::Fails => (Duration::from_secs(60), "HTTP 502"),
        Bad::Hangs => (TIMEOUT * 5 * 3 + Duration::from_secs(120), "no answer"),
    };
    assert!(took(run) <= most, "{kind:?} {:?}", took(run));
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
        assert!(error.contains(reason), "{job:?}");
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
    let mut runs = Vec::new();
    for (login, _) in &users {
        let run = lab.collector.start(login, Trigger::Manual, Space::Main);
        runs.push(run.await.expect("it begins").run_id);
    }
    advance(&lab.clock, Duration::from_secs(25)).await;
    assert_eq!(state(), CircuitState::Open);
    for run in runs {
        let progress = lab.collector.progress(&run).await.expect("read");
        let reason = progress.waits_for.unwrap_or_default();
        assert!(progress.waiting > 0, "{run} does not wait");
        assert!(reason.contains("breaker"), "{run}: {reason}");
    }
}
