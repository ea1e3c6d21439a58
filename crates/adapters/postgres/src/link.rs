//! A connection on which statements run: one of the pool, or a transaction.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch_core::Result;
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use tokio::task::AbortHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, RowStream, Statement, Transaction};

use crate::connect::Object;
use crate::error;
use crate::query::Query;

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The types of every statement's parameters. A pooler that hands out another connection with
/// each transaction loses named statements; with these none is needed.
pub(crate) struct Types(HashMap<Query, Vec<Type>>);

impl Types {
    /// Asks the server, on a connection that leads to it directly.
    pub(crate) async fn learn(direct: &Object) -> Result<Self> {
        let learn = Query::ALL.iter().map(|query| async move {
            let statement = direct.prepare(query.text()).await?;
            Ok((*query, statement.params().to_vec()))
        });
        let learned = try_join_all(learn).await.map_err(error::sql)?;
        Ok(Self(learned.into_iter().collect()))
    }

    fn of(&self, query: Query) -> &[Type] {
        self.0.get(&query).map_or(&[], Vec::as_slice)
    }
}

/// A connection of the pool, back there when it is dropped; ended if it takes too long, or if a
/// statement on it was given up.
pub(crate) struct Client {
    object: Object,
    pub(crate) types: Option<Arc<Types>>,
    /// Statements without an answer.
    asked: AtomicUsize,
    deadline: AbortHandle,
}

impl Client {
    pub(crate) fn new(object: Object, types: Option<Arc<Types>>, timeout: Duration) -> Self {
        let end = object.end().clone();
        let deadline = tokio::spawn(async move {
            let _ = tokio::time::timeout(timeout, std::future::pending::<()>()).await;
            end.now();
        });
        Self {
            object,
            types,
            asked: AtomicUsize::new(0),
            deadline: deadline.abort_handle(),
        }
    }

    /// Closes it instead.
    pub(crate) fn close(self) {
        self.object.end().now();
    }

    /// Notes a statement until it is answered. One that is given up stays noted.
    async fn ask<T>(&self, statement: impl Future<Output = T>) -> T {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = statement.await;
        self.asked.fetch_sub(1, Ordering::Relaxed);
        answer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.deadline.abort();
        if self.asked.load(Ordering::Relaxed) > 0 {
            // Whoever comes next would wait for the answer to this one.
            self.object.end().now();
        }
    }
}

impl Deref for Client {
    type Target = Object;
    fn deref(&self) -> &Object {
        &self.object
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Object {
        &mut self.object
    }
}

/// Where statements run.
#[derive(Clone, Copy)]
pub(crate) enum Link<'a> {
    /// Prepared once a connection.
    Pooled(&'a Client),
    /// A transaction on such a one.
    Within(&'a deadpool_postgres::Transaction<'a>, Option<&'a Types>),
    /// Prepared for each call.
    Caller(&'a Transaction<'a>),
}

/// A statement that can be sent in one message.
pub(crate) enum Ready<'a> {
    Prepared(Statement),
    Typed(&'static str, &'a [Type]),
}

impl<'a> Link<'a> {
    fn types(&self) -> Option<&'a Types> {
        match *self {
            Self::Pooled(client) => client.types.as_deref(),
            Self::Within(_, types) => types,
            Self::Caller(_) => None,
        }
    }

