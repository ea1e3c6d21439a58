//! A switch to the shadow, and the ways back that the collector takes by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::{
    Alert, AlertNote, Clock as _, Document, DocumentFilter, DocumentName, DocumentSink, Expected,
    Record, RecordList, RecordWrite, Records,
};
use clinch::testing::{ManualClock, advance};
use clinch::types::ErrorKind;
use clinch::{Clinch, Error, Result};
use clinch_github::fake::{BASE, Fake, Fault, Faults, Setup, Size, World};
use clinch_github::{
    Collector, Parts, Run, RunId, RunStatus, Settings, Space, Start, SwitchLimits, Token,
};
use clinch_memory::Memory;
use serde_json::Value;
use tokio::sync::Notify;

use crate::lab::{assert_whole, attached, budgets};

/// A sink that can be away, or refuse documents for good, and that can be slow to delete.
pub(crate) struct Sink {
    pub(crate) memory: Memory,
    is_away: AtomicBool,
    refuses_for_good: AtomicBool,
    /// Nothing is deleted until [`Sink::release`].
    pub(crate) holds_deletes: AtomicBool,
    released: Notify,
}

impl Sink {
    pub(crate) fn release(&self) {
        self.holds_deletes.store(false, Ordering::SeqCst);
        self.released.notify_waiters();
    }
}

#[async_trait]
impl DocumentSink for Sink {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        if self.refuses_for_good.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Invalid, "the documents are too long"));
        }
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Unavailable, "the sink is away")),
            false => self.memory.upsert(collection, documents).await,
        }
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        self.memory.scan(collection, filter, after, limit).await
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

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        self.memory.count(collection, user).await
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        let released = self.released.notified();
        if self.holds_deletes.load(Ordering::SeqCst) {
            released.await;
        }
        self.memory.clear(collection, filter).await
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        self.memory.relocate(from, to, ids).await
    }
}

/// Records in which a switch may happen right after somebody has read which documents are live.
pub(crate) struct Switching {
    memory: Memory,
    next: Mutex<Option<&'static str>>,
}

impl Switching {
    /// After the next look these documents are live.
    pub(crate) fn switch_after_the_next_look(&self, live: &'static str) {
        *self.next.lock().expect("no panic") = Some(live);
    }
}

#[async_trait]
impl Records for Switching {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        let read = self.memory.read_records(keys).await?;
        let is_look = keys.iter().any(|key| key == "github-switch");
        let next = match is_look {
            true => self.next.lock().expect("no panic").take(),
            false => None,
        };
        if let Some(live) = next {
            let limits =
                r#"{"max_failed_percent":5.0,"max_time_ratio":2.0,"max_sink_outage_secs":600}"#;
            let body =
                format!(r#"{{"live":"{live}","since":null,"limits":{limits},"way_back":null}}"#);
            let switched = RecordWrite {
                key: "github-switch".to_owned(),
                expected: Expected::Anything,
                body: Some(body),
            };
            assert!(self.memory.write_records(&[switched]).await?);
        }
        Ok(read)
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        self.memory.write_records(writes).await
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        self.memory.list_records(list).await
    }
}

