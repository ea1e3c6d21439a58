//! A row that falls due between a runner's claim and its look for the next one is found at
//! once, not after the fallback.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch::testing::{self, ManualClock};
use clinch_core::policy::{EventTypes, ProbeRules, Routes, Rules, Safety, SeenTime};
use clinch_core::ports::{
    Alert, AlertNote, Attempt, BeginRequest, Claim, Claimed, Clock, DeadLetter, Executor, Ids,
    Journal, JournalRecords, LetterFilter, LetterOrder, LetterView, Outbox, Page, PlainText, Probe,
    ProbeVerdict, Prune, Pruned, Recovery, Scan, Silence, Store, Untold, Write, Written,
};
use clinch_core::protocol::Phase;
use clinch_core::{
    BizKey, Command, Domain, Envelope, EventType, IdemKey, Keys, Outcome, Payload, ProcessId,
    Result, Retry, Status, Success, TimeBudget, WorkerId,
};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Ports, Role, Runtime};
use clinch_memory::{Memory, MemoryBus};
use clinch_system::{SystemIds, TokioSpawner};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// A store whose next answer to "when is a row due" comes when one just fell due.
struct Late {
    memory: Memory,
    clock: Arc<ManualClock>,
    /// Which question, and the time that passes before it is answered.
    armed: Mutex<Option<(Question, Duration)>>,
    was_asked: AtomicBool,
    /// So many questions are answered in time before the one that races.
    in_time: AtomicUsize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Outbox,
    Scan(Scan),
}

impl Late {
    fn arm(&self, question: Question, passes: Duration) {
        *self.armed.lock().expect("a lock") = Some((question, passes));
    }

    /// Lets the time pass, if a row falls due meanwhile.
    fn asked(&self, question: Question, next: Option<Duration>) {
        let mut armed = self.armed.lock().expect("a lock");
        let races = |(of, passes): &mut (Question, Duration)| {
            *of == question && next.is_some_and(|next| !next.is_zero() && next <= *passes)
        };
        let is_in_time = || {
            let count_down = |left: usize| left.checked_sub(1);
            let counted = self
                .in_time
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down);
            counted.is_ok()
        };
        let is_late = |one: &mut (Question, Duration)| races(one) && !is_in_time();
        if let Some((_, passes)) = armed.take_if(is_late) {
            self.clock.advance(passes);
            self.was_asked.store(true, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Outbox for Late {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        self.memory.claim(claim).await
    }
    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        self.memory.claim_silent(claim, silence).await
    }
    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        self.memory.published(claimed).await
    }
    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        self.memory.release(claimed).await
    }
    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        let next = Outbox::next_due(&self.memory, routes).await?;
        self.asked(Question::Outbox, next);
        Outbox::next_due(&self.memory, routes).await
    }
}

#[async_trait]
impl Recovery for Late {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        self.memory.scan(scan, claim).await
    }
    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        let next = Recovery::next_due(&self.memory, scan).await?;
        self.asked(Question::Scan(scan), next);
        Recovery::next_due(&self.memory, scan).await
    }
    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        self.memory.check_in(process).await
    }
    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        self.memory.abandoned(process, claim).await
    }
    async fn check_out(&self, process: ProcessId) -> Result<()> {
        self.memory.check_out(process).await
    }
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>> {
        self.memory.dead_letters(filter, order, cursor, limit).await
    }
    async fn letters(&self, ops: &[clinch_core::OpId]) -> Result<Vec<Option<LetterView>>> {
        self.memory.letters(ops).await
    }
    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        self.memory.import(letters).await
    }
    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.memory.prune(prune).await
    }
    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.memory.seen_time().await
    }
    async fn confirm_time(&self) -> Result<SeenTime> {
        self.memory.confirm_time().await
    }
}

/// Knows nothing of a call when it is asked for the first time.
#[derive(Default)]
struct Provider {
    probes: AtomicUsize,
}

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        match envelope.command.keys.biz_key.as_str() {
            "unsure" => Outcome::Retry(Retry::unknown("no answer")),
            _ => Outcome::Ok(Success::new(Payload::null())),
        }
    }
}

