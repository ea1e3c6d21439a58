//! A connection on which statements run: one of the pool, or the caller's transaction.

use clinch_core::Result;
use deadpool_postgres::Object;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement, Transaction};

use crate::error;
use crate::query::Query;

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Where statements run.
#[derive(Clone, Copy)]
pub(crate) enum Link<'a> {
    /// Prepared once a connection.
    Pooled(&'a Object),
    /// Prepared for each call.
    Caller(&'a Transaction<'a>),
}

impl Link<'_> {
    pub(crate) async fn prepare(&self, query: Query) -> Result<Statement, tokio_postgres::Error> {
        match self {
            Self::Pooled(client) => client.prepare_cached(query.text()).await,
            Self::Caller(tx) => tx.prepare(query.text()).await,
        }
    }

    /// Every row.
    pub(crate) async fn query(&self, query: Query, params: Params<'_>) -> Result<Vec<Row>> {
        self.raw_query(query, params).await.map_err(error::sql)
    }

    pub(crate) async fn raw_query(
        &self,
        query: Query,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(query).await?;
        match self {
            Self::Pooled(client) => client.query(&statement, params).await,
            Self::Caller(tx) => tx.query(&statement, params).await,
        }
    }

    /// The first row.
    pub(crate) async fn first(&self, query: Query, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.query(query, params).await?.into_iter().next())
    }

    /// How many rows it changed.
    pub(crate) async fn run(&self, query: Query, params: Params<'_>) -> Result<u64> {
        self.raw_run(query, params).await.map_err(error::sql)
    }

    pub(crate) async fn raw_run(
        &self,
        query: Query,
        params: Params<'_>,
    ) -> Result<u64, tokio_postgres::Error> {
        let statement = self.prepare(query).await?;
        match self {
            Self::Pooled(client) => client.execute(&statement, params).await,
            Self::Caller(tx) => tx.execute(&statement, params).await,
        }
    }
}
