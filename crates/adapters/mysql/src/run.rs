//! Runs a call as a transaction: on its own task, so that a caller that stops waiting never leaves
//! the transaction incomplete, and again after a deadlock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::{Fault, Filling};
use mysql_async::Row;

use crate::link::{Answer, Link, Script, Timed};
use crate::query::Query;
use crate::tx::{LinkError, Tx};
use crate::{Mysql, Shared, error};

/// The work of a transaction. It may run more than once.
pub(crate) type Work<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// One round trip to the server.
type Call<'c, T> = Pin<Box<dyn Future<Output = Result<T, mysql_async::Error>> + Send + 'c>>;

/// How often a call tries another connection: after a server restart the pool is full of dead
/// connections.
const LOST_MAX: u32 = 2;

/// How often a call retries after a lock timeout; each try may take the whole timeout.
const WAITS_MAX: u32 = 2;

impl Mysql {
    /// Runs `work` on `asked` in a transaction and commits it, even if the caller stops waiting.
    pub(crate) async fn write<A, T, W>(&self, asked: A, work: W) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T> + Send + Sync + 'static,
    {
        let shared = self.shared.clone();
        spawned(async move { shared.transact(&asked, work).await }).await
    }

    /// Runs `work` on `asked` outside of a transaction: it only reads.
    pub(crate) async fn read<A, T, W>(&self, asked: A, work: W) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T> + Send + Sync + 'static,
    {
        let shared = self.shared.clone();
        spawned(async move { shared.look(&asked, work).await }).await
    }

    /// Inserts each row with its own statement; tells for each whether it is new.
    pub(crate) async fn insert_each(&self, query: Query, rows: Vec<String>) -> Result<Vec<bool>> {
        self.write(rows, move |tx, rows| {
            Box::pin(async move {
                let mut script = Script::default();
                for row in rows {
                    script.add(&query.with(&[("row", row)]));
                }
                let answers = tx.run(script).await?;
                Ok(answers.iter().map(|answer| answer.affected == 1).collect())
            })
        })
        .await
    }

    /// Runs one statement outside of a transaction; its rows.
    pub(crate) async fn query(&self, sql: String) -> Result<Vec<Row>> {
        let answer = self.statement(sql).await?;
        Ok(answer.map(|answer| answer.rows).unwrap_or_default())
    }

    /// Runs one statement outside of a transaction; the number of rows that it changed.
    pub(crate) async fn change(&self, sql: String) -> Result<u64> {
        let answer = self.statement(sql).await?;
        Ok(answer.map_or(0, |answer| answer.affected))
    }

    async fn statement(&self, sql: String) -> Result<Option<Answer>> {
        let shared = self.shared.clone();
        let mut script = Script::default();
        script.add(&sql);
        let answers = async move {
            let run = shared.on_conn(&script, |conn, script| conn.run(script));
            run.await
        };
        Ok(spawned(answers).await?.pop())
    }

    /// Runs a statement that reads a page, one row at a time, until the page is full. `weigh`
    /// returns the size of a row.
    pub(crate) async fn fill(
        &self,
        sql: String,
        limit: usize,
        weigh: fn(&Row) -> usize,
    ) -> Result<Filling<Row>> {
        let shared = self.shared.clone();
        spawned(async move {
            let fill = shared.on_conn(&sql, |conn, sql| Box::pin(conn.fill(sql, limit, weigh)));
            fill.await
        })
        .await
    }
}

/// Runs `work` on its own task.
async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let lost = |error: tokio::task::JoinError| {
        let message = "the call was not finished; read back whether it happened";
        Error::new(ErrorKind::Ambiguous, message).caused_by(error)
    };
    tokio::spawn(work).await.map_err(lost)?
}

fn down() -> Error {
    Error::new(ErrorKind::Unavailable, "a test made the call fail")
}

