//! How operations are treated: repeats, retries, probes, the guards of a destination, and the
//! parameters of the engine.

pub use clinch_core::policy::{
    Backoff, EventTypes, Order, ProbeRules, QuotaReading, QuotaRules, ReaperStrategy, Reservation,
    RetryRules, Routes, Rules, Safety,
};
pub use clinch_engine::Config;
pub use clinch_protect::{
    BulkheadConfig, CallFailure, CircuitConfig, Destination, DestinationConfig, DestinationLimits,
    DestinationStatus, Opener, QueueAge, RateConfig, RatioConfig, RecentCalls, Window,
};
