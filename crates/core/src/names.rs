//! Names and ids. Each type validates itself on construction, so that later code need not check
//! again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Maximum length of a domain or event type, in bytes: fits an index column of every backend.
pub const NAME_BYTES_MAX: usize = 128;
/// Maximum length of a biz_key or idem_key, in bytes: the four keys stay below MySQL's index row
/// limit even before they are hashed.
pub const KEY_BYTES_MAX: usize = 255;
/// Maximum length of a worker id, in bytes.
pub const WORKER_BYTES_MAX: usize = 128;

/// Why a value was refused. `field` is the JSON name of the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// JSON name of the field that was refused.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl Invalid {
    /// A refusal of `field`.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }
}

/// Checks free text: not empty, at most `max` bytes, no control characters, no white space
/// at either end.
fn check_text(field: &'static str, text: &str, max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    if text.len() > max {
        let got = text.len();
        return Err(Invalid::new(
            field,
            format!("is {got} bytes long; at most {max} are allowed"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(field, "must not contain control characters"));
    }
    if text.trim() != text {
        return Err(Invalid::new(
            field,
            "must not begin or end with white space",
        ));
    }
    Ok(())
}

/// Checks a name that becomes part of topics, metric labels and file names.
fn check_name(field: &'static str, text: &str) -> Result<(), Invalid> {
    check_text(field, text, NAME_BYTES_MAX)?;
    match text
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-' | ':'))
    {
        Some(bad) => Err(Invalid::new(
            field,
            format!("contains {bad:?}; letters, digits, '.', '_', '-' and ':' are allowed"),
        )),
        None => Ok(()),
    }
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $field:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The value, if the text is valid.
            pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
                let text = text.into();
                let check: fn(&str) -> Result<(), Invalid> = $check;
                check(&text)?;
                Ok(Self(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.as_str().to_owned()
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }
    };
}

text_type!(
    /// The business area of an operation, such as `payments`. Queues, pauses and counters
    /// are per domain.
    Domain, "domain", |text| check_name("domain", text)
);
text_type!(
    /// What is to be done within a domain, such as `charge`.
    EventType, "event_type", |text| check_name("event_type", text)
);
text_type!(
    /// The business object that an operation is about, such as `order-123`. Per-key order
    /// is by (domain, biz_key).
    BizKey, "biz_key", |text| check_text("biz_key", text, KEY_BYTES_MAX)
);
text_type!(
    /// The caller's idempotency key. Together with domain, event type and biz_key it names
    /// an operation for good.
    IdemKey, "idem_key", |text| check_text("idem_key", text, KEY_BYTES_MAX)
);
text_type!(
    /// Names one running process; stamped on claims and ledger lines.
    WorkerId, "worker", |text| check_text("worker", text, WORKER_BYTES_MAX)
);

/// How the name of a person's or program's request begins, if it came with an API key.
const KEY_ACTOR: &str = "key:";
/// The actor of requests without a key.
const LOCAL_ACTOR: &str = "local";

impl WorkerId {
    /// A name that a remote worker gives itself. Names that stand for an operator are refused, so
    /// that no worker can sign a ledger line as one: see [`Actor`].
    pub fn claimed(name: impl Into<String>) -> Result<Self, Invalid> {
        let worker = Self::new(name)?;
        let name = worker.as_str().to_ascii_lowercase();
        if name == LOCAL_ACTOR || name.starts_with(KEY_ACTOR) {
            let problem = "must not be \"local\" or begin with \"key:\": these stand for operators";
            return Err(Invalid::new("worker", problem));
        }
        Ok(worker)
    }
}

/// Who acts on an operation or on a domain. Ledger lines and pauses keep the name.
///
/// ```
/// use clinch_core::{Actor, WorkerId};
///
/// assert_eq!(Actor::key("00ff", "anna").to_string(), "key:00ff (anna)");
/// assert_eq!(Actor::local().to_string(), "local");
/// assert!(WorkerId::claimed("key:00ff (anna)").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(WorkerId);

impl Actor {
    /// The owner of an API key. The id comes first: unlike the name, nobody can choose it.
    pub fn key(id: &str, name: &str) -> Self {
        /// Keeps id and name below the length of a worker id.
        const NAME_MAX: usize = 80;
        let plain = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).collect() };
        let id = crate::shorten(plain(id), 32);
        let name = crate::shorten(plain(name), NAME_MAX);
        Self(WorkerId(format!("{KEY_ACTOR}{id} ({name})").into()))
    }

    /// A program on this machine that needs no key.
    pub fn local() -> Self {
        Self(WorkerId(LOCAL_ACTOR.into()))
    }

    /// The process itself, for what it does on its own account.
    pub fn process(worker: &WorkerId) -> Self {
        Self(worker.clone())
    }

    /// The name, as ledger lines keep it.
    pub fn name(&self) -> &WorkerId {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Uuid::parse_str(text)
                    .map(Self)
                    .map_err(|_| Invalid::new($field, "is not a UUID"))
            }
        }
    };
}

