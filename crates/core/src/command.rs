//! Commands that callers submit, and what executors and callers receive.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    BizKey, Domain, EventType, Failure, IdemKey, Invalid, KeyHash, OpId, OutboundKey, Payload,
    Status, Timestamp,
};

/// Maximum number of labels on one operation: labels are stored and shown, not queried in bulk.
pub const LABELS_MAX: usize = 16;
/// Maximum length of a label name or value, in bytes.
pub const LABEL_BYTES_MAX: usize = 128;

/// The four keys. The same four keys always name the same operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Keys {
    /// Business area.
    pub domain: Domain,
    /// What is to be done within the domain.
    pub event_type: EventType,
    /// The business object.
    pub biz_key: BizKey,
    /// The caller's idempotency key.
    pub idem_key: IdemKey,
}

impl Keys {
    /// The name of the operation in the key table.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(
            &self.domain,
            &self.event_type,
            &self.biz_key,
            &self.idem_key,
        )
    }

    /// The key that the provider sees: the same for every attempt, hedge and redrive.
    pub fn outbound_key(&self) -> OutboundKey {
        OutboundKey::derive(
            &self.domain,
            &self.event_type,
            &self.biz_key,
            &self.idem_key,
        )
    }
}

/// A request to make one external call.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The four keys.
    pub keys: Keys,
    /// What the executor needs.
    pub payload: Payload,
    /// When and how to run it.
    pub options: Options,
}

impl Command {
    /// A command with default options.
    pub fn new(keys: Keys, payload: Payload) -> Self {
        Self {
            keys,
            payload,
            options: Options::default(),
        }
    }
}

/// The part of a command that does not count for "is it the same request?".
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Options {
    /// No attempt begins before this moment.
    pub run_at: Option<Timestamp>,
    /// No attempt begins at or after this moment. Must be later than `run_at`. Default: the
    /// route's deadline, counted from accept or from `run_at`, whichever is later.
    pub deadline: Option<Timestamp>,
    /// Among due rows, a higher priority is claimed first.
    pub priority: Priority,
    /// Free text labels.
    pub labels: Labels,
    /// W3C `traceparent` of the submitter. Stored in a column of its own, not with the options.
    #[serde(skip)]
    pub trace: Option<String>,
}

impl Options {
    /// Refuses a deadline under which no attempt could ever begin.
    pub fn validate(&self) -> Result<(), Invalid> {
        match (self.run_at, self.deadline) {
            (Some(run_at), Some(deadline)) if deadline <= run_at => Err(Invalid::new(
                "deadline",
                "must be later than run_at, or no attempt could ever begin",
            )),
            _ => Ok(()),
        }
    }
}

/// Which due row is claimed first: −10 (last) to 10 (first).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "i8", into = "i8")]
pub struct Priority(i8);

impl Priority {
    /// A priority within −10 … 10.
    pub fn new(value: i8) -> Result<Self, Invalid> {
        if (-10..=10).contains(&value) {
            Ok(Self(value))
        } else {
            Err(Invalid::new("priority", "must be between -10 and 10"))
        }
    }

    /// The number.
    pub fn get(self) -> i8 {
        self.0
    }
}

impl TryFrom<i8> for Priority {
    type Error = Invalid;
    fn try_from(value: i8) -> Result<Self, Invalid> {
        Self::new(value)
    }
}

impl From<Priority> for i8 {
    fn from(value: Priority) -> i8 {
        value.0
    }
}

