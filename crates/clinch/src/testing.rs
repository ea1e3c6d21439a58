//! An engine for tests: in memory, on a clock that only the test moves.
//!
//! ```
//! use std::time::Duration;
//! use clinch::{Call, Clinch, Retry, Route, testing};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! let charge: Route<u64, u64> = Route::new("payments", "charge").natural();
//! let handler = |call: Call<u64>| async move {
//!     match call.attempt() {
//!         1 => Err(Retry::not_applied("busy")),
//!         _ => Ok(call.input),
//!     }
//! };
//! let test = testing::start(Clinch::builder().handle(&charge, handler))?;
//! let handle = test.clinch.start(charge.request("order-1", "a", &7), Duration::ZERO).await?;
//! // The retry waits a second; the test does not.
//! let done = test.assert_completed(&charge, handle.op_id()).await;
//! assert_eq!(done.value, 7);
//! assert_eq!(test.attempts(handle.op_id()).await, 2);
//! # Ok(())
//! # }
//! ```
//!
//! [`SplitMix`] makes the same numbers for the same seed, and [`Test`] is what helpers of your tests
//! take:
//!
//! ```
//! use clinch::testing::{SplitMix, Test, start};
//! use clinch::Clinch;
//!
//! async fn an_hour_later(test: &Test) {
//!     test.advance(std::time::Duration::from_secs(3_600)).await;
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! an_hour_later(&start(Clinch::builder())?).await;
//! assert_eq!(SplitMix::new(7).next_u64(), SplitMix::new(7).next_u64());
//! # Ok(())
//! # }
//! ```
//!
//! Run such tests on tokio's current-thread runtime (`#[tokio::test]`): the clock moves when every
//! task is idle. The clock does not wait for a handler that waits for something outside of the
//! process.

mod effects;

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Clock, Operation};
use clinch_core::protocol::Phase;
use clinch_core::{Failure, OpId, Result};
use serde::de::DeserializeOwned;

pub use clinch_core::policy::SplitMix;
pub use clinch_memory::ManualClock;
pub use effects::Effects;

use crate::types::{Builder, Settled};
use crate::{Backend, Clinch, Done, Route};

/// How often other tasks are polled before they count as idle: more often than any operation needs
/// from one wait to the next.
const TURNS: usize = 500;

/// Upper bound of a test's wait, on the engine's clock: every operation ends within its deadline.
const PATIENCE: Duration = Duration::from_secs(48 * 60 * 60);

/// An engine under test. Its runners stop when it is dropped.
///
/// ```
/// use clinch::ports::Clock;
/// use clinch::testing::{self, Test};
/// use clinch::types::Settled;
/// use clinch::{Call, Clinch, Fail, Route};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let charge: Route<u64, u64> = Route::new("payments", "charge");
/// let handler = |call: Call<u64>| async move {
///     match call.input {
///         0 => Err(Fail::new("empty", "nothing to charge")),
///         amount => Ok(amount),
///     }
/// };
/// let test: Test = testing::start(Clinch::builder().handle(&charge, handler))?;
/// let requests = vec![charge.request("order-1", "a", &7), charge.request("order-2", "a", &0)];
/// let accepted = test.clinch.submit(requests).await?;
/// let ops = accepted.into_iter().collect::<clinch::Result<Vec<_>>>()?;
///
/// let settled = test.assert_settled(&charge, ops[0]).await;
/// assert!(matches!(settled, Settled::Completed(done) if done.value == 7));
/// assert_eq!(test.assert_failed(&charge, ops[1]).await.code, "empty");
///
/// // The row as it is stored, and the clock that only the test moves.
/// let row = test.operation(ops[1]).await;
/// assert_eq!(row.state.attempts, test.attempts(ops[1]).await);
/// assert!(row.finished_at <= Some(test.clock().now()));
/// # Ok(())
/// # }
/// ```
pub struct Test {
    /// The handle.
    pub clinch: Clinch,
    clock: Arc<ManualClock>,
}

/// Starts an engine in memory, on a clock of its own, with all its runners.
///
/// ```
/// # use clinch::{Clinch, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let test = testing::start(Clinch::builder())?;
/// assert!(test.clinch.destinations().is_empty());
/// # Ok(())
/// # }
/// ```
pub fn start(builder: Builder) -> Result<Test> {
    let clock = Arc::new(ManualClock::default());
    let backend = Backend::memory_on(clock.clone());
    let clinch = builder.backend(backend).clock(clock.clone()).build()?;
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    Ok(Test { clinch, clock })
}

impl Test {
    /// Moves the clock. Everything that falls due meanwhile happens, in order.
    pub async fn advance(&self, by: Duration) {
        advance(&self.clock, by).await;
    }

    /// Moves the clock until the operation is settled, and returns its end.
    ///
    /// # Panics
    ///
    /// If it is not settled within two days of the engine's clock, with its ledger: it is held for
    /// an operator, or no handler runs it.
    pub async fn assert_settled<I, O: DeserializeOwned>(
        &self,
        route: &Route<I, O>,
        op_id: OpId,
    ) -> Settled<O> {
        self.until(op_id, "settled", |operation| operation.state.is_terminal())
            .await;
        match self.clinch.look(route, op_id).await.map(|h| h.settled) {
            Ok(Some(settled)) => settled,
            Ok(None) => fail(&format!("{op_id} is terminal and has no end")),
            Err(error) => fail(&format!("{op_id} cannot be read: {error}")),
        }
    }

