//! The weekly figures: equal to the documents, kept up run by run, given up with an alert.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::lab::{Bare, Lab, assert_whole, collector_with};
use async_trait::async_trait;
use clinch::ports::{
    Alert, AlertNote, Document, DocumentFilter, DocumentName, DocumentSink, Expected, RecordList,
    RecordWrite, Records,
};
use clinch::testing::{ManualClock, advance};
use clinch::types::ErrorKind;
use clinch::{Error, Result};
use clinch_github::fake::{BASE, Fake, Kind, Setup, Size, World};
use clinch_github::{
    Activity, Collector, Durations, JobKind, RunStatus, Settings, Space, Start, Statistics, Token,
    Trigger, WeeklyStatistics,
};
use clinch_memory::Memory;
use serde_json::{Value, json};

const TOKEN: &str = "fake-robot-1";
const USER: &str = "octocat";
/// As many as the statistics keep.
const ALL_WEEKS: usize = 520;

fn world(seed: u64) -> World {
    let size = Size {
        users: 2,
        repositories: 8,
        documents: 900,
    };
    World::generate(seed, &size)
}

/// A sink that tells which places were scanned, and can refuse scans.
struct Watched {
    memory: Memory,
    scanned: Mutex<BTreeSet<String>>,
    refuses_scans: AtomicBool,
}

impl Watched {
    fn new(memory: Memory) -> Arc<Self> {
        Arc::new(Self {
            memory,
            scanned: Mutex::default(),
            refuses_scans: AtomicBool::new(false),
        })
    }

    /// The places that were scanned since the last call.
    fn scanned(&self) -> BTreeSet<String> {
        let mut scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *scanned)
    }
}

#[async_trait]
impl DocumentSink for Watched {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        self.memory.upsert(collection, documents).await
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        if self.refuses_scans.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the sink is away"));
        }
        {
            let mut scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
            scanned.extend(filter.resource.clone());
        }
        self.memory.scan(collection, filter, after, limit).await
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        self.memory.count(collection, user).await
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        self.memory.clear(collection, filter).await
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        DocumentSink::list(&self.memory, collection, filter, after, limit).await
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        self.memory.relocate(from, to, ids).await
    }
}

async fn watched(seed: u64) -> (Lab, Arc<Watched>) {
    Lab::with_sink(world(seed), Setup::default(), &[TOKEN], Watched::new).await
}

/// What the test itself counts: by the date of the Monday.
type Expectation = BTreeMap<String, Activity>;

fn monday(time: &Value) -> Option<String> {
    let time: jiff::Timestamp = time.as_str()?.parse().expect("a time");
    let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
    let days = i64::from(date.weekday().to_monday_zero_offset());
    let monday = date.checked_sub(jiff::Span::new().days(days));
    Some(monday.expect("a date").to_string())
}

fn minutes(from: &Value, to: &Value) -> u64 {
    let second = |time: &Value| {
        let time = time.as_str().expect("a time");
        let time: jiff::Timestamp = time.parse().expect("a time");
        time.as_second()
    };
    u64::try_from(second(to) - second(from)).expect("later") / 60
}

/// Counts the documents of a user, or of one of its repositories, from nothing.
fn expected(documents: &[Bare], user: &str, repository: Option<&str>) -> Expectation {
    let mut weeks = Expectation::new();
    for (kind, of, resource, body) in documents {
        let is_wanted = repository.is_none_or(|name| *resource == format!("repo:{name}"));
        if of != user || !is_wanted {
            continue;
        }
        let body: Value = serde_json::from_str(body).expect("JSON");
        let mut at = |time: &Value, count: &dyn Fn(&mut Activity)| {
            if let Some(monday) = monday(time) {
                count(weeks.entry(monday).or_default());
            }
        };
        let (created, closed) = (&body["created_at"], &body["closed_at"]);
        match kind.as_str() {
            "commit" => at(&body["commit"]["committer"]["date"], &|week| {
                week.commits += 1;
                week.own_commits += u64::from(body["author"]["login"] == user);
            }),
            "issue" => {
                at(created, &|week| week.issues_opened += 1);
                at(closed, &|week| week.issues_closed += 1);
            }
            "pull_request" => {
                at(created, &|week| week.pull_requests_opened += 1);
                at(&body["merged_at"], &|week| {
                    week.pull_requests_merged += 1;
                    week.lead_time.add(minutes(created, &body["merged_at"]));
                });
                if body["merged_at"].is_null() {
                    at(closed, &|week| week.pull_requests_closed += 1);
                }
            }
            "event" => at(created, &|week| {
                let name = body["type"].as_str().expect("a type").to_owned();
                *week.events.entry(name).or_default() += 1;
            }),
            _ => {}
        }
    }
    weeks
}

