//! How a store and a bus are opened.

use std::time::Duration;

use super::ServerUrl;

/// How to open a store and a bus. The default fits most programs.
///
/// ```
/// use std::time::Duration;
/// use clinch::backend::Options;
///
/// let options = Options { bus_prefix: "shop".to_owned(), ..Options::default() };
/// assert_eq!(options.timeout, Duration::from_secs(10));
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// PostgreSQL: the direct address of the server, if the store's address leads to a pooler.
    pub listen_url: Option<ServerUrl>,
    /// PostgreSQL, MySQL: poll interval that covers missed notifications.
    pub fallback_poll: Duration,
    /// PostgreSQL, MySQL: timeout of every call.
    pub timeout: Duration,
    /// SQLite: how long a call waits for another process that writes.
    pub busy_timeout: Duration,
    /// SQLite: open a file that has lost commits, was replaced, is a backup or is missing.
    pub accept_data_loss: bool,
    /// Redis, NATS: prefix of every name on the bus, so that several systems can share a server.
    pub bus_prefix: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen_url: None,
            fallback_poll: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            busy_timeout: Duration::from_secs(5),
            accept_data_loss: false,
            bus_prefix: "clinch".to_owned(),
        }
    }
}