    /// Asks the server only where the statement is new to the connection.
    pub(crate) async fn ready(&self, query: Query) -> Result<Ready<'a>, Error> {
        if let Some(types) = self.types() {
            return Ok(Ready::Typed(query.text(), types.of(query)));
        }
        let prepared = match self {
            Self::Pooled(client) => client.ask(client.prepare_cached(query.text())).await,
            Self::Within(tx, _) => tx.prepare_cached(query.text()).await,
            Self::Caller(tx) => tx.prepare(query.text()).await,
        };
        prepared.map(Ready::Prepared)
    }

    async fn query_ready(&self, ready: &Ready<'_>, params: Params<'_>) -> Result<Vec<Row>, Error> {
        match (self, ready) {
            (Self::Pooled(client), Ready::Prepared(one)) => {
                client.ask(client.query(one, params)).await
            }
            (Self::Within(tx, _), Ready::Prepared(one)) => tx.query(one, params).await,
            (Self::Caller(tx), Ready::Prepared(one)) => tx.query(one, params).await,
            (Self::Pooled(client), Ready::Typed(text, types)) => {
                let params = typed(params, types);
                client.ask(client.query_typed(text, &params)).await
            }
            (Self::Within(tx, _), Ready::Typed(text, types)) => {
                tx.query_typed(text, &typed(params, types)).await
            }
            (Self::Caller(tx), Ready::Typed(text, types)) => {
                tx.query_typed(text, &typed(params, types)).await
            }
        }
    }

    pub(crate) async fn run_ready(
        &self,
        ready: &Ready<'_>,
        params: Params<'_>,
    ) -> Result<u64, Error> {
        match (self, ready) {
            (Self::Pooled(client), Ready::Prepared(one)) => {
                client.ask(client.execute(one, params)).await
            }
            (Self::Within(tx, _), Ready::Prepared(one)) => tx.execute(one, params).await,
            (Self::Caller(tx), Ready::Prepared(one)) => tx.execute(one, params).await,
            (Self::Pooled(client), Ready::Typed(text, types)) => {
                let params = typed(params, types);
                client.ask(client.execute_typed(text, &params)).await
            }
            (Self::Within(tx, _), Ready::Typed(text, types)) => {
                tx.execute_typed(text, &typed(params, types)).await
            }
            (Self::Caller(tx), Ready::Typed(text, types)) => {
                tx.execute_typed(text, &typed(params, types)).await
            }
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
    ) -> Result<Vec<Row>, Error> {
        let ready = self.ready(query).await?;
        self.query_ready(&ready, params).await
    }

    /// Rows in order, one at a time, until `take` says false. What the server still sends is
    /// dropped as it comes.
    pub(crate) async fn each(
        &self,
        query: Query,
        params: Params<'_>,
        mut take: impl FnMut(Row) -> bool,
    ) -> Result<()> {
        let read = async {
            let ready = self.ready(query).await?;
            let mut rows = std::pin::pin!(self.stream(&ready, params).await?);
            while let Some(row) = rows.try_next().await? {
                if !take(row) {
                    break;
                }
            }
            Ok(())
        };
        let read = match self {
            Self::Pooled(client) => client.ask(read).await,
            Self::Within(..) | Self::Caller(_) => read.await,
        };
        read.map_err(error::sql)
    }

    async fn stream(&self, ready: &Ready<'_>, params: Params<'_>) -> Result<RowStream, Error> {
        let plain = params.iter().copied();
        match (self, ready) {
            (Self::Pooled(client), Ready::Prepared(one)) => client.query_raw(one, plain).await,
            (Self::Within(tx, _), Ready::Prepared(one)) => tx.query_raw(one, plain).await,
            (Self::Caller(tx), Ready::Prepared(one)) => tx.query_raw(one, plain).await,
            (Self::Pooled(client), Ready::Typed(text, types)) => {
                client.query_typed_raw(text, typed(params, types)).await
            }
            (Self::Within(tx, _), Ready::Typed(text, types)) => {
                tx.query_typed_raw(text, typed(params, types)).await
            }
            (Self::Caller(tx), Ready::Typed(text, types)) => {
                tx.query_typed_raw(text, typed(params, types)).await
            }
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

    pub(crate) async fn raw_run(&self, query: Query, params: Params<'_>) -> Result<u64, Error> {
        let ready = self.ready(query).await?;
        self.run_ready(&ready, params).await
    }
}

/// Parameters with their types.
fn typed<'a>(params: Params<'a>, types: &[Type]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    params.iter().copied().zip(types.iter().cloned()).collect()
}
