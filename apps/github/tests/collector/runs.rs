//! Runs from beginning to end.

use std::time::Duration;

use crate::lab::{Lab, assert_whole};
use clinch::ports::{RecordList, Records as _};
use clinch::testing::advance;
use clinch::types::ErrorKind;
use clinch_github::fake::{Fault, Faults, Limits, Setup, Size, World};
use clinch_github::{JobFilter, JobState, RunStatus, Space, Statistics, Trigger};

const TOKEN: &str = "fake-robot-1";

fn small(seed: u64) -> World {
    let size = Size {
        users: 1,
        repositories: 6,
        documents: 900,
    };
    World::generate(seed, &size)
}

#[tokio::test]
async fn col_3_a_user_is_collected_page_by_page() {
    let lab = Lab::new(small(1), Setup::default(), &[TOKEN]).await;
    let run = lab.run("octocat").await;
    assert_whole(&run);
    lab.assert_equal(&["octocat"]).await;
    assert_eq!(run.statistics, Statistics::Done);
    // Some are read twice: a page begins with the last second of the one before.
    assert!((900..910).contains(&run.pages.documents), "{run:?}");
    let figures = lab.collector.figures(Some("octocat"), Space::Main).await;
    let figures = figures.expect("read").expect("made");
    assert_eq!(figures.documents.values().sum::<u64>(), 900);
    assert_eq!(figures.runs, 1);
    let filter = JobFilter::default();
    let (jobs, _) = lab
        .collector
        .jobs(&run.run_id, &filter, None, 500)
        .await
        .expect("jobs");
    assert_eq!(jobs.len() as u64, run.jobs.total);
    assert!(jobs.iter().all(|job| job.attempts == 1));
    let read = jobs.iter().filter(|job| job.state == JobState::Succeeded);
    assert_eq!(read.count() as u64, run.jobs.succeeded);
    assert_eq!(lab.fake.tally().primary_refusals, 0);
}

#[tokio::test]
async fn col_15_the_last_hour_is_told_over_all_runs() {
    let lab = Lab::new(small(1), Setup::default(), &[TOKEN]).await;
    let before = lab.collector.overview().await.expect("read");
    assert!(before.kinds.is_empty() && before.runs.is_empty() && !before.is_cut);
    let run = lab.run("octocat").await;
    let overview = lab.collector.overview().await.expect("read");
    let succeeded: u64 = overview.kinds.values().map(|ended| ended.succeeded).sum();
    assert_eq!(succeeded, run.jobs.succeeded);
    assert_eq!(overview.attempts, [(1, run.jobs.total)].into());
    assert_eq!(overview.runs, [("COMPLETED", 1)].into());
    assert!(overview.waiting.is_empty() && overview.stuck.is_empty());
    let slower = |ended: &clinch_github::EndedJobs| ended.average() <= ended.longest;
    assert!(overview.kinds.values().all(slower), "{overview:?}");
    // Gauges read the active runs alone, however many have ended.
    let active = RecordList {
        prefix: "github-active/".to_owned(),
        descending: false,
        after: None,
        limit: 10,
    };
    let active = lab.memory.list_records(&active).await.expect("read");
    assert_eq!(active, []);
    // A day later nothing of it is left.
    advance(&lab.clock, Duration::from_secs(25 * 60 * 60)).await;
    let overview = lab.collector.overview().await.expect("read");
    assert!(overview.kinds.is_empty() && overview.runs.is_empty());
}

#[tokio::test]
async fn col_4_an_unchanged_user_costs_a_tenth() {
    let lab = Lab::new(small(2), Setup::default(), &[TOKEN]).await;
    let first = lab.run("octocat").await;
    let second = lab.run("octocat").await;
    assert_whole(&second);
    lab.assert_equal(&["octocat"]).await;
    let unread = second.pages.not_modified + second.pages.skipped;
    assert_eq!(unread + second.pages.fetched, first.pages.fetched);
    // Empty lists and disabled features have no ETag.
    assert!(
        second.pages.fetched * 10 <= first.pages.fetched,
        "{second:?}"
    );
    assert_eq!(second.pages.documents, 0);
    assert_eq!(second.run_id.number, 2);
}

#[tokio::test]
async fn col_4_only_what_changed_is_read_again() {
    for seed in 0..20 {
        let lab = Lab::new(small(seed), Setup::default(), &[TOKEN]).await;
        assert_whole(&lab.run("octocat").await);
        for round in 0..3 {
            lab.fake
                .with_world(|world| world.change(seed * 10 + round, 12));
            let run = lab.run("octocat").await;
            assert_whole(&run);
            lab.assert_equal(&["octocat"]).await;
        }
    }
}

