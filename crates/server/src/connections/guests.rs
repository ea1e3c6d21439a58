//! Open connections, and which of them makes room for a new one.
//!
//! | connection | makes room |
//! | --- | --- |
//! | no request of it was let in by a key yet | first; the one that has been so for the longest |
//! | let in, and between two requests | next; the one that has been idle for the longest |
//! | let in, and in a request | never |
//!
//! So callers without a key replace each other, and a caller with a key loses at most an idle
//! connection, and that only while nobody without a key is connected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Everyone who is connected.
pub(super) struct Guests {
    room: Arc<Semaphore>,
    list: Mutex<List>,
    /// Somebody may make room who could not before.
    is_free: Notify,
}

#[derive(Default)]
struct List {
    /// Grows with every change: what is lower is longer ago.
    now: u64,
    entries: BTreeMap<u64, Entry>,
    /// Who may be sent away, the first first: (let in by a key, since when, which).
    victims: BTreeSet<(bool, u64, u64)>,
}

struct Entry {
    leave: CancellationToken,
    is_admitted: bool,
    is_busy: bool,
    since: u64,
}

impl List {
    fn change(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        self.victims.remove(&(entry.is_admitted, entry.since, id));
        change(entry);
        // A stranger's age does not begin anew with each of its requests.
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

impl Guests {
    pub(super) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(connections_max)),
            list: Mutex::default(),
            is_free: Notify::new(),
        })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for one more; at the limit another connection makes it.
    pub(super) async fn admit(self: &Arc<Self>) -> Option<Guest> {
        let permit = loop {
            if let Ok(permit) = self.room.clone().try_acquire_owned() {
                break permit;
            }
            let freed = self.is_free.notified();
            let permit = self.room.clone().acquire_owned();
            if self.evict_one() {
                // Its connection ends at once.
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
        let entry = Entry {
            leave: leave.clone(),
            is_admitted: false,
            is_busy: false,
            since: id,
        };
        list.entries.insert(id, entry);
        list.victims.insert((false, id, id));
        drop(list);
        Some(Guest {
            id,
            leave,
            guests: self.clone(),
            _permit: permit,
        })
    }

    /// Sends the first that may go away; false: there is none.
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

    fn change(&self, id: u64, change: impl FnOnce(&mut Entry)) {
        self.list().change(id, change);
    }
}

/// One connection; dropping it gives its room back.
pub(super) struct Guest {
    id: u64,
    leave: CancellationToken,
    guests: Arc<Guests>,
    _permit: OwnedSemaphorePermit,
}

impl Guest {
    /// Returns when it has to make room.
    pub(super) async fn evicted(&self) {
        self.leave.cancelled().await;
    }

    /// A request begins; it ends when what is returned is dropped.
    pub(super) fn request(self: &Arc<Self>) -> Busy {
        self.guests.change(self.id, |entry| entry.is_busy = true);
        Busy(self.clone())
    }

    pub(super) fn admission(self: &Arc<Self>) -> Admission {
        Admission(Arc::downgrade(self))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.list().remove(self.id);
    }
}

/// While it is there, the connection is in a request.
pub(super) struct Busy(Arc<Guest>);

impl Drop for Busy {
    fn drop(&mut self) {
        let Guest { id, guests, .. } = &*self.0;
        guests.change(*id, |entry| entry.is_busy = false);
        guests.is_free.notify_one();
    }
}

/// Tells the connection of a request that its caller was let in: it no longer makes room for
/// callers who were not.
#[derive(Clone)]
pub(crate) struct Admission(std::sync::Weak<Guest>);

impl Admission {
    pub(crate) fn grant(&self) {
        if let Some(guest) = self.0.upgrade() {
            guest
                .guests
                .change(guest.id, |entry| entry.is_admitted = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_gone(guest: &Guest) -> bool {
        guest.leave.is_cancelled()
    }

    async fn enter(guests: &Arc<Guests>) -> Arc<Guest> {
        Arc::new(guests.admit().await.expect("room"))
    }

    #[tokio::test]
    async fn strangers_go_first_then_the_longest_idle_and_nobody_in_an_admitted_request() {
        let guests = Guests::new(4);
        let (calling, idle, idle_longer, stranger) = (
            enter(&guests).await,
            enter(&guests).await,
            enter(&guests).await,
            enter(&guests).await,
        );
        for admitted in [&calling, &idle_longer, &idle] {
            admitted.admission().grant();
        }
        let call = calling.request();
        // A request without a key protects nobody.
        let knock = stranger.request();
        assert!(guests.evict_one() && is_gone(&stranger));
        assert!(guests.evict_one() && is_gone(&idle_longer));
        assert!(guests.evict_one() && is_gone(&idle));
        assert!(!guests.evict_one(), "only a call is left");
        assert!(!is_gone(&calling));
        drop((call, knock));
        assert!(guests.evict_one() && is_gone(&calling));
    }

    #[tokio::test]
    async fn a_newcomer_waits_for_a_call_to_end_and_then_takes_the_place() {
        let guests = Guests::new(1);
        let calling = enter(&guests).await;
        calling.admission().grant();
        let call = calling.request();
        let mut newcomer = std::pin::pin!(guests.admit());
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
