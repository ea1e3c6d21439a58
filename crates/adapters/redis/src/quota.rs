//! Budgets at providers, shared by all nodes.

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::policy::{
    QUOTA_COUNT_MAX, QuotaReading, QuotaRules, Reservation, check_quota_ask, check_quota_key,
    more_than_a_window,
};
use clinch_core::ports::Quota;
use std::time::Duration;

use crate::error::ours;
use crate::{Redis, Settings, millis};

/// The rules of [`QuotaState`](clinch_core::policy::QuotaState) as scripts on the server's clock.
/// Without the server nothing is granted: a reservation is an error, not a guess.
#[derive(Debug, Clone)]
pub struct RedisQuota {
    redis: Redis,
    rules: QuotaRules,
}

impl RedisQuota {
    /// Connects.
    pub async fn connect(url: &str, settings: Settings, rules: QuotaRules) -> Result<Self> {
        Ok(Self::on(&Redis::connect(url, settings).await?, rules))
    }

    /// Budgets on a connected server.
    pub fn on(redis: &Redis, rules: QuotaRules) -> Self {
        Self {
            redis: redis.clone(),
            rules,
        }
    }
}

#[async_trait]
impl Quota for RedisQuota {
    async fn reserve(&self, key: &str, permits: u32) -> Result<Reservation> {
        check_quota_ask(key, permits)?;
        let (shared, rules) = (&self.redis.shared, &self.rules);
        let mut reserve = shared.scripts.quota_reserve.key(shared.keys.quota(key));
        reserve
            .arg(self.redis.offset())
            .arg(permits)
            .arg(rules.threshold.min(QUOTA_COUNT_MAX))
            .arg(millis(rules.answer_within))
            .arg(millis(rules.wait_max));
        let answer: Vec<u64> = self.redis.run(&reserve).await.map_err(ours)?;
        match answer[..] {
            [1] => Ok(Reservation::Granted),
            [0, wait] => Ok(Reservation::WaitFor(Duration::from_millis(wait))),
            _ => Err(more_than_a_window().into()),
        }
    }

    async fn update(&self, key: &str, reading: &QuotaReading) -> Result<()> {
        check_quota_key(key)?;
        let (shared, rules) = (&self.redis.shared, &self.rules);
        let said = |number: Option<i64>| number.map_or(String::new(), |n| n.to_string());
        let count = |n: u64| i64::try_from(n.min(QUOTA_COUNT_MAX)).unwrap_or(i64::MAX);
        let most = count(QUOTA_COUNT_MAX);
        let mut update = shared.scripts.quota_update.key(shared.keys.quota(key));
        update
            .arg(self.redis.offset())
            .arg(said(reading.limit.map(count)))
            .arg(said(reading.remaining.map(|n| n.clamp(0, most))))
            .arg(said(reading.reset_at.map(|at| at.as_millis())))
            .arg(said(reading.retry_after.map(|d| count(millis(d)))))
            .arg(millis(rules.answer_within))
            .arg(millis(rules.window_max))
            .arg(millis(rules.same_window))
            .arg(reading.unspent);
        let _: u64 = self.redis.run(&update).await.map_err(ours)?;
        Ok(())
    }
}
