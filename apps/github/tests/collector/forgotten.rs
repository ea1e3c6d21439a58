//! What is forgotten stays forgotten.

use std::time::Duration;

use clinch::ports::{RecordList, Records as _};
use clinch::testing::advance;
use clinch::types::ErrorKind;
use clinch_github::fake::{Setup, Size, World};
use clinch_github::{RunStatus, Space, Trigger};

use crate::lab::{Lab, assert_whole};

const TOKEN: &str = "fake-robot-1";
const LATENCY: Duration = Duration::from_secs(10);

fn world() -> World {
    let size = Size {
        users: 1,
        repositories: 4,
        documents: 200,
    };
    World::generate(9, &size)
}

/// The keys of all records that name the user, except the number of the latest run.
async fn records(lab: &Lab) -> Vec<String> {
    let all = RecordList {
        prefix: String::new(),
        descending: false,
        after: None,
        limit: 1_000,
    };
    let found = lab.memory.list_records(&all).await.expect("listed");
    let keys = found.into_iter().map(|one| one.key);
    let keys = keys.filter(|key| key.contains("octocat") && key != "github/user/octocat");
    keys.collect()
}

#[tokio::test]
async fn col_17_a_request_in_flight_stores_nothing_after_its_user_was_forgotten() {
    let setup = Setup {
        latency: LATENCY,
        ..Setup::default()
    };
    let mut conflicts = 0;
    // In every round the run is canceled somewhere else.
    for round in 1.. {
        let lab = Lab::new(world(), setup.clone(), &[TOKEN]).await;
        let run = lab.collector.start("octocat", Trigger::Manual, Space::Main);
        let id = run.await.expect("begun").run_id;
        advance(&lab.clock, LATENCY * round - LATENCY / 2).await;
        let run = lab.collector.run(&id).await.expect("read");
        if run.status != RunStatus::Running {
            assert!(conflicts > 0, "a request was in flight");
            return;
        }
        lab.collector
            .cancel(&id, "wrong user")
            .await
            .expect("canceled");
        // Only a run whose jobs all wait is forgotten at once; that must hold too.
        if let Err(refused) = lab.collector.forget("octocat").await {
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
            conflicts += 1;
        }
        advance(&lab.clock, LATENCY * 2).await;
        lab.collector
            .forget("octocat")
            .await
            .expect("known, and forgotten");
        for _ in 0..10 {
            advance(&lab.clock, LATENCY).await;
        }
        assert_eq!(lab.documents(Space::Main).await, [], "{round}");
        assert_eq!(records(&lab).await, Vec::<String>::new(), "{round}");
        // Nothing is known, so nothing is skipped.
        let run = lab.run("octocat").await;
        assert_whole(&run);
        assert_eq!(run.pages.not_modified, 0, "{run:?}");
        lab.assert_equal(&["octocat"]).await;
    }
}

/// A completed run may have a repair whose jobs are still running.
#[tokio::test]
async fn col_17_a_repair_in_flight_is_waited_for() {
    let name = world().full_names().swap_remove(0);
    let setup = Setup {
        faults: clinch_github::fake::Faults::none().repository(&name, 502),
        latency: LATENCY,
        ..Setup::default()
    };
    let lab = Lab::new(world(), setup, &[TOKEN]).await;
    let run = lab.run("octocat").await;
    assert!(run.jobs.failed > 0, "{run:?}");
    lab.fake.set_faults(clinch_github::fake::Faults::none());
    lab.collector.retry(&run.run_id).await.expect("retried");
    advance(&lab.clock, LATENCY / 2).await;
    let refused = lab
        .collector
        .forget("octocat")
        .await
        .expect_err("a repair is running");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    advance(&lab.clock, LATENCY * 60).await;
    lab.collector.forget("octocat").await.expect("forgotten");
    advance(&lab.clock, LATENCY * 60).await;
    assert_eq!(lab.documents(Space::Main).await, []);
    assert_eq!(records(&lab).await, Vec::<String>::new());
}
