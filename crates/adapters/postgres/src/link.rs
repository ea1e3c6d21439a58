//! Connections on which statements run: those of the pool, and transactions of callers.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch_core::Result;
use futures_util::TryStreamExt;
use futures_util::future::{join, join_all, join3, try_join_all};
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
            // The next user would wait for the answer to this statement.
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
    /// A connection of the pool: statements are prepared once.
    Pooled(&'a Client),
    /// A transaction of the caller's: statements are prepared for each call.
    Caller(&'a Transaction<'a>),
}

/// A statement that can be sent in one message.
pub(crate) enum Ready<'a> {
    Prepared(Statement),
    Typed(&'static str, &'a [Type]),
}

/// A value for all rows of a statement, or the values of one column.
type Param = Box<dyn ToSql + Sync + Send>;

/// A statement and its parameters.
pub(crate) struct Command {
    pub query: Query,
    params: Vec<Param>,
}

impl Command {
    pub(crate) fn new(query: Query) -> Self {
        let params = Vec::new();
        Self { query, params }
    }

    pub(crate) fn with(mut self, param: impl ToSql + Sync + Send + 'static) -> Self {
        self.params.push(Box::new(param));
        self
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        fn plain(param: &Param) -> &(dyn ToSql + Sync) {
            param.as_ref()
        }
        self.params.iter().map(plain).collect()
    }
}

impl<'a> Link<'a> {
    /// Asks the server only where the statement is new to the connection.
    async fn ready(&self, query: Query) -> Result<Ready<'a>, Error> {
        let prepared = match *self {
            Self::Pooled(client) => {
                if let Some(types) = client.types.as_deref() {
                    return Ok(Ready::Typed(query.text(), types.of(query)));
                }
                client.ask(client.prepare_cached(query.text())).await
            }
            Self::Caller(tx) => tx.prepare(query.text()).await,
        };
        prepared.map(Ready::Prepared)
    }

    async fn stream(&self, ready: &Ready<'_>, params: Params<'_>) -> Result<RowStream, Error> {
        let plain = params.iter().copied();
        match (self, ready) {
            (Self::Pooled(client), Ready::Prepared(one)) => client.query_raw(one, plain).await,
            (Self::Caller(tx), Ready::Prepared(one)) => tx.query_raw(one, plain).await,
            (Self::Pooled(client), Ready::Typed(text, types)) => {
                let typed = plain.zip(types.iter().cloned());
                client.query_typed_raw(text, typed).await
            }
            (Self::Caller(tx), Ready::Typed(text, types)) => {
                let typed = plain.zip(types.iter().cloned());
                tx.query_typed_raw(text, typed).await
            }
        }
    }

    /// Notes the work on a pooled connection until it is answered.
    async fn ask<T>(&self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Pooled(client) => client.ask(work).await,
            Self::Caller(_) => work.await,
        }
    }

    async fn query_ready(&self, ready: &Ready<'_>, params: Params<'_>) -> Result<Vec<Row>, Error> {
        let rows = async { self.stream(ready, params).await?.try_collect().await };
        self.ask(rows).await
    }

    /// Prepares commands, so that they are sent in one go and run in their order.
    pub(crate) async fn prepare(&self, commands: &[Command]) -> Result<Vec<Ready<'a>>, Error> {
        let mut ready = Vec::with_capacity(commands.len());
        for command in commands {
            ready.push(self.ready(command.query).await?);
        }
        Ok(ready)
    }

    /// Sends every command before the first is answered; the rows of each, or the first error.
    /// `before` and `after` are sent with them, on a pooled connection.
    pub(crate) async fn send(
        &self,
        before: Option<&str>,
        commands: &[Command],
        ready: &[Ready<'_>],
        after: Option<&str>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let params: Vec<_> = commands.iter().map(Command::params).collect();
        let sent = ready.iter().zip(&params);
        let sent = join_all(sent.map(|(ready, params)| self.query_ready(ready, params)));
        let (begun, rows, ended) = join3(self.simple(before), sent, self.simple(after)).await;
        begun?;
        let rows = rows.into_iter().collect::<Result<_, _>>()?;
        ended.map(|()| rows)
    }

    async fn simple(&self, text: Option<&str>) -> Result<(), Error> {
        match (self, text) {
            (Self::Pooled(client), Some(text)) => client.ask(client.batch_execute(text)).await,
            _ => Ok(()),
        }
    }

    /// Every row.
    pub(crate) async fn query(&self, query: Query, params: Params<'_>) -> Result<Vec<Row>> {
        let rows = self.query_after(None, query, params).await;
        rows.map_err(error::sql)
    }

    /// Every row; `before` is sent with the statement, on a pooled connection.
    pub(crate) async fn query_after(
        &self,
        before: Option<&str>,
        query: Query,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Error> {
        let ready = self.ready(query).await?;
        let rows = self.query_ready(&ready, params);
        let (begun, rows) = join(self.simple(before), rows).await;
        begun.and(rows)
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
        self.ask(read).await.map_err(error::sql)
    }

    /// The first row.
    pub(crate) async fn first(&self, query: Query, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.query(query, params).await?.into_iter().next())
    }

    /// How many rows it changed.
    pub(crate) async fn run(&self, query: Query, params: Params<'_>) -> Result<u64> {
        let run = async {
            let ready = self.ready(query).await?;
            let mut rows = std::pin::pin!(self.stream(&ready, params).await?);
            while rows.try_next().await?.is_some() {}
            Ok(rows.rows_affected().unwrap_or(0))
        };
        self.ask(run).await.map_err(error::sql)
    }
}
