//! What an executor returns, and how an operation failed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Command, Payload};

/// Maximum length of a failure code, in bytes.
pub const CODE_BYTES_MAX: usize = 64;
/// Maximum length of a stored message, reason or cause, in bytes; longer texts are cut (OUT-5).
pub const MESSAGE_BYTES_MAX: usize = 500;
/// Maximum length of a provider transaction id, in bytes; longer ids are cut.
pub const TXN_ID_BYTES_MAX: usize = 255;
/// Maximum number of operations that one answer may spawn: they are accepted in its settle commit.
pub const SPAWN_MAX: usize = 1_000;

/// Maximum payload bytes that one answer may spawn: the answer and its spawned operations must fit
/// one record of the spill file.
pub const SPAWN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How one attempt ended. A panic or an error of the handler is converted into one of these too.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The provider applied the call.
    Ok(Success),
    /// Not settled; try again if that is allowed.
    Retry(Retry),
    /// The provider refused for good.
    Fail(Fail),
}

/// A provider's Ok.
#[derive(Debug, Clone, PartialEq)]
pub struct Success {
    /// The provider's own transaction id.
    pub provider_txn_id: Option<String>,
    /// The result for the caller.
    pub payload: Payload,
    /// Operations to accept in the commit that settles this one.
    pub spawn: Vec<Command>,
}

impl Success {
    /// A success with a result and nothing else.
    pub fn new(payload: Payload) -> Self {
        Self {
            provider_txn_id: None,
            payload,
            spawn: Vec::new(),
        }
    }
}

/// The outcome of an attempt that settled nothing.
///
/// ```
/// use std::time::Duration;
/// use clinch_core::{Applied, Retry};
///
/// // A timeout after the request left: it may have been applied.
/// assert_eq!(Retry::unknown("timeout").applied, Applied::Unknown);
/// // A 429: certainly not applied, and every caller is asked to pause.
/// let throttled = Retry::not_applied("throttled").retry_after(Duration::from_secs(30));
/// assert!(throttled.pauses);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The reason, for humans.
    pub reason: String,
    /// No attempt before this delay, capped by the route. Default: the backoff.
    pub after: Option<Duration>,
    /// The delay holds for every caller of this destination.
    pub pauses: bool,
    /// What may have happened at the provider.
    pub applied: Applied,
    /// The destination is well: the failure concerns this call only.
    pub own: bool,
}

impl Retry {
    /// The request reached the provider and certainly had no effect.
    pub fn not_applied(reason: impl Into<String>) -> Self {
        Self::with(reason, Applied::No)
    }

    /// The request may have had its effect: a timeout after sending, a reset, a 5xx.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::with(reason, Applied::Unknown)
    }

    /// No byte left this machine. The attempt is refunded: it does not count.
    pub fn not_called(reason: impl Into<String>) -> Self {
        Self::with(reason, Applied::NotCalled)
    }

    /// No attempt of this operation before this delay. Other operations are not affected.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// The provider's `Retry-After`: it holds for every caller of this destination.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.pauses = true;
        self.after(delay)
    }

    /// The failure concerns this call only, such as a 502 for one of many resources: the circuit
    /// breaker counts it as an answer. The operation is retried as usual.
    ///
    /// ```
    /// use clinch_core::Retry;
    ///
    /// assert!(Retry::not_applied("http_502 for one repository").own().own);
    /// ```
    #[must_use]
    pub fn own(mut self) -> Self {
        self.own = true;
        self
    }

    fn with(reason: impl Into<String>, applied: Applied) -> Self {
        Self {
            reason: shorten(reason.into(), MESSAGE_BYTES_MAX),
            after: None,
            pauses: false,
            applied,
            own: false,
        }
    }
}

/// What an attempt that settled nothing may have done at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    /// No byte was sent.
    NotCalled,
    /// Sent, and certainly not applied.
    No,
    /// Sent, and it is unknown whether it was applied.
    Unknown,
}

/// A provider's final refusal.
///
/// ```
/// use clinch_core::Fail;
///
/// let fail = Fail::new("card_declined", "the card was declined").because("insufficient funds");
/// assert_eq!(fail.code, "card_declined");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fail {
    /// Stable code for programs, such as `http_402`.
    pub code: String,
    /// What happened, for humans.
    pub message: String,
    /// The underlying error, redacted.
    pub cause: Option<String>,
}