id_type!(
    /// Names one operation.
    ///
    /// ```
    /// use clinch_core::OpId;
    ///
    /// let op_id: OpId = "01917f5e-0000-7000-8000-000000000001".parse()?;
    /// assert_eq!(op_id.to_string(), "01917f5e-0000-7000-8000-000000000001");
    /// # Ok::<(), clinch_core::Invalid>(())
    /// ```
    OpId, "op_id"
);
id_type!(
    /// Names one begin of an attempt. It is new for each begin, so that a begin whose commit is
    /// ambiguous can be recognized when the row is read back.
    AttemptId, "attempt_id"
);
id_type!(
    /// Names one batch.
    BatchId, "batch_id"
);

/// Proves that a report comes from the worker that an attempt was leased to.
///
/// The attempt id of a leased begin is derived from its token. Rows, ledgers and backups hold only
/// the id. Attempts of Clinch's own processes have no token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken(Uuid);

impl LeaseToken {
    /// A token made from a fresh random id: [`Ids::attempt_id`](crate::ports::Ids::attempt_id).
    pub fn new(random: AttemptId) -> Self {
        Self(random.0)
    }

    /// The attempt id of the begin that this token was issued for.
    pub fn attempt_id(self) -> AttemptId {
        crate::hash::leased_attempt(self.0.as_bytes())
    }
}

impl AttemptId {
    /// Whether the attempt was leased to a remote worker: its id was derived from a [`LeaseToken`].
    pub fn is_leased(self) -> bool {
        self.0.get_version_num() == 8
    }

    /// The process that makes the call. `None`: a remote worker makes it.
    pub fn process(self) -> Option<ProcessId> {
        let (process, _) = self.0.as_u64_pair();
        (!self.is_leased()).then_some(ProcessId(process))
    }
}

/// Names one running process. The first half of the id of every attempt that the process makes
/// itself is this number, so that a row tells which process must be alive for its attempt to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(u64);

impl ProcessId {
    /// A name made from a fresh random id: [`Ids::attempt_id`](crate::ports::Ids::attempt_id).
    pub fn new(random: AttemptId) -> Self {
        Self(random.0.as_u64_pair().0)
    }

    /// The process with this number.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its number.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The id of an attempt of this process, made from a fresh random id.
    pub fn attempt(self, random: AttemptId) -> AttemptId {
        let (_, random) = random.0.as_u64_pair();
        AttemptId(Uuid::from_u64_pair(self.0, random))
    }

    /// The first and the last id that an attempt of this process can have.
    pub fn attempts(self) -> [AttemptId; 2] {
        [0, u64::MAX].map(|low| AttemptId(Uuid::from_u64_pair(self.0, low)))
    }
}

/// Sixteen hexadecimal digits.
impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ProcessId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = || Invalid::new("process", "is not 16 hexadecimal digits");
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or_else(invalid)
    }
}

/// Hides the token: it is a secret of its worker.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(..)")
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

