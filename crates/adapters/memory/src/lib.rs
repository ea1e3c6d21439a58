//! The in-memory reference adapter.
//!
//! [`Memory`] is every port of a store on one set of [`Tables`] behind one lock. A call is a
//! transaction: it works on the tables, and either commits or is rolled back to the last
//! row, so that what was not committed is gone. [`Memory::crash`] opens a second instance on
//! what the first had committed. [`MemoryBus`] is a bus of hints, and [`Memory`] is also a
//! bus of its own whose deliveries have begun.
//!
//! It is the model that the other adapters are compared with, so it is written to be
//! obviously right: what a commit does is planned by [`clinch_stored::commit`], as in every
//! store, and the tables hold what the plan says.
#![forbid(unsafe_code)]

mod api_keys;
mod batches;
mod bus;
mod clock;
mod documents;
mod domains;
mod inspect;
mod locks;
mod news;
mod outbox;
mod queue;
mod quota;
mod records;
mod recovery;
mod store;
mod table;
mod tables;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::policy::Routes;
use clinch_core::ports::{Clock, Notice};
use clinch_core::{Domain, Error, ErrorKind, OpId, Result, Timestamp};
use clinch_stored::News;

pub use clinch_stored::Fault;

pub use bus::MemoryBus;
pub use clock::ManualClock;
pub use quota::MemoryQuota;
pub use table::Table;
pub use tables::{DomainRow, Key, LockRow, QueueRow, Row, Slot, Tables};

/// Every port of a store, in memory. Cheap to clone; clones share the tables.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
    news: News,
    fault: Mutex<Option<Fault>>,
    /// Of the last dequeue: what a nack is judged by.
    routes: Mutex<Arc<Routes>>,
}

/// One call's view of the tables.
struct Tx<'a> {
    tables: &'a mut Tables,
    now: Timestamp,
    news: Fresh,
}

/// What a commit has to tell.
#[derive(Default)]
struct Fresh {
    due: BTreeSet<Domain>,
    settled: Vec<OpId>,
    recovery: bool,
}

impl Fresh {
    fn into_notices(self) -> Vec<Notice> {
        let settled = self.settled.into_iter().map(Notice::Settled);
        let due = self.due.into_iter().map(Notice::Due);
        let recovery = self.recovery.then_some(Notice::Recovery);
        settled.chain(due).chain(recovery).collect()
    }
}

impl Memory {
    /// An empty store on `clock`, which is the store's own: callers' clocks may differ.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::open(clock, Tables::default())
    }

    fn open(clock: Arc<dyn Clock>, tables: Tables) -> Self {
        let shared = Shared {
            clock,
            tables: Mutex::new(tables),
            news: News::default(),
            fault: Mutex::default(),
            routes: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Kills nothing and nobody: opens a second instance on a copy of what is committed, as
    /// a restart after a crash would find it.
    pub fn crash(&self) -> Self {
        let tables = self.lock().clone();
        Self::open(self.shared.clock.clone(), tables)
    }

    /// Makes the next writing call fail.
    pub fn fail_next(&self, fault: Fault) {
        *self.fault() = Some(fault);
    }

    /// Changes the tables behind the ports' back, as one commit. For tests and simulations.
    pub fn edit<T>(&self, edit: impl FnOnce(&mut Tables) -> T) -> T {
        let mut tables = self.lock();
        let result = edit(&mut tables);
        tables.commit();
        result
    }

    fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        let tables = self.shared.tables.lock();
        tables.unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> MutexGuard<'_, Option<Fault>> {
        let fault = self.shared.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner)
    }

    fn last_routes(&self) -> MutexGuard<'_, Arc<Routes>> {
        let routes = self.shared.routes.lock();
        routes.unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, work: impl FnOnce(&Tables, Timestamp) -> T) -> T {
        let tables = self.lock();
        work(&tables, self.clock().now())
    }

    /// Runs one transaction. Readers are woken after the commit.
    fn write<T>(&self, work: impl FnOnce(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        let fault = self.fault().take();
        let unavailable = || Error::new(ErrorKind::Unavailable, "the store is down (injected)");
        if fault == Some(Fault::BeforeCommit) {
            return Err(unavailable());
        }
        let mut tables = self.lock();
        let mut tx = Tx {
            tables: &mut tables,
            now: self.clock().now(),
            news: Fresh::default(),
        };
        let result = work(&mut tx);
        let notices = tx.news.into_notices();
        if result.is_err() || fault == Some(Fault::MidCommit) {
            tables.roll_back();
            return result.and_then(|_| Err(unavailable()));
        }
        tables.commit();
        drop(tables);
        self.shared.news.tell(notices);
        match fault {
            Some(_) => Err(Error::new(
                ErrorKind::Ambiguous,
                "the commit was not confirmed (injected)",
            )),
            None => result,
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.lock().rows.len();
        f.debug_struct("Memory").field("rows", &rows).finish()
    }
}
