//! Attacks on the exactness of lists. Each test fails where the collector puts aside what exists at
//! GitHub, or misses a document without a failed job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use clinch::ports::{
    DocumentFilter, DocumentSink as _, Expected, Record, RecordList, RecordWrite, Records,
};
use clinch::testing::ManualClock;
use clinch::types::ErrorKind;
use clinch::{Error, Result};
use clinch_github::fake::{BASE, Fake, Setup, Size, World};
use clinch_github::{
    ApiAnswer, ApiRequest, Broken, Parts, Run, Settings, Space, Start, Token, Transport, selected,
};
use clinch_memory::Memory;
use serde_json::Value;

use crate::lab::{Lab, assert_whole, budgets, running};

const TOKEN: &str = "fake-robot-1";

/// What an API says to a request; `None`: what the fake says.
type Hook = dyn Fn(&ApiRequest) -> Option<ApiAnswer> + Send + Sync;

/// A fake whose answers a test may replace.
struct Hooked {
    fake: Fake,
    hook: Box<Hook>,
}

#[async_trait]
impl Transport for Hooked {
    async fn get(&self, request: &ApiRequest) -> std::result::Result<ApiAnswer, Broken> {
        // Other jobs come first, so that an order can be asked for.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        match (self.hook)(request) {
            Some(answer) => Ok(answer),
            None => self.fake.get(request).await,
        }
    }
}

/// Records that write a first page and then do not say so, once for each key, while they are armed: the
/// job that wrote it runs again, as after a crash.
struct Forgetful {
    memory: Memory,
    part: &'static str,
    is_armed: AtomicBool,
    done: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Records for Forgetful {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        self.memory.read_records(keys).await
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        let is_written = self.memory.write_records(writes).await?;
        let is_hit =
            |one: &&RecordWrite| one.key.contains(self.part) && one.key.ends_with("/000001");
        let hit = writes.iter().find(is_hit);
        if let Some(hit) = hit.filter(|_| self.is_armed.load(Ordering::SeqCst)) {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            if done.insert(hit.key.clone()) {
                return Err(Error::new(ErrorKind::Unavailable, "the answer was lost"));
            }
        }
        Ok(is_written)
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        self.memory.list_records(list).await
    }
}

fn settings(streams: &[&str], page_size: u32) -> Settings {
    let names: Vec<String> = streams.iter().map(|one| (*one).to_owned()).collect();
    let streams = selected(&names).expect("streams");
    Settings {
        api_url: BASE.parse().expect("an address"),
        tokens: vec![Token::new(TOKEN)],
        streams: clinch_github::with_needed(&streams),
        page_size,
        ..Settings::default()
    }
}

async fn lab(
    world: World,
    settings: Settings,
    part: &'static str,
    hook: impl Fn(&ApiRequest) -> Option<ApiAnswer> + Send + Sync + 'static,
) -> (Lab, Arc<Forgetful>) {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let records = Arc::new(Forgetful {
        memory: memory.clone(),
        part,
        is_armed: AtomicBool::new(false),
        done: Mutex::default(),
    });
    let fake = Fake::new(world, Setup::default(), clock.clone());
    let quota = budgets(&clock);
    let parts = Parts {
        settings,
        records: records.clone(),
        documents: Arc::new(memory.clone()),
        quota: quota.clone(),
        transport: Arc::new(Hooked {
            fake: fake.clone(),
            hook: Box::new(hook),
        }),
        inspect: Arc::new(memory.clone()),
        clock: clock.clone(),
    };
    let (collector, clinch) = running(parts, &memory, &clock, |builder| builder).await;
    let lab = Lab {
        records: Arc::new(crate::lab::Ambiguous::new(&memory)),
        quota,
        clock,
        memory,
        fake,
        collector,
        clinch,
    };
    (lab, records)
}

fn world(users: usize, seed: u64) -> World {
    let size = Size {
        users,
        repositories: 4,
        documents: 300,
    };
    World::generate(seed, &size)
}

/// Ids of the documents that were put aside.
async fn removed(lab: &Lab) -> BTreeSet<String> {
    let all = DocumentFilter::default();
    let page = lab.memory.scan(Space::Main.removed(), &all, None, 1_000);
    let page = page.await.expect("read").into_iter();
    page.map(|one| one.id).collect()
}

