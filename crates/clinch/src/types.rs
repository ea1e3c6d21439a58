//! The further types that [`Clinch`](crate::Clinch), routes and handlers take and return.

pub use clinch_core::protocol::Phase;
pub use clinch_core::{
    Applied, BatchId, Command, Domain, Effect, Envelope, ErrorKind, EventType, Failure, Invalid,
    OpId, Outcome, Payload, Sealed, Status, Success, Timestamp, WorkerId,
};
pub use clinch_engine::{Pumped, Redriven};

pub use crate::batch::Batch;
pub use crate::builder::Builder;
pub use crate::clinch::Told;
pub use crate::handle::{Handle, Settled};
pub use crate::handler::Probed;
pub use crate::refusal::Classify;
pub use crate::route::Request;
pub use crate::telemetry::{ShownKeys, Telemetry};
