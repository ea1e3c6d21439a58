//! Budgets with providers, one for all nodes: a row each, locked while the rules look at it.

use async_trait::async_trait;
use clinch_core::policy::{
    QuotaFacts, QuotaReading, QuotaRules, QuotaState, Reservation, check_quota_ask, check_quota_key,
};
use clinch_core::ports::Quota;
use clinch_core::{Result, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::link::Link;
use crate::query::Query;
use crate::row::{millis, moment};
use crate::{Postgres, error};

/// The rules of [`QuotaState`] on the server's clock. Each ask is a transaction of its own, so
/// that asks for one key follow each other; without the server nothing is granted.
///
/// Rows that no longer matter are deleted as budgets are used.
#[derive(Debug, Clone)]
pub struct PostgresQuota {
    store: Postgres,
    rules: QuotaRules,
}

impl PostgresQuota {
    /// Budgets on a store that is connected.
    pub fn on(store: &Postgres, rules: QuotaRules) -> Self {
        Self {
            store: store.clone(),
            rules,
        }
    }

    /// Changes what is known of a budget while nobody else does.
    async fn with<T: Send>(
        &self,
        key: &str,
        change: impl FnOnce(&mut QuotaState, Timestamp) -> T + Send,
    ) -> Result<T> {
        let mut client = self.store.client().await?;
        let types = client.types.clone();
        let tx = client.transaction().await.map_err(error::sql)?;
        let link = Link::Within(&tx, types.as_deref());
        let locked = link.first(Query::QuotaForUpdate, &[&key]).await?;
        let locked = locked.ok_or_else(|| error::corrupt("quota"))?;
        let mut state = QuotaState::from(read(&locked)?);
        let changed = change(&mut state, Timestamp::from_millis(locked.get(5)));
        let facts = QuotaFacts::from(&state);
        let params: [&(dyn ToSql + Sync); 6] = [
            &key,
            &facts.limit.map(column),
            &facts.remaining.map(column),
            &millis(facts.reset_at),
            &millis(facts.asking_until),
            &millis(facts.blocked_until),
        ];
        link.run(Query::UpdateQuota, &params).await?;
        link.run(Query::ForgetQuotas, &[]).await?;
        tx.commit().await.map_err(error::commit)?;
        Ok(changed)
    }
}

fn read(row: &Row) -> Result<QuotaFacts> {
    let number = |column: usize| -> Result<Option<u64>> {
        let value: Option<i64> = row.get(column);
        let value = value.map(u64::try_from).transpose();
        value.map_err(|_| error::corrupt("quota"))
    };
    Ok(QuotaFacts {
        limit: number(0)?,
        remaining: number(1)?,
        reset_at: moment(row.get(2)),
        asking_until: moment(row.get(3)),
        blocked_until: moment(row.get(4)),
    })
}

/// The rules bound every count far below.
fn column(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[async_trait]
impl Quota for PostgresQuota {
    async fn reserve(&self, key: &str, permits: u32) -> Result<Reservation> {
        check_quota_ask(key, permits)?;
        let reserved = self.with(key, |state, now| state.reserve(permits, now, &self.rules));
        Ok(reserved.await??)
    }

    async fn update(&self, key: &str, reading: &QuotaReading) -> Result<()> {
        check_quota_key(key)?;
        let told = self.with(key, |state, now| state.update(reading, now, &self.rules));
        told.await
    }
}
