//! The engine's parameters. Defaults are those of the configuration page.

use std::time::Duration;

use clinch_core::ports::Prune;
use clinch_core::{Error, ErrorKind, Result, WorkerId};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Everything that can be set about one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Names this process on claims and ledger lines.
    pub worker: WorkerId,
    /// Attempts at once from the queue, and as many again for callers that wait inline: the
    /// two do not starve each other.
    pub concurrency: usize,
    /// Rows of one claim, hints of one dequeue, items of one shared commit.
    pub batch: usize,
    /// Callers that may wait for a shared commit; more are held back.
    pub queue_max: usize,
    /// Covers lost notifications: no wait is longer.
    pub fallback_poll: Duration,
    /// How long a row that is being announced is left to its claimer.
    pub claim: Duration,
    /// The same for a row that is being recovered: short, so that a recovery that failed is
    /// tried again soon. Doing it twice at once is harmless.
    pub recovery_claim: Duration,
    /// Probes at once.
    pub probes: usize,
    /// What is old enough to be deleted.
    pub retention: Prune,
    /// How often to look for it.
    pub prune_interval: Duration,
    /// Length of a lease, extended while an attempt runs; visibility timeout of hints.
    pub lease: Duration,
    /// A row that was announced and not begun for so long is announced again.
    pub sweep_grace: Duration,
    /// No pause between such announcements is longer.
    pub sweep_pause_max: Duration,
    /// Upper bound of the Finalizer's sleep.
    pub finalizer_interval: Duration,
    /// An answer that waits longer to be final is worth a warning.
    pub pending_age_max: Duration,
    /// Upper bound of the Reaper's sleep.
    pub reaper_interval: Duration,
    /// An operation without a route here is left for so long to a process that declares it.
    pub undeclared_grace: Duration,
    /// No call of the store, the bus or a file is waited for longer. The call may still happen:
    /// a change past its deadline is `Ambiguous`.
    pub store_timeout: Duration,
    /// How long an answer is offered to a store that does not take it, before it is spilled.
    /// A process that stops waits no longer than a quarter of its grace.
    pub settle_patience: Duration,
    /// The first pause between such offers; doubles.
    pub settle_pause: Duration,
    /// Longest checkpoint, in bytes.
    pub checkpoint_bytes_max: usize,
    /// How long a stopping process waits for its attempts.
    pub shutdown_grace: Duration,
}

impl Config {
    /// Refuses values under which nothing could run.
    pub fn validate(&self) -> Result<()> {
        let zero = [
            ("concurrency", self.concurrency == 0),
            ("batch", self.batch == 0),
            ("lease", self.lease.is_zero()),
            ("fallback_poll", self.fallback_poll.is_zero()),
            ("settle_pause", self.settle_pause.is_zero()),
            ("store_timeout", self.store_timeout.is_zero()),
            ("recovery_claim", self.recovery_claim.is_zero()),
        ];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => {
                let message = format!("{name} must be more than 0");
                Err(Error::new(ErrorKind::Invalid, message))
            }
            None => Ok(()),
        }
    }

    /// The defaults for a process with this name.
    pub fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            concurrency: 64,
            batch: 100,
            queue_max: 10_000,
            fallback_poll: Duration::from_secs(5),
            claim: Duration::from_secs(300),
            recovery_claim: Duration::from_secs(30),
            probes: 16,
            retention: Prune {
                completed: DAY * 7,
                failed: DAY * 30,
                keys: DAY * 400,
                max: 1_000,
                reckoned: None,
                jump_max: DAY,
            },
            prune_interval: Duration::from_secs(600),
            lease: Duration::from_secs(30),
            sweep_grace: Duration::from_secs(30),
            sweep_pause_max: Duration::from_secs(600),
            finalizer_interval: Duration::from_secs(5),
            pending_age_max: Duration::from_secs(300),
            reaper_interval: Duration::from_secs(5),
            undeclared_grace: Duration::from_secs(600),
            store_timeout: Duration::from_secs(10),
            settle_patience: Duration::from_secs(10),
            settle_pause: Duration::from_millis(50),
            checkpoint_bytes_max: 64 * 1024,
            shutdown_grace: Duration::from_secs(30),
        }
    }
}
