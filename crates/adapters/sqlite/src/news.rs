//! Notices: waking the runners of this process.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{Notice, Notices};

use crate::Sqlite;

#[async_trait]
impl Notices for Sqlite {
    async fn news(&self, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        Ok(self.news().after(seen, wait, self.clock()).await)
    }
}