fn sum(weeks: &Expectation) -> Activity {
    let mut sum = Activity::default();
    weeks.values().for_each(|week| sum.merge(week));
    sum
}

/// Asserts that the figures are those of the documents, week by week.
#[track_caller]
fn assert_counted(is: &WeeklyStatistics, documents: &[Bare], repository: Option<&str>) {
    let expected = expected(documents, USER, repository);
    assert_eq!(is.stale, 0);
    assert_eq!(is.all_time, sum(&expected));
    assert_eq!(is.weeks.len(), ALL_WEEKS);
    let mut known = 0;
    for (week, activity) in &is.weeks {
        let expected = expected.get(&week.to_string());
        assert_eq!(activity, &expected.cloned().unwrap_or_default(), "{week}");
        known += usize::from(expected.is_some());
    }
    assert!(known > 3 || repository.is_some(), "{known} weeks");
}

async fn weekly(collector: &Collector, repository: Option<&str>) -> WeeklyStatistics {
    let weekly = collector.weekly("OctoCat", Space::Main, repository, ALL_WEEKS);
    weekly.await.expect("read").expect("it is there")
}

#[tokio::test]
async fn col_11_the_weekly_figures_are_those_of_the_world() {
    let lab = Lab::new(world(1), Setup::default(), &[TOKEN]).await;
    assert_whole(&lab.run(USER).await);
    let all = lab.world(&[USER]);
    let figures = weekly(&lab.collector, None).await;
    assert_counted(&figures, &all, None);
    let total = &figures.all_time;
    assert!(total.commits > total.own_commits && total.own_commits > 0);
    assert!(total.issues_opened > total.issues_closed && total.issues_closed > 0);
    assert!(total.pull_requests_merged > 0 && total.pull_requests_closed > 0);
    assert!(total.lead_time.median().is_some_and(|minutes| minutes > 0));
    assert!(total.events.len() > 1, "{:?}", total.events);
    let names = lab.fake.with_world(|world| world.full_names());
    let names: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("octocat/"))
        .collect();
    for name in &names {
        let figures = weekly(&lab.collector, Some(name)).await;
        assert_counted(&figures, &all, Some(name));
        assert_eq!(figures.repositories, 1);
        let short = name.split('/').next_back().expect("a name").to_uppercase();
        assert_eq!(weekly(&lab.collector, Some(&short)).await, figures);
    }
    assert_eq!(figures.repositories, names.len() as u64);
    let few = lab.collector.weekly(USER, Space::Main, None, 3);
    let few = few.await.expect("read").expect("there").weeks;
    assert_eq!(few, figures.weeks[ALL_WEEKS - 3..]);
    let none = lab.collector.weekly(USER, Space::Main, Some("none"), 3);
    assert_eq!(none.await.expect("read"), None);
}

#[tokio::test]
async fn col_11_reviews_and_languages_count_where_they_are_collected() {
    let lab = Lab::new(world(2), Setup::default(), &[TOKEN]).await;
    let all = lab.world(&[USER]);
    let is_pull = |one: &&Bare| one.0 == "pull_request";
    let (_, _, resource, pull) = all.iter().find(is_pull).expect("a pull request").clone();
    let pull: Value = serde_json::from_str(&pull).expect("JSON");
    let opened: jiff::Timestamp = pull["created_at"]
        .as_str()
        .and_then(|at| at.parse().ok())
        .expect("a time");
    let reviewed = opened + Duration::from_secs(150 * 60);
    let review = json!({
        "user": {"id": 1}, "submitted_at": reviewed.to_string(),
        "pull_request_url": format!("https://api.github.com/x/pulls/{}", pull["number"]),
    });
    let document = |id: &str, kind: &str, resource: &str, body: Value| Document {
        id: id.to_owned(),
        kind: kind.to_owned(),
        user: USER.to_owned(),
        resource: resource.to_owned(),
        body: body.to_string(),
    };
    let languages = |id, resource: &str, rust: u64| {
        document(id, "languages", resource, json!({"Rust": rust, "C": 1}))
    };
    let is_other = |one: &&Bare| one.2.starts_with("repo:") && one.2 != resource;
    let other = &all.iter().find(is_other).expect("another repository").2;
    let stored = [
        document("review:1", "review", &resource, review),
        languages("languages:1", &resource, 70),
        languages("languages:2", other, 30),
    ];
    lab.memory.upsert("github", &stored).await.expect("stored");
    assert_whole(&lab.run(USER).await);
    let figures = weekly(&lab.collector, None).await;
    let mut once = Durations::default();
    once.add(150);
    assert_eq!(figures.all_time.review_time, once);
    let sum = [("C".to_owned(), 2), ("Rust".to_owned(), 100)];
    assert_eq!(figures.languages, BTreeMap::from(sum));
    let name = other.strip_prefix("repo:");
    let one = weekly(&lab.collector, name).await;
    assert_eq!(one.languages.get("Rust"), Some(&30));
    assert!(one.all_time.review_time.is_empty());
}