async fn ids(lab: &Lab, kind: &str) -> BTreeSet<String> {
    let is_it = |one: &&crate::lab::Bare| one.0 == kind;
    let all = lab.documents(Space::Main).await;
    all.iter().filter(is_it).map(|one| id(&one.3)).collect()
}

fn id(body: &str) -> String {
    let body: Value = serde_json::from_str(body).expect("JSON");
    body["id"].to_string()
}

async fn run_with(lab: &Lab, is_full: bool, streams: &[&str]) -> Run {
    let names: Vec<String> = streams.iter().map(|one| (*one).to_owned()).collect();
    let start = Start {
        is_full,
        streams: match names.is_empty() {
            true => Vec::new(),
            false => selected(&names).expect("streams"),
        },
        ..Start::default()
    };
    let run = lab.collector.start_with("octocat", &start).await;
    lab.end(&run.expect("it begins").run_id).await
}

/// Pages that the release before noted have no ids.
#[tokio::test]
async fn pages_of_the_earlier_release_do_not_put_anything_aside() {
    let (lab, records) = lab(world(1, 3), settings(&[], 100), "-", |_| None).await;
    assert_whole(&lab.run("octocat").await);
    for prefix in ["github/page/", "github/user/", "github/run/"] {
        let list = RecordList {
            prefix: prefix.to_owned(),
            descending: false,
            after: None,
            limit: 200,
        };
        for record in records.list_records(&list).await.expect("listed") {
            let mut body: BTreeMap<String, Value> =
                serde_json::from_str(&record.body).expect("an object");
            for new in [
                "ids",
                "count",
                "is_organization",
                "full_at",
                "full",
                "has_swept",
            ] {
                body.remove(new);
            }
            let write = RecordWrite {
                key: record.key,
                expected: Expected::Anything,
                body: Some(serde_json::to_string(&body).expect("JSON")),
            };
            assert!(records.write_records(&[write]).await.expect("written"));
        }
    }
    let run = lab.run("octocat").await;
    assert_whole(&run);
    assert_eq!(removed(&lab).await, BTreeSet::new());
    lab.assert_equal(&["octocat"]).await;
}

/// The second page of a list of pull requests fails: the reviews of the pull requests on it were
/// not asked for, and are not gone.
#[tokio::test]
async fn a_list_that_failed_does_not_put_aside_what_belongs_to_its_items() {
    let fails = Arc::new(AtomicBool::new(false));
    let is_on = fails.clone();
    let hook = move |request: &ApiRequest| {
        let is_it = request.url.contains("/pulls?") && request.url.contains("&page=2");
        (is_it && is_on.load(Ordering::SeqCst)).then(|| answer(502, "{}", &[]))
    };
    let world = world(1, 3).with_streams();
    let (lab, _) = lab(world, settings(&["review"], 5), "-", hook).await;
    assert_whole(&lab.run("octocat").await);
    fails.store(true, Ordering::SeqCst);
    let run = lab.run_full("octocat").await;
    assert!(run.jobs.failed > 0, "{run:?}");
    assert_eq!(removed(&lab).await, BTreeSet::new());
}

/// A job of a full run that is run again, because its process ended after it noted the page.
#[tokio::test]
async fn a_page_that_is_read_twice_still_asks_for_what_belongs_to_its_items() {
    let world = world(1, 3).with_streams();
    let settings = settings(&["review"], 5);
    let (lab, records) = lab(world, settings, "/page/octocat/repo_prs/", |_| None).await;
    assert_whole(&lab.run("octocat").await);
    records.is_armed.store(true, Ordering::SeqCst);
    let run = lab.run_full("octocat").await;
    assert_whole(&run);
    assert_eq!(removed(&lab).await, BTreeSet::new());
}

/// The same in a run that reads what changed: nothing says that reviews are missing.
#[tokio::test]
async fn a_first_page_that_is_read_twice_misses_no_review() {
    let world = world(1, 3).with_streams();
    let settings = settings(&["review"], 100);
    let (lab, records) = lab(world, settings, "/page/octocat/repo_prs/", |_| None).await;
    records.is_armed.store(true, Ordering::SeqCst);
    assert_whole(&lab.run("octocat").await);
    let is = ids(&lab, "review").await;
    let world = lab.world(&["octocat"]);
    let wanted = world.iter().filter(|one| one.0 == "review");
    assert_eq!(is, wanted.map(|one| id(&one.3)).collect());
}

