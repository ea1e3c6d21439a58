//! Dead letters: operations that ended FAILED other than by cancel, and what became of them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    BizKey, ContentHash, Domain, EventType, Failure, IdemKey, Keys, OpId, Sealed, Timestamp,
    WorkerId,
};

/// Bytes of a fingerprint: enough that two errors of one system do not share one.
const FINGERPRINT_BYTES: usize = 8;

/// A dead letter with its payload, as it is written to the file beside the store and imported from
/// there. A list shows a [`LetterView`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The operation.
    pub op_id: OpId,
    /// The four keys.
    pub keys: Keys,
    /// Why it failed.
    pub failure: Failure,
    /// Number of calls.
    pub attempts: u32,
    /// The payload as it is stored.
    pub payload: Sealed,
    /// The hash of the stored payload.
    pub content_hash: ContentHash,
    /// When it became terminal.
    pub failed_at: Timestamp,
    /// A provider's Ok was recorded afterwards: the call was applied.
    #[serde(default)]
    pub late_ok: bool,
}

/// A dead letter as lists show it, without its payload.
#[derive(Debug, Clone, PartialEq)]
pub struct LetterView {
    /// The operation.
    pub op_id: OpId,
    /// The operation's seq; 0 of a letter that was imported without its operation.
    pub seq: u64,
    /// The four keys.
    pub keys: Keys,
    /// Why it failed.
    pub failure: Failure,
    /// Number of calls.
    pub attempts: u32,
    /// When it became terminal.
    pub failed_at: Timestamp,
    /// A provider's Ok was recorded afterwards: the call was applied.
    pub late_ok: bool,
    /// The same for errors that differ only in numbers: see [`fingerprint`].
    pub fingerprint: String,
    /// What became of it.
    pub status: LetterStatus,
}

/// What became of a dead letter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterStatus {
    /// Nothing yet: it waits for a redrive or for a dismissal.
    #[default]
    Open,
    /// It was redriven.
    Redriven {
        /// The operation that redrives it.
        by: OpId,
    },
    /// An operator decided that nothing more is to be done.
    Dismissed {
        /// When.
        at: Timestamp,
        /// Who.
        by: WorkerId,
        /// Why.
        reason: String,
    },
}

/// A [`LetterStatus`] without its details, to select by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LetterState {
    /// See [`LetterStatus::Open`].
    #[default]
    Open,
    /// See [`LetterStatus::Redriven`].
    Redriven,
    /// See [`LetterStatus::Dismissed`].
    Dismissed,
}

impl LetterState {
    /// Every state, in the order of [`Self::code`].
    pub const ALL: [Self; 3] = [Self::Open, Self::Redriven, Self::Dismissed];

    /// The number that stores keep.
    pub fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Redriven => 1,
            Self::Dismissed => 2,
        }
    }

    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Redriven => "redriven",
            Self::Dismissed => "dismissed",
        }
    }
}

impl LetterStatus {
    /// Without its details.
    pub fn state(&self) -> LetterState {
        match self {
            Self::Open => LetterState::Open,
            Self::Redriven { .. } => LetterState::Redriven,
            Self::Dismissed { .. } => LetterState::Dismissed,
        }
    }
}

/// Selects dead letters; every field narrows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterFilter {
    /// In this state; `None`: in any. The default is open.
    pub state: Option<LetterState>,
    /// Of one of these domains. Empty: any.
    pub domains: Vec<Domain>,
    /// Of one of these event types. Empty: any.
    pub event_types: Vec<EventType>,
    /// Of this business object.
    pub biz_key: Option<BizKey>,
    /// With this idempotency key.
    pub idem_key: Option<IdemKey>,
    /// With this code of the failure.
    pub code: Option<String>,
    /// With this [`fingerprint`].
    pub fingerprint: Option<String>,
    /// Failed at or after this moment.
    pub from: Option<Timestamp>,
    /// Failed before this moment.
    pub to: Option<Timestamp>,
    /// Of operations with a seq up to this one.
    pub seq_max: Option<u64>,
}

