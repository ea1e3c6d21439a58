//! Clinch core: the vocabulary, the pure state machine, the policies and the ports.
//!
//! Nothing in this crate reads a clock, sends a byte or knows an async runtime. Read it in the
//! order of an operation's life: a caller submits a [`Command`]; [`protocol`] is the whole table of
//! states and events as one pure function; [`policy`] holds what a route declares about its calls;
//! [`ports`] are the traits that adapters implement for the engine.
#![forbid(unsafe_code)]

mod command;
mod error;
mod hash;
mod id_prefix;
pub mod json;
mod names;
mod outcome;
mod payload;
pub mod policy;
pub mod ports;
pub mod protocol;
mod time;

pub use command::{
    Command, Envelope, Keys, LABEL_BYTES_MAX, LABELS_MAX, Labels, OperationHandle, Options,
    Priority, TimeBudget,
};
pub use error::{Error, ErrorKind, Result};
pub use hash::{ContentHash, Fingerprint, KeyHash, LaneKey, OutboundKey};
pub use id_prefix::OpIdPrefix;
pub use names::{
    Actor, AttemptId, BatchId, BizKey, Domain, EventType, IdemKey, Invalid, KEY_BYTES_MAX,
    LeaseToken, NAME_BYTES_MAX, OpId, ProcessId, WORKER_BYTES_MAX, WorkerId,
};
pub use outcome::{
    Applied, CODE_BYTES_MAX, Effect, Fail, Failure, MESSAGE_BYTES_MAX, Outcome, Retry,
    SPAWN_BYTES_MAX, SPAWN_MAX, Success, TXN_ID_BYTES_MAX, code, safe_code, shorten,
};
pub use payload::{PAYLOAD_BYTES_MAX, Payload, Sealed};
pub use protocol::Status;
pub use time::Timestamp;

/// The example of the crate's README is compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../crates/core/README.md")]
    struct Readme;
}