/// A repository that went and came back is there again.
#[tokio::test]
async fn a_repository_that_comes_back_is_read_again() {
    let (lab, _) = lab(world(2, 6), settings(&[], 100), "-", |_| None).await;
    assert_whole(&lab.run("octocat").await);
    let names = lab.fake.with_world(|world| world.full_names());
    let count = |name: &String| {
        let all = lab.world(&["octocat"]);
        all.iter()
            .filter(|one| one.2 == format!("repo:{name}"))
            .count()
    };
    let own = names.iter().filter(|name| name.starts_with("octocat/"));
    let name = own.max_by_key(|name| count(name)).expect("one");
    let there = name.replace("octocat/", "hubot/");
    assert!(lab.fake.with_world(|world| world.transfer(name, "hubot")));
    assert_whole(&lab.run("octocat").await);
    assert!(!removed(&lab).await.is_empty(), "it was put aside");
    assert!(
        lab.fake
            .with_world(|world| world.transfer(&there, "octocat"))
    );
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
}

/// A repository was renamed, and the next run collects some streams only.
#[tokio::test]
async fn a_run_of_few_streams_puts_nothing_of_other_streams_aside() {
    let (lab, _) = lab(world(1, 3), settings(&[], 100), "-", |_| None).await;
    assert_whole(&lab.run("octocat").await);
    let issues = ids(&lab, "issue").await;
    let names = lab.fake.with_world(|world| world.full_names());
    for (n, name) in names.iter().enumerate() {
        assert!(
            lab.fake
                .with_world(|world| world.rename(name, &format!("new-{n}")))
        );
    }
    assert_whole(&run_with(&lab, true, &["commit"]).await);
    assert_eq!(ids(&lab, "issue").await, issues);
}

/// One repository is deleted, and another one gets its name.
#[tokio::test]
async fn a_repository_does_not_go_on_at_the_cursor_of_another() {
    let (lab, _) = lab(world(1, 3), settings(&[], 5), "-", |_| None).await;
    assert_whole(&lab.run("octocat").await);
    let names = lab.fake.with_world(|world| world.full_names());
    let count = |name: &&String| {
        let place = format!("repo:{name}");
        let all = lab.world(&["octocat"]);
        let is_it = |one: &&crate::lab::Bare| one.2 == place && one.0 == "issue";
        all.iter().filter(is_it).count()
    };
    let mut names: Vec<&String> = names.iter().collect();
    names.sort_by_key(count);
    let (kept, deleted) = (names[names.len() - 1], names[names.len() - 2]);
    let short = deleted.trim_start_matches("octocat/");
    lab.fake.with_world(|world| {
        assert!(world.delete_repository(deleted));
        assert!(world.rename(kept, short));
    });
    assert_whole(&lab.run("octocat").await);
    let wanted = lab.world(&["octocat"]);
    let wanted = wanted.iter().filter(|one| one.0 == "issue");
    let wanted: BTreeSet<String> = wanted.map(|one| id(&one.3)).collect();
    let is = ids(&lab, "issue").await;
    let missing: Vec<&String> = wanted.difference(&is).collect();
    assert!(missing.is_empty(), "{} are missing", missing.len());
}

fn answer(status: u16, body: &str, headers: &[(&str, &str)]) -> ApiAnswer {
    let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ApiAnswer {
        status,
        headers: headers.iter().map(header).collect(),
        body: body.as_bytes().to_vec(),
    }
}

/// One user with one repository.
fn basic(path: &str) -> Option<ApiAnswer> {
    let body = match path.split('?').next()? {
        "/rate_limit" => r#"{"resources":{"core":{"remaining":1000,"reset":1}}}"#,
        "/user" => r#"{"login":"robot"}"#,
        "/users/octocat" => r#"{"id":1,"login":"octocat","type":"User"}"#,
        "/users/octocat/repos" => r#"[{"id":7,"full_name":"octocat/hello"}]"#,
        _ => return None,
    };
    Some(answer(200, body, &[]))
}

