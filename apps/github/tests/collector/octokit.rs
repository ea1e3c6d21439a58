//! Exchanges that were recorded at the real API, from the npm package `@octokit/fixtures`.
//!
//! The package is fetched once and kept in the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use clinch::Route;
use clinch::ports::{DocumentFilter, DocumentSink};
use clinch::testing::{ManualClock, advance};
use clinch::types::Settled;
use clinch_github::fake::Replay;
use clinch_github::{
    ApiAnswer, ApiRequest, Broken, FirstPage, JobKind, PageDone, PageEnd, PageJob, Repository,
    Settings, Transport,
};
use clinch_memory::Memory;
use serde_json::Value;

use crate::lab::collector;
use crate::trouble::note_run;

const VERSION: &str = "23.1.2";
const API: &str = "https://api.github.com";

/// Fetched once per process.
static PACKAGE: LazyLock<Result<PathBuf, String>> = LazyLock::new(package);

/// The unpacked package; other test processes may fetch it at the same time.
fn package() -> Result<PathBuf, String> {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let home = tools.join(format!("octokit-fixtures-{VERSION}"));
    if home.join("package/scenarios").is_dir() {
        return Ok(home.join("package"));
    }
    let own = tools.join(format!("octokit-fixtures-{}", std::process::id()));
    std::fs::create_dir_all(&own).map_err(|error| error.to_string())?;
    let name = format!("@octokit/fixtures@{VERSION}");
    run(Command::new("npm").args(["pack", &name]).current_dir(&own))?;
    let archive = format!("octokit-fixtures-{VERSION}.tgz");
    run(Command::new("tar")
        .args(["xzf", &archive])
        .current_dir(&own))?;
    // The second process finds it there.
    if std::fs::rename(&own, &home).is_err() {
        let _ = std::fs::remove_dir_all(&own);
    }
    Ok(home.join("package"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

fn scenario(name: &str) -> Replay {
    let package = PACKAGE.as_ref();
    let package = package.expect("npm fetches @octokit/fixtures");
    let folder = package.join("scenarios/api.github.com").join(name);
    Replay::scenario(&folder.join("normalized-fixture.json")).expect("a scenario")
}

async fn get(replay: &Replay, url: &str) -> Result<ApiAnswer, Broken> {
    let request = ApiRequest {
        url: url.to_owned(),
        token: None,
        if_none_match: None,
        accept: None,
    };
    replay.get(&request).await
}

fn json(answer: &ApiAnswer) -> Value {
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn next(answer: &ApiAnswer) -> Option<String> {
    let mut links = answer.header("link")?.split(", ");
    let next = links.find_map(|link| link.strip_suffix("; rel=\"next\""))?;
    Some(next.trim_matches(['<', '>']).to_owned())
}

#[tokio::test]
async fn recorded_pages_are_walked_by_their_links() {
    let replay = scenario("paginate-issues");
    let mut numbers = Vec::new();
    let mut url = Some(format!(
        "{API}/repos/octokit-fixture-org/paginate-issues/issues?per_page=3"
    ));
    let mut pages = 0;
    while let Some(page) = url {
        let answer = get(&replay, &page).await.expect("a recorded page");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("5000"));
        assert_eq!(answer.header("x-ratelimit-used"), Some("1"));
        let issues = json(&answer);
        let issues = issues.as_array().expect("a list").iter();
        numbers.extend(issues.filter_map(|issue| issue["number"].as_u64()));
        pages += 1;
        url = next(&answer);
    }
    assert_eq!(pages, 5);
    assert!(numbers.into_iter().eq((1..=13).rev()));
}

#[tokio::test]
async fn a_recorded_rename_leads_to_the_repository_by_its_id() {
    let replay = scenario("rename-repository");
    let old = format!("{API}/repos/octokit-fixture-org/rename-repository");
    let moved = get(&replay, &old).await.expect("a recorded answer");
    assert_eq!(moved.status, 301);
    assert_eq!(json(&moved)["message"], "Moved Permanently");
    let location = moved.header("location").expect("a location");
    assert_eq!(json(&moved)["url"], location);
    let here = get(&replay, location).await.expect("a recorded answer");
    assert_eq!(here.status, 200);
    let name = "octokit-fixture-org/rename-repository-newname";
    assert_eq!(json(&here)["full_name"], name);
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_record_and_the_last_one_stays() {
    let replay = scenario("git-refs");
    let url = format!("{API}/repos/octokit-fixture-org/git-refs/git/refs/");
    let mut counts = Vec::new();
    for _ in 0..3 {
        let answer = get(&replay, &url).await.expect("a recorded answer");
        counts.push(json(&answer).as_array().map(Vec::len));
    }
    assert_ne!(counts[0], counts[1]);
    assert_eq!(counts[1], counts[2]);
}

#[tokio::test]
async fn what_was_not_recorded_is_named() {
    let replay = scenario("rename-repository");
    let url = format!("{API}/users/octocat?b=2&a=1");
    let asked = get(&replay, &url).await;
    assert!(
        matches!(&asked, Err(Broken::NotSent(why)) if why.contains("/users/octocat?a=1&b=2 was not recorded")),
        "{asked:?}"
    );
}

/// A collector on a recording, with one job that begins at a recorded address.
struct Recorded {
    memory: Memory,
    done: PageDone,
    jobs: usize,
}

async fn collect(name: &str, kind: JobKind, url: &str) -> Recorded {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let login = "octokit-fixture-org";
    note_run(&memory, login, "RUNNING").await;
    let documents = Arc::new(memory.clone());
    let replay = Arc::new(scenario(name));
    let settings = Settings::default();
    let (collector, clinch) = collector(settings, &memory, documents, replay, &clock).await;
    let job = PageJob {
        run_id: format!("{login}.1").parse().expect("a run"),
        kind,
        repository: (kind != JobKind::USER_BASIC).then(|| Repository {
            default_branch: None,
            id: 1,
            full_name: format!("{login}/{name}"),
        }),
        page: 1,
        hops: 0,
        url: Some(url.to_owned()),
        since: None,
        seen: FirstPage::default(),
        is_full: false,
        is_owed: false,
        item: kind.as_str().starts_with("issue_").then(|| "1".to_owned()),
        search: None,
        bounds: clinch_github::Bounds::default(),
        history: None,
        pass: clinch_github::Pass::default(),
        reading: clinch_github::Reading::default(),
    };
    let route: Route<PageJob, PageDone> = Route::new("github", kind.as_str());
    let batch_id = job.run_id.batch("jobs", 0);
    let batch = clinch
        .batch_as::<()>(batch_id, None)
        .await
        .expect("a batch");
    let accepted = batch.add(vec![route.request("recorded", "1", &job)]).await;
    let op_id = accepted.expect("accepted").remove(0).expect("accepted");
    batch.seal().await.expect("sealed");
    advance(&clock, Duration::from_secs(600)).await;
    let handle = clinch.look(&route, op_id).await.expect("there");
    let Some(Settled::Completed(done)) = handle.settled() else {
        panic!("{:?}", handle.settled());
    };
    let filter = clinch_github::JobFilter::default();
    let jobs = collector.jobs(&job.run_id, &filter, None, 100).await;
    clinch.stop();
    Recorded {
        memory,
        done: done.value.clone(),
        jobs: jobs.expect("jobs").0.len(),
    }
}

#[tokio::test]
async fn col_3_the_collector_follows_recorded_pages() {
    let url = format!("{API}/repos/octokit-fixture-org/paginate-issues/issues?per_page=3");
    // A stream whose pages lead to each other by their links.
    let kind = JobKind::named("reaction").expect("a stream");
    let recorded = collect("paginate-issues", kind, &url).await;
    assert_eq!(recorded.jobs, 5, "one request, one job");
    assert_eq!(recorded.done.documents, 3);
    let filter = DocumentFilter::default();
    let issues = recorded.memory.scan("github", &filter, None, 100).await;
    let issues = issues.expect("read");
    let number = |body: &str| -> Option<u64> {
        serde_json::from_str::<Value>(body).ok()?["number"].as_u64()
    };
    let mut numbers: Vec<_> = issues.iter().filter_map(|one| number(&one.body)).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=13));
}

#[tokio::test]
async fn the_collector_follows_a_recorded_rename() {
    // The only kind whose page is a single object.
    let url = format!("{API}/repos/octokit-fixture-org/rename-repository");
    let recorded = collect("rename-repository", JobKind::USER_BASIC, &url).await;
    assert_eq!(recorded.done.end, PageEnd::Moved);
    let filter = DocumentFilter::default();
    let found = recorded.memory.scan("github", &filter, None, 100).await;
    let found = found.expect("read");
    assert_eq!(found.len(), 1);
    let body: Value = serde_json::from_str(&found[0].body).expect("JSON");
    assert_eq!(
        body["full_name"],
        "octokit-fixture-org/rename-repository-newname"
    );
}
