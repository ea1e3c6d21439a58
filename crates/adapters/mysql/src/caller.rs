//! Accepting inside the caller's own transaction on the same database: the business row and the
//! operation commit together or not at all.

use std::sync::Arc;

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, NewOperation, Notice, Write, Written};
use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::News;
use clinch_stored::commit::Unit;
use mysql_async::Transaction;
use mysql_async::prelude::Queryable;

use crate::Mysql;
use crate::error;
use crate::query::Query;
use crate::tx::{LinkError, Tx};

/// Wakes the workers of this process for the accepted operations. Call [`WakeUp::wake`] after the
/// commit; without it, and in other processes, the fallback poll finds the work.
#[must_use = "workers are woken by `wake`, after the commit"]
pub struct WakeUp {
    news: Arc<News>,
    notices: Vec<Notice>,
}

impl WakeUp {
    /// Wakes the workers of this process. The transaction must be committed.
    pub fn wake(self) {
        self.news.tell(self.notices);
    }
}

impl Mysql {
    /// Accepts operations in the caller's own transaction, at any isolation level.
    ///
    /// - Business rows and operations commit together or not at all.
    /// - On `Err` the transaction is as it was before the call, and can go on. `Conflict` is the
    ///   exception: the server rolled the transaction back for a deadlock, and the caller must
    ///   repeat all of it.
    /// - The transaction's connection must be to this database.
    /// - `begin` of a new operation is ignored: no call may be made before the commit.
    /// - Keys, and the lane of an ordered operation, stay locked until the transaction ends: keep
    ///   it short.
    /// - If the future is dropped, the transaction is incomplete: roll it back.
    pub async fn accept_in(
        &self,
        tx: &mut Transaction<'_>,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<(Vec<Accepted>, WakeUp)> {
        let accept = |new: &NewOperation| {
            let begin = None;
            Write::Accept(NewOperation {
                begin,
                ..new.clone()
            })
        };
        let writes: Vec<Write> = new.iter().map(accept).collect();
        let mut inner = Tx::new(tx, &self.shared, "SAVEPOINT clinch_accept");
        (inner.checks_ids, inner.counts_rows) = (true, false);
        let outcome = async {
            self.refuse_other_databases(&mut inner).await?;
            let written = inner.perform(Unit::new(&writes, routes)).await?;
            inner.flush().await?;
            written.into_iter().map(Written::accepted).collect()
        };
        let outcome: Result<Vec<Accepted>> = outcome.await;
        let link_error = inner.link_error;
        let notices = outcome.is_ok().then(|| inner.notices());
        drop(inner);
        let end = match &outcome {
            Ok(_) => "RELEASE SAVEPOINT clinch_accept",
            Err(_) => "ROLLBACK TO SAVEPOINT clinch_accept; RELEASE SAVEPOINT clinch_accept",
        };
        if !link_error.is_some_and(LinkError::is_of_connection) {
            let ended = tx.query_drop(end).await;
            if ended.is_err() && outcome.is_err() {
                let message =
                    "the server rolled the transaction back for a deadlock; repeat all of it";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            ended.map_err(|failed| error::sql(&failed))?;
        }
        let news = self.shared.news.clone();
        let notices = notices.unwrap_or_default();
        outcome.map(|accepted| (accepted, WakeUp { news, notices }))
    }

    /// Records whether payloads are sealed. While they are, `CALL clinch_accept(…)` refuses: it has
    /// no encryption key and would write plain payloads.
    pub async fn set_sealed(&self, sealed: bool) -> Result<()> {
        let sql = Query::PutSealed.with(&[("sealed", if sealed { "1" } else { "0" })]);
        self.query(sql).await.map(|_| ())
    }

    async fn refuse_other_databases(&self, tx: &mut Tx<'_>) -> Result<()> {
        use crate::column::Column;
        let rows = tx.query("SELECT DATABASE()").await?;
        let database = rows.first().map(|row| row.maybe_text(0)).transpose()?;
        if database.flatten().as_ref() == Some(&self.shared.database) {
            return Ok(());
        }
        let message = "the transaction is on another database than the store";
        Err(Error::new(ErrorKind::Invalid, message))
    }
}
