//! Clinch core: the vocabulary, the pure state machine, the policies and the ports.
//!
//! Nothing here reads a clock, sends a byte or knows a runtime. Read it in the order of an
//! operation's life: [`Command`] is what callers hand in; [`protocol`] is the whole table of
//! states and events as one pure function; [`policy`] is what a route says about its calls;
//! [`ports`] is what the engine needs from the world.
#![forbid(unsafe_code)]

mod command;
mod error;
mod hash;
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
pub use names::{
    AttemptId, BatchId, BizKey, Domain, EventType, IdemKey, Invalid, KEY_BYTES_MAX, LeaseToken,
    NAME_BYTES_MAX, OpId, WORKER_BYTES_MAX, WorkerId,
};
pub use outcome::{
    Applied, CODE_BYTES_MAX, Effect, Fail, Failure, MESSAGE_BYTES_MAX, Outcome, Retry,
    SPAWN_BYTES_MAX, SPAWN_MAX, Success, TXN_ID_BYTES_MAX, code, shorten,
};
pub use payload::{PAYLOAD_BYTES_MAX, Payload, Sealed};
pub use protocol::Status;
pub use time::Timestamp;
