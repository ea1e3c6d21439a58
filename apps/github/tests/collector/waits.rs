//! Who waits for what until when: also jobs that are due and may not begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch::Clinch;
use clinch::policy::Opener;
use clinch::ports::{CircuitState, Clock as _};
use clinch::testing::{ManualClock, advance};
use clinch::types::Domain;
use clinch_github::fake::{BASE, Fake, Setup, Size, World};
use clinch_github::{
    ApiAnswer, ApiRequest, Broken, Collector, RunId, RunStatus, Settings, Space, Token, Transport,
    Trigger,
};
use clinch_memory::Memory;

use crate::lab::{Ambiguous, Lab, assert_whole, budgets, collector_with};

const SERVER: &str = "fake-robot-1";

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

/// The breaker of the collector's destination.
fn breaker(clinch: &Clinch) -> CircuitState {
    let mut all = clinch.destinations().into_iter();
    let github = all.find(|one| one.name == "github");
    github.expect("a destination").breaker
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
    assert_whole(&lab.end(&run).await);
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
