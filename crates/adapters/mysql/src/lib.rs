//! Every port of a store, and the queue, on MariaDB and MySQL.
//!
//! [`Mysql`] implements all of them. Each call runs as a transaction on its own task (`run`): it
//! locks and reads the rows that it needs (`load`), plans the changes with
//! [`clinch_stored::commit`] (`store`), and writes them with one statement per kind of row, sent
//! together with the commit (`write`): two round trips.
//!
//! | table | rows | written |
//! | --- | --- | --- |
//! | `clinch_key` | four keys, fingerprint | at accept, before anything else |
//! | `clinch_request` | the submitted command | once, at accept; draws the seq |
//! | `clinch_queue` | open operations: state and queue columns | at accept and at each change; deleted at the end |
//! | `clinch_history` | terminal operations | when they end |
//! | `clinch_stream` | domain, event type and priority | once |
//! | `clinch_count` | counters of a domain, by slot | once per commit |
//! | `clinch_record`, `clinch_document` | data of an application | on request |
//!
//! The columns that ADR-010 names are `status`, `next_retry_at`, `locked_by`, `locked_at` and
//! `version` of `clinch_queue`. Its index (status, next_retry_at, id) is `due`: (line, stream,
//! rank_no, due_at), followed by the seq. A claim also stores its end, `locked_until`, so that
//! expired claims need no search by age.
//!
//! Values are written into statements as numbers and hexadecimal bytes (`text`), so that several
//! statements travel together and none has to be prepared.
#![forbid(unsafe_code)]

mod api_keys;
mod batches;
mod caller;
mod column;
mod connect;
mod documents;
mod domains;
mod error;
mod inspect;
mod keys;
mod letters;
mod link;
mod load;
mod locks;
mod migrate;
mod news;
mod outbox;
mod presence;
mod prune;
mod query;
mod queue;
mod records;
mod recovery;
mod row;
mod run;
mod settings;
mod store;
mod streams;
mod text;
mod time;
mod tx;
mod write;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::Clock;
use clinch_core::{Result, Timestamp};
use clinch_stored::{Faults, Needs, News};
use mysql_async::Pool;

pub use caller::WakeUp;
pub use clinch_stored::Fault;
pub use migrate::{MIGRATIONS, Migration, migrate, pending};
pub use settings::Settings;

use presence::Session;
use streams::KnownStreams;
use time::Time;

/// Every port of a store, on one database. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Mysql {
    shared: Arc<Shared>,
}

struct Shared {
    database: String,
    settings: Settings,
    /// Times waits only: every stored time comes from the server's clock.
    clock: Arc<dyn Clock>,
    pool: Pool,
    time: Time,
    needs: Arc<Needs>,
    streams: Arc<KnownStreams>,
    news: Arc<News>,
    session: Session,
    faults: Faults,
    /// Transactions that were run again.
    retries: AtomicU64,
    /// The routes of the last dequeue: `nack` needs them.
    routes: Mutex<Arc<Routes>>,
}

impl Mysql {
    /// Connects to a database whose tables are up to date ([`migrate`]). `clock` times waits;
    /// stored times come from the server's clock.
    ///
    /// - `Unsupported`: the tables are missing or of another release, or the server is too old.
    /// - `Unavailable`: the server is not reachable, or refuses the user.
    pub async fn connect(url: &str, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let opts = connect::parse(url)?;
        let (mut conn, flavor) = connect::connect_one(&opts, settings.timeout).await?;
        let checked = tokio::time::timeout(settings.timeout, migrate::check(&mut conn)).await;
        checked.unwrap_or_else(|_| Err(error::sql(&error::no_answer())))?;
        let _ = conn.disconnect().await;
        let shared = Shared {
            database: opts.db_name().unwrap_or_default().to_owned(),
            pool: connect::pool(&opts, flavor, &settings),
            settings,
            clock,
            time: Time::default(),
            needs: Arc::default(),
            streams: Arc::default(),
            news: Arc::new(News::default()),
            session: Session::new(opts.clone()),
            faults: Faults::default(),
            retries: AtomicU64::new(0),
            routes: Mutex::default(),
        };
        let store = Self {
            shared: Arc::new(shared),
        };
        store.complete_letters().await?;
        Ok(store)
    }

    /// Transactions that were run again after a deadlock or a lock timeout.
    pub fn deadlock_retries(&self) -> u64 {
        self.shared.retries.load(Ordering::Relaxed)
    }

    /// Makes the next writing call fail. Does nothing in a release build.
    pub fn fail_next(&self, fault: Fault) {
        self.shared.faults.arm(fault);
    }

    /// Moves the store's clock forward for this instance, and wakes waiting callers. Does nothing
    /// in a release build.
    pub fn advance(&self, by: Duration) {
        self.shared.time.advance(by);
    }

    /// Stops the store's clock for this instance. Does nothing in a release build.
    pub fn stop_clock(&self, at: Timestamp) {
        self.shared.time.stop_at(at);
    }

    /// Closes every connection once it is free; later calls fail.
    pub async fn close(&self) {
        self.shared.session.end().await;
        let _ = self.shared.pool.clone().disconnect().await;
    }

    fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    fn news(&self) -> &News {
        &self.shared.news
    }

    fn fallback(&self) -> Duration {
        self.shared.settings.fallback_poll
    }

    fn last_routes(&self) -> MutexGuard<'_, Arc<Routes>> {
        let routes = self.shared.routes.lock();
        routes.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Mysql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mysql")
            .field("database", &self.shared.database)
            .finish()
    }
}
