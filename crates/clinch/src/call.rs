//! What a handler gets, and what it returns.

use std::sync::Arc;

use clinch_core::ports::Attempt;
use clinch_core::{Command, Envelope, Error, ErrorKind, OpId, Result, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Request;

/// One attempt, as its handler sees it.
///
/// ```
/// use clinch::{Call, Done, Retry};
///
/// async fn charge(call: Call<u64>) -> Result<Done<String>, Retry> {
///     // The same for every attempt, so that the provider can tell a repeat.
///     let key = call.key().to_owned();
///     if call.is_canceled() {
///         return Err(Retry::not_called("canceled before the first byte"));
///     }
///     Ok(Done::new(format!("charged {} under {key}", call.input)))
/// }
/// # let _ = charge;
/// ```
pub struct Call<I> {
    /// What was asked for.
    pub input: I,
    envelope: Envelope,
    attempt: Arc<dyn Attempt>,
}

impl<I> Call<I> {
    pub(crate) fn new(input: I, envelope: Envelope, attempt: Arc<dyn Attempt>) -> Self {
        Self {
            input,
            envelope,
            attempt,
        }
    }

    /// The operation.
    pub fn op_id(&self) -> OpId {
        self.envelope.op_id
    }

    /// The business object.
    pub fn biz_key(&self) -> &str {
        self.envelope.command.keys.biz_key.as_str()
    }

    /// What to send as the idempotency key: the same for every attempt, hedge and redrive.
    pub fn key(&self) -> &str {
        self.envelope.outbound_key.as_str()
    }

    /// Which call this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.envelope.attempt
    }

    /// No attempt begins after it.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.envelope.deadline
    }

    /// W3C `traceparent` of the operation, to pass on to the provider.
    pub fn trace(&self) -> Option<&str> {
        self.envelope.trace.as_deref()
    }

    /// Everything about this attempt, untyped.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Cancel was requested. An Ok still wins.
    pub fn is_canceled(&self) -> bool {
        self.attempt.is_canceled()
    }

    /// The lease is still believed in. Ask right before the first byte: it narrows the race of
    /// a paused process, it cannot close it.
    pub fn holds_lease(&self) -> bool {
        self.attempt.holds_lease()
    }

    /// What an earlier attempt left with [`Call::save`].
    pub fn saved(&self) -> Option<&[u8]> {
        self.envelope.checkpoint.as_deref()
    }

    /// Keeps bytes for the next attempt.
    pub async fn save(&self, bytes: &[u8]) -> Result<()> {
        self.attempt.checkpoint(bytes).await
    }
}

/// A provider's yes.
///
/// ```
/// use clinch::Done;
///
/// let done = Done::new("captured").txn_id("tx_9");
/// assert_eq!(done.value, "captured");
/// assert_eq!(done.provider_txn_id.as_deref(), Some("tx_9"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Done<O> {
    /// The result that callers get.
    pub value: O,
    /// The provider's own id of what it did.
    pub provider_txn_id: Option<String>,
    pub(crate) spawn: Vec<Result<Command, SpawnError>>,
}

/// Why a request cannot be accepted in a settle commit.
pub(crate) type SpawnError = String;

impl<O> Done<O> {
    /// With this result.
    pub fn new(value: O) -> Self {
        Self {
            value,
            provider_txn_id: None,
            spawn: Vec::new(),
        }
    }

    /// With the provider's own id of what it did.
    #[must_use]
    pub fn txn_id(mut self, id: impl Into<String>) -> Self {
        self.provider_txn_id = Some(id.into());
        self
    }

    /// Accepts a further request in the commit that settles this one: both happen or neither.
    /// A request that is not valid is left out, and logged.
    #[must_use]
    pub fn then<P>(mut self, request: Request<P>) -> Self {
        let command = request.into_command();
        self.spawn.push(command.map_err(|error| error.to_string()));
        self
    }
}

impl<O> From<O> for Done<O> {
    fn from(value: O) -> Self {
        Self::new(value)
    }
}

pub(crate) fn encode<T: Serialize>(value: &T, bytes_max: usize) -> Result<clinch_core::Payload> {
    clinch_core::Payload::from_value(value, bytes_max).map_err(invalid)
}

pub(crate) fn decode<T: DeserializeOwned>(payload: &clinch_core::Payload) -> Result<T> {
    payload.to().map_err(invalid)
}

pub(crate) fn invalid(invalid: clinch_core::Invalid) -> Error {
    Error::new(ErrorKind::Invalid, invalid.to_string()).with("field", invalid.field)
}
