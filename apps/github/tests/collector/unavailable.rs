//! Repositories that the API does not give: gone, blocked or empty.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lab::{Lab, assert_whole};
use clinch::testing::advance;
use clinch_github::fake::{Faults, Setup, Size, World};
use clinch_github::{JobFilter, JobState, RunStatus, Space, Trigger};

const TOKEN: &str = "fake-robot-1";

fn world() -> World {
    let size = Size {
        users: 1,
        repositories: 8,
        documents: 600,
    };
    World::generate(5, &size)
}

#[tokio::test]
async fn col_16_unavailable_repositories_are_named_and_counted_apart() {
    let names = world().full_names();
    let statuses = [403, 404, 410, 451];
    let pairs: Vec<_> = names.iter().zip(statuses).collect();
    let refused = |all: Faults, (name, status): &(&String, u16)| all.repository(name, *status);
    let setup = Setup {
        faults: pairs.iter().fold(Faults::none(), refused),
        ..Setup::default()
    };
    let lab = Lab::new(world(), setup, &[TOKEN]).await;
    let run = lab.run("octocat").await;
    assert_eq!((run.status, run.jobs.failed), (RunStatus::Completed, 0));
    let jobs = run.jobs;
    assert_eq!((jobs.unavailable, jobs.open()), (4 * 3, 0), "{jobs:?}");
    assert_eq!(jobs.succeeded + jobs.unavailable, jobs.total);
    let named: BTreeSet<_> = run.unavailable.iter().map(|one| &one.resource).collect();
    assert_eq!(named.len(), 4);
    for (name, status) in &pairs {
        let resource = format!("repo:{name}");
        let one = run.unavailable.iter().find(|one| one.resource == resource);
        let reason = &one.expect("it is named").reason;
        assert!(reason.starts_with(&format!("HTTP {status}: ")), "{reason}");
    }
    let filter = JobFilter {
        state: Some(JobState::Unavailable),
        ..JobFilter::default()
    };
    let listed = lab.collector.jobs(&run.run_id, &filter, None, 500).await;
    let (listed, _) = listed.expect("jobs");
    assert_eq!(listed.len(), 12);
    assert!(listed.iter().all(|job| job.attempts == 1), "asked for once");
    // When they are back, the next run reads them whole.
    lab.fake.set_faults(Faults::none());
    let next = lab.run("octocat").await;
    assert_whole(&next);
    let empty = "repo:octocat/meadow-2";
    let named: Vec<_> = next.unavailable.iter().map(|one| &*one.resource).collect();
    assert_eq!((named, next.jobs.unavailable), (vec![empty], 1));
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_16_an_active_run_tells_what_is_unavailable() {
    let name = world().full_names().swap_remove(0);
    let setup = Setup {
        faults: Faults::none().repository(&name, 451),
        latency: Duration::from_secs(5),
        ..Setup::default()
    };
    let lab = Lab::with(world(), setup, |settings| settings.concurrency = 4).await;
    let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
    let id = run.await.expect("it begins").run_id;
    loop {
        advance(&lab.clock, Duration::from_secs(1)).await;
        let progress = lab.collector.progress(&id).await.expect("read");
        assert_eq!(progress.run.status, RunStatus::Running, "told too late");
        let kinds = progress.kinds.values();
        let counted: u64 = kinds.map(|jobs| jobs.unavailable).sum();
        assert_eq!(progress.run.jobs.unavailable, counted);
        if counted > 0 {
            assert_eq!(progress.run.unavailable.len(), 1, "{progress:?}");
            break;
        }
    }
}

#[tokio::test]
async fn col_16_a_user_who_is_gone_is_a_failure() {
    let lab = Lab::new(world(), Setup::default(), &[TOKEN]).await;
    let run = lab.run("nobody").await;
    assert_eq!((run.jobs.failed, run.jobs.unavailable), (2, 0));
}
