//! The user's ports: make the call, and ask what became of one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Envelope, Fail, Outcome, Result, Success};

/// Makes the external call.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Calls the provider and says how it went.
    ///
    /// - Sends `envelope.outbound_key`, so that the provider can tell a repeat.
    /// - A timeout after the request left is `Retry::unknown`, never `Fail`.
    /// - A panic is taken as `Retry::unknown`: the call may have left.
    async fn execute(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome;
}

/// What a running attempt can do besides return.
#[async_trait]
pub trait Attempt: Send + Sync {
    /// The lease is still believed in, on this machine's monotonic clock. Ask right before
    /// the first byte: it narrows the race of a paused worker, it cannot close it.
    fn holds_lease(&self) -> bool;

    /// Cancel was requested. An Ok still wins.
    fn is_canceled(&self) -> bool;

    /// The destination's guards have given their permits: from here on they count the call, and
    /// the engine's reservation for it ends. Whoever composes guards calls it before the call
    /// leaves.
    fn admitted(&self) {}

    /// Keeps bytes for the next attempt.
    async fn checkpoint(&self, bytes: &[u8]) -> Result<()>;
}

/// Asks the provider what became of our call.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Looks the call up by its outbound key or a field that names it.
    ///
    /// - `Succeeded` and `Failed` only for *our* call.
    /// - An error or a doubt is `Unknown`; a 429 or a `Retry-After` is `Later`.
    /// - A question that this machine could not send is `NotAsked`.
    async fn probe(&self, envelope: &Envelope) -> ProbeVerdict;
}

/// What the provider says of our call.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeVerdict {
    /// It was applied.
    Succeeded(Success),
    /// It was refused.
    Failed(Fail),
    /// It is not known there.
    NotFound,
    /// No verdict.
    Unknown,
    /// The provider takes no questions now; not a doubt. `Some`: it asked everyone to stay away
    /// for so long.
    Later(Option<Duration>),
    /// This machine could not send the question (no file descriptor, no port); not a doubt.
    NotAsked,
}
