//! Budgets with providers, one for all nodes: a row each, locked while the rules look at it.

use async_trait::async_trait;
use clinch_core::policy::{
    QuotaFacts, QuotaReading, QuotaRules, QuotaState, Reservation, check_quota_ask, check_quota_key,
};
use clinch_core::ports::Quota;
use clinch_core::{Result, Timestamp};
use tokio_postgres::Row;

use crate::link::Command;
use crate::query::Query;
use crate::row::{millis, moment, stored};
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

    /// Changes what is known of a budget, under the lock of its row.
    async fn with<T: Send + 'static>(
        &self,
        key: &str,
        change: impl Fn(&mut QuotaState, Timestamp, &QuotaRules) -> T + Send + Sync + 'static,
    ) -> Result<T> {
        let call = (key.to_owned(), self.rules.clone(), change);
        let changed = self.store.write(call, |tx, (key, rules, change)| {
            Box::pin(async move {
                let locked = tx.query(Query::QuotaForUpdate, &[key]).await?;
                let locked = locked.first().ok_or_else(|| error::corrupt("quota"))?;
                let mut state = QuotaState::from(read(locked)?);
                let changed = change(&mut state, Timestamp::from_millis(locked.get(5)), rules);
                let facts = QuotaFacts::from(&state);
                let update = Command::new(Query::UpdateQuota)
                    .with(key.clone())
                    .with(facts.limit.map(stored))
                    .with(facts.remaining.map(stored))
                    .with(millis(facts.reset_at))
                    .with(millis(facts.asking_until))
                    .with(millis(facts.blocked_until));
                let forget = Command::new(Query::ForgetQuotas);
                tx.send_last(&[update, forget]).await?;
                Ok(changed)
            })
        });
        changed.await
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

#[async_trait]
impl Quota for PostgresQuota {
    async fn reserve(&self, key: &str, permits: u32) -> Result<Reservation> {
        check_quota_ask(key, permits)?;
        let reserved = self.with(key, move |state, now, rules| {
            state.reserve(permits, now, rules)
        });
        Ok(reserved.await??)
    }

    async fn update(&self, key: &str, reading: &QuotaReading) -> Result<()> {
        check_quota_key(key)?;
        let reading = *reading;
        let told = self.with(key, move |state, now, rules| {
            state.update(&reading, now, rules);
        });
        told.await
    }
}