#[async_trait]
impl Probe for Provider {
    async fn probe(&self, _envelope: &Envelope) -> ProbeVerdict {
        match self.probes.fetch_add(1, Ordering::SeqCst) {
            0 => ProbeVerdict::Unknown,
            _ => ProbeVerdict::Succeeded(Success::new(Payload::null())),
        }
    }
}

struct NoFile;

#[async_trait]
impl Journal for NoFile {
    async fn append(&self, _records: &[Vec<u8>]) -> Result<()> {
        Ok(())
    }
    async fn read(&self) -> Result<JournalRecords> {
        Ok(JournalRecords::default())
    }
    async fn forget(&self, _through: u64) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Alert for NoFile {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}

struct Scene {
    runtime: Runtime,
    late: Arc<Late>,
    clock: Arc<ManualClock>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.runtime.stop();
    }
}

fn keys(biz_key: &str) -> Keys {
    Keys {
        domain: Domain::new("pay").expect("a name"),
        event_type: EventType::new("charge").expect("a name"),
        biz_key: BizKey::new(biz_key).expect("a key"),
        idem_key: IdemKey::new("a").expect("a key"),
    }
}

impl Scene {
    /// All runners, and every fallback an hour away.
    fn start(rules: Rules) -> Self {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        let store = Arc::new(memory.clone());
        let late = Arc::new(Late {
            memory,
            clock: clock.clone(),
            armed: Mutex::default(),
            was_asked: AtomicBool::new(false),
            in_time: AtomicUsize::new(0),
        });
        let file = Arc::new(NoFile);
        let ports = Ports {
            store: store.clone(),
            outbox: late.clone(),
            recovery: late.clone(),
            batches: store.clone(),
            domains: store.clone(),
            inspect: store.clone(),
            notices: store.clone(),
            dispatch: Dispatch::Hints(Arc::new(MemoryBus::new(clock.clone()))),
            sealer: Arc::new(PlainText),
            spill: file.clone(),
            dead_letter_file: file.clone(),
            alert: file,
            clock: clock.clone(),
            ids: Arc::new(SystemIds),
            spawner: Arc::new(TokioSpawner::current().expect("a runtime")),
            shed: None,
            meter: Arc::new(Untold),
            tracer: Arc::new(Untold),
        };
        let handler = Handler {
            executor: Some(Arc::new(Provider::default())),
            probe: Some(Arc::new(Provider::default())),
            ..Handler::new(rules)
        };
        let domain = Domain::new("pay").expect("a name");
        let handlers = Handlers::new().with(domain, EventTypes::Any, handler);
        let config = Config {
            fallback_poll: HOUR * 24,
            reaper_interval: HOUR * 24,
            finalizer_interval: HOUR * 24,
            sweep_grace: HOUR * 24,
            ..Config::new(WorkerId::new("w1").expect("a name"))
        };
        let runtime = Runtime::new(ports, handlers, config).expect("it is put together");
        let running = runtime.clone();
        tokio::spawn(async move { running.run_only(&Role::ALL).await });
        Self {
            runtime,
            late,
            clock,
        }
    }

    async fn advance(&self, by: Duration) {
        testing::advance(&self.clock, by).await;
    }

    async fn submit(&self, command: Command) -> clinch_core::OpId {
        let known = self.runtime.orchestrator().submit(vec![command]).await;
        let known = known.expect("the store answers").remove(0);
        known.expect("accepted").op_id
    }

    async fn ends_within_a_second(&self, op_id: clinch_core::OpId) -> Status {
        assert!(
            self.late.was_asked.load(Ordering::SeqCst),
            "the race was run"
        );
        self.advance(SECOND).await;
        let orchestrator = self.runtime.orchestrator();
        let row = orchestrator.status(op_id).await.expect("a row").operation;
        row.state.status
    }
}

fn natural() -> Rules {
    Rules {
        safety: Safety::Natural,
        ..Rules::default()
    }
}

