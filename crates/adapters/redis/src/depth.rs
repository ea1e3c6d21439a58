//! How many hints a bus holds.

use clinch_core::Result;
use clinch_core::ports::Depth;

use crate::RedisBus;
use crate::bus::GROUP;
use crate::error::ours;

impl RedisBus {
    /// Counts with one script that only reads.
    pub async fn depth(&self) -> Result<Depth> {
        let redis = self.redis();
        let shared = &redis.shared;
        let mut depth = shared.scripts.depth.key(shared.keys.topics());
        depth
            .key(shared.keys.delayed())
            .key(shared.keys.scheduler())
            .arg(redis.offset())
            .arg(GROUP)
            .arg(shared.keys.streams());
        let answer: redis::RedisResult<(u64, u64, u64, bool)> = redis.run(&depth).await;
        let (entries, on_loan, delayed, has_scheduler) = answer.map_err(ours)?;
        Ok(Depth {
            waiting: entries.saturating_sub(on_loan),
            on_loan,
            delayed,
            has_scheduler,
        })
    }
}
