//! Which processes on this database are alive.
//!
//! A process is alive while its session lasts: the connection that listens also holds an advisory
//! lock for each process of this store, and the server releases the locks when the connection
//! ends. Connections also break while their process lives on, so a lock must be free for a while
//! before its process counts as dead.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::{Error, ErrorKind, ProcessId, Result};
use clinch_stored::presence::Absences;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::link::Params;
use crate::query::Query;
use crate::{Postgres, Shared, error};

/// The session that keeps the locks.
#[derive(Default)]
pub(crate) struct Session(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The connection that listens.
    client: Option<Arc<Client>>,
    /// The processes of this store whose lock the session holds.
    locked: BTreeSet<ProcessId>,
    absences: Absences,
}

impl Session {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection was made, for the first time or again: no lock is held on it, and whatever
    /// was seen before it says nothing. Returns the processes whose lock was held before.
    pub(crate) fn connected(&self, client: Arc<Client>) -> BTreeSet<ProcessId> {
        let new = Inner {
            client: Some(client),
            ..Inner::default()
        };
        std::mem::replace(&mut *self.inner(), new).locked
    }

    fn client(&self) -> Result<Arc<Client>> {
        let client = self.inner().client.clone();
        client.filter(|client| !client.is_closed()).ok_or_else(|| {
            let message = "the connection to PostgreSQL was lost and is being made again";
            Error::new(ErrorKind::Unavailable, message)
        })
    }
}

impl Shared {
    /// Takes the locks again on a new connection. What fails now is done by the next check-in.
    pub(crate) async fn reconnected_session(&self, client: Arc<Client>) {
        for process in self.session.connected(client.clone()) {
            let _ = self.take_lock(&client, process).await;
        }
    }

    /// Locks first, then shows the process: nobody finds it without its lock. If the server still
    /// holds the lock for the connection before this one, the process is alive by that, and the
    /// next check-in tries again.
    async fn take_lock(&self, client: &Client, process: ProcessId) -> Result<()> {
        let key = key(process);
        let lock = "SELECT pg_try_advisory_lock($1)";
        let row = client.query_typed(lock, &[(&key, Type::INT8)]).await;
        let is_locked = row.map_err(error::sql)?.iter().any(|row| row.get(0));
        if is_locked {
            let show = "INSERT INTO clinch_process (process) VALUES ($1) ON CONFLICT DO NOTHING";
            let shown = client.execute_typed(show, &[(&key, Type::INT8)]).await;
            shown.map_err(error::sql)?;
            self.session.inner().locked.insert(process);
        }
        Ok(())
    }
}

impl Postgres {
    pub(crate) async fn check_in_process(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        let session = &self.shared.session;
        let client = session.client()?;
        if !session.inner().locked.contains(&process) {
            self.shared.take_lock(&client, process).await?;
        }
        let own: Vec<i64> = session.inner().locked.iter().map(|one| key(*one)).collect();
        // Shared, and only within this statement: processes that look at the same time do not hide
        // the lock from each other.
        let text = "SELECT process FROM clinch_process \
                    WHERE process <> ALL ($1) AND pg_try_advisory_xact_lock_shared(process)";
        let rows = client.query_typed(text, &[(&own, Type::INT8_ARRAY)]).await;
        let rows = rows.map_err(error::sql)?;
        let process =
            |row: &tokio_postgres::Row| ProcessId::from_bits(row.get::<_, i64>(0).cast_unsigned());
        let free = rows.iter().map(process).collect();
        let now = self.clock().monotonic();
        Ok(session.inner().absences.dead(free, now))
    }

    pub(crate) async fn forget_process(&self, process: ProcessId) -> Result<()> {
        let key = key(process);
        let [first, last] = process.attempts().map(|id| id.0);
        let params: Params<'_> = &[&key, &first, &last];
        let forgotten = self.shared.run(Query::ForgetProcess, params).await?;
        if forgotten > 0 && self.shared.session.inner().locked.remove(&process) {
            let client = self.shared.session.client()?;
            let unlock = "SELECT pg_advisory_unlock($1)";
            let unlocked = client.query_typed(unlock, &[(&key, Type::INT8)]).await;
            unlocked.map_err(error::sql)?;
        }
        Ok(())
    }
}

/// The number of the process's lock.
fn key(process: ProcessId) -> i64 {
    process.to_bits().cast_signed()
}
