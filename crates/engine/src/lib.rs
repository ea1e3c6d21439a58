//! The engine: what happens to an operation, stage by stage.
//!
//! Follow one operation through the modules in this order, never back. Each stage owns what it
//! needs and may use the stages after it; every stage uses `base`.
//!
//! 1. `accept`: [`Orchestrator::start`] accepts a command once for its four keys. If this process
//!    can run the operation, the same commit begins the attempt.
//! 2. `dispatch`: the relay announces due rows on the bus; the sweeper announces silent rows again.
//!    A store that is its own bus needs neither.
//! 3. `execute`: a worker takes permits, then deliveries, and runs each attempt under a lease that
//!    it keeps extending.
//! 4. `settle`: the answer is written ahead and finalized. If the store does not take an answer, it
//!    goes to a spill file. An answer is never dropped.
//! 5. `recover`: the Finalizer, the Reaper, the prober and the other recovery runners find
//!    operations that got lost between two stages.
//!
//! The engine trusts no message, no lease and no clock: every change is one compare-and-set in the
//! store, by the protocol of [`clinch_core::protocol`]. The engine knows only ports, not even an
//! async runtime: a [`Spawner`](clinch_core::ports::Spawner) runs its tasks and a
//! [`Clock`](clinch_core::ports::Clock) makes it wait, so that a seeded simulation runs this very
//! code.
#![forbid(unsafe_code)]

mod accept;
mod base;
mod config;
mod deadline;
mod dispatch;
mod execute;
mod group;
mod handlers;
mod panics;
mod ports;
mod prepare;
mod recheck;
mod recover;
mod runtime;
mod scanned;
mod settle;
mod store_health;
mod telemetry;
mod waiters;
mod wakes;

pub use accept::{Acceptance, Orchestrator, Redriven, Snapshot};
pub use config::{Config, HINT_VISIBILITY};
pub use execute::{LeaseRequest, Leased, LeasedAttempt, Report, Reported};
pub use handlers::{Handler, Handlers};
pub use ports::{Dispatch, Ports};
pub use recover::ImportedLetters;
pub use runtime::{Pumped, Role, Runtime};
pub use scanned::Scanned;