impl FromStr for LeaseToken {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let token = Uuid::parse_str(text);
        token
            .map(Self)
            .map_err(|_| Invalid::new("token", "is not one that a lease gave out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_token_names_its_attempt_and_is_not_shown() {
        let random = |low| AttemptId(Uuid::from_u64_pair(7, low));
        let (one, other) = (LeaseToken::new(random(1)), LeaseToken::new(random(2)));
        assert_eq!(one.to_string().parse(), Ok(one));
        assert!(one.attempt_id().is_leased());
        assert_ne!(one.attempt_id(), other.attempt_id());
        assert_ne!(one.attempt_id().0, random(1).0);
        assert_eq!(format!("{one:?}"), "LeaseToken(..)");
        assert!("".parse::<LeaseToken>().is_err());
        let drawn = uuid::Builder::from_random_bytes([0xff; 16]).into_uuid();
        assert!(!AttemptId(drawn).is_leased(), "one of our own");
    }

    #[test]
    fn an_attempt_names_the_process_that_makes_it() {
        let random = |low| AttemptId(uuid::Builder::from_random_bytes([low; 16]).into_uuid());
        let process = ProcessId::new(random(1));
        let (one, other) = (process.attempt(random(2)), process.attempt(random(3)));
        assert_ne!(one, other);
        assert_eq!(one.process(), Some(process));
        assert_eq!(other.process(), Some(process));
        assert_ne!(random(2).process(), Some(process));
        let [first, last] = process.attempts();
        assert!(first <= one && one <= last && !(first..=last).contains(&random(2)));
        assert_eq!(LeaseToken::new(one).attempt_id().process(), None);
        assert_eq!(ProcessId::from_bits(process.to_bits()), process);
        assert_eq!(process.to_string().parse(), Ok(process));
        for bad in ["", "12", "+123456789abcdef", "0123456789abcdefg"] {
            assert!(bad.parse::<ProcessId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sec_no_worker_can_claim_to_be_an_operator() {
        for forged in ["local", "LOCAL", "key:1 (x)", "Key:", "KEY:00ff"] {
            assert!(WorkerId::claimed(forged).is_err(), "{forged:?}");
        }
        for fine in ["localhost", "keys", "w:key:1", "clinch-1-2"] {
            assert!(WorkerId::claimed(fine).is_ok(), "{fine:?}");
        }
        let long = Actor::key(&"i".repeat(99), &format!("a\nb{}", "é".repeat(200)));
        assert!(WorkerId::new(long.to_string()).is_ok(), "{long}");
        assert!(WorkerId::claimed(long.to_string()).is_err());
    }

    #[test]
    fn core_1_names_validate_themselves() {
        assert!(Domain::new("payments").is_ok());
        assert!(EventType::new("PAYMENT.CANCEL.REQUEST").is_ok());
        assert!(BizKey::new("주문 123/α").is_ok());
        for bad in ["", " a", "a ", "a\nb", "a\u{0}"] {
            assert!(BizKey::new(bad).is_err(), "{bad:?}");
            assert!(IdemKey::new(bad).is_err(), "{bad:?}");
            assert!(Domain::new(bad).is_err(), "{bad:?}");
        }
        assert!(Domain::new("pay ments").is_err());
        assert!(Domain::new("x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(Domain::new("x".repeat(NAME_BYTES_MAX + 1)).is_err());
        assert!(IdemKey::new("x".repeat(KEY_BYTES_MAX)).is_ok());
        assert!(IdemKey::new("x".repeat(KEY_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn core_1_deserializing_validates_too() {
        let error = serde_json::from_str::<IdemKey>("\"\"").expect_err("empty is refused");
        assert!(error.to_string().contains("idem_key must not be empty"));
        assert!(serde_json::from_str::<BizKey>("\"a\\u0007\"").is_err());
    }

    #[test]
    fn ids_parse_and_say_what_is_wrong() {
        let id: OpId = "01917f5e-0000-7000-8000-000000000000"
            .parse()
            .expect("a UUID");
        assert_eq!(id.to_string(), "01917f5e-0000-7000-8000-000000000000");
        assert_eq!(
            "x".parse::<OpId>().expect_err("no").to_string(),
            "op_id is not a UUID"
        );
    }
}
