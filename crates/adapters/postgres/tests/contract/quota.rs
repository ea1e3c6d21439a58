//! Budgets on PostgreSQL, by the rules of the port (COL-8).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{QuotaControl, QuotaSubject, port_factory, quota_trials};
use clinch_core::Timestamp;
use clinch_core::policy::QuotaRules;
use clinch_postgres::PostgresQuota;
use libtest_mimic::Trial;

use crate::database::{Database, advance};

struct Hands {
    admin: tokio_postgres::Client,
    _database: Arc<Database>,
}

#[async_trait]
impl QuotaControl for Hands {
    async fn now(&self) -> Timestamp {
        let row = self.admin.query_one("SELECT clinch_now()", &[]).await;
        Timestamp::from_millis(row.expect("the server answers").get(0))
    }

    async fn advance(&self, by: Duration) {
        advance(&self.admin, by).await;
    }
}

async fn fresh() -> Result<QuotaSubject, String> {
    let database = Database::with_still_clock().await?;
    let store = database.store().await;
    let admin = database.client().await;
    Ok(QuotaSubject {
        quota: Arc::new(PostgresQuota::on(&store, QuotaRules::default())),
        control: Arc::new(Hands {
            admin,
            _database: database,
        }),
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    quota_trials("postgres", &port_factory(fresh))
}
