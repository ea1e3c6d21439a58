//! The engine: what happens to an operation, stage by stage.
//!
//! Follow one operation through the modules in this order and never back:
//!
//! 1. `accept`: [`Orchestrator::start`] takes a command in, once for its four keys, and
//!    begins the attempt in the same commit when this process can run it.
//! 2. `dispatch`: the relay announces due rows on the bus; the sweeper announces silent ones
//!    again. A store that is its own bus needs neither.
//! 3. `execute`: a worker takes permits, then deliveries, and runs each attempt under a
//!    lease that it keeps extending.
//! 4. `settle`: the answer is written ahead and finalized; an answer that the store does not
//!    take goes to a spill file. It is never dropped.
//! 5. `recover`: the Finalizer, the Reaper, the prober and the sweeper find what got lost on
//!    any arrow.
//!
//! Nothing here trusts a message, a lease or a clock: every change is one compare-and-set in
//! the store, by the protocol of [`clinch_core::protocol`]. The engine knows ports only, not
//! even a runtime: a [`Spawner`](clinch_core::ports::Spawner) runs its tasks and a
//! [`Clock`](clinch_core::ports::Clock) tells it when to go on, so that a seeded simulation
//! runs this very code.
#![forbid(unsafe_code)]

#[macro_use]
mod mutants;

mod accept;
mod batch;
mod config;
mod deadline;
mod dispatch;
mod execute;
mod group;
mod handlers;
mod load;
mod node;
mod panics;
mod recheck;
mod recover;
mod redrive;
mod runtime;
mod settle;
mod telemetry;
mod waiters;

pub use accept::{Orchestrator, Snapshot};
pub use config::Config;
pub use execute::{LeaseRequest, Leased, LeasedAttempt, Report, Reported};
pub use handlers::{Handler, Handlers};
#[cfg(feature = "mutants")]
pub use mutants::{Mutant, plant};
pub use node::{Dispatch, Ports};
pub use recover::{ImportedLetters, Scanned};
pub use redrive::Redriven;
pub use runtime::{Pumped, Role, Runtime};
