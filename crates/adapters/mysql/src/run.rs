//! How a call becomes a transaction: on a task of its own, so that a caller who goes away
//! never leaves one half done, and again where the server asks for it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::{Fault, Filling};
use mysql_async::Row;

use crate::link::{Link, Script, Timed};
use crate::query::Query;
use crate::tx::{Trouble, Tx};
use crate::{Mysql, Shared, error};

/// What a transaction does. It may be asked for more than once.
pub(crate) type Work<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// One call of the server.
type Call<'c, T> = Pin<Box<dyn Future<Output = Result<T, mysql_async::Error>> + Send + 'c>>;

/// How often a call looks for a connection that works: after a restart of the server the pool
/// is full of dead ones.
const LOST_MAX: u32 = 2;

/// How often a call waits anew for a lock that did not come: each time for the whole timeout.
const WAITS_MAX: u32 = 2;

impl Mysql {
    /// Does `asked` in a transaction and commits it. If the caller goes away it happens all the
    /// same.
    pub(crate) async fn write<A, T, W>(&self, asked: A, work: W) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T> + Send + Sync + 'static,
    {
        let shared = self.shared.clone();
        spawned(async move { shared.transact(&asked, work).await }).await
    }

    /// Does `asked` outside of a transaction: it only reads.
    pub(crate) async fn read<A, T, W>(&self, asked: A, work: W) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T> + Send + Sync + 'static,
    {
        let shared = self.shared.clone();
        spawned(async move { shared.look(&asked, work).await }).await
    }

    /// Inserts rows by a statement each; which of them were not there.
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

    /// Runs one statement outside of a transaction.
    pub(crate) async fn query(&self, sql: String) -> Result<Vec<Row>> {
        let shared = self.shared.clone();
        let mut script = Script::default();
        script.add(&sql);
        let answers = async move {
            let run = shared.on_conn(&script, |conn, script| conn.run(script));
            run.await
        };
        let mut answers = spawned(answers).await?;
        Ok(answers.pop().map(|answer| answer.rows).unwrap_or_default())
    }

    /// Runs a statement that reads a page, one row at a time, until the page is full. `weigh`
    /// says what a row counts.
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

/// Runs on a task of its own.
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
                let message =
                    "no connection was free in time; raise the size of the pool or slow down";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Calls the server outside of a transaction; again on another connection if this one is
    /// lost. A server that is silent is not asked again: that would only take as long again.
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
            conn.give_up(error::is_lost(&failed)).await;
            lost += 1;
            let may_help = error::is_lost(&failed) && !error::is_silent(&failed);
            if !may_help || lost > LOST_MAX {
                return Err(error::sql(&failed));
            }
        }
    }

    /// Runs `work` in a transaction and commits it. To be called on a task of its own.
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
            let trouble = tx.trouble;
            let notices = outcome.is_ok().then(|| tx.notices());
            let streams = std::mem::take(&mut tx.new_streams);
            drop(tx);
            let error = match outcome {
                Ok(value) => {
                    drop(conn);
                    self.streams.learn(streams);
                    self.news.tell(notices.unwrap_or_default());
                    return match fault {
                        Some(Fault::AfterCommit) => Err(unheard()),
                        _ => Ok(value),
                    };
                }
                Err(error) => error,
            };
            let is_lost = trouble.is_some_and(Trouble::is_of_connection);
            conn.give_up(is_lost).await;
            let is_clear = error.kind() != ErrorKind::Ambiguous;
            match trouble.filter(|_| is_clear) {
                Some(Trouble::Again) if retries < self.settings.retries_max => {
                    retries += 1;
                    self.retries.fetch_add(1, Ordering::Relaxed);
                }
                Some(Trouble::Waited) if waits < WAITS_MAX => {
                    waits += 1;
                    self.retries.fetch_add(1, Ordering::Relaxed);
                }
                // The second look says whose it is.
                Some(Trouble::Taken) if !checks_ids => checks_ids = true,
                Some(Trouble::Taken) => return Err(taken()),
                Some(Trouble::Lost) if lost < LOST_MAX => lost += 1,
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
            let trouble = tx.trouble;
            drop(tx);
            if let Some(trouble) = trouble {
                conn.give_up(trouble.is_of_connection()).await;
            }
            match outcome {
                Err(_) if trouble == Some(Trouble::Lost) && lost < LOST_MAX => lost += 1,
                outcome => return outcome,
            }
        }
    }
}

fn unheard() -> Error {
    let message = "a test lost the answer of the commit; read back whether it happened";
    Error::new(ErrorKind::Ambiguous, message)
}

fn taken() -> Error {
    let message = "the op_id names another operation; draw a fresh one";
    Error::new(ErrorKind::Invalid, message)
}
