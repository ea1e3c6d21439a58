//! Settings of the connection to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};

use crate::micros;

/// Maximum length of the prefix, in bytes: it is part of every key.
const PREFIX_BYTES_MAX: usize = 64;

/// Bounds and timeouts. The defaults suit most systems.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Prefix of every key, so that several systems can share a server.
    pub prefix: String,
    /// How long a command may take before it counts as failed.
    pub answer_within: Duration,
    /// Longest blocking read. A longer wait is split into several reads.
    pub block_max: Duration,
    /// Concurrent blocking reads, each on a connection of its own.
    pub readers_max: usize,
    /// A waiting reader is nudged when a hint has been on loan for this long. Set it to the
    /// visibility timeout that workers use.
    pub visibility: Duration,
    /// How long a scheduler that does not renew its lock stays leader.
    pub scheduler_ttl: Duration,
    /// Run a scheduler in this process. If off, another node must run one.
    pub scheduler: bool,
    /// Maximum hints that wait in one stream. More are refused as `Full` and stay in the store.
    pub backlog_max: u64,
    /// Maximum delayed hints.
    pub delayed_max: u64,
    /// Advances the server's clock, for tests.
    #[doc(hidden)]
    pub test_clock: TestClock,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: "clinch".into(),
            answer_within: Duration::from_secs(5),
            block_max: Duration::from_secs(30),
            readers_max: 64,
            visibility: Duration::from_secs(30),
            scheduler_ttl: Duration::from_secs(30),
            scheduler: true,
            backlog_max: 1_000_000,
            delayed_max: 1_000_000,
            test_clock: TestClock::default(),
        }
    }
}

impl Settings {
    /// The defaults with another prefix.
    pub fn with_prefix(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            ..Self::default()
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let refuse = |problem: &str| Err(Error::new(ErrorKind::Invalid, problem));
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
        if self.prefix.is_empty()
            || self.prefix.len() > PREFIX_BYTES_MAX
            || !self.prefix.chars().all(plain)
        {
            return refuse("the prefix must be 1 to 64 letters, digits, '.', '_', '-' or ':'");
        }
        let second = Duration::from_secs(1);
        if self.scheduler_ttl < second {
            return refuse("scheduler_ttl must be at least 1s");
        }
        if self.block_max.is_zero() || self.answer_within.is_zero() {
            return refuse("block_max and answer_within must be longer than 0");
        }
        if self.readers_max == 0 {
            return refuse("readers_max must be at least 1");
        }
        Ok(())
    }
}

/// An offset that is added to the server's clock. Zero outside of tests.
#[derive(Debug, Clone, Default)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(crate) fn offset_us(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Advances the offset.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }
}
