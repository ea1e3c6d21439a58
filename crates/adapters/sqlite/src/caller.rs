//! Accepting inside the caller's own transaction on the same file: the business row and the
//! operation commit together or not at all.

use std::path::Path;
use std::sync::Arc;

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, NewOperation, Notice, Write, Written};
use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::News;
use clinch_stored::commit::Seen;
use rusqlite::{Connection, Transaction};

use crate::db::Db;
use crate::error;
use crate::open::{self, Purpose};
use crate::peers::PeerSocket;
use crate::turn::{self, Turn};
use crate::tx::Tx;
use crate::{Sqlite, absolute};

/// Wakes the workers for the accepted operations. Call [`WakeUp::wake`] after the commit; without
/// it the fallback poll finds the work later.
#[must_use = "workers are woken by `wake`, after the commit"]
pub struct WakeUp {
    news: Arc<News>,
    peers: Arc<PeerSocket>,
    notices: Vec<Notice>,
}

impl WakeUp {
    /// Wakes the workers of this process and of others. The transaction must be committed.
    pub fn wake(self) {
        self.peers.notify(&self.notices);
        self.news.tell(self.notices);
    }
}

impl Sqlite {
    /// Accepts operations in the caller's own transaction.
    ///
    /// - Business rows and operations commit together or not at all.
    /// - On `Err` the transaction is as it was before the call, and can go on.
    /// - The transaction's connection must be to this file. A connection from [`Sqlite::connect`]
    ///   commits as durably as the store itself.
    /// - `begin` of a new operation is ignored: no call may be made before the commit.
    /// - Blocks the thread, as the caller's own statements do.
    pub fn accept_in(
        &self,
        tx: &mut Transaction<'_>,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<(Vec<Accepted>, WakeUp)> {
        self.refuse_other_files(tx)?;
        let without_begin = |new: &NewOperation| NewOperation {
            begin: None,
            ..new.clone()
        };
        let writes: Vec<Write> = new.iter().map(without_begin).map(Write::Accept).collect();
        let savepoint = tx.savepoint().map_err(error::sql)?;
        let (accepted, notices) = {
            let mut db = Db::new(&savepoint);
            let mut tx = Tx::new(&mut db, self.clock().now());
            let written = tx.commit(&writes, routes, Seen::default())?;
            let accepted = written.into_iter().map(Written::accepted);
            let accepted = accepted.collect::<Result<Vec<_>>>()?;
            (accepted, tx.finish()?)
        };
        savepoint.commit().map_err(error::sql)?;
        let wake_up = WakeUp {
            news: self.shared.news.clone(),
            peers: self.shared.peers.clone(),
            notices,
        };
        Ok((accepted, wake_up))
    }

    /// A connection to the file for the caller's own tables, with the store's settings.
    pub fn connect(&self) -> Result<Connection> {
        open::connect(&self.shared.path, &self.shared.settings, Purpose::Write)
    }

    /// Waits for this caller's turn among all writers of the file. Take a turn before opening a
    /// transaction of your own, or a busy store may keep it waiting.
    pub fn turn(&self) -> Result<Turn> {
        turn::take_one(&self.shared.wake_dir, self.shared.settings.busy_timeout)
    }

    fn refuse_other_files(&self, tx: &Transaction<'_>) -> Result<()> {
        let path = tx.path().map(Path::new).map(absolute).transpose()?;
        if path.as_deref() == Some(self.path()) {
            return Ok(());
        }
        let message =
            "the transaction is on another file than the store; use a connection from `connect`";
        Err(Error::new(ErrorKind::Invalid, message))
    }
}
