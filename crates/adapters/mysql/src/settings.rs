//! Settings of the store.

use std::time::Duration;

/// How the database is used. The defaults suit a server on the local network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The longest sleep of a waiting worker. These servers send no notifications, so this poll
    /// finds the commits of other processes.
    pub fallback_poll: Duration,
    /// Maximum number of connections.
    pub pool_size: usize,
    /// How long a call waits for a free connection.
    pub pool_timeout: Duration,
    /// A connection that does not answer within this time is closed and its call counts as lost.
    /// Also the timeout for connecting.
    pub timeout: Duration,
    /// The server ends a statement that takes longer.
    pub statement_timeout: Duration,
    /// The server ends a statement that waits longer for a lock; whole seconds.
    pub lock_timeout: Duration,
    /// The server ends a session that is idle for longer: its client has disappeared, and its locks
    /// must be released. Whole seconds.
    pub idle_timeout: Duration,
    /// How often a transaction is run again after a deadlock.
    pub retries_max: u32,
}

impl Settings {
    /// Settings in proportion to `timeout`: lock timeout, then statement timeout, then connection
    /// timeout, so that the server can report the first two.
    pub fn within(timeout: Duration) -> Self {
        Self {
            fallback_poll: Duration::from_secs(1),
            pool_size: 8,
            pool_timeout: timeout,
            timeout,
            statement_timeout: timeout * 4 / 5,
            lock_timeout: timeout / 2,
            idle_timeout: Duration::from_secs(600),
            retries_max: 10,
        }
    }
}

impl Default for Settings {
    /// `within` ten seconds.
    fn default() -> Self {
        Self::within(Duration::from_secs(10))
    }
}