#[tokio::test]
async fn col_11_only_places_that_changed_are_computed_again() {
    let (lab, sink) = watched(3).await;
    assert_whole(&lab.run(USER).await);
    let owned = lab.world(&[USER]);
    let places: BTreeSet<String> = owned.iter().map(|one| one.2.clone()).collect();
    assert_eq!(sink.scanned(), places, "the first run computes all");
    assert_whole(&lab.run(USER).await);
    assert_eq!(sink.scanned(), BTreeSet::new(), "nothing changed");

    let name = places.iter().find_map(|place| place.strip_prefix("repo:"));
    let name = name.expect("a repository");
    let is_pushed = lab
        .fake
        .with_world(|world| world.push(name, &[1_790_000_000, 4_070_908_800]));
    assert!(is_pushed);
    assert_whole(&lab.run(USER).await);
    assert_eq!(sink.scanned(), BTreeSet::from([format!("repo:{name}")]));
    let figures = weekly(&lab.collector, None).await;
    let expected = expected(&lab.world(&[USER]), USER, None);
    assert_eq!(figures.all_time, sum(&expected));
    // The commit of 2099 has its week, after the present one.
    assert_eq!(expected["2098-12-29"].commits, 1);
    let shown: u64 = figures.weeks.iter().map(|(_, one)| one.commits).sum();
    assert_eq!(shown + 1, figures.all_time.commits);
}

#[tokio::test]
async fn col_11_figures_kept_up_run_by_run_equal_those_from_the_beginning() {
    for seed in 10..14 {
        let (lab, sink) = watched(seed).await;
        assert_whole(&lab.run(USER).await);
        for step in 0..6 {
            lab.fake.with_world(|world| match step {
                0 => world.change(seed, 30),
                step => world.upset(seed * 100 + step, 15),
            });
            // Another user's runs take over what was transferred.
            for login in ["hubot", USER] {
                match step % 3 {
                    2 => lab.run_full(login).await,
                    _ => lab.run(login).await,
                };
            }
            let stored = lab.documents(Space::Main).await;
            let figures = weekly(&lab.collector, None).await;
            let expected = expected(&stored, USER, None);
            assert_eq!(figures.stale, 0);
            assert_eq!(figures.all_time, sum(&expected), "seed {seed} step {step}");
            for (week, activity) in &figures.weeks {
                let expected = expected.get(&week.to_string()).cloned();
                assert_eq!(activity, &expected.unwrap_or_default(), "{seed} {week}");
            }
        }
        // A store of an earlier release has documents and no figures.
        let kept = weekly(&lab.collector, None).await;
        forget_figures(&lab.memory).await;
        sink.scanned();
        assert_eq!(weekly(&lab.collector, None).await.repositories, 0);
        assert_eq!(lab.run(USER).await.status, RunStatus::Completed);
        assert_eq!(weekly(&lab.collector, None).await, kept);
        assert!(sink.scanned().len() as u64 >= kept.repositories);
    }
}

