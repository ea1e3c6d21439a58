//! Who wakes whom.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{Notice, Notices};

use crate::Memory;

#[async_trait]
impl Notices for Memory {
    async fn news(&self, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        Ok(self.shared.news.after(seen, wait, self.clock()).await)
    }
}
