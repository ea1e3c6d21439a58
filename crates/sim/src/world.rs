//! The scheduler: one thread, one seed, simulated time.
//!
//! Tasks run one at a time; the seed decides which of the ready tasks runs next. If none is ready,
//! time jumps to the next timer. A task belongs to a host (a node, or the outside world): a crashed
//! host loses its tasks at whichever await they are, and a paused host is not run. So every
//! interleaving that the awaits allow can happen, and the same seed gives the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use clinch_core::policy::SplitMix;

/// Where a task runs. 0 is the outside world: clients, providers, the network.
pub(crate) type Host = usize;

/// Up to this many ready tasks, each is equally likely to run next. Among more, the first one after
/// a random id runs: with thousands of tasks, checking each would cost too much.
const FEW: usize = 256;

/// The outside world.
pub(crate) const OUTSIDE: Host = 0;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One simulated world. Cheap to clone.
#[derive(Clone)]
pub(crate) struct World {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// A lock of its own: wakers are called while other state may be locked.
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

struct State {
    rng: SplitMix,
    now: Duration,
    tasks: BTreeMap<u64, (Host, Option<Task>)>,
    paused: BTreeSet<Host>,
    timers: BTreeMap<(Duration, u64), Waker>,
    last_id: u64,
    trace: Trace,
}

/// What happened, as a running hash and, if requested, as lines.
struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
    events: u64,
}

struct ReadyFlag {
    id: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for ReadyFlag {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(seed: u64, keep_lines: bool) -> Self {
        let state = State {
            rng: SplitMix::new(seed),
            now: Duration::ZERO,
            tasks: BTreeMap::new(),
            paused: BTreeSet::new(),
            timers: BTreeMap::new(),
            last_id: 0,
            trace: Trace {
                hash: 0xcbf2_9ce4_8422_2325,
                lines: keep_lines.then(Vec::new),
                events: 0,
            },
        };
        let shared = Shared {
            state: Mutex::new(state),
            ready: Arc::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Simulated time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.state().now
    }

    /// 64 random bits from the seed.
    pub(crate) fn draw(&self) -> u64 {
        self.state().rng.next_u64()
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// True in `permille` of 1,000 draws.
    pub(crate) fn chance(&self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A duration up to `max_ms` milliseconds.
    pub(crate) fn delay(&self, max_ms: u64) -> Duration {
        Duration::from_millis(self.below(max_ms + 1))
    }

    /// Starts a task on a host.
    pub(crate) fn spawn(&self, host: Host, task: Task) {
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        state.tasks.insert(id, (host, Some(task)));
        drop(state);
        lock(&self.shared.ready).insert(id);
    }

    /// Drops every task of a host, at whichever await it is.
    pub(crate) fn crash(&self, host: Host) {
        let mut state = self.state();
        let gone: Vec<u64> = state
            .tasks
            .iter()
            .filter(|(_, (at, _))| *at == host)
            .map(|(id, _)| *id)
            .collect();
        let dropped: Vec<_> = gone
            .iter()
            .filter_map(|id| state.tasks.remove(id))
            .collect();
        state.paused.remove(&host);
        drop(state);
        // Destructors may spawn or wake, so they must not run under the lock.
        drop(dropped);
    }

    /// Pauses or resumes a host. Time continues for it.
    pub(crate) fn set_paused(&self, host: Host, paused: bool) {
        let mut state = self.state();
        if paused {
            state.paused.insert(host);
        } else {
            state.paused.remove(&host);
        }
    }

    /// Returns once this much simulated time has passed.
    pub(crate) fn sleep(&self, duration: Duration) -> Sleep {
        Sleep {
            world: self.clone(),
            until: self.now().saturating_add(duration),
            timer: None,
        }
    }

    /// Records an event: always in the hash, and as a line if lines are kept.
    pub(crate) fn note(&self, event: fmt::Arguments<'_>) {
        let mut state = self.state();
        let now = state.now;
        let text = event.to_string();
        let trace = &mut state.trace;
        trace.events += 1;
        let stamp = now.as_millis().to_le_bytes();
        for byte in stamp.iter().chain(text.as_bytes()) {
            trace.hash = (trace.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = trace.lines.as_mut() {
            lines.push(format!("{:>10.3}s  {text}", now.as_secs_f64()));
        }
    }

    /// Hash, number of events, and the lines if they were kept.
    pub(crate) fn trace(&self) -> (u64, u64, Vec<String>) {
        let mut state = self.state();
        let trace = &mut state.trace;
        let lines = trace.lines.take().unwrap_or_default();
        (trace.hash, trace.events, lines)
    }

    /// Runs until `done`, or until simulated time reaches `until`. Returns whether it was done.
    pub(crate) fn run(&self, until: Duration, done: impl Fn() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if !self.step(until) {
                return done();
            }
        }
    }

    /// Polls one ready task, or advances time. False: nothing is left before `until`.
    fn step(&self, until: Duration) -> bool {
        if let Some((id, mut task)) = self.take_ready() {
            let flag = ReadyFlag {
                id,
                ready: self.shared.ready.clone(),
            };
            let waker = Waker::from(Arc::new(flag));
            let poll = task.as_mut().poll(&mut Context::from_waker(&waker));
            let mut state = self.state();
            match poll {
                Poll::Ready(()) => {
                    state.tasks.remove(&id);
                }
                // The task is gone if its host crashed meanwhile.
                Poll::Pending => {
                    if let Some(slot) = state.tasks.get_mut(&id) {
                        slot.1 = Some(task);
                        return true;
                    }
                }
            }
            drop(state);
            return true;
        }
        let mut state = self.state();
        let Some((&(at, _), _)) = state.timers.first_key_value() else {
            return false;
        };
        if at > until {
            return false;
        }
        state.now = state.now.max(at);
        let mut due = Vec::new();
        while let Some(entry) = state.timers.first_entry() {
            if entry.key().0 > at {
                break;
            }
            due.push(entry.remove());
        }
        drop(state);
        for waker in due {
            waker.wake();
        }
        true
    }

    /// One of the ready tasks whose host is not paused, chosen by the seed.
    fn take_ready(&self) -> Option<(u64, Task)> {
        let mut state = self.state();
        let mut ready = lock(&self.shared.ready);
        // A waker can outlive its task.
        if ready.len() <= FEW {
            ready.retain(|id| state.tasks.contains_key(id));
        }
        let runs = |id: &&u64| {
            let host = state.tasks.get(id).map(|(host, _)| host);
            host.is_some_and(|host| !state.paused.contains(host))
        };
        let draw = state.rng.clone().next_u64();
        let id = if ready.len() <= FEW {
            let count = ready.iter().filter(runs).count() as u64;
            let pick = draw.checked_rem(count)?;
            ready.iter().filter(runs).nth(pick as usize).copied()?
        } else {
            let from = draw % (state.last_id + 1);
            let mut around = ready.range(from..).chain(ready.range(..from));
            around.find(runs).copied()?
        };
        state.rng.next_u64();
        ready.remove(&id);
        let task = state.tasks.get_mut(&id)?.1.take()?;
        Some((id, task))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

/// See [`World::sleep`].
pub(crate) struct Sleep {
    world: World,
    until: Duration,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let world = self.world.clone();
        let mut state = world.state();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let id = match self.timer {
            Some(id) => id,
            None => {
                state.last_id += 1;
                self.timer = Some(state.last_id);
                state.last_id
            }
        };
        state.timers.insert((self.until, id), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.timer {
            self.world.state().timers.remove(&(self.until, id));
        }
    }
}
