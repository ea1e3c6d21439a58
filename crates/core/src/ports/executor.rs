//! The ports that users implement: make the call, and ask the provider what became of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Envelope, Fail, Outcome, Result, Success};

/// Makes the external call.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Calls the provider and says how it went.
    ///
    /// - Sends `envelope.outbound_key`, so that the provider can recognize a repeat.
    /// - A timeout after the request left is `Retry::unknown`, never `Fail`.
    /// - A panic counts as `Retry::unknown`: the call may have left.
    async fn execute(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome;
}

/// What a running attempt can do besides returning an outcome.
#[async_trait]
pub trait Attempt: Send + Sync {
    /// Whether the attempt holds its lease as far as this machine knows, by its monotonic clock.
    /// Ask right before the first byte is sent: this narrows the race of a paused worker but cannot
    /// close it.
    fn holds_lease(&self) -> bool;

    /// Cancel was requested. An Ok still wins.
    fn is_canceled(&self) -> bool;

    /// Why no call may be made any more: `lease_lost` or `canceled`. `None`: a call may be made.
    fn refusal(&self) -> Option<&'static str> {
        match (self.holds_lease(), self.is_canceled()) {
            (false, _) => Some("lease_lost"),
            (true, true) => Some("canceled"),
            (true, false) => None,
        }
    }

    /// The destination's guards have given their permits: from here on they count the call, and the
    /// engine's reservation for it ends. Code that composes guards calls this before the call
    /// leaves.
    fn admitted(&self) {}

    /// Keeps bytes for the next attempt.
    async fn checkpoint(&self, bytes: &[u8]) -> Result<()>;
}

/// Asks the provider what became of a call.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Looks the call up by its outbound key or by a field that names it.
    ///
    /// - `Succeeded` and `Failed` only for the call of this envelope.
    /// - An error or a doubt is `Unknown`; a 429 or a `Retry-After` is `Later`.
    /// - A question that this machine could not send is `NotAsked`.
    async fn probe(&self, envelope: &Envelope) -> ProbeVerdict;
}

/// What the provider says about the call.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeVerdict {
    /// The call was applied.
    Succeeded(Success),
    /// The call was refused.
    Failed(Fail),
    /// The provider does not know the call.
    NotFound,
    /// The provider gave no verdict.
    Unknown,
    /// The provider takes no questions now, which is not an `Unknown`. `Some`: it asked every
    /// caller to pause for this long.
    Later(Option<Duration>),
    /// This machine could not send the question (no file descriptor, no port), which is not an
    /// `Unknown`.
    NotAsked,
}
