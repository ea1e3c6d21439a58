//! Budgets on PostgreSQL, by the rules of the port (COL-8).
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{BoxFuture, QuotaControl, QuotaFactory, QuotaSubject, run_quota};
use clinch_core::Timestamp;
use clinch_core::policy::QuotaRules;
use clinch_postgres::PostgresQuota;
use common::Database;

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
        common::advance(&self.admin, by).await;
    }
}

async fn fresh() -> Result<QuotaSubject, String> {
    let database = Database::with_still_clock().await?;
    let store = database.store().await;
    let admin = common::client(&database.url()).await?;
    Ok(QuotaSubject {
        quota: Arc::new(PostgresQuota::on(&store, QuotaRules::default())),
        control: Arc::new(Hands {
            admin,
            _database: database,
        }),
    })
}

fn main() -> ExitCode {
    let factory: QuotaFactory =
        Arc::new(|| -> BoxFuture<Result<QuotaSubject, String>> { Box::pin(fresh()) });
    run_quota("postgres", factory)
}