/// The codes of the alerts that were raised.
#[derive(Clone, Default)]
struct Alerts(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Alert for Alerts {
    async fn raise(&self, note: &AlertNote) -> Result<()> {
        let mut raised = self.0.lock().expect("no panic");
        raised.push(note.code.to_string());
        Ok(())
    }
}

pub(crate) struct TwoSinks {
    pub(crate) clock: Arc<ManualClock>,
    /// Holds the records too.
    pub(crate) old: Memory,
    pub(crate) new: Arc<Sink>,
    pub(crate) records: Arc<Switching>,
    pub(crate) fake: Fake,
    pub(crate) collector: Collector,
    clinch: Clinch,
    alerts: Alerts,
}

impl TwoSinks {
    pub(crate) async fn start() -> Self {
        let size = Size {
            users: 1,
            repositories: 12,
            documents: 600,
        };
        let clock = Arc::new(ManualClock::default());
        let old = Memory::new(clock.clone());
        let new = Arc::new(Sink {
            memory: Memory::new(clock.clone()),
            is_away: AtomicBool::new(false),
            refuses_for_good: AtomicBool::new(false),
            holds_deletes: AtomicBool::new(false),
            released: Notify::new(),
        });
        let records = Arc::new(Switching {
            memory: old.clone(),
            next: Mutex::default(),
        });
        let world = World::generate(5, &size);
        let fake = Fake::new(world, Setup::default(), clock.clone());
        let parts = Parts {
            settings: Settings {
                api_url: BASE.parse().expect("an address"),
                tokens: vec![Token::new("fake-robot-1")],
                ..Settings::default()
            },
            records: records.clone(),
            documents: Arc::new(old.clone()),
            quota: budgets(&clock),
            transport: Arc::new(fake.clone()),
            inspect: Arc::new(old.clone()),
            clock: clock.clone(),
        };
        let collector = Collector::with_shadow_sink(parts, Some(new.clone()));
        let alerts = Alerts::default();
        let heard = alerts.clone();
        let tune = |builder: clinch::types::Builder| builder.alert(heard);
        let (collector, clinch) = attached(collector, &old, &clock, tune).await;
        Self {
            alerts,
            clock,
            old,
            new,
            records,
            fake,
            collector,
            clinch,
        }
    }

    pub(crate) async fn run(&self, start: Start) -> Run {
        let run = self.collector.start_with("octocat", &start).await;
        self.end(&run.expect("it begins").run_id).await
    }

    pub(crate) async fn end(&self, id: &RunId) -> Run {
        for _ in 0..10_000 {
            advance(&self.clock, Duration::from_secs(1)).await;
            let run = self.collector.run(id).await.expect("there");
            if run.status.is_terminal() {
                return run;
            }
        }
        panic!("{id} does not end");
    }

    /// Collects, tries the shadow, and switches to it.
    pub(crate) async fn switched() -> Self {
        let lab = Self::start().await;
        assert_whole(&lab.run(Start::default()).await);
        assert_whole(&lab.run(Start::default()).await);
        let shadow = Start {
            space: Space::Shadow,
            ..Start::default()
        };
        assert_whole(&lab.run(shadow).await);
        let limits = SwitchLimits::default();
        let switched = lab.collector.switch_to(Space::Shadow, limits).await;
        assert_eq!(switched.expect("switched").live, Space::Shadow);
        lab
    }

    async fn is(&self, space: Space) -> BTreeSet<String> {
        let (mut all, mut after) = (BTreeSet::new(), None);
        let filter = DocumentFilter::default();
        loop {
            let page = self
                .collector
                .documents(space, &filter, after.as_deref(), 1_000)
                .await
                .expect("a page");
            after = page.last().map(|document| document.id.clone());
            all.extend(page.into_iter().map(|one| {
                let value: Value = serde_json::from_str(&one.body).expect("JSON");
                format!("{} {} {value}", one.kind, one.resource)
            }));
            if after.is_none() {
                return all;
            }
        }
    }

    fn world(&self) -> BTreeSet<String> {
        self.fake.with_world(|world| {
            let items = world.items();
            let text =
                items.map(|one| format!("{} {} {}", one.kind.as_str(), one.resource, one.body));
            text.collect()
        })
    }

    async fn assert_went_back(&self, word: &str) {
        let switch = self.collector.switch().await.expect("read");
        assert_eq!(switch.live, Space::Main, "{switch:?}");
        let back = switch.way_back.expect("by itself");
        assert!(back.reason.contains(word), "{back:?}");
        assert!(back.run.is_some_and(|run| run.space == Space::Shadow));
        let raised = self.alerts.0.lock().expect("no panic");
        let ours = raised.iter().filter(|code| *code == "github_switched_back");
        assert_eq!(ours.count(), 1, "{raised:?}");
    }
}

impl Drop for TwoSinks {
    fn drop(&mut self) {
        self.clinch.stop();
    }
}

#[tokio::test]
async fn col_18_after_a_switch_runs_store_into_the_new_sink_and_read_only_what_changed() {
    let lab = TwoSinks::switched().await;
    let before = lab.is(Space::Main).await;
    lab.fake.with_world(|world| world.change(1, 20));
    let run = lab.run(Start::default()).await;
    assert_whole(&run);
    assert_eq!(run.run_id.to_string(), "octocat.shadow.2");
    assert!(!run.is_full, "the cursors of the trial are continued");
    assert_eq!(lab.is(Space::Shadow).await, lab.world());
    assert_eq!(lab.is(Space::Main).await, before, "the old ones rest");
    let switch = lab.collector.switch().await.expect("read");
    assert_eq!((switch.live, switch.way_back), (Space::Shadow, None));
    // A person goes back: the next run reads what happened meanwhile.
    let back = lab
        .collector
        .switch_to(Space::Main, SwitchLimits::default());
    assert_eq!(back.await.expect("back").way_back, None);
    let run = lab.run(Start::default()).await;
    assert_eq!(run.run_id.to_string(), "octocat.3");
    assert_eq!(lab.is(Space::Main).await, lab.world());
}

#[tokio::test]
async fn col_18_failed_jobs_lead_back_and_nothing_is_lost() {
    let lab = TwoSinks::switched().await;
    lab.fake.with_world(|world| world.change(2, 20));
    let names = lab.fake.with_world(|world| world.full_names());
    lab.fake
        .set_faults(Faults::none().repository(&names[0], 400));
    let run = lab.run(Start::default()).await;
    assert_eq!(run.run_id.to_string(), "octocat.shadow.2");
    assert_eq!((run.status, run.jobs.failed), (RunStatus::Completed, 3));
    lab.assert_went_back("3 of ").await;
    // The user is collected again, without anybody asking.
    let again: RunId = "octocat.3".parse().expect("a name");
    lab.end(&again).await;
    lab.fake.set_faults(Faults::none());
    assert_whole(&lab.run(Start::default()).await);
    assert_eq!(lab.is(Space::Main).await, lab.world());
}

#[tokio::test]
async fn col_18_a_sink_that_is_away_leads_back_and_nothing_is_lost() {
    let lab = TwoSinks::switched().await;
    lab.fake.with_world(|world| world.change(3, 20));
    lab.new.is_away.store(true, Ordering::SeqCst);
    let begun = lab
        .collector
        .start_with("octocat", &Start::default())
        .await
        .expect("begun");
    assert_eq!(begun.run_id.to_string(), "octocat.shadow.2");
    let canceled = lab.end(&begun.run_id).await;
    assert_eq!(canceled.status, RunStatus::Canceled, "{canceled:?}");
    lab.assert_went_back("the sink refused documents").await;
    let again: RunId = "octocat.3".parse().expect("a name");
    assert_whole(&lab.end(&again).await);
    assert_eq!(lab.is(Space::Main).await, lab.world());
}

/// The next night begins with a request that fails: the sink has not been away since.
#[tokio::test]
async fn col_18_documents_that_the_sink_refused_for_good_lead_nowhere() {
    let lab = TwoSinks::switched().await;
    let limits = SwitchLimits {
        max_failed_percent: 100.0,
        ..SwitchLimits::default()
    };
    let switched = lab.collector.switch_to(Space::Shadow, limits).await;
    switched.expect("switched");
    lab.fake.with_world(|world| world.change(4, 20));
    lab.new.refuses_for_good.store(true, Ordering::SeqCst);
    let run = lab.run(Start::default()).await;
    assert!(run.errors.contains_key("sink_refused"), "{run:?}");
    lab.new.refuses_for_good.store(false, Ordering::SeqCst);
    advance(&lab.clock, Duration::from_secs(24 * 60 * 60)).await;
    let broken = Faults::none().first("/users/octocat", 1, Fault::Status(502));
    lab.fake.set_faults(broken);
    assert_whole(&lab.run(Start::default()).await);
    let switch = lab.collector.switch().await.expect("read");
    assert_eq!((switch.live, switch.way_back), (Space::Shadow, None));
    assert_eq!(lab.is(Space::Shadow).await, lab.world());
}

#[tokio::test]
async fn col_18_a_run_that_takes_more_than_twice_as_long_leads_back() {
    let lab = TwoSinks::switched().await;
    let slow = Fault::Slow(Duration::from_secs(8));
    lab.fake.set_faults(Faults::seeded(1).chance(1.0, slow));
    let run = lab.run(Start::default()).await;
    assert_whole(&run);
    lab.assert_went_back("before the switch took").await;
}

#[tokio::test]
async fn col_18_a_way_back_does_not_remember_who_was_forgotten() {
    let lab = TwoSinks::switched().await;
    let slow = Fault::Slow(Duration::from_secs(8));
    lab.fake.set_faults(Faults::seeded(1).chance(1.0, slow));
    lab.run(Start::default()).await;
    lab.assert_went_back("before the switch took").await;
    lab.fake.set_faults(Faults::none());
    advance(&lab.clock, Duration::from_secs(600)).await;
    lab.collector.forget("octocat").await.expect("forgotten");
    let switch = lab.collector.switch().await.expect("read");
    let back = switch
        .way_back
        .expect("it is still known that it went back");
    assert_eq!(back.run, None);
    assert!(!back.reason.contains("octocat"), "{}", back.reason);
    assert!(
        back.reason.contains("before the switch took"),
        "{}",
        back.reason
    );
}

/// However many runs began since, and whatever is wrong with one user.
#[tokio::test]
async fn col_18_every_user_of_the_shadow_is_collected_again() {
    let lab = TwoSinks::switched().await;
    let at = lab.clock.now().as_millis() + 60_000;
    let mut writes = Vec::new();
    let mut put = |key: String, body: String| {
        writes.push(RecordWrite {
            key,
            expected: Expected::Absent,
            body: Some(body),
        });
    };
    for n in 0..1_200 {
        let login = format!("user{n}");
        let run = format!(
            r#"{{"run_id":"{login}.shadow.1","status":"COMPLETED","trigger":"MANUAL","jobs":{{"total":0,"succeeded":0,"failed":0}},"pages":{{"fetched":0,"not_modified":0,"skipped":0,"documents":0}},"statistics":"done","repairs":[],"created_at":{at},"started_at":null,"completed_at":{at},"error":null}}"#
        );
        put(format!("github-shadow/run/{login}/0000000001"), run);
        let id = format!("{login}.shadow.1");
        put(format!("github-recent/{at:015}/{id}"), format!("{id:?}"));
    }
    // What is recorded of the first one cannot be read: no run of it can begin.
    put("github/user/user0".to_owned(), "{}".to_owned());
    for some in writes.chunks(1_000) {
        assert!(lab.old.write_records(some).await.expect("written"));
    }
    let slow = Fault::Slow(Duration::from_secs(8));
    lab.fake.set_faults(Faults::seeded(1).chance(1.0, slow));
    let back = lab.clock.now();
    lab.run(Start::default()).await;
    lab.assert_went_back("before the switch took").await;
    advance(&lab.clock, Duration::from_secs(60)).await;
    for login in ["octocat", "user1", "user600", "user1199"] {
        let latest = lab.collector.latest(login, Space::Main).await;
        let latest = latest.expect("read").expect("it was begun");
        assert_eq!(latest.run_id.space, Space::Main, "{login}");
        assert!(latest.created_at > back, "{login}");
    }
}

#[tokio::test]
async fn col_18_every_trial_begins_from_the_beginning_in_whatever_sink() {
    let lab = TwoSinks::start().await;
    assert_whole(&lab.run(Start::default()).await);
    let shadow = || Start {
        space: Space::Shadow,
        ..Start::default()
    };
    assert_whole(&lab.run(shadow()).await);
    // Another, empty database takes the place of the sink.
    let all = DocumentFilter::default();
    let memory = &lab.new.memory;
    memory.clear("github-shadow", &all).await.expect("cleared");
    let again = lab.run(shadow()).await;
    assert_whole(&again);
    assert_eq!(again.pages.not_modified, 0, "{again:?}");
    assert_eq!(lab.is(Space::Shadow).await, lab.world());
}
