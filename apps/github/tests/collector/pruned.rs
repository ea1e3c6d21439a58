//! Records of old runs are deleted when a run ends.

use std::time::Duration;

use crate::lab::{Lab, assert_whole};
use clinch::ports::{Expected, RecordList, RecordWrite, Records as _};
use clinch::testing::advance;
use clinch::types::ErrorKind;
use clinch_github::fake::{Setup, Size, World};
use clinch_github::{RunId, Schedule, Token};

const TOKEN: &str = "fake-robot-1";
const HOUR: Duration = Duration::from_secs(60 * 60);

fn world() -> World {
    let size = Size {
        users: 1,
        repositories: 0,
        documents: 3,
    };
    World::generate(1, &size)
}

async fn keys(lab: &Lab, prefix: &str) -> usize {
    let list = RecordList {
        prefix: prefix.to_owned(),
        descending: false,
        after: None,
        limit: 1_000,
    };
    lab.memory.list_records(&list).await.expect("listed").len()
}

#[tokio::test]
async fn col_1_runs_are_kept_for_a_time() {
    let lab = Lab::with(world(), Setup::default(), |settings| {
        settings.tokens = vec![Token::new(TOKEN)];
        settings.schedule = vec![Schedule::new("octocat", "0 * * * *").expect("a schedule")];
        settings.keep_runs = 20 * HOUR;
    })
    .await;
    advance(&lab.clock, 40 * HOUR).await;
    let (runs, _) = lab.collector.runs(None, 500).await.expect("listed");
    assert_eq!(runs[0].run_id.number, 40);
    // The newest, and those that ended within twenty hours before.
    assert_eq!(runs.len(), 21);
    assert_eq!(keys(&lab, "github/run/").await, 21);
    assert_eq!(keys(&lab, "github-recent/").await, 21);
    assert_eq!(keys(&lab, "github-begun/").await, 21);
    let id: RunId = "octocat.1".parse().expect("a run");
    let gone = lab.collector.run(&id).await.expect_err("it is deleted");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_1_the_newest_ten_runs_are_kept_however_old_they_are() {
    let lab = Lab::with(world(), Setup::default(), |settings| {
        settings.tokens = vec![Token::new(TOKEN)];
        settings.keep_runs = Duration::from_secs(1);
    })
    .await;
    for number in 1..=15 {
        let run = lab.run("octocat").await;
        assert_whole(&run);
        assert_eq!(run.run_id.number, number);
        advance(&lab.clock, HOUR).await;
    }
    let (runs, _) = lab.collector.runs(None, 500).await.expect("listed");
    assert_eq!(runs.len(), 10);
    assert_eq!(runs[0].run_id.number, 15);
}

#[tokio::test]
async fn col_1_the_progress_of_a_run_goes_with_its_record() {
    let lab = Lab::with(world(), Setup::default(), |settings| {
        settings.tokens = vec![Token::new(TOKEN)];
        settings.keep_runs = Duration::from_secs(1);
    })
    .await;
    for number in 1..=15 {
        assert_whole(&lab.run("octocat").await);
        // As a run leaves it that failed, or a process that counts while the run is finished.
        let left = RecordWrite {
            key: format!("github/tally/octocat/{number:010}/00000000000000a1"),
            expected: Expected::Absent,
            body: Some("{}".to_owned()),
        };
        let written = lab.memory.write_records(&[left]).await;
        assert!(written.expect("written"));
        advance(&lab.clock, HOUR).await;
    }
    assert_eq!(keys(&lab, "github/run/").await, 10);
    assert_eq!(keys(&lab, "github/tally/").await, 10);
    assert_eq!(keys(&lab, "github/tally/octocat/0000000005/").await, 0);
    assert_eq!(keys(&lab, "github/tally/octocat/0000000006/").await, 1);
}
