//! What can be set about the store.

use std::time::Duration;

/// How the database is used. The defaults suit a server on the local network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen for notifications, if not at the store's own address: behind PgBouncer
    /// this must lead to the server itself.
    pub listen_url: Option<String>,
    /// How long a waiting worker trusts that it would have been woken.
    pub fallback_poll: Duration,
    /// Connections at most, beside the one that listens.
    pub pool_size: usize,
    /// How long a call waits for a free connection.
    pub pool_timeout: Duration,
    /// A connection that a call holds for longer is ended, whatever the server does: the call
    /// was lost. Also for connecting, and for bytes that the server's machine does not confirm.
    pub timeout: Duration,
    /// The server ends a statement that takes longer.
    pub statement_timeout: Duration,
    /// The server ends a statement that waits longer for a lock.
    pub lock_timeout: Duration,
    /// The server ends a transaction that is idle for longer: its client is gone.
    pub idle_transaction_timeout: Duration,
    /// The pool's address is that of PgBouncer in transaction mode: nothing is set on a
    /// connection, the role's own settings hold (see the guide).
    pub through_pgbouncer: bool,
}

impl Settings {
    /// Everything in proportion to `timeout`: the server gives up a lock, then a statement,
    /// before the connection is given up, so that it can say so.
    pub fn within(timeout: Duration) -> Self {
        Self {
            listen_url: None,
            fallback_poll: Duration::from_secs(5),
            pool_size: 8,
            pool_timeout: timeout,
            timeout,
            statement_timeout: timeout * 4 / 5,
            lock_timeout: timeout / 2,
            idle_transaction_timeout: timeout,
            through_pgbouncer: false,
        }
    }
}

impl Default for Settings {
    /// Within ten seconds.
    fn default() -> Self {
        Self::within(Duration::from_secs(10))
    }
}
