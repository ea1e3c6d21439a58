//! Open connections, and which of them is closed for a new one at the limit.
//!
//! | connection | closed |
//! | --- | --- |
//! | no request with a valid key yet | first; the one that has been open for the longest |
//! | had a valid key, idle between two requests | next; the one that has been idle for the longest |
//! | had a valid key, in a request | never |
//!
//! Callers without a key therefore replace each other. A caller with a key loses at most an idle
//! connection, and only while no caller without a key is connected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// All open connections.
pub(super) struct OpenConnections {
    room: Arc<Semaphore>,
    list: Mutex<ConnectionList>,
    /// Notified when a connection that could not be closed before can be closed now.
    is_free: Notify,
}

#[derive(Default)]
struct ConnectionList {
    /// A logical clock: increases with every change.
    now: u64,
    entries: BTreeMap<u64, ConnectionState>,
    /// Connections that may be closed, the next one first: (had a valid key, since when, id).
    victims: BTreeSet<(bool, u64, u64)>,
}

struct ConnectionState {
    leave: CancellationToken,
    is_admitted: bool,
    is_busy: bool,
    since: u64,
}

impl ConnectionList {
    fn change(&mut self, id: u64, change: impl FnOnce(&mut ConnectionState)) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        self.victims.remove(&(entry.is_admitted, entry.since, id));
        change(entry);
        // The age of a connection without a key does not restart with each request.
        if entry.is_admitted {
            self.now += 1;
            entry.since = self.now;
        }
        if !(entry.is_admitted && entry.is_busy) {
            self.victims.insert((entry.is_admitted, entry.since, id));
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(entry) = self.entries.remove(&id) {
            self.victims.remove(&(entry.is_admitted, entry.since, id));
        }
    }
}

impl OpenConnections {
    pub(super) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(connections_max)),
            list: Mutex::default(),
            is_free: Notify::new(),
        })
    }

    fn list(&self) -> MutexGuard<'_, ConnectionList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new connection; at the limit another connection is closed first.
    pub(super) async fn admit(self: &Arc<Self>) -> Option<OpenConnection> {
        let permit = loop {
            if let Ok(permit) = self.room.clone().try_acquire_owned() {
                break permit;
            }
            let freed = self.is_free.notified();
            let permit = self.room.clone().acquire_owned();
            if self.evict_one() {
                // The closed connection releases its permit at once.
                break permit.await.ok()?;
            }
            tokio::select! {
                biased;
                permit = permit => break permit.ok()?,
                () = freed => {}
            }
        };
        let mut list = self.list();
        list.now += 1;
        let (id, leave) = (list.now, CancellationToken::new());
        let entry = ConnectionState {
            leave: leave.clone(),
            is_admitted: false,
            is_busy: false,
            since: id,
        };
        list.entries.insert(id, entry);
        list.victims.insert((false, id, id));
        drop(list);
        Some(OpenConnection {
            id,
            leave,
            all: self.clone(),
            _permit: permit,
        })
    }

    /// Closes the next connection that may be closed; false: there is none.
    pub(super) fn evict_one(&self) -> bool {
        let mut list = self.list();
        let Some((_, _, id)) = list.victims.pop_first() else {
            return false;
        };
        if let Some(entry) = list.entries.remove(&id) {
            entry.leave.cancel();
        }
        true
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut ConnectionState)) {
        self.list().change(id, change);
    }
}

/// One open connection; dropping it releases its permit.
pub(super) struct OpenConnection {
    id: u64,
    leave: CancellationToken,
    all: Arc<OpenConnections>,
    _permit: OwnedSemaphorePermit,
}

impl OpenConnection {
    /// Completes when the connection must close.
    pub(super) async fn evicted(&self) {
        self.leave.cancelled().await;
    }

    /// Marks the beginning of a request; dropping the returned guard marks its end.
    pub(super) fn request(self: &Arc<Self>) -> ActiveRequest {
        self.all.change(self.id, |entry| entry.is_busy = true);
        ActiveRequest(self.clone())
    }

    pub(super) fn admission(self: &Arc<Self>) -> Admission {
        Admission(Arc::downgrade(self))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.list().remove(self.id);
    }
}

/// Held while the connection is in a request.
pub(super) struct ActiveRequest(Arc<OpenConnection>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let OpenConnection { id, all, .. } = &*self.0;
        all.change(*id, |entry| entry.is_busy = false);
        all.is_free.notify_one();
    }
}

/// Marks the connection of a request as one with a valid key: it is no longer closed for
/// connections without a key.
#[derive(Clone)]
pub(crate) struct Admission(std::sync::Weak<OpenConnection>);

impl Admission {
    pub(crate) fn grant(&self) {
        if let Some(connection) = self.0.upgrade() {
            connection
                .all
                .change(connection.id, |entry| entry.is_admitted = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_gone(connection: &OpenConnection) -> bool {
        connection.leave.is_cancelled()
    }

    async fn enter(all: &Arc<OpenConnections>) -> Arc<OpenConnection> {
        Arc::new(all.admit().await.expect("room"))
    }

    #[tokio::test]
    async fn strangers_go_first_then_the_longest_idle_and_nobody_in_an_admitted_request() {
        let all = OpenConnections::new(4);
        let (calling, idle, idle_longer, stranger) = (
            enter(&all).await,
            enter(&all).await,
            enter(&all).await,
            enter(&all).await,
        );
        for admitted in [&calling, &idle_longer, &idle] {
            admitted.admission().grant();
        }
        let call = calling.request();
        // A request without a key does not protect its connection.
        let knock = stranger.request();
        assert!(all.evict_one() && is_gone(&stranger));
        assert!(all.evict_one() && is_gone(&idle_longer));
        assert!(all.evict_one() && is_gone(&idle));
        assert!(!all.evict_one(), "only a call is left");
        assert!(!is_gone(&calling));
        drop((call, knock));
        assert!(all.evict_one() && is_gone(&calling));
    }

    #[tokio::test]
    async fn a_newcomer_waits_for_a_call_to_end_and_then_takes_the_place() {
        let all = OpenConnections::new(1);
        let calling = enter(&all).await;
        calling.admission().grant();
        let call = calling.request();
        let mut newcomer = std::pin::pin!(all.admit());
        let waits = futures_util::poll!(newcomer.as_mut()).is_pending();
        assert!(waits, "the only place is in use");
        drop(call);
        let leaves = async move {
            calling.evicted().await;
            drop(calling);
        };
        let (newcomer, ()) = tokio::join!(newcomer, leaves);
        assert!(newcomer.is_some());
    }
}
