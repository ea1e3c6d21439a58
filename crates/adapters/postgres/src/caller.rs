//! Accepting inside the caller's own transaction on the same database: the business row and
//! the operation commit together or not at all.

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, NewOperation};
use clinch_core::{Error, ErrorKind, Result};
use tokio_postgres::Transaction;

use crate::Postgres;
use crate::error;
use crate::link::Link;
use crate::query::Query;
use crate::tx::Tx;

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
        let mut new = new.to_vec();
        new.iter_mut().for_each(|new| new.begin = None);
        for _ in 0..TRIES_MAX {
            let savepoint = tx.transaction().await.map_err(error::sql)?;
            let mut inner = Tx::new(&self.shared, Link::Caller(&savepoint));
            let accepted = match inner.accept_all(&new, routes).await {
                Ok(accepted) => inner.flush(false).await.map(|()| accepted),
                Err(error) => Err(error),
            };
            let (wanted, again) = (std::mem::take(&mut inner.wanted), inner.again);
            let (fresh, now) = (std::mem::take(&mut inner.fresh), inner.now);
            drop(inner);
            match accepted {
                Ok(accepted) => {
                    let (notices, due) = self.shared.notices(fresh, now);
                    let messages = self.shared.voice.as_anyone(&notices, &due);
                    let link = Link::Caller(&savepoint);
                    link.run(Query::Notify, &[&messages]).await?;
                    savepoint.commit().await.map_err(error::sql)?;
                    return Ok(accepted);
                }
                Err(error) => {
                    savepoint.rollback().await.map_err(error::sql)?;
                    if wanted.is_empty() && !again {
                        return Err(error);
                    }
                    self.shared.make(wanted).await?;
                }
            }
        }
        let message = "others take the same keys at the same time; try again";
        Err(Error::new(ErrorKind::Conflict, message))
    }
}
