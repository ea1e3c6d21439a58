//! Policies as data, with pure functions.

mod backoff;
mod idempotency;
mod rng;
mod routes;
mod rules;

pub use backoff::Backoff;
pub use idempotency::Idempotency;
pub use rng::SplitMix;
pub use routes::{Covered, EventTypes, Routes};
pub use rules::{Order, ProbeRules, ReaperStrategy, RetryRules, Rules, Safety};
