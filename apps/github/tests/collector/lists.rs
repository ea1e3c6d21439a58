//! Long lists, busy lists and large documents.

use std::collections::BTreeSet;

use clinch::ports::{DocumentFilter, DocumentSink as _, Record, RecordList, Records as _};
use clinch_github::fake::{BASE, Kind, Setup, Size, World};
use clinch_github::{JobFilter, JobState, Run, Settings, Space, Token, selected};

use crate::lab::{Lab, assert_whole};

const NAME: &str = "octocat/";

/// One user with few repositories, of which streams are collected that are named here.
async fn lab(streams: &[&str], page_size: u32) -> (Lab, String) {
    let size = Size {
        users: 1,
        repositories: 2,
        documents: 60,
    };
    let world = World::generate(3, &size).with_streams();
    let names = world.full_names();
    let streams: Vec<String> = streams.iter().map(|one| (*one).to_owned()).collect();
    let lab = Lab::with(world, Setup::default(), |settings| {
        *settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            streams: selected(&streams).expect("streams"),
            page_size,
            ..Settings::default()
        };
    })
    .await;
    let is_used = |name: &&String| {
        let has = lab
            .fake
            .with_world(|world| world.add(name, Kind::Stargazer, 0));
        name.starts_with(NAME) && has
    };
    let name = names
        .iter()
        .find(is_used)
        .expect("one with commits")
        .clone();
    (lab, name)
}

/// The documents of these kinds equal the world's.
async fn assert_equal(lab: &Lab, kinds: &[&str]) {
    let is_of = |one: &crate::lab::Bare| kinds.contains(&one.0.as_str());
    let mut is = lab.documents(Space::Main).await;
    let mut wanted = lab.world(&["octocat"]);
    is.retain(is_of);
    wanted.retain(is_of);
    assert_eq!(is.len(), wanted.len());
    let first = is.iter().zip(&wanted).find(|(is, wanted)| is != wanted);
    assert_eq!(first, None, "the first that differs");
}

#[tokio::test]
async fn col_9_a_commit_keeps_the_files_of_all_of_its_pages() {
    for files in [299, 300, 301, 900, 2_999] {
        let (lab, name) = lab(&["commit_detail"], 100).await;
        assert!(lab.fake.with_world(|world| world.set_files(&name, files)));
        assert_whole(&lab.run("octocat").await);
        assert_equal(&lab, &["commit", "commit_detail"]).await;
        // Read again, it is the same.
        lab.records.lose_each_once();
        assert_whole(&lab.run_full("octocat").await);
        assert_equal(&lab, &["commit", "commit_detail"]).await;
    }
}

/// The jobs that name what is unavailable.
async fn unavailable(lab: &Lab, run: &Run) -> Vec<String> {
    let filter = JobFilter {
        state: Some(JobState::Unavailable),
        ..JobFilter::default()
    };
    let jobs = lab.collector.jobs(&run.run_id, &filter, None, 100).await;
    let (jobs, _) = jobs.expect("jobs");
    let told = |job: clinch_github::Job| format!("{} {}", job.resource, job.error.expect("why"));
    jobs.into_iter().map(told).collect()
}

#[tokio::test]
async fn col_9_a_list_that_the_api_cuts_is_named_and_nothing_of_it_is_put_aside() {
    let (lab, name) = lab(&["release"], 100).await;
    lab.fake.with_world(|world| {
        world.add(&name, Kind::Release, 10_050);
        world.show_at_most("releases", 10_000);
    });
    let run = lab.run("octocat").await;
    assert_eq!((run.jobs.failed, run.jobs.unavailable), (0, 1), "{run:?}");
    let told = unavailable(&lab, &run).await;
    assert!(
        told[0].contains(&name) && told[0].contains("10,000"),
        "{told:?}"
    );
    let count = |lab: &Lab| {
        let memory = lab.memory.clone();
        async move {
            let all = memory.count(Space::Main.collection(), None).await;
            all.expect("counted").remove("release").expect("releases")
        }
    };
    let before = count(&lab).await;
    assert!(before >= 10_000);
    // Newer ones push the oldest beyond the end of what the API shows.
    lab.fake
        .with_world(|world| world.add(&name, Kind::Release, 30));
    let next = lab.run_full("octocat").await;
    assert_eq!(
        (next.pages.removed, next.jobs.unavailable),
        (0, 1),
        "{next:?}"
    );
    assert_eq!(count(&lab).await, before + 30);
}

