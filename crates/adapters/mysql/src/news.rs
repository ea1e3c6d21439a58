//! Notices: waking the runners of this process.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{Notice, Notices};

use crate::Mysql;

#[async_trait]
impl Notices for Mysql {
    async fn news(&self, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        Ok(self.news().after(seen, wait, self.clock()).await)
    }

    /// MariaDB and MySQL cannot push notifications to clients.
    fn reaches_other_processes(&self) -> bool {
        false
    }
}