#[tokio::test]
async fn col_11_what_is_gone_at_github_is_not_counted_any_more() {
    let mut world = world(5);
    let issues: Vec<(String, u64)> = world
        .items()
        .filter(|item| item.kind == Kind::Issue && item.user == USER)
        .map(|item| {
            let name = item.resource.trim_start_matches("repo:").to_owned();
            (name, item.body["number"].as_u64().expect("a number"))
        })
        .collect();
    // One issue is left: when it is deleted, no job stores a document of this repository.
    let (name, last) = issues.first().expect("an issue").clone();
    for (_, number) in issues.iter().filter(|one| one.0 == name && one.1 != last) {
        assert!(world.delete_issue(&name, *number));
    }
    let lab = Lab::new(world, Setup::default(), &[TOKEN]).await;
    assert_whole(&lab.run(USER).await);
    let before = weekly(&lab.collector, Some(&name)).await.all_time;
    assert_eq!(before.issues_opened, 1);
    let is_deleted = lab.fake.with_world(|world| world.delete_issue(&name, last));
    assert!(is_deleted);
    let start = Start {
        is_full: true,
        streams: vec![JobKind::REPO_ISSUES],
        ..Start::default()
    };
    let run = lab.collector.start_with(USER, &start).await;
    let run = lab.end(&run.expect("begun").run_id).await;
    assert_eq!(run.pages.removed, 1, "{run:?}");
    let after = weekly(&lab.collector, Some(&name)).await.all_time;
    assert_eq!((after.issues_opened, after.issues_closed), (0, 0));
    assert_eq!(after.commits, before.commits);
}

/// Removes all records of the weekly figures.
async fn forget_figures(memory: &Memory) {
    for prefix in ["github/place/", "github/weeks/", "github/weeks-listed/"] {
        let list = RecordList {
            prefix: prefix.to_owned(),
            descending: false,
            after: None,
            limit: 1_000,
        };
        let found = memory.list_records(&list).await.expect("listed");
        assert!(!found.is_empty(), "{prefix}");
        let writes = found.into_iter().map(|record| RecordWrite {
            key: record.key,
            expected: Expected::Anything,
            body: None,
        });
        let writes: Vec<_> = writes.collect();
        assert!(memory.write_records(&writes).await.expect("written"));
    }
}

#[derive(Clone, Default)]
struct Alerts(Arc<Mutex<Vec<AlertNote>>>);

impl Alerts {
    fn messages(&self, code: &str) -> Vec<String> {
        let raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = raised.iter().filter(|note| note.code == code);
        ours.map(|note| note.message.clone()).collect()
    }
}

#[async_trait]
impl Alert for Alerts {
    async fn raise(&self, note: &AlertNote) -> Result<()> {
        let mut raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.push(note.clone());
        Ok(())
    }
}

/// The server posts every alert that the engine raises to the web hook.
#[tokio::test]
async fn col_11_statistics_that_are_given_up_raise_an_alert_and_are_made_up_for() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let sink = Watched::new(memory.clone());
    let settings = Settings {
        api_url: BASE.parse().expect("an address"),
        tokens: vec![Token::new(TOKEN)],
        ..Settings::default()
    };
    let fake = Arc::new(Fake::new(world(4), Setup::default(), clock.clone()));
    let alerts = Alerts::default();
    let heard = alerts.clone();
    let (collector, clinch) = collector_with(
        settings,
        &memory,
        sink.clone(),
        fake.clone(),
        &clock,
        |builder| builder.alert(heard),
    )
    .await;
    sink.refuses_scans.store(true, Ordering::SeqCst);
    let mut ended = Vec::new();
    for _ in 0..2 {
        let run = collector.start(USER, Trigger::Manual, Space::Main).await;
        let id = run.expect("begun").run_id;
        // Longer than all attempts and the pauses between them.
        advance(&clock, Duration::from_secs(2 * 60 * 60)).await;
        ended.push(collector.run(&id).await.expect("there"));
        sink.refuses_scans.store(false, Ordering::SeqCst);
        if ended.len() == 1 {
            let figures = weekly(&collector, None).await;
            assert_eq!(figures.all_time, Activity::default());
            assert_eq!(figures.stale, figures.repositories + 1, "and the user");
        }
    }
    let ends: Vec<_> = ended
        .iter()
        .map(|run| (run.status, run.statistics))
        .collect();
    let expected = [
        (RunStatus::Completed, Statistics::Failed),
        (RunStatus::Completed, Statistics::Done),
    ];
    assert_eq!(ends, expected);
    let messages = alerts.messages("github_statistics_failed");
    assert!(
        matches!(&messages[..], [message] if message.contains("octocat.1")),
        "{messages:?}"
    );
    // The second run stored nothing; it computed what the first run owed.
    assert_eq!(ended[1].pages.documents, 0);
    let items: Vec<Bare> = fake.with_world(|world| {
        let items = world.items().map(|item| {
            let kind = item.kind.as_str().to_owned();
            (kind, item.user, item.resource, item.body.to_string())
        });
        items.collect()
    });
    assert_counted(&weekly(&collector, None).await, &items, None);
    clinch.stop();
}