#[tokio::test]
async fn col_9_a_commit_of_more_files_than_the_api_shows_is_named() {
    let (lab, name) = lab(&["commit_detail"], 100).await;
    assert!(lab.fake.with_world(|world| world.set_files(&name, 3_500)));
    let run = lab.run("octocat").await;
    let told = unavailable(&lab, &run).await;
    let told: Vec<_> = told
        .iter()
        .filter(|one| !one.contains("is empty"))
        .collect();
    assert_eq!((run.jobs.failed, told.len()), (0, 1), "{run:?}");
    assert!(told[0].contains("3,000 files"), "{told:?}");
    let filter = DocumentFilter {
        kind: Some("commit_detail".to_owned()),
        ..DocumentFilter::default()
    };
    let all = lab
        .memory
        .scan(Space::Main.collection(), &filter, None, 1_000);
    let all = all.await.expect("read");
    let files = |one: &clinch::ports::Document| {
        let body: serde_json::Value = serde_json::from_str(&one.body).expect("JSON");
        body["files"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(all.iter().map(files).max(), Some(3_000));
    // It is as complete as it can be, and is not read again.
    let requests = lab.fake.tally().requests;
    assert_whole(&lab.run("octocat").await);
    assert!(lab.fake.tally().requests - requests < 10);
}

/// Lists of a repository in which something happens with each request.
#[tokio::test]
async fn col_4_busy_lists_are_read_to_their_end() {
    let kinds = ["pull_request", "issue_event", "stargazer", "deployment"];
    let (lab, name) = lab(&kinds, 10).await;
    lab.fake.with_world(|world| {
        world.open_pulls(&name, 400);
        for kind in [Kind::IssueEvent, Kind::Stargazer, Kind::Deployment] {
            world.add(&name, kind, 300);
        }
        world.keep_busy(Some(&name));
    });
    let before = lab.fake.tally().requests;
    let run = lab.run("octocat").await;
    assert_whole(&run);
    let requests = lab.fake.tally().requests - before;
    // 130 pages at the beginning, to which each request adds; they are read twice, not eight times.
    assert!(requests < 600, "{requests} requests");
    // The next run reads what changed, while everything goes on changing.
    let (world, before) = (lab.world(&["octocat"]), lab.fake.tally().requests);
    let next = lab.run("octocat").await;
    assert_whole(&next);
    assert!(!next.is_full);
    let requests = lab.fake.tally().requests - before;
    // About 40 pages of pull requests, 50 of events and 150 of the others, to which each request adds.
    assert!(requests < 1_500, "{requests} requests");
    let ids = |documents: Vec<crate::lab::Bare>| -> BTreeSet<(String, String)> {
        let documents = documents.into_iter();
        let of_kinds = documents.filter(|one| kinds.contains(&one.0.as_str()));
        of_kinds.map(|one| (name_of(&one), one.0)).collect()
    };
    let (wanted, is) = (ids(world), ids(lab.documents(Space::Main).await));
    let missed: Vec<_> = wanted.difference(&is).collect();
    assert!(missed.is_empty(), "{missed:?}");
    // The next runs come to rest.
    lab.fake.with_world(|world| world.keep_busy(None));
    assert_whole(&lab.run("octocat").await);
    assert_equal(&lab, &kinds).await;
    let requests = lab.fake.tally().requests;
    assert_whole(&lab.run("octocat").await);
    assert_equal(&lab, &kinds).await;
    let requests = lab.fake.tally().requests - requests;
    let most = lab.world(&["octocat"]).len() as u64 / 10;
    assert!(
        requests < most,
        "{requests} requests: of lists that are read whole, every page"
    );
}

/// What tells a document from others of its kind and place.
fn name_of((_, _, place, body): &crate::lab::Bare) -> String {
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let user = body.pointer("/user/id").filter(|_| body["id"].is_null());
    format!("{place} {}", user.unwrap_or(&body["id"]))
}

/// The records whose keys begin so.
async fn records(lab: &Lab, prefix: &str) -> Vec<Record> {
    let list = RecordList {
        prefix: prefix.to_owned(),
        descending: false,
        after: None,
        limit: 1_000,
    };
    lab.memory.list_records(&list).await.expect("listed")
}

#[tokio::test]
async fn col_4_records_do_not_grow_with_each_new_token() {
    let (mut lab, _) = lab(&["issue"], 100).await;
    let mut most = 0;
    for number in 0..40 {
        let token = format!("fake-user{number}-1");
        let settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new(token)],
            streams: selected(&["issue".to_owned()]).expect("streams"),
            ..Settings::default()
        };
        lab = lab.restarted_with(settings).await;
        assert_whole(&lab.run("octocat").await);
        for cursor in records(&lab, "github/cursor/octocat/repo_issues/").await {
            let cursor: serde_json::Value = serde_json::from_str(&cursor.body).expect("JSON");
            most = most.max(cursor["etags"].as_object().map_or(0, |etags| etags.len()));
        }
    }
    assert_eq!(most, 32, "each token has earned its own, up to a bound");
    // Of replaced tokens nothing is left.
    assert_eq!(records(&lab, "github-token/").await.len(), 1);
}