/// Labels: at most [`LABELS_MAX`], each name and value at most [`LABEL_BYTES_MAX`] bytes
/// without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, String>",
    into = "BTreeMap<String, String>"
)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// The labels, if they are valid.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, Invalid> {
        if labels.len() > LABELS_MAX {
            return Err(Invalid::new(
                "labels",
                format!("has more than {LABELS_MAX} entries"),
            ));
        }
        let text_is_bad =
            |text: &String| text.len() > LABEL_BYTES_MAX || text.chars().any(char::is_control);
        if labels
            .iter()
            .any(|(name, value)| name.is_empty() || text_is_bad(name) || text_is_bad(value))
        {
            let problem = format!(
                "names must not be empty; names and values hold at most {LABEL_BYTES_MAX} bytes and no control characters"
            );
            return Err(Invalid::new("labels", problem));
        }
        Ok(Self(labels))
    }

    /// The value under this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = Invalid;
    fn try_from(labels: BTreeMap<String, String>) -> Result<Self, Invalid> {
        Self::new(labels)
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

/// What an executor receives: the command and the facts of this attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The operation.
    pub op_id: OpId,
    /// The command that was accepted.
    pub command: Command,
    /// Grows within (domain, biz_key).
    pub seq: u64,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Every write of this attempt carries it.
    pub fence: u64,
    /// The idempotency key for the provider: the same for every attempt.
    pub outbound_key: OutboundKey,
    /// No attempt begins at or after it.
    pub deadline: Option<Timestamp>,
    /// Bytes that an earlier attempt kept with `checkpoint`.
    pub checkpoint: Option<Vec<u8>>,
    /// W3C `traceparent` of the operation.
    pub trace: Option<String>,
}

/// What `start` returns: the result if it came within the time budget.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationHandle {
    /// The operation.
    pub op_id: OpId,
    /// The same keys had been accepted before.
    pub replayed: bool,
    /// The status when the wait ended.
    pub status: Status,
    /// The result, if COMPLETED.
    pub result: Option<(Option<String>, Payload)>,
    /// The failure, if FAILED.
    pub failure: Option<Failure>,
    /// The row is gone; only the keys and the status are left.
    pub pruned: bool,
}

impl OperationHandle {
    /// The operation settled within the time budget: answer 200. Otherwise answer 202 with a status
    /// URL.
    pub fn completed_fast(&self) -> bool {
        self.status.is_terminal()
    }
}

/// How long a caller waits before it gets a 202. The work continues either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBudget(Duration);

impl TimeBudget {
    /// The longest wait. Longer budgets are clamped, so that no connection is held for minutes.
    pub const MAX: Duration = Duration::from_secs(60);
    /// The wait if the caller names none.
    pub const DEFAULT: Self = Self(Duration::from_secs(2));
    /// Answers at once.
    pub const NONE: Self = Self(Duration::ZERO);

    /// A budget, clamped to [`TimeBudget::MAX`].
    pub fn new(wait: Duration) -> Self {
        Self(wait.min(Self::MAX))
    }

    /// The wait.
    pub fn get(self) -> Duration {
        self.0
    }

    /// The rest of the budget after `waited`. Zero: answer 202 now.
    pub fn left_after(self, waited: Duration) -> Duration {
        self.0.saturating_sub(waited)
    }
}

impl Default for TimeBudget {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_1_options_validate_themselves() {
        let run_at = Some(Timestamp::from_millis(5));
        let with = |deadline| Options {
            run_at,
            deadline,
            ..Options::default()
        };
        assert!(with(None).validate().is_ok());
        assert!(with(Some(Timestamp::from_millis(6))).validate().is_ok());
        let refused = with(run_at).validate().expect_err("too early");
        assert_eq!(refused.field, "deadline");
        assert!(Priority::new(10).is_ok());
        assert!(Priority::new(11).is_err());
        assert!(serde_json::from_str::<Priority>("-11").is_err());
        let many = (0..=LABELS_MAX).map(|i| (i.to_string(), String::new()));
        assert!(Labels::new(many.collect()).is_err());
        assert!(serde_json::from_str::<Labels>(r#"{"a":"b\u0000"}"#).is_err());
        assert!(serde_json::from_str::<Labels>(r#"{"":"b"}"#).is_err());
        assert!(serde_json::from_str::<Labels>(r#"{"team":"shop"}"#).is_ok());
    }

    #[test]
    fn core_8_a_budget_is_clamped_and_runs_out() {
        let budget = TimeBudget::new(Duration::from_secs(3_600));
        assert_eq!(budget.get(), TimeBudget::MAX);
        let budget = TimeBudget::new(Duration::from_secs(2));
        assert_eq!(
            budget.left_after(Duration::from_millis(1_999)),
            Duration::from_millis(1)
        );
        assert_eq!(budget.left_after(Duration::from_secs(2)), Duration::ZERO);
    }
}
