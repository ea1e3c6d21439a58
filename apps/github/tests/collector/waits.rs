//! Who waits for what until when: also jobs that are due and may not begin, and every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch::Clinch;
use clinch::policy::Opener;
use clinch::ports::{CircuitState, Clock as _};
use clinch::testing::{ManualClock, advance};
use clinch::types::{Domain, Timestamp};
use clinch_github::fake::{BASE, Fake, Faults, Limits, Setup, Size, World};
use clinch_github::{
    ApiAnswer, ApiRequest, Broken, Collector, JobFilter, JobState, Parts, Progress, RunId,
    RunStatus, Settings, Space, Token, Transport, Trigger, WaitingJobs,
};
use clinch_memory::Memory;

use crate::lab::{Ambiguous, Lab, assert_whole, budgets, collector_with, running};
use crate::progress::Counting;
use crate::tenants::keys;

const SERVER: &str = "fake-robot-1";
const OWN: &str = "fake-octocat-1";

fn world(repositories: usize) -> World {
    let size = Size {
        users: 2,
        repositories,
        documents: 2 * repositories,
    };
    World::generate(3, &size)
}

async fn begin(collector: &Collector, login: &str) -> RunId {
    let run = collector.start(login, Trigger::Manual, Space::Main);
    run.await.expect("it begins").run_id
}

fn of_run<'a>(rows: &'a [WaitingJobs], run: &RunId) -> Vec<&'a WaitingJobs> {
    let name = run.to_string();
    let is_its = |row: &&WaitingJobs| row.run.as_ref() == Some(&name);
    rows.iter().filter(is_its).collect()
}

/// The breaker of the collector's destination.
fn breaker(clinch: &Clinch) -> CircuitState {
    let mut all = clinch.destinations().into_iter();
    let github = all.find(|one| one.name == "github");
    github.expect("a destination").breaker
}

/// A collector that counts the rows which it reads, with a budget of 240 requests. The token of
/// octocat is refused.
async fn counted(repositories: usize) -> (Arc<ManualClock>, Arc<Counting>, Collector, Clinch) {
    let setup = Setup {
        limits: Limits {
            primary: 240,
            ..Limits::default()
        },
        faults: Faults::none().token(OWN),
        ..Setup::default()
    };
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let counting = Arc::new(Counting::new(&memory));
    let parts = Parts {
        settings: Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new(SERVER)],
            token_keys: keys("1"),
            ..Settings::default()
        },
        records: Arc::new(memory.clone()),
        documents: Arc::new(memory.clone()),
        quota: budgets(&clock),
        transport: Arc::new(Fake::new(world(repositories), setup, clock.clone())),
        inspect: counting.clone(),
        clock: clock.clone(),
    };
    let (collector, clinch) = running(parts, &memory, &clock, |builder| builder).await;
    (clock, counting, collector, clinch)
}

/// Moves the clock until every open job of the run waits for the budget.
async fn until_all_wait(collector: &Collector, clock: &ManualClock, run: &RunId) -> Progress {
    for _ in 0..20 {
        advance(clock, Duration::from_secs(10)).await;
        if collector.progress(run).await.expect("read").all_wait {
            // Those that waited for the turn of their repository have asked for a budget too.
            advance(clock, Duration::from_secs(120)).await;
            return collector.progress(run).await.expect("read");
        }
    }
    panic!("the jobs of {run} do not wait");
}

/// The next attempt of the jobs of a run, of all of them.
async fn next_of(collector: &Collector, run: &RunId) -> Option<Timestamp> {
    let filter = JobFilter {
        state: Some(JobState::Ready),
        ..JobFilter::default()
    };
    let (mut next, mut cursor) = (None::<Timestamp>, None::<String>);
    loop {
        let page = collector.jobs(run, &filter, cursor.as_deref(), 500).await;
        let (jobs, more) = page.expect("jobs");
        let times = jobs.into_iter().filter_map(|job| job.not_before);
        next = next.into_iter().chain(times).min();
        cursor = more;
        if cursor.is_none() {
            return next;
        }
    }
}

