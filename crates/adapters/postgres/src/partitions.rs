//! The history's partitions: one a day, made ahead, gone when they are empty and past.

use clinch_core::Result;
use tokio_postgres::types::Type;

use crate::connect::Object;
use crate::error;

/// Days that are made ahead: a store that is not restarted or pruned for so long writes to the
/// default partition, which is slower to prune and otherwise as good.
const DAYS_AHEAD: i64 = 3;
const DAY_MS: i64 = 86_400_000;

/// Makes the partitions of today and the next days.
pub(crate) async fn make(client: &Object) -> Result<()> {
    let now = client.query_typed_one("SELECT clinch_now()", &[]).await;
    let today = now.map_err(error::sql)?.get::<_, i64>(0).div_euclid(DAY_MS);
    for day in today..=today + DAYS_AHEAD {
        let there = "SELECT to_regclass($1) IS NOT NULL";
        let name = format!("clinch_history_{day}");
        let row = client.query_typed_one(there, &[(&name, Type::TEXT)]).await;
        let row = row.map_err(error::sql)?;
        if row.get(0) {
            continue;
        }
        let text = format!(
            "CREATE TABLE IF NOT EXISTS {name} PARTITION OF clinch_history \
             FOR VALUES FROM ({}) TO ({})",
            day * DAY_MS,
            (day + 1) * DAY_MS
        );
        // Refused if the default partition has rows of that day, or the role may not: then
        // they go there.
        let _ = client.batch_execute(&text).await;
    }
    Ok(())
}

/// Drops partitions of past days that have no rows.
pub(crate) async fn drop_empty(client: &Object) -> Result<()> {
    let now = client.query_typed_one("SELECT clinch_now()", &[]).await;
    let today = now.map_err(error::sql)?.get::<_, i64>(0).div_euclid(DAY_MS);
    let all = "SELECT c.relname::text FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid \
               WHERE i.inhparent = 'clinch_history'::regclass ORDER BY 1";
    let rows = client.query_typed(all, &[]).await.map_err(error::sql)?;
    for row in rows {
        let name: String = row.get(0);
        let day = name.strip_prefix("clinch_history_");
        let day = day.and_then(|day| day.parse::<i64>().ok());
        if day.is_none_or(|day| day >= today - 1) {
            continue;
        }
        let any = format!("SELECT EXISTS (SELECT 1 FROM {name})");
        let row = client
            .query_typed_one(&any, &[])
            .await
            .map_err(error::sql)?;
        if !row.get::<_, bool>(0) {
            // A past day gets no more rows. If somebody reads it now, the next prune drops it.
            let text = format!("BEGIN; SET LOCAL lock_timeout = '1s'; DROP TABLE {name}; COMMIT");
            if client.batch_execute(&text).await.is_err() {
                client.batch_execute("ROLLBACK").await.map_err(error::sql)?;
            }
        }
    }
    Ok(())
}
