//! What a handler receives, and what it returns.

use std::sync::Arc;

use clinch_core::ports::Attempt;
use clinch_core::{Command, Envelope, OpId, Payload, Result, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::types::Request;

/// One attempt, as its handler sees it.
///
/// ```
/// use clinch::{Call, Done, Retry};
///
/// async fn charge(call: Call<u64>) -> Result<Done<String>, Retry> {
///     // The same for every attempt, so that the provider can recognize a repeat.
///     let key = call.key().to_owned();
///     if call.is_canceled() {
///         return Err(Retry::not_called("canceled before the first byte"));
///     }
///     Ok(Done::new(format!("charged {} under {key}", call.input)))
/// }
/// # let _ = charge;
/// ```
///
/// A call of several steps: what one attempt has done, the next one does not do again.
///
/// ```
/// use std::time::Duration;
/// use clinch::{Call, Clinch, Refusal, Retry, Route, testing};
///
/// async fn upload(call: Call<Vec<String>>) -> Result<usize, Refusal> {
///     // The number of parts that earlier attempts have sent.
///     let sent = call.saved().map_or(0, |saved| usize::from(saved[0]));
///     for (number, _part) in call.input.iter().enumerate().skip(sent) {
///         // Right before each request: another process may have taken over.
///         if !call.holds_lease() {
///             return Err(Retry::not_called("the lease ended").into());
///         }
///         // Send the part to `call.biz_key()`, with the `traceparent` of the operation.
///         assert!(call.biz_key() == "file-7" && call.trace().is_some());
///         let sent = u8::try_from(number + 1).unwrap_or(u8::MAX);
///         call.save(&[sent]).await.map_err(|_| Retry::not_applied("the store is away"))?;
///         if call.attempt() == 1 {
///             return Err(Retry::not_applied("the connection broke").into());
///         }
///     }
///     assert!(call.deadline().is_some(), "a day, unless the route or the request names another");
///     Ok(call.input.len() - sent)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let route: Route<Vec<String>, usize> = Route::new("files", "upload");
/// let test = testing::start(Clinch::builder().handle(&route, upload))?;
/// let parts = ["a", "b", "c"].map(str::to_owned).to_vec();
/// let handle = test.clinch.start(route.request("file-7", "v1", &parts), Duration::ZERO).await?;
/// let done = test.assert_completed(&route, handle.op_id()).await;
/// assert_eq!(done.value, 2, "the second attempt sent two of three");
/// # Ok(())
/// # }
/// ```
pub struct Call<I> {
    /// The input of the request.
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

    /// The idempotency key to send: the same for every attempt, hedge and redrive.
    pub fn key(&self) -> &str {
        self.envelope.outbound_key.as_str()
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.envelope.attempt
    }

    /// No attempt begins at or after it.
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

    /// Whether the attempt holds its lease as far as this process knows. Ask right before the first
    /// byte is sent: this narrows the race of a paused process but cannot close it.
    pub fn holds_lease(&self) -> bool {
        self.attempt.holds_lease()
    }

    /// Bytes that an earlier attempt kept with [`Call::save`].
    pub fn saved(&self) -> Option<&[u8]> {
        self.envelope.checkpoint.as_deref()
    }

    /// Keeps bytes for the next attempt.
    pub async fn save(&self, bytes: &[u8]) -> Result<()> {
        self.attempt.checkpoint(bytes).await
    }
}

/// A provider's Ok.
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
    /// The provider's own transaction id.
    pub provider_txn_id: Option<String>,
    pub(crate) spawn: Vec<Result<Command, SpawnError>>,
}

/// Why a request cannot be accepted in a settle commit.
pub(crate) type SpawnError = String;

impl<O> Done<O> {
    /// An Ok with this result.
    pub fn new(value: O) -> Self {
        Self {
            value,
            provider_txn_id: None,
            spawn: Vec::new(),
        }
    }

    /// Sets the provider's own transaction id.
    #[must_use]
    pub fn txn_id(mut self, id: impl Into<String>) -> Self {
        self.provider_txn_id = Some(id.into());
        self
    }

    /// Accepts a further request in the commit that settles this one. The Ok is kept whatever is
    /// wrong with the request: an invalid request is left out and logged as an error.
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

pub(crate) fn encode<T: Serialize>(value: &T, bytes_max: usize) -> Result<Payload> {
    Ok(Payload::from_value(value, bytes_max)?)
}

pub(crate) fn decode<T: DeserializeOwned>(payload: &Payload) -> Result<T> {
    Ok(payload.to()?)
}

/// The only member of a result that is kept as text.
const AS_TEXT: &str = "clinch.text";

/// Maximum size of a stored result: together with the operations that it spawns it must fit one
/// record of the spill file, where bytes are written as hex.
const RESULT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The result as it is stored. A result that is not canonical JSON (for example an integer past
/// 2^53) is kept as its text. A result that is too long, or not JSON at all, is left out and
/// logged. The Ok is kept.
pub(crate) fn encode_result<T: Serialize>(op_id: OpId, value: &T) -> Payload {
    if let Ok(payload) = encode(value, RESULT_BYTES_MAX) {
        return payload;
    }
    let text = serde_json::to_string(value).ok();
    let kept = text.and_then(|text| {
        let wrapped = serde_json::json!({ AS_TEXT: text });
        encode(&wrapped, RESULT_BYTES_MAX).ok()
    });
    kept.unwrap_or_else(|| {
        let message = "a result is too long or not JSON and was left out";
        tracing::event!(target: "clinch", tracing::Level::ERROR, op.id = op_id.to_string(), "{message}");
        let left_out = serde_json::json!({"truncated": true});
        encode(&left_out, RESULT_BYTES_MAX).unwrap_or_else(|_| Payload::null())
    })
}

/// The inverse of [`encode_result`].
pub(crate) fn decode_result<T: DeserializeOwned>(payload: &Payload) -> Option<T> {
    let text = || {
        let value = payload.value();
        let text = value.get(AS_TEXT)?.as_str()?.to_owned();
        serde_json::from_str(&text).ok()
    };
    payload.to().ok().or_else(text)
}
