//! Any world with any faults: every run ends with exactly the documents of the world, or counts and
//! names the failed jobs that explain what is missing. The next run without faults has everything.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch::testing::SplitMix;
use clinch_github::fake::{Fault, Faults, Limits, Paging, Secondary, Setup, Size, World};
use clinch_github::{JobFilter, JobState, Run, RunStatus, Space, Token};

use crate::lab::{Bare, Lab, assert_whole};

/// Cases in a test run, split over tests that run in parallel.
const CASES: u64 = 1_000;
const PARTS: u64 = 4;

fn below(rng: &mut SplitMix, bound: u64) -> u64 {
    rng.next_u64() % bound
}

fn world(rng: &mut SplitMix) -> World {
    let size = Size {
        users: 1,
        repositories: usize::try_from(below(rng, 5)).unwrap_or(0),
        documents: 3 + usize::try_from(below(rng, 150)).unwrap_or(0),
    };
    World::generate(rng.next_u64(), &size)
}

fn faults(rng: &mut SplitMix, world: &World) -> Faults {
    let mut faults = Faults::seeded(rng.next_u64());
    let secondary = Secondary {
        status: [403, 429][usize::from(below(rng, 2) == 0)],
        has_retry_after: below(rng, 2) == 0,
    };
    let all = [
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::LostBefore,
        Fault::LostAfter,
        Fault::Cut,
        Fault::Malformed,
        Fault::Accepted,
        Fault::Slow(Duration::from_secs(20)),
        Fault::Slow(Duration::from_secs(40)),
        Fault::Secondary(secondary, Duration::from_secs(30)),
    ];
    for fault in all {
        if below(rng, 2) == 0 {
            faults = faults.chance(below(rng, 100) as f64 / 1_000.0, fault);
        }
    }
    // Usually faults are limited so that retries succeed; sometimes not.
    if below(rng, 4) > 0 {
        faults = faults.at_most(4);
    }
    for name in world.full_names() {
        if below(rng, 10) == 0 {
            let status = [404, 410, 451][usize::try_from(below(rng, 3)).unwrap_or(0)];
            faults = faults.repository(&name, status);
        }
    }
    faults
}

fn setup(rng: &mut SplitMix, world: &World) -> Setup {
    let primary = [20, 50, 5_000][usize::try_from(below(rng, 3)).unwrap_or(0)];
    Setup {
        limits: Limits {
            primary,
            // A short window, so that few cases sleep through many of them.
            window: Duration::from_secs(600),
            ..Limits::default()
        },
        faults: faults(rng, world),
        paging: [Paging::Numbers, Paging::Cursors][usize::from(below(rng, 2) == 0)],
        latency: Duration::from_millis(below(rng, 200)),
        timeout: Some(Duration::from_secs(15)),
    }
}

/// Explains why a run is incomplete: the resources whose jobs failed. Without the user or the list
/// of repositories, anything may be missing.
async fn excused(lab: &Lab, run: &Run) -> (BTreeSet<String>, bool) {
    let filter = JobFilter {
        state: Some(JobState::Failed),
        ..JobFilter::default()
    };
    let failed = lab.collector.jobs(&run.run_id, &filter, None, 500).await;
    let (failed, more) = failed.expect("jobs");
    assert_eq!(more, None);
    assert_eq!(
        failed.len() as u64,
        run.jobs.failed,
        "every failed job is named"
    );
    let of_user = |resource: &str| resource.starts_with("user:");
    let anything = failed.iter().any(|job| of_user(&job.resource));
    for job in &failed {
        assert!(job.error.is_some(), "{job:?}");
    }
    (
        failed.into_iter().map(|job| job.resource).collect(),
        anything,
    )
}

async fn case(seed: u64) {
    let mut rng = SplitMix::new(seed);
    let world = world(&mut rng);
    let setup = setup(&mut rng, &world);
    let limit = setup.limits.primary;
    let tokens = ["fake-ann-1", "fake-ann-2", "fake-bob-1"];
    let count = 1 + usize::try_from(below(&mut rng, 3)).unwrap_or(0);
    let page_size = 3 + u32::try_from(below(&mut rng, 28)).unwrap_or(0);
    let lab = Lab::with(world, setup, |settings| {
        settings.tokens = tokens
            .iter()
            .take(count)
            .map(|one| Token::new(*one))
            .collect();
        settings.page_size = page_size;
        settings.concurrency = 1 + usize::try_from(below(&mut rng, 8)).unwrap_or(0);
    })
    .await;
    for round in 0..2 {
        let run = lab.run("octocat").await;
        assert_eq!(run.status, RunStatus::Completed, "{run:?}");
        assert_eq!(run.jobs.open(), 0);
        let (excused, anything) = excused(&lab, &run).await;
        if run.jobs.failed == 0 {
            lab.assert_equal(&["octocat"]).await;
        } else if round == 0 {
            let is: BTreeSet<Bare> = lab.documents(Space::Main).await.into_iter().collect();
            let wanted: BTreeSet<Bare> = lab.world(&["octocat"]).into_iter().collect();
            assert!(
                is.is_subset(&wanted),
                "nothing is there that the world does not hold"
            );
            let missing = wanted.difference(&is);
            for one in missing {
                assert!(
                    anything || excused.contains(&one.2),
                    "{one:?} is missing without a word"
                );
            }
        }
        lab.fake.with_world(|world| world.change(seed + round, 8));
    }
    lab.fake.set_faults(Faults::none());
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
    let tally = lab.fake.tally();
    assert_eq!(tally.primary_refusals, 0, "{tally:?}");
    assert!(
        tally.window_max.values().all(|most| *most <= limit),
        "{tally:?}"
    );
}

/// One part of the cases; a failing case prints its number.
fn part(part: u64) {
    let only = std::env::var("CLINCH_GITHUB_CASE").ok();
    let only: Option<u64> = only.and_then(|text| text.parse().ok());
    for seed in (0..CASES).filter(|seed| seed % PARTS == part) {
        if only.is_some_and(|only| only != seed) {
            continue;
        }
        let again = Again(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(case(seed));
        std::mem::forget(again);
    }
}

/// Prints how to run a failing case again.
struct Again(u64);

impl Drop for Again {
    fn drop(&mut self) {
        let seed = self.0;
        eprintln!("case {seed}: CLINCH_GITHUB_CASE={seed} cargo test -p clinch-github property");
    }
}

#[test]
fn any_world_ends_exactly_1() {
    part(0);
}

#[test]
fn any_world_ends_exactly_2() {
    part(1);
}

#[test]
fn any_world_ends_exactly_3() {
    part(2);
}

#[test]
fn any_world_ends_exactly_4() {
    part(3);
}
