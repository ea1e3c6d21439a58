//! The engine's parameters. Defaults are those of the configuration page.

use std::time::Duration;

use clinch_core::ports::Prune;
use clinch_core::{Error, ErrorKind, Result, WorkerId};

/// Default of [`Config::hint_visibility`]; buses that set it once are opened with it.
pub const HINT_VISIBILITY: Duration = Duration::from_secs(5);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The engine settings of one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The name of this process on claims and ledger lines.
    pub worker: WorkerId,
    /// Concurrent attempts from the queue, and as many again for callers that wait inline. Each
    /// kind has its own limit, so neither starves the other.
    pub concurrency: usize,
    /// Maximum rows of one claim, hints of one dequeue, writes of one group commit.
    pub batch: usize,
    /// Writes that may wait for the group commit. Further callers wait for room.
    pub queue_max: usize,
    /// Upper bound of every wait for a notice, so that a lost notice only delays work.
    pub fallback_poll: Duration,
    /// How long a claim keeps a row that is being announced from other processes.
    pub claim: Duration,
    /// The same for a row that is being recovered. Short, so that a failed recovery is retried
    /// soon; recovering a row twice at once is harmless.
    pub recovery_claim: Duration,
    /// Concurrent probes.
    pub probes: usize,
    /// Retention period of each kind of data.
    pub retention: Prune,
    /// How often the pruner looks for data past its retention.
    pub prune_interval: Duration,
    /// Length of a lease, which is extended while the attempt runs.
    pub lease: Duration,
    /// Visibility timeout of hints: a hint whose worker died before its begin is delivered again
    /// after this time. Longer than a begin takes; a hint that comes twice changes nothing.
    pub hint_visibility: Duration,
    /// A row that was announced but not begun for this long is announced again.
    pub sweep_grace: Duration,
    /// Upper bound of the pause between such announcements.
    pub sweep_pause_max: Duration,
    /// Upper bound of the Finalizer's sleep.
    pub finalizer_interval: Duration,
    /// A recorded answer that is not final after this long raises an alert.
    pub pending_age_max: Duration,
    /// Upper bound of the Reaper's sleep.
    pub reaper_interval: Duration,
    /// How often this process tells the store that it is alive and learns which processes died.
    pub presence_interval: Duration,
    /// How long an operation without a route here is left to a process that declares its route.
    pub undeclared_grace: Duration,
    /// Timeout of every call to the store, the bus or a file. The call may still happen: a change
    /// past its deadline is `Ambiguous`.
    pub store_timeout: Duration,
    /// How long an answer is offered to a store that does not take it, before the answer goes to
    /// the spill file. A stopping process waits at most a quarter of `shutdown_grace`.
    pub settle_patience: Duration,
    /// The first pause between such offers; it doubles.
    pub settle_pause: Duration,
    /// Maximum size of a checkpoint, in bytes.
    pub checkpoint_bytes_max: usize,
    /// How long a stopping process waits for its running attempts.
    pub shutdown_grace: Duration,
    /// The address of the store, without its password: errors of a store that does not answer name
    /// it.
    pub store_address: Option<String>,
    /// The same of a bus that is not the store itself.
    pub bus_address: Option<String>,
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
            ("presence_interval", self.presence_interval.is_zero()),
        ];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => {
                let message = format!("{name} must be more than 0");
                Err(Error::new(ErrorKind::Invalid, message))
            }
            None => Ok(()),
        }
    }

    /// The defaults, for a process with this name.
    pub fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            concurrency: 64,
            batch: 100,
            queue_max: 10_000,
            fallback_poll: Duration::from_secs(5),
            claim: Duration::from_secs(10),
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
            hint_visibility: HINT_VISIBILITY,
            sweep_grace: Duration::from_secs(30),
            sweep_pause_max: Duration::from_secs(600),
            finalizer_interval: Duration::from_secs(5),
            pending_age_max: Duration::from_secs(300),
            reaper_interval: Duration::from_secs(5),
            presence_interval: Duration::from_secs(1),
            undeclared_grace: Duration::from_secs(600),
            store_timeout: Duration::from_secs(10),
            settle_patience: Duration::from_secs(10),
            settle_pause: Duration::from_millis(50),
            checkpoint_bytes_max: 64 * 1024,
            shutdown_grace: Duration::from_secs(30),
            store_address: None,
            bus_address: None,
        }
    }
}