#[tokio::test]
async fn col_15_a_long_run_hides_no_other_run_that_waits() {
    // Hundreds of jobs, all of which are looked at; and more than are looked at.
    for (repositories, is_cut) in [(400, false), (1_800, true)] {
        let (clock, counting, collector, clinch) = counted(repositories).await;
        let token = Token::new(OWN);
        let added = collector.add_token("octocat", &token).await;
        added.expect("stored");
        let small = begin(&collector, "octocat").await;
        advance(&clock, Duration::from_secs(120)).await;
        let long = begin(&collector, "hubot").await;
        let progress = until_all_wait(&collector, &clock, &long).await;

        let before = counting.rows();
        let overview = collector.overview().await.expect("read");
        let rows = counting.rows() - before;
        assert!(rows <= 2_000 + 2_000 + 200, "{rows} rows");
        assert_eq!(overview.is_cut_of_waiting, is_cut);
        let waiting = &overview.waiting;
        let of_small = of_run(waiting, &small);
        let jobs: u64 = of_small.iter().map(|row| row.jobs).sum();
        assert_eq!(jobs, 2, "{of_small:#?}");
        let of_long = of_run(waiting, &long);
        let jobs: u64 = of_long.iter().map(|row| row.jobs).sum();
        if !is_cut {
            assert_eq!(jobs, progress.waiting, "{of_long:#?}");
            assert_eq!(jobs + 2, overview.open.waiting);
        }
        assert!(jobs > 200, "{of_long:#?}");
        for (rows, word) in [(&of_small, "refuses the token"), (&of_long, "budget")] {
            let mut reasons = rows.iter().filter_map(|row| row.waits_for.as_deref());
            assert!(reasons.any(|reason| reason.contains(word)), "{rows:#?}");
        }
        // The token is tried again before the budget is renewed.
        assert_eq!(waiting[0].run, Some(small.to_string()));
        assert_eq!(waiting[0].next_at, next_of(&collector, &small).await);
        assert!(waiting[0].next_at < next_of(&collector, &long).await);
        clinch.stop();
    }
}

#[tokio::test]
async fn col_15_a_paused_domain_is_what_runs_wait_for() {
    let setup = Setup {
        latency: Duration::from_secs(1),
        ..Setup::default()
    };
    let lab = Lab::new(world(6), setup, &[SERVER]).await;
    let github = Domain::new("github").expect("a name");
    let paused = "the domain github is paused";
    lab.clinch.pause(&github).await.expect("paused");
    let run = begin(&lab.collector, "octocat").await;
    advance(&lab.clock, Duration::from_secs(60)).await;
    let progress = lab.collector.progress(&run).await.expect("read");
    // Its jobs are not made yet.
    assert!(!progress.run.status.is_terminal() && progress.waiting == 0);
    assert_eq!(progress.waits_for.as_deref(), Some(paused));

    lab.clinch.resume(&github).await.expect("resumed");
    advance(&lab.clock, Duration::from_millis(500)).await;
    lab.clinch.pause(&github).await.expect("paused");
    // What has begun ends; nothing else begins.
    advance(&lab.clock, Duration::from_secs(60)).await;
    let progress = lab.collector.progress(&run).await.expect("read");
    assert!(progress.waiting > 0 && progress.all_wait, "{progress:?}");
    assert_eq!(progress.waits_for.as_deref(), Some(paused));
    assert_eq!(progress.next_at, None);
    let overview = lab.collector.overview().await.expect("read");
    let [row] = overview.waiting.as_slice() else {
        panic!("{:#?}", overview.waiting);
    };
    assert_eq!((row.jobs, row.next_at), (progress.waiting, None));
    assert_eq!(row.waits_for.as_deref(), Some(paused));

    lab.clinch.resume(&github).await.expect("resumed");
    assert_whole(&lab.end(&run).await);
}

