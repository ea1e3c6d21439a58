//! Who wakes whom.

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

    /// The servers have nothing to push news with.
    fn reaches_other_processes(&self) -> bool {
        false
    }
}