/// Every fault happens sometimes, but no more often than a job is retried.
fn troubled(seed: u64) -> Faults {
    Faults::seeded(seed)
        .chance(0.03, Fault::Status(500))
        .chance(0.03, Fault::Status(503))
        .chance(0.03, Fault::LostBefore)
        .chance(0.03, Fault::LostAfter)
        .chance(0.03, Fault::Cut)
        .chance(0.03, Fault::Malformed)
        .chance(0.03, Fault::Accepted)
        .chance(0.03, Fault::Slow(Duration::from_secs(2)))
        .chance(
            0.02,
            Fault::Secondary(Default::default(), Duration::from_secs(90)),
        )
        .at_most(4)
}

#[tokio::test]
async fn trouble_is_outlived() {
    for seed in 0..10 {
        let setup = Setup {
            faults: troubled(seed),
            ..Setup::default()
        };
        let lab = Lab::new(small(seed), setup, &[TOKEN]).await;
        assert_whole(&lab.run("octocat").await);
        lab.assert_equal(&["octocat"]).await;
    }
}

#[tokio::test]
async fn col_1_a_second_run_of_the_same_user_is_refused() {
    let lab = Lab::new(small(3), Setup::default(), &[TOKEN]).await;
    let first = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await
        .expect("begun");
    let again = lab
        .collector
        .start("OctoCat", Trigger::Manual, Space::Main)
        .await;
    let refused = again.expect_err("one is active");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.message().contains("octocat.1"));
    assert_whole(&lab.end(&first.run_id).await);
    let next = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await
        .expect("begun");
    assert_eq!(next.run_id.number, 2);
    let wrong = lab
        .collector
        .start("octo cat", Trigger::Manual, Space::Main)
        .await;
    assert_eq!(wrong.expect_err("no login").kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn col_2_failed_jobs_are_counted_named_and_repaired() {
    let world = small(4);
    let broken = world.full_names().swap_remove(0);
    let setup = Setup {
        faults: Faults::none().repository(&broken, 400),
        ..Setup::default()
    };
    let lab = Lab::new(world, setup, &[TOKEN]).await;
    let run = lab.run("octocat").await;
    assert_eq!((run.status, run.jobs.failed), (RunStatus::Completed, 3));
    let filter = JobFilter {
        state: Some(JobState::Failed),
        ..JobFilter::default()
    };
    let (failed, _) = lab
        .collector
        .jobs(&run.run_id, &filter, None, 100)
        .await
        .expect("jobs");
    assert_eq!(failed.len(), 3);
    for job in &failed {
        assert_eq!(job.resource, format!("repo:{broken}"));
        assert!(
            job.error
                .as_deref()
                .is_some_and(|error| error.starts_with("http_400"))
        );
    }
    lab.fake.set_faults(Faults::none());
    let (_, count) = lab.collector.retry(&run.run_id).await.expect("repaired");
    assert_eq!(count, 3);
    advance(&lab.clock, Duration::from_secs(600)).await;
    lab.assert_equal(&["octocat"]).await;
    let after = lab.collector.run(&run.run_id).await.expect("there");
    assert_eq!((after.jobs, after.status), (run.jobs, RunStatus::Completed));
    let repair = after.repairs.first().expect("one repair");
    assert!(repair.completed_at.is_some());
    assert_eq!(repair.jobs.failed, 0);
    assert!(repair.jobs.succeeded >= 3);
    let (_, none) = lab
        .collector
        .retry(&run.run_id)
        .await
        .expect("nothing left");
    assert_eq!(none, 0);
    let figures = lab.collector.figures(Some("octocat"), Space::Main).await;
    assert_eq!(figures.expect("read").expect("made").runs, 2);
}

#[tokio::test]
async fn col_15_a_canceled_run_asks_for_nothing_more() {
    let setup = Setup {
        latency: Duration::from_secs(1),
        ..Setup::default()
    };
    let lab = Lab::new(small(5), setup, &[TOKEN]).await;
    let run = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await
        .expect("begun");
    advance(&lab.clock, Duration::from_secs(6)).await;
    let canceled = lab
        .collector
        .cancel(&run.run_id, "no longer wanted")
        .await
        .expect("canceled");
    assert_eq!(canceled.status, RunStatus::Canceled);
    advance(&lab.clock, Duration::from_secs(10)).await;
    let asked = lab.fake.tally().requests;
    advance(&lab.clock, Duration::from_secs(3_600)).await;
    assert_eq!(lab.fake.tally().requests, asked);
    let after = lab.collector.run(&run.run_id).await.expect("there");
    assert_eq!((after.status, after.jobs.open()), (RunStatus::Canceled, 0));
    assert_eq!(after.statistics, Statistics::Pending);
    let again = lab
        .collector
        .cancel(&run.run_id, "again")
        .await
        .expect_err("ended");
    assert_eq!(again.kind(), ErrorKind::Conflict);
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_18_a_shadow_is_compared_and_changes_nothing() {
    let lab = Lab::new(small(6), Setup::default(), &[TOKEN]).await;
    assert_whole(&lab.run("octocat").await);
    let before = lab.documents(Space::Main).await;
    lab.fake.with_world(|world| world.change(1, 10));
    let shadow = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Shadow)
        .await;
    let shadow = lab.end(&shadow.expect("begun").run_id).await;
    assert_whole(&shadow);
    assert_eq!(shadow.run_id.to_string(), "octocat.shadow.1");
    assert_eq!(
        lab.documents(Space::Main).await,
        before,
        "the real ones are as they were"
    );
    let differs = lab.collector.compare("octocat").await.expect("compared");
    assert!(!differs.is_equal() && differs.missing == 0, "{differs:?}");
    assert_eq!(differs.equal + differs.different, before.len() as u64);
    assert_whole(&lab.run("octocat").await);
    let equal = lab.collector.compare("octocat").await.expect("compared");
    assert!(equal.is_equal(), "{equal:?}");
}

#[tokio::test]
async fn paging_by_opaque_cursors_is_followed() {
    let setup = Setup {
        paging: clinch_github::fake::Paging::Cursors,
        ..Setup::default()
    };
    let lab = Lab::new(small(7), setup, &[TOKEN]).await;
    assert_whole(&lab.run("octocat").await);
    lab.fake.with_world(|world| world.change(3, 20));
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn a_renamed_repository_is_followed() {
    let lab = Lab::new(small(8), Setup::default(), &[TOKEN]).await;
    let run = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await
        .expect("begun");
    // Once the list of repositories is read, one of them is renamed.
    let is_listed = || {
        let tally = lab.fake.tally();
        tally.by_url.keys().any(|url| url.contains("/repos?"))
    };
    let mut ticks = 0;
    while !is_listed() {
        tokio::task::yield_now().await;
        ticks += 1;
        assert!(ticks < 1_000_000, "the list is read");
    }
    let old = lab.fake.with_world(|world| {
        let names = world.full_names();
        let old = names[0].clone();
        assert!(world.rename(&old, "renamed"));
        old
    });
    assert_whole(&lab.end(&run.run_id).await);
    let followed = lab
        .fake
        .tally()
        .by_url
        .keys()
        .any(|url| url.starts_with("/repositories/"));
    assert!(followed, "{old} was asked for under its old name");
    // The next run knows the new name.
    assert_whole(&lab.run("octocat").await);
    let stale = |one: &crate::lab::Bare| one.2 == format!("repo:{old}");
    assert!(!lab.documents(Space::Main).await.iter().any(stale));
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_8_two_tokens_of_one_account_and_others_wait_for_resets() {
    let size = Size {
        users: 1,
        repositories: 40,
        documents: 12_000,
    };
    let setup = Setup {
        limits: Limits {
            primary: 50,
            ..Limits::default()
        },
        ..Setup::default()
    };
    let tokens = ["fake-ann-1", "fake-ann-2", "fake-bob-1", "fake-cy-1"];
    let lab = Lab::new(World::generate(9, &size), setup, &tokens).await;
    let run = lab.run("octocat").await;
    assert_whole(&run);
    lab.assert_equal(&["octocat"]).await;
    let tally = lab.fake.tally();
    assert_eq!(tally.primary_refusals, 0, "{tally:?}");
    assert!(tally.window_max.values().all(|most| *most <= 50));
    // Exactly as many windows as the requests need, with a tenth of each window unused.
    let spent = tally.by_status.values().sum::<u64>();
    let windows = spent.div_ceil(3 * 45);
    let hour = 3_600;
    let took = run
        .completed_at
        .expect("ended")
        .since(run.created_at)
        .as_secs();
    assert!(
        took >= (windows - 1) * hour,
        "{took} s for {windows} windows"
    );
    assert!(took < windows * hour, "{took} s for {windows} windows");
}
