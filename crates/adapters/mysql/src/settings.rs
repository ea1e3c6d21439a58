//! What can be set about the store.

use std::time::Duration;

/// How the database is used. The defaults suit a server on the local network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a waiting worker sleeps at most: commits of other processes are found by it,
    /// since these servers notify nobody.
    pub fallback_poll: Duration,
    /// Connections at most.
    pub pool_size: usize,
    /// How long a call waits for a free connection.
    pub pool_timeout: Duration,
    /// A connection that does not answer for longer is given up, whatever the server does: the
    /// call was lost. Also for connecting.
    pub timeout: Duration,
    /// The server ends a statement that takes longer.
    pub statement_timeout: Duration,
    /// The server ends a statement that waits longer for a lock; whole seconds.
    pub lock_timeout: Duration,
    /// The server ends a session that is idle for longer: its client is gone, and with it the
    /// locks that it may have held. Whole seconds.
    pub idle_timeout: Duration,
    /// How often a transaction is run again when the server ended it for a deadlock.
    pub retries_max: u32,
}

impl Settings {
    /// Everything in proportion to `timeout`: the server gives up a lock, then a statement,
    /// before the connection is given up, so that it can say so.
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
    /// Within ten seconds.
    fn default() -> Self {
        Self::within(Duration::from_secs(10))
    }
}
