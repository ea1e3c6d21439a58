//! Which processes on this database are alive.
//!
//! A process is alive while its session lasts: one connection, which does nothing else, holds a
//! lock (`GET_LOCK`) for each process of this store, and the server releases the locks when the
//! connection ends. Connections also break while their process lives on, so a lock must be free for
//! a while before its process counts as dead.

use std::collections::BTreeSet;

use clinch_core::ports::Scan;
use clinch_core::{ProcessId, Result};
use clinch_stored::presence::Absences;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Row};
use tokio::sync::Mutex;

use crate::column::Column;
use crate::query::Query;
use crate::row::line_of;
use crate::{Mysql, connect, error, text};

/// The session that keeps the locks.
pub(crate) struct Session {
    opts: Opts,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// `None`: not connected yet, or the connection broke.
    conn: Option<Conn>,
    /// The processes of this store whose lock the session holds.
    locked: BTreeSet<ProcessId>,
    absences: Absences,
}

impl Session {
    pub(crate) fn new(opts: Opts) -> Self {
        Self {
            opts,
            inner: Mutex::default(),
        }
    }

    /// Ends the session, and with it its locks.
    pub(crate) async fn end(&self) {
        let ended = std::mem::take(&mut *self.inner.lock().await);
        if let Some(conn) = ended.conn {
            let _ = conn.disconnect().await;
        }
    }
}

impl Mysql {
    pub(crate) async fn check_in_process(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        let session = &self.shared.session;
        let timeout = self.shared.settings.timeout;
        let mut inner = session.inner.lock().await;
        // Out of the session while it is used: a call that is cut off leaves no connection in doubt.
        let mut conn = match inner.conn.take() {
            Some(conn) => conn,
            None => {
                *inner = Inner::default();
                connect::connect_one(&session.opts, timeout).await?.0
            }
        };
        let looked = tokio::time::timeout(timeout, look(&mut conn, &mut inner.locked, process));
        let free = match looked.await {
            Ok(Ok(free)) => free,
            Ok(Err(failed)) => return Err(error::sql(&failed)),
            Err(_) => return Err(error::sql(&error::no_answer())),
        };
        inner.conn = Some(conn);
        let free = free.iter().map(read_process).collect::<Result<_>>()?;
        Ok(inner.absences.dead(free, self.clock().monotonic()))
    }

    pub(crate) async fn forget_process(&self, process: ProcessId) -> Result<()> {
        let [first, last] = process.attempts().map(|id| text::literal(id.0.as_bytes()));
        let sql = Query::ForgetProcess.with(&[
            ("process", &literal(process)),
            (
                "line",
                &line_of(Scan::LeaseEnded).unwrap_or_default().to_string(),
            ),
            ("first", &first),
            ("last", &last),
        ]);
        let deleted = self.change(sql).await?;
        let mut inner = self.shared.session.inner.lock().await;
        if deleted > 0
            && inner.locked.remove(&process)
            && let Some(conn) = inner.conn.as_mut()
        {
            let sql = Query::UnlockProcess.with(&[("name", &process.to_string())]);
            conn.query_drop(sql)
                .await
                .map_err(|failed| error::sql(&failed))?;
        }
        Ok(())
    }
}

/// Takes the process's lock unless the session has it; the processes whose lock is free.
async fn look(
    conn: &mut Conn,
    locked: &mut BTreeSet<ProcessId>,
    process: ProcessId,
) -> mysql_async::Result<Vec<Row>> {
    if !locked.contains(&process) {
        // If the server still holds the lock for the connection before this one, the process is
        // alive by that, and the next check-in tries again.
        let lock = Query::LockProcess.with(&[("name", &process.to_string())]);
        if conn.query_first::<Option<u8>, _>(lock).await?.flatten() == Some(1) {
            // Locked first, then shown: nobody finds the process without its lock.
            let show = Query::PutProcess.with(&[("process", &literal(process))]);
            conn.query_drop(show).await?;
            locked.insert(process);
        }
    }
    let own: Vec<String> = locked
        .iter()
        .chain([&process])
        .map(|one| literal(*one))
        .collect();
    conn.query(Query::FreeProcesses.with(&[("own", &own.join(","))]))
        .await
}

fn literal(process: ProcessId) -> String {
    text::literal(process.to_bits().to_be_bytes())
}

fn read_process(row: &Row) -> Result<ProcessId> {
    let bits = row.bytes(0)?.try_into().map(u64::from_be_bytes);
    let bits = bits.map_err(|_| clinch_stored::error::corrupt("a process"))?;
    Ok(ProcessId::from_bits(bits))
}
