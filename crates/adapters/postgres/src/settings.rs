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

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen_url: None,
            fallback_poll: Duration::from_secs(5),
            pool_size: 8,
            pool_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            idle_transaction_timeout: Duration::from_secs(30),
            through_pgbouncer: false,
        }
    }
}