#[tokio::test]
async fn col_15_jobs_behind_an_open_breaker_wait_and_say_so() {
    let lab = Lab::new(world(6), Setup::default(), &[SERVER]).await;
    let opener = Opener {
        by: Some("anna".to_owned()),
        reason: "GitHub has asked us".to_owned(),
    };
    let minute = Duration::from_secs(60);
    let opened = lab.clinch.open_destination("github", Some(minute), opener);
    opened.await.expect("opened");
    let until = lab.clock.now() + minute;
    let run = begin(&lab.collector, "octocat").await;
    advance(&lab.clock, Duration::from_secs(5)).await;
    let progress = lab.collector.progress(&run).await.expect("read");
    assert_eq!(progress.run.status, RunStatus::Running);
    assert_eq!((progress.waiting, progress.all_wait), (2, true));
    assert_eq!(progress.next_at, Some(until));
    let reason = progress.waits_for.unwrap_or_default();
    let told = ["breaker", "GitHub has asked us"];
    assert!(told.iter().all(|one| reason.contains(one)), "{reason}");

    let overview = lab.collector.overview().await.expect("read");
    let [row] = overview.waiting.as_slice() else {
        panic!("{:#?}", overview.waiting);
    };
    assert_eq!(row.run, Some(run.to_string()));
    assert_eq!((row.jobs, row.next_at), (2, Some(until)));
    assert_eq!(row.waits_for.as_deref(), Some(reason.as_str()));
    assert_whole(&lab.end(&run).await);
    let overview = lab.collector.overview().await.expect("read");
    assert_eq!(overview.waiting, []);
}

/// The network of the made-up GitHub can be taken away: no connection is made.
struct Unreachable {
    fake: Fake,
    is_away: AtomicBool,
}

#[async_trait]
impl Transport for Unreachable {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(Broken::NotSent("connection refused".to_owned())),
            false => self.fake.get(request).await,
        }
    }
}

#[tokio::test]
async fn col_16_connections_that_fail_open_the_breaker_and_cost_no_job() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let fake = Fake::new(world(6), Setup::default(), clock.clone());
    let network = Arc::new(Unreachable {
        fake: fake.clone(),
        is_away: AtomicBool::new(false),
    });
    let settings = Settings {
        api_url: BASE.parse().expect("an address"),
        tokens: vec![Token::new(SERVER)],
        ..Settings::default()
    };
    let (sink, transport) = (Arc::new(memory.clone()), network.clone());
    let built = collector_with(settings, &memory, sink, transport, &clock, |one| one).await;
    let (collector, clinch) = built;
    let lab = Lab {
        quota: budgets(&clock),
        records: Arc::new(Ambiguous::new(&memory)),
        clock,
        memory,
        fake,
        collector,
        clinch,
    };
    assert_whole(&lab.run("octocat").await);
    network.is_away.store(true, Ordering::SeqCst);
    let runs = [
        begin(&lab.collector, "octocat").await,
        begin(&lab.collector, "hubot").await,
    ];
    for _ in 0..60 {
        if breaker(&lab.clinch) == CircuitState::Open {
            break;
        }
        advance(&lab.clock, Duration::from_secs(1)).await;
    }
    assert_eq!(breaker(&lab.clinch), CircuitState::Open);
    for run in &runs {
        let progress = lab.collector.progress(run).await.expect("read");
        assert!(progress.waiting > 0 && progress.all_wait, "{progress:?}");
        assert!(progress.next_at > Some(lab.clock.now()), "{progress:?}");
        let reason = progress.waits_for.unwrap_or_default();
        assert!(reason.contains("breaker"), "{reason}");
    }
    network.is_away.store(false, Ordering::SeqCst);
    for run in &runs {
        assert_whole(&lab.end(run).await);
    }
}