/// A review arrives after the reviews were read and before the list is read again.
#[tokio::test]
async fn an_item_that_changes_again_during_a_run_is_read_again() {
    let reviewed = Arc::new(AtomicBool::new(false));
    let hook = move |request: &ApiRequest| {
        let path = request.url.strip_prefix(BASE).unwrap_or_default();
        if let Some(answer) = basic(path) {
            return Some(answer);
        }
        let pull = |number: u32, second: u32| {
            format!(
                r#"{{"id":{number},"number":{number},"updated_at":"2026-01-01T00:00:{second:02}Z"}}"#
            )
        };
        let is_reviewed = reviewed.load(Ordering::SeqCst);
        if path.contains("/pulls/1/reviews") {
            // Right after the first answer the review is submitted.
            let body = ["[]", r#"[{"id":50}]"#][usize::from(is_reviewed)];
            reviewed.store(true, Ordering::SeqCst);
            return Some(answer(200, body, &[]));
        }
        if path.contains("/reviews") {
            return Some(answer(200, "[]", &[]));
        }
        let link = format!(r#"<{BASE}/repos/octocat/hello/pulls?per_page=2&page=2>; rel="next""#);
        let list = match (
            path.contains("page=2&page=2") || path.ends_with("&page=2"),
            is_reviewed,
        ) {
            (true, _) => return Some(answer(200, &format!("[{}]", pull(3, 1)), &[])),
            (false, false) => format!("[{},{}]", pull(2, 3), pull(1, 2)),
            (false, true) => format!("[{},{}]", pull(2, 9), pull(1, 7)),
        };
        Some(answer(200, &list, &[("link", &link)]))
    };
    let (lab, _) = lab(world(1, 1), settings(&["review"], 2), "-", hook).await;
    assert_whole(&lab.run("octocat").await);
    assert_whole(&lab.run("octocat").await);
    assert_eq!(ids(&lab, "review").await, BTreeSet::from(["50".to_owned()]));
}

/// An imported issue, or a server whose clock was ahead: what changes later is read nevertheless.
#[tokio::test]
async fn an_issue_of_the_future_hides_no_other() {
    let round = Arc::new(AtomicU32::new(0));
    let now = round.clone();
    let hook = move |request: &ApiRequest| {
        let path = request.url.strip_prefix(BASE).unwrap_or_default();
        if let Some(answer) = basic(path) {
            return Some(answer);
        }
        let all = [
            (1, "2026-01-01T00:00:00Z"),
            (2, "2026-12-31T00:00:00Z"),
            (9, "2099-01-01T00:00:00Z"),
        ];
        let since = path.split("since=").nth(1).unwrap_or_default();
        let since = since.replace("%3A", ":");
        let is_there = |(id, at): &&(u32, &str)| {
            *at >= since.as_str() && (*id != 2 || round.load(Ordering::SeqCst) > 0)
        };
        let rows = all.iter().filter(is_there).take(2);
        let rows = rows.map(|(id, at)| format!(r#"{{"id":{id},"updated_at":"{at}"}}"#));
        let rows: Vec<String> = rows.collect();
        Some(answer(200, &format!("[{}]", rows.join(",")), &[]))
    };
    let (lab, _) = lab(world(1, 1), settings(&["issue"], 2), "-", hook).await;
    assert_whole(&lab.run("octocat").await);
    now.store(1, Ordering::SeqCst);
    let run = lab.run("octocat").await;
    assert_whole(&run);
    assert!(!run.is_full);
    let wanted = ["1", "2", "9"].map(str::to_owned);
    assert_eq!(ids(&lab, "issue").await, BTreeSet::from(wanted));
}

/// A page of a hundred repositories, with every stream of each.
#[tokio::test]
async fn a_page_of_repositories_begins_every_stream_of_each() {
    let size = Size {
        users: 1,
        repositories: 60, // of 18 streams each
        documents: 300,
    };
    let world = World::generate(3, &size).with_streams();
    let (lab, _) = lab(world, settings(&["all"], 100), "-", |_| None).await;
    let run = lab.run("octocat").await;
    assert_whole(&run);
    lab.assert_equal(&["octocat"]).await;
}
