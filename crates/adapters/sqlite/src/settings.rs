//! Settings of the database file.

use std::time::Duration;

/// How the file is opened. The defaults suit one service on a local disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a writer waits for another process that writes, before it returns `Unavailable`.
    pub busy_timeout: Duration,
    /// Threads that read, each with a connection of its own.
    pub readers: usize,
    /// Page cache of the writer. The index of the keys should fit: every accept reads it.
    pub writer_cache_kib: u32,
    /// Page cache of each reader.
    pub reader_cache_kib: u32,
    /// Page size of a new file: a power of two from 512 to 65536.
    pub page_bytes: u32,
    /// Add Clinch's tables to a file that has tables and belongs to no other program.
    pub adopt: bool,
    /// Open a file that has lost commits, was replaced or is a backup, and treat it as the right
    /// file from now on.
    pub accept_data_loss: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            writer_cache_kib: 65_536,
            reader_cache_kib: 8_192,
            page_bytes: 4_096,
            adopt: false,
            accept_data_loss: false,
        }
    }
}
