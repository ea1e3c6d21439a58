//! A provider, a lease and a way to run futures without a runtime.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Attempt, Clock, Executor, Verdict};
use clinch_core::{
    BizKey, Command, Domain, Envelope, EventType, Fail, IdemKey, Keys, OpId, Outcome, Payload,
    Result, Retry, Success,
};
use clinch_memory::ManualClock;
use clinch_protect::{Chain, Destination, DestinationConfig};

const OP_ID: &str = "01917f5e-0000-7000-8000-000000000000";

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A future that is polled by hand.
pub(crate) struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    flag: Arc<Flag>,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<'a, T> Task<'a, T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self {
            future: Box::pin(future),
            flag: Arc::new(Flag(AtomicBool::new(true))),
        }
    }

    /// Polls until it is done or waits for something that has not happened.
    pub(crate) fn poll(&mut self) -> Option<T> {
        let waker = Waker::from(Arc::clone(&self.flag));
        while self.flag.0.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(done) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(done);
            }
        }
        None
    }

    /// Moves the clock by milliseconds until it is done.
    pub(crate) fn finish(mut self, clock: &ManualClock) -> T {
        for _ in 0..1_000_000 {
            if let Some(done) = self.poll() {
                return done;
            }
            clock.advance(ms(1));
        }
        panic!("it does not end");
    }
}

/// The result of a future that has no reason to wait.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    Task::new(future).poll().expect("it waits")
}

pub(crate) fn run<T>(clock: &ManualClock, future: impl Future<Output = T>) -> T {
    Task::new(future).finish(clock)
}

pub(crate) fn command() -> Command {
    let keys = Keys {
        domain: Domain::new("payments").expect("domain"),
        event_type: EventType::new("charge").expect("event type"),
        biz_key: BizKey::new("order-1").expect("biz key"),
        idem_key: IdemKey::new("1").expect("idem key"),
    };
    Command::new(keys, Payload::null())
}

pub(crate) fn envelope(attempt: u32) -> Envelope {
    let command = command();
    Envelope {
        op_id: OP_ID.parse::<OpId>().expect("op id"),
        outbound_key: command.keys.outbound_key(),
        command,
        seq: 1,
        attempt,
        fence: 1,
        deadline: None,
        checkpoint: None,
        trace: None,
    }
}

#[derive(Default)]
pub(crate) struct Lease {
    pub(crate) is_lost: AtomicBool,
    pub(crate) is_canceled: AtomicBool,
}

#[async_trait]
impl Attempt for Lease {
    fn holds_lease(&self) -> bool {
        !self.is_lost.load(Ordering::SeqCst)
    }
    fn is_canceled(&self) -> bool {
        self.is_canceled.load(Ordering::SeqCst)
    }
    async fn checkpoint(&self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// What the provider answers, and after how long.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) after: Duration,
    /// `None`: a panic.
    pub(crate) outcome: Option<Outcome>,
}

pub(crate) fn ok() -> Outcome {
    Outcome::Ok(Success::new(Payload::null()))
}

pub(crate) fn fail() -> Outcome {
    Outcome::Fail(Fail::new("http_402", "no"))
}

pub(crate) fn unknown() -> Outcome {
    Outcome::Retry(Retry::unknown("reset"))
}

pub(crate) fn not_applied() -> Outcome {
    Outcome::Retry(Retry::not_applied("busy"))
}

pub(crate) fn not_called(reason: &str, after: Duration) -> Outcome {
    Outcome::Retry(Retry::not_called(reason).after(after))
}

/// An executor that answers from a script, then Ok.
pub(crate) struct Provider {
    clock: Arc<ManualClock>,
    script: Mutex<VecDeque<Reply>>,
    calls: Mutex<Vec<Duration>>,
    pub(crate) open: AtomicUsize,
    pub(crate) most_open: AtomicUsize,
}

impl Provider {
    pub(crate) fn new(clock: &Arc<ManualClock>) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::clone(clock),
            script: Mutex::default(),
            calls: Mutex::default(),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
        })
    }

    pub(crate) fn then(&self, after: Duration, outcome: Outcome) {
        let outcome = Some(outcome);
        self.script
            .lock()
            .expect("script")
            .push_back(Reply { after, outcome });
    }

    pub(crate) fn then_panics(&self) {
        let (after, outcome) = (Duration::ZERO, None);
        self.script
            .lock()
            .expect("script")
            .push_back(Reply { after, outcome });
    }

    /// When it was called.
    pub(crate) fn calls(&self) -> Vec<Duration> {
        self.calls.lock().expect("calls").clone()
    }
}

/// Counts a call down even when it is dropped.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, _envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        let _open = Open(&self.open);
        self.most_open.fetch_max(open, Ordering::SeqCst);
        self.calls
            .lock()
            .expect("calls")
            .push(self.clock.monotonic());
        let reply = self.script.lock().expect("script").pop_front();
        let Some(reply) = reply else { return ok() };
        if !reply.after.is_zero() {
            self.clock.sleep(reply.after).await;
        }
        reply.outcome.expect("the provider's client panics")
    }
}

/// A chain around a scripted provider.
pub(crate) struct Rig {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) destination: Arc<Destination>,
    pub(crate) lease: Arc<Lease>,
    /// The same, as a chain sees it.
    pub(crate) attempt: Arc<dyn Attempt>,
}

impl Rig {
    pub(crate) fn new(config: DestinationConfig) -> Self {
        let clock = Arc::new(ManualClock::default());
        let destination = Destination::new("psp", clock.clone(), config).expect("valid");
        let lease = Arc::<Lease>::default();
        Self {
            provider: Provider::new(&clock),
            destination: Arc::new(destination),
            attempt: lease.clone(),
            lease,
            clock,
        }
    }

    pub(crate) fn chain(&self) -> Chain {
        let destination = Arc::clone(&self.destination);
        Chain::new(self.provider.clone(), destination, self.clock.clone())
    }

    pub(crate) fn run(&self, chain: &Chain, attempt: u32) -> Outcome {
        run(
            &self.clock,
            chain.execute(&envelope(attempt), &self.attempt),
        )
    }
}

/// Opens the breaker by calls that fail.
pub(crate) fn trip(destination: &Destination) {
    for _ in 0..10 {
        let took = Duration::ZERO;
        let permit = destination.breaker().try_acquire().expect("permit");
        permit.report(Verdict::Failed { took });
    }
}