impl Default for LetterFilter {
    fn default() -> Self {
        Self::of(Some(LetterState::Open))
    }
}

impl LetterFilter {
    /// Letters in one state, or in any.
    pub fn of(state: Option<LetterState>) -> Self {
        Self {
            state,
            domains: Vec::new(),
            event_types: Vec::new(),
            biz_key: None,
            idem_key: None,
            code: None,
            fingerprint: None,
            from: None,
            to: None,
            seq_max: None,
        }
    }

    /// Letters in every state.
    pub fn all() -> Self {
        Self::of(None)
    }

    /// Whether many letters may be looked at for one that is found.
    pub fn searches(&self) -> bool {
        let plain = Self {
            seq_max: self.seq_max,
            ..Self::of(self.state)
        };
        *self != plain
    }

    /// Whether it selects this letter.
    pub fn matches(&self, letter: &LetterView) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, value: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == value)
        }
        fn is_among<T: PartialEq>(wanted: &[T], value: &T) -> bool {
            wanted.is_empty() || wanted.contains(value)
        }
        let keys = &letter.keys;
        is(self.state.as_ref(), &letter.status.state())
            && is_among(&self.domains, &keys.domain)
            && is_among(&self.event_types, &keys.event_type)
            && is(self.biz_key.as_ref(), &keys.biz_key)
            && is(self.idem_key.as_ref(), &keys.idem_key)
            && is(self.code.as_ref(), &letter.failure.code)
            && is(self.fingerprint.as_ref(), &letter.fingerprint)
            && self.from.is_none_or(|from| letter.failed_at >= from)
            && self.to.is_none_or(|to| letter.failed_at < to)
            && self.seq_max.is_none_or(|max| letter.seq <= max)
    }
}

/// The order of a list of dead letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LetterOrder {
    /// By the time of the failure, the latest first.
    #[default]
    NewestFirst,
    /// By the time of the failure, the earliest first.
    OldestFirst,
    /// By seq: the order of acceptance, and the order of every lane. Of one state only.
    Accepted,
}

/// A change of a dead letter's status by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterChange {
    /// The operation.
    pub op_id: OpId,
    /// What to do.
    pub action: LetterAction,
    /// Who does it, for the ledger.
    pub by: WorkerId,
    /// Why, for the ledger.
    pub reason: String,
}

/// What to do with a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LetterAction {
    /// Nothing more is to be done about it.
    Dismiss,
    /// Undo a dismissal.
    Reopen,
}

impl LetterAction {
    /// The name of the ledger line.
    pub fn event(self) -> &'static str {
        match self {
            Self::Dismiss => "Dismissed",
            Self::Reopen => "Reopened",
        }
    }
}

/// The answer to a [`LetterChange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterChanged {
    /// The status changed.
    Changed,
    /// The letter had this status already.
    Already,
    /// The letter was redriven: it is neither dismissed nor reopened.
    Redriven,
    /// There is no such dead letter.
    NotFound,
}

/// Groups dead letters by their error: the same for letters of one domain, event type and code whose
/// messages differ only in numbers.
///
/// ```
/// use clinch_core::ports::fingerprint;
/// use clinch_core::{Domain, Effect, EventType, Failure};
///
/// let (pay, charge) = (Domain::new("pay")?, EventType::new("charge")?);
/// let of = |message: &str| {
///     fingerprint(&pay, &charge, &Failure::own("declined", message, Effect::None))
/// };
/// assert_eq!(of("card 4711 was declined"), of("card 8 was declined"));
/// assert_ne!(of("card 4711 was declined"), of("card 4711 has expired"));
/// # Ok::<(), clinch_core::Invalid>(())
/// ```
pub fn fingerprint(domain: &Domain, event_type: &EventType, failure: &Failure) -> String {
    let mut plain = String::new();
    for c in failure.message.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !plain.ends_with('#') {
            plain.push(c);
        }
    }
    let parts = [domain.as_str(), event_type.as_str(), &failure.code, &plain];
    let hash = Sha256::digest(parts.join("\u{0}").as_bytes());
    let bytes = hash.iter().take(FINGERPRINT_BYTES);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}
