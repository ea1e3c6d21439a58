//! Protection around a call: the guards of a destination and the chain that composes them.
//!
//! A [`Destination`] is one set of guards (a [`Circuit`], [`Slots`], a [`Rate`], a [`Ratio`] of
//! retries) that every route to the same provider shares. A [`Chain`] is a route's executor inside
//! those guards, in the one order that works; its module says why. [`QueueAge`] sheds work before
//! it is accepted. Each part implements a port of [`clinch_core::ports`] and can be replaced.
//!
//! All time comes from the injected clock, so a seeded simulation runs exactly this code.
#![forbid(unsafe_code)]

mod bulkhead;
mod calls;
mod chain;
mod circuit_breaker;
mod destination;
mod fallback;
mod hedge;
mod load_shed;
mod rate_limiter;
mod retry_budget;
mod sync;
mod timeout;

pub use bulkhead::{BulkheadConfig, CONCURRENT_MAX, Slots};
pub use calls::{CallFailure, RECENT, RecentCalls};
pub use chain::Chain;
pub use circuit_breaker::{Circuit, CircuitConfig, WINDOW_BUCKETS_MAX, WINDOW_CALLS_MAX, Window};
pub use destination::{
    Destination, DestinationConfig, DestinationLimits, DestinationStatus, Opener, Sharing,
};
pub use fallback::{Constant, FromFn, from_fn};
pub use hedge::{COPIES_MAX, Hedge};
pub use load_shed::{COME_BACK_MAX, COME_BACK_MIN, QueueAge};
pub use rate_limiter::{PER_MAX, PERMITS_MAX, PauseOnly, Rate, RateConfig};
pub use retry_budget::{RATIO_MAX, Ratio, RatioConfig};
pub use timeout::Timeouts;