impl Fail {
    /// A refusal. Text that is too long is cut.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: shorten(code.into(), CODE_BYTES_MAX),
            message: shorten(message.into(), MESSAGE_BYTES_MAX),
            cause: None,
        }
    }

    /// Adds the underlying error. Text that is too long is cut.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(shorten(cause.into(), MESSAGE_BYTES_MAX));
        self
    }
}

/// Whether a call of an operation may have been applied without Clinch knowing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No call can have been applied without Clinch knowing.
    #[default]
    None,
    /// A call ended without an answer. Stays set until an answer settles the operation.
    Unknown,
}

/// Why an operation is FAILED.
///
/// ```
/// use clinch_core::{Effect, Failure, code};
///
/// let failure = Failure::own(code::DEADLINE, "the deadline passed", Effect::None);
/// assert_eq!((failure.code.as_str(), failure.effect), ("deadline", Effect::None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// Stable code for programs: one of [`code`] or the executor's own.
    pub code: String,
    /// What happened, for humans.
    pub message: String,
    /// The underlying error, redacted.
    pub cause: Option<String>,
    /// Whether a call may have been applied nevertheless.
    pub effect: Effect,
}

impl Failure {
    /// A failure with one of Clinch's own codes.
    pub fn own(code: &str, message: impl Into<String>, effect: Effect) -> Self {
        Self::from_fail(Fail::new(code, message), effect)
    }

    /// A provider's refusal, with what is known about the effect.
    pub fn from_fail(fail: Fail, effect: Effect) -> Self {
        Self {
            code: fail.code,
            message: fail.message,
            cause: fail.cause,
            effect,
        }
    }
}

/// Clinch's own failure codes. Executors add theirs.
pub mod code {
    /// All attempts were used.
    pub const RETRY_EXHAUSTED: &str = "retry_exhausted";
    /// The deadline passed.
    pub const DEADLINE: &str = "deadline";
    /// A caller or operator canceled it.
    pub const CANCELED: &str = "canceled";
    /// The stored payload does not match its content hash; it was never sent.
    pub const INTEGRITY: &str = "integrity";
    /// Too many attempts in a row lost their worker.
    pub const POISON: &str = "poison";
    /// An attempt was lost and the Reaper's strategy is `fail`.
    pub const ATTEMPT_LOST: &str = "attempt_lost";
    /// A call ended unknown. As the code of a failure or hold: and it may not be repeated.
    pub const EFFECT_UNKNOWN: &str = "effect_unknown";
    /// Only of a last error: the attempt ended before it sent anything.
    pub const NOT_CALLED: &str = "not_called";
    /// Only of a last error: the provider did not apply the call, and may be asked again. A reason
    /// that begins with a code of its own, such as `http_503`, shows that code instead.
    pub const NOT_APPLIED: &str = "not_applied";
    /// Only of a last error: a probe did not tell what became of the call.
    pub const PROBE_INCONCLUSIVE: &str = "probe_inconclusive";
}

/// Longest code that a log line shows.
const SHOWN_CODE_MAX: usize = 40;

/// The first word of a code or reason if it is safe to show in a log, an alert or a metric label:
/// lowercase letters and underscores, with digits only in `http_<status>`. `None`: it may be text
/// of a provider, such as a token or a name.
///
/// ```
/// use clinch_core::safe_code;
///
/// assert_eq!(safe_code("http_500"), Some("http_500"));
/// assert_eq!(safe_code("connect_failed: connection refused"), Some("connect_failed"));
/// assert_eq!(safe_code("sk_live_4f1d"), None);
/// assert_eq!(safe_code("Invalid card 4242"), None);
/// ```
pub fn safe_code(text: &str) -> Option<&str> {
    let word = text.split(':').next().unwrap_or_default();
    let is_status = |digits: &str| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit());
    let is_plain = |word: &str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        !word.is_empty() && word.len() <= SHOWN_CODE_MAX && word.bytes().all(is_letter)
    };
    let is_http = word.strip_prefix("http_").is_some_and(is_status);
    (is_http || is_plain(word)).then_some(word)
}

/// Cuts `text` to at most `max` bytes at a character boundary.
pub fn shorten(mut text: String, max: usize) -> String {
    if text.len() > max {
        let mut end = max;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_5_messages_are_cut_at_a_character_boundary() {
        let fail = Fail::new("x", "가".repeat(400));
        assert!(fail.message.len() <= MESSAGE_BYTES_MAX);
        assert!(fail.message.chars().all(|c| c == '가'));
        assert_eq!(Retry::unknown("y".repeat(600)).reason.len(), 500);
    }
}
