//! Accepting inside the caller's own transaction on the same database: the business row and
//! the operation commit together or not at all.

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, NewOperation, Write, Written};
use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::commit::Unit;
use tokio_postgres::Transaction;

use crate::Postgres;
use crate::error;
use crate::link::Link;
use crate::query::Query;
use crate::tx::{Announcements, Tx};

/// Tries, each of which may find a name that has no number yet.
const TRIES_MAX: usize = 8;

impl Postgres {
    /// Accepts operations in a transaction of the caller's.
    ///
    /// - Business rows and operations commit together or not at all.
    /// - On `Err` the transaction is as it was before the call, and goes on.
    /// - The commit itself wakes the workers; there is nothing to call after it.
    /// - A wish to begin is ignored: nobody may call before the commit.
    /// - An operation of a lane keeps the lane locked until the transaction ends: keep it
    ///   short.
    pub async fn accept_in(
        &self,
        tx: &mut Transaction<'_>,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let accept = |new: &NewOperation| {
            let begin = None;
            Write::Accept(NewOperation {
                begin,
                ..new.clone()
            })
        };
        let writes: Vec<Write> = new.iter().map(accept).collect();
        for _ in 0..TRIES_MAX {
            let savepoint = tx.transaction().await.map_err(error::sql)?;
            let mut inner = Tx::new(&self.shared, Link::Caller(&savepoint));
            let written = inner.perform(Unit::new(&writes, routes), |_| true).await;
            let Tx {
                unnumbered,
                again,
                announcements,
                now,
                ..
            } = inner;
            match written {
                Ok(written) => {
                    let announcements = Announcements {
                        // No row may be begun before the commit.
                        others_due: true,
                        ..announcements
                    };
                    let (notices, due) = self.shared.notices(announcements, now);
                    let messages = self.shared.notifier.as_anyone(&notices, &due);
                    let link = Link::Caller(&savepoint);
                    link.run(Query::Notify, &[&messages]).await?;
                    savepoint.commit().await.map_err(error::sql)?;
                    return written.into_iter().map(Written::accepted).collect();
                }
                Err(error) => {
                    savepoint.rollback().await.map_err(error::sql)?;
                    if unnumbered.is_empty() && !again {
                        return Err(error);
                    }
                    self.shared.number(unnumbered).await?;
                }
            }
        }
        let message = "others take the same keys at the same time; try again";
        Err(Error::new(ErrorKind::Conflict, message))
    }
}