impl Shared {
    async fn conn(&self) -> Result<Timed> {
        let waiting = tokio::time::timeout(self.settings.pool_timeout, self.pool.get_conn());
        match waiting.await {
            Ok(conn) => {
                let conn = conn.map_err(|failed| error::sql(&failed))?;
                Ok(Timed::new(conn, self.settings.timeout))
            }
            Err(_) => {
                let message = "no connection was free in time; raise the pool size or slow down";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Calls the server outside of a transaction. If the connection is lost, it tries another one.
    /// If the server does not answer in time, it does not retry: that would only take as long
    /// again.
    async fn on_conn<A, T>(
        &self,
        asked: &A,
        call: impl for<'c> Fn(&'c mut Timed, &'c A) -> Call<'c, T>,
    ) -> Result<T> {
        let mut lost = 0;
        loop {
            let mut conn = self.conn().await?;
            let failed = match call(&mut conn, asked).await {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            conn.abort(error::is_lost(&failed)).await;
            lost += 1;
            let may_help = error::is_lost(&failed) && !error::is_no_answer(&failed);
            if !may_help || lost > LOST_MAX {
                return Err(error::sql(&failed));
            }
        }
    }

    /// Runs `work` in a transaction and commits it. Must run on its own task.
    async fn transact<A, T, W>(self: &Arc<Self>, asked: &A, work: W) -> Result<T>
    where
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T>,
    {
        let fault = self.faults.take();
        if fault == Some(Fault::BeforeCommit) {
            return Err(down());
        }
        let (mut retries, mut waits, mut lost, mut checks_ids) = (0, 0, 0, false);
        loop {
            let mut conn = self.conn().await?;
            let mut tx = Tx::new(&mut conn, self, "START TRANSACTION");
            tx.checks_ids = checks_ids;
            tx.may_commit = fault != Some(Fault::MidCommit);
            let outcome = match work(&mut tx, asked).await {
                Ok(_) if fault == Some(Fault::MidCommit) => tx.flush().await.and(Err(down())),
                Ok(value) => tx.commit().await.map(|_| value),
                Err(error) => Err(error),
            };
            let link_error = tx.link_error;
            let notices = outcome.is_ok().then(|| tx.notices());
            let streams = std::mem::take(&mut tx.new_streams);
            drop(tx);
            let error = match outcome {
                Ok(value) => {
                    drop(conn);
                    self.streams.learn(streams);
                    self.news.tell(notices.unwrap_or_default());
                    return match fault {
                        Some(Fault::AfterCommit) => Err(commit_answer_lost()),
                        _ => Ok(value),
                    };
                }
                Err(error) => error,
            };
            let is_lost = link_error.is_some_and(LinkError::is_of_connection);
            conn.abort(is_lost).await;
            let is_clear = error.kind() != ErrorKind::Ambiguous;
            match link_error.filter(|_| is_clear) {
                Some(LinkError::Deadlock) if retries < self.settings.retries_max => {
                    retries += 1;
                    self.retries.fetch_add(1, Ordering::Relaxed);
                }
                Some(LinkError::LockTimeout) if waits < WAITS_MAX => {
                    waits += 1;
                    self.retries.fetch_add(1, Ordering::Relaxed);
                }
                // The retry finds out which operation has the id.
                Some(LinkError::IdTaken) if !checks_ids => checks_ids = true,
                Some(LinkError::IdTaken) => return Err(taken()),
                Some(LinkError::Lost) if lost < LOST_MAX => lost += 1,
                _ => return Err(error),
            }
        }
    }

    async fn look<A, T, W>(self: &Arc<Self>, asked: &A, work: W) -> Result<T>
    where
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T>,
    {
        let mut lost = 0;
        loop {
            let mut conn = self.conn().await?;
            let mut tx = Tx::new(&mut conn, self, "DO 0");
            let outcome = work(&mut tx, asked).await;
            let link_error = tx.link_error;
            drop(tx);
            if let Some(link_error) = link_error {
                conn.abort(link_error.is_of_connection()).await;
            }
            match outcome {
                Err(_) if link_error == Some(LinkError::Lost) && lost < LOST_MAX => lost += 1,
                outcome => return outcome,
            }
        }
    }
}

fn commit_answer_lost() -> Error {
    let message = "a test lost the answer of the commit; read back whether it happened";
    Error::new(ErrorKind::Ambiguous, message)
}

fn taken() -> Error {
    let message = "the op_id names another operation; draw a fresh one";
    Error::new(ErrorKind::Invalid, message)
}