#[tokio::test]
async fn out_2_the_relay_misses_no_row_that_falls_due_behind_its_claim() {
    let scene = Scene::start(natural());
    scene.advance(SECOND).await;
    scene.late.arm(Question::Outbox, SECOND);
    let mut command = Command::new(keys("later"), Payload::null());
    command.options.run_at = Some(scene.clock.now() + SECOND / 2);
    let op_id = scene.submit(command).await;
    scene.advance(Duration::ZERO).await;
    assert_eq!(scene.ends_within_a_second(op_id).await, Status::Completed);
}

#[tokio::test]
async fn run_6_the_reaper_misses_no_lease_that_ends_behind_its_scan() {
    let scene = Scene::start(natural());
    let paused = Domain::new("pay").expect("a name");
    let memory = &scene.late.memory;
    scene.advance(SECOND).await;
    // A worker of another process begins it, and dies.
    let mut command = Command::new(keys("lost"), Payload::null());
    command.options.run_at = Some(scene.clock.now() + SECOND);
    let op_id = scene.submit(command).await;
    clinch_core::ports::Domains::pause(memory, &paused, &clinch_core::ports::NewPause::default())
        .await
        .expect("paused");
    scene.advance(SECOND).await;
    clinch_core::ports::Domains::resume(memory, &paused)
        .await
        .expect("resumed");
    scene
        .late
        .arm(Question::Scan(Scan::LeaseEnded), SECOND * 11);
    let begin = BeginRequest {
        op_id,
        attempt_id: SystemIds.attempt_id(),
        worker: WorkerId::new("w2").expect("a name"),
        lease: SECOND * 10,
    };
    let domain = Domain::new("pay").expect("a name");
    let routes = Routes::new().with(domain, EventTypes::Any, natural());
    let begin = [Write::Begin(begin)];
    let begun = memory.commit(&begin, &routes).await.expect("answered");
    assert!(matches!(begun[..], [Written::Begun(_)]), "{begun:?}");
    scene.advance(Duration::ZERO).await;
    assert!(
        scene.late.was_asked.load(Ordering::SeqCst),
        "the race was run"
    );
    // Lost at once, and called again after its pause.
    scene.advance(SECOND * 10).await;
    let orchestrator = scene.runtime.orchestrator();
    let row = orchestrator.status(op_id).await.expect("a row").operation;
    assert_eq!(row.state.status, Status::Completed, "{:?}", row.state);
}

#[tokio::test]
async fn run_6_the_prober_misses_no_probe_that_falls_due_behind_its_scan() {
    let rules = Rules {
        probe: Some(ProbeRules::default()),
        ..Rules::default()
    };
    let scene = Scene::start(rules);
    scene.advance(SECOND).await;
    // The first question comes right after the first probe was claimed; the second one after a
    // scan that found nothing, before the next probe is due.
    scene.late.in_time.store(1, Ordering::SeqCst);
    scene.late.arm(Question::Scan(Scan::ProbeDue), HOUR / 2);
    let command = Command::new(keys("unsure"), Payload::null());
    let orchestrator = scene.runtime.orchestrator();
    let handle = orchestrator.start(command, TimeBudget::NONE).await;
    let op_id = handle.expect("accepted").op_id;
    scene.advance(Duration::ZERO).await;
    let row = orchestrator.status(op_id).await.expect("a row").operation;
    assert_eq!(row.state.phase, Some(Phase::Held), "{:?}", row.state);
    assert_eq!(scene.ends_within_a_second(op_id).await, Status::Completed);
}

#[tokio::test]
async fn run_6_the_sweeper_misses_no_deadline_that_passes_behind_its_scan() {
    let scene = Scene::start(natural());
    scene.advance(SECOND).await;
    // No worker begins it before its deadline.
    let paused = Domain::new("pay").expect("a name");
    clinch_core::ports::Domains::pause(
        &scene.late.memory,
        &paused,
        &clinch_core::ports::NewPause::default(),
    )
    .await
    .expect("paused");
    scene.late.arm(Question::Scan(Scan::Overdue), SECOND * 6);
    let mut command = Command::new(keys("overdue"), Payload::null());
    command.options.deadline = Some(scene.clock.now() + SECOND * 5);
    let op_id = scene.submit(command).await;
    scene.advance(Duration::ZERO).await;
    assert_eq!(scene.ends_within_a_second(op_id).await, Status::Failed);
}