    /// Moves the clock until the operation is as `is_there` says, and returns its row. `what` names
    /// it for the message of a failure.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use clinch::{Call, Clinch, Retry, Route, testing};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> clinch::Result<()> {
    /// # let ping: Route<u32, u32> = Route::new("demo", "ping").natural();
    /// # let handler = |_: Call<u32>| async { Err::<u32, _>(Retry::not_applied("busy")) };
    /// # let test = testing::start(Clinch::builder().handle(&ping, handler))?;
    /// # let handle = test.clinch.start(ping.request("a", "1", &1), Duration::ZERO).await?;
    /// let third = |row: &clinch::ports::Operation| row.state.attempts == 3;
    /// let row = test.until(handle.op_id(), "at its third call", third).await;
    /// assert_eq!(row.state.attempts, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If it does not become so within two days of the engine's clock.
    pub async fn until(
        &self,
        op_id: OpId,
        what: &str,
        is_there: impl Fn(&Operation) -> bool,
    ) -> Operation {
        let give_up = self.clock.monotonic().saturating_add(PATIENCE);
        loop {
            idle().await;
            let operation = self.operation(op_id).await;
            if is_there(&operation) {
                return operation;
            }
            match self.clock.next_wake() {
                Some(wake) if wake <= give_up => self.clock.advance_to(wake),
                _ => fail(&format!("{op_id} is not {what}: {:?}", operation.state)),
            }
        }
    }

    /// Moves the clock until the operation is held: its effect is unknown, and it waits for a probe
    /// or an operator. Returns its row; `state.hold` says why.
    ///
    /// # Panics
    ///
    /// If it is settled instead, or not held within two days of the engine's clock.
    pub async fn assert_held(&self, op_id: OpId) -> Operation {
        let is_held = |operation: &Operation| operation.state.phase == Some(Phase::Held);
        let reached = |operation: &Operation| operation.state.is_terminal() || is_held(operation);
        let operation = self.until(op_id, "held", reached).await;
        if !is_held(&operation) {
            fail(&format!("{op_id} is settled: {:?}", operation.state));
        }
        operation
    }

    /// Exactly one effect happened under the operation's outbound key.
    ///
    /// # Panics
    ///
    /// If none or several happened: see [`Effects`].
    pub async fn assert_one_effect(&self, op_id: OpId, effects: &Effects) {
        effects.assert_one_effect(&self.key(op_id).await);
    }

    /// The idempotency key that the provider sees of the operation, the same for every attempt.
    pub async fn key(&self, op_id: OpId) -> String {
        self.operation(op_id).await.outbound_key.as_str().to_owned()
    }

    /// Like [`Test::assert_settled`], for an operation that must be COMPLETED.
    pub async fn assert_completed<I, O: DeserializeOwned>(
        &self,
        route: &Route<I, O>,
        op_id: OpId,
    ) -> Done<O> {
        match self.assert_settled(route, op_id).await {
            Settled::Completed(done) => done,
            Settled::Failed(failure) => fail(&format!("{op_id} FAILED: {failure:?}")),
            Settled::OtherResult { .. } => fail(&format!("{op_id} has a result of another type")),
            Settled::Pruned(status) => fail(&format!("{op_id} is pruned: {status:?}")),
        }
    }

    /// Like [`Test::assert_settled`], for an operation that must be FAILED.
    pub async fn assert_failed<I, O: DeserializeOwned>(
        &self,
        route: &Route<I, O>,
        op_id: OpId,
    ) -> Failure {
        match self.assert_settled(route, op_id).await {
            Settled::Failed(failure) => failure,
            Settled::Completed(_) | Settled::OtherResult { .. } => {
                fail(&format!("{op_id} is COMPLETED"))
            }
            Settled::Pruned(status) => fail(&format!("{op_id} is pruned: {status:?}")),
        }
    }

    /// Number of calls that may have been sent for the operation.
    pub async fn attempts(&self, op_id: OpId) -> u32 {
        self.operation(op_id).await.state.attempts
    }

    /// The row as it is now.
    pub async fn operation(&self, op_id: OpId) -> Operation {
        match self.clinch.orchestrator().status(op_id).await {
            Ok(snapshot) => snapshot.operation,
            Err(error) => fail(&format!("{op_id} cannot be read: {error}")),
        }
    }

    /// The engine's clock.
    pub fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        self.clinch.stop();
    }
}

/// Moves a clock that several engines may share. Everything that falls due meanwhile happens, in
/// order.
///
/// ```
/// use std::time::Duration;
/// use clinch::ports::Clock;
/// use clinch::testing::{ManualClock, advance};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = ManualClock::default();
/// advance(&clock, Duration::from_secs(60)).await;
/// assert_eq!(clock.monotonic(), Duration::from_secs(60));
/// # }
/// ```
pub async fn advance(clock: &ManualClock, by: Duration) {
    let until = clock.monotonic().saturating_add(by);
    loop {
        idle().await;
        match clock.next_wake() {
            Some(wake) if wake <= until => clock.advance_to(wake),
            _ => break,
        }
    }
    clock.advance_to(until);
    idle().await;
}

/// Lets every other task run until it waits.
async fn idle() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// Fails the calling test.
#[expect(
    clippy::panic,
    reason = "this module is for tests, and this is how they fail"
)]
#[track_caller]
fn fail(message: &str) -> ! {
    panic!("{message}")
}
