//! Policies as data with pure functions.

mod backoff;
mod idempotency;
mod quota;
mod rate;
mod rng;
mod routes;
mod rules;
mod seen_time;

pub use backoff::Backoff;
pub use idempotency::Idempotency;
pub use quota::{
    QUOTA_COUNT_MAX, QUOTA_KEY_BYTES_MAX, QuotaFacts, QuotaReading, QuotaRules, QuotaState,
    Reservation, check_quota_ask, check_quota_key, more_than_a_window,
};
pub use rate::{Rate, check_destination};
pub use rng::SplitMix;
pub use routes::{Covered, EventTypes, Routes};
pub use rules::{Order, ProbeRules, ReaperStrategy, RetryRules, Rules, Safety};
pub use seen_time::SeenTime;
