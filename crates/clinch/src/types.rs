//! The further types that [`Clinch`](crate::Clinch), routes and handlers take and return.
//!
//! An operation from its request to its end, with the types on the way:
//!
//! ```
//! use std::time::Duration;
//! use clinch::types::{
//!     Applied, Batch, BatchId, Builder, Command, Domain, Effect, Envelope, ErrorKind, EventType, Failure, Handle, Invalid,
//!     OpId, Outcome, Payload, Phase, Pumped, Redriven, Request, Sealed, Status, Success, Told, WorkerId,
//! };
//! use clinch::{Backend, Call, Clinch, Fail, Refusal, Retry, Route};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! // Names validate themselves.
//! let invalid: Invalid = Domain::new("no spaces").expect_err("refused");
//! assert_eq!(invalid.field, "domain");
//! assert_eq!(clinch::Error::from(invalid).kind(), ErrorKind::Invalid);
//!
//! let charge: Route<u64, u64> = Route::new("payments", "charge").natural().max_attempts(1);
//! let builder: Builder = Clinch::builder();
//! let clinch = builder
//!     .backend(Backend::memory())
//!     .handle(&charge, |call: Call<u64>| async move {
//!         let envelope: &Envelope = call.envelope();
//!         assert_eq!(envelope.command.keys.event_type, EventType::new("charge").expect("a name"));
//!         match call.input {
//!             0 => Err(Refusal::from(Fail::new("empty", "nothing to charge"))),
//!             1 => Err(Refusal::from(Retry::unknown("the connection broke"))),
//!             amount => Ok(amount),
//!         }
//!     })
//!     .build()?;
//!
//! let request: Request<u64> = charge.request("order-1", "a", &0);
//! let handle: Handle<u64> = clinch.start(request, Duration::from_secs(2)).await?;
//! let op_id: OpId = handle.op_id();
//! let failure: Failure = handle.into_result().expect("settled").expect_err("refused");
//! assert_eq!((failure.code.as_str(), failure.effect), ("empty", Effect::None));
//!
//! // A dead letter is run again as a new operation, here as a member of a batch.
//! let batch: Batch = clinch.batch::<()>(None).await?;
//! let id: BatchId = batch.batch_id();
//! assert_eq!(clinch.find_batch(id).batch_id(), id);
//! let redriven = batch.redrive(&[op_id]).await?;
//! assert!(matches!(redriven[0], Redriven::New(Some(_))));
//!
//! // `pump` takes one step of every runner: for tests and for programs with a loop of their own.
//! let pumped: Pumped = clinch.pump(10).await?;
//! assert_eq!(pumped.executed, 1);
//!
//! // A row as the store holds it.
//! let row = clinch.orchestrator().status(op_id).await?.operation;
//! assert_eq!(row.state.status, Status::Failed);
//! assert!(row.state.phase != Some(Phase::Live));
//! let stored: &Sealed = &row.payload;
//! assert_eq!(stored.as_bytes(), b"0");
//!
//! // Without types: what executors see and return.
//! let command: Command = charge.request("order-2", "a", &5).into_command()?;
//! assert_eq!(command.payload, Payload::parse("5", 10)?);
//! let applied = Outcome::Ok(Success::new(Payload::null()));
//! assert!(applied != Outcome::Retry(Retry::unknown("timeout")));
//! assert_eq!(Retry::unknown("timeout").applied, Applied::Unknown);
//!
//! // Who acts, and how far an order to a destination reached.
//! let worker = WorkerId::new("till-1")?;
//! assert_eq!(worker.as_str(), "till-1");
//! assert_ne!(Told::ThisProcess, Told::EveryProcess);
//! # Ok(())
//! # }
//! ```

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
