//! Every port of a store, and the queue, on PostgreSQL.
//!
//! [`Postgres`] is all of it. A call becomes a transaction on a task of its own (`run`, `tx`).
//! What a commit does is planned by [`clinch_stored::commit`] (`store`). Most commits are one
//! round trip: keys are taken to be new, the rows of attempts that this process began are known
//! (`live_rows`), the server's clock is estimated (`server_clock`), and the statements write what
//! is as the plan takes it to be (`write`). For the rest the rows are read and locked in a first
//! round trip (`load`), and the plan is sent together with the commit in a second.
//!
//! | table | rows | written |
//! | --- | --- | --- |
//! | `clinch_key` | four keys, fingerprint | at accept |
//! | `clinch_queue` | open operations | at accept and at each change; deleted at the end |
//! | `clinch_history` | ended operations, by the day | at the end |
//! | `clinch_delta` | what a commit added to counters | appended, folded in now and then |
//! | `clinch_record`, `clinch_document` | what an application keeps | as it asks |
//!
//! Nothing is kept on a connection, so all but the one that listens may go through PgBouncer
//! in transaction mode.
#![forbid(unsafe_code)]

mod api_keys;
mod batches;
mod caller;
mod connect;
mod documents;
mod domains;
mod error;
mod horizon;
mod inspect;
mod keys;
mod letters;
mod limiter;
mod limits;
mod link;
mod listen;
mod live_rows;
mod load;
mod locks;
mod migrate;
mod names;
mod news;
mod notifier;
mod outbox;
mod own_rows;
mod partitions;
mod presence;
mod prune;
mod query;
mod queue;
mod quota;
mod records;
mod recovery;
mod row;
mod run;
mod server_clock;
mod settings;
mod store;
mod tx;
mod write;

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::policy::Routes;
use clinch_core::ports::Clock;
use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::{Faults, Needs, News};
use tokio_postgres::types::Type;
use uuid::Uuid;

pub use clinch_core::policy::Rate;
pub use clinch_stored::Fault;
pub use limiter::PostgresLimiter;
pub use limits::PostgresLimits;
pub use migrate::{MIGRATIONS, Migration, migrate, pending};
pub use quota::PostgresQuota;
pub use settings::Settings;

use connect::{Address, Pool};
use horizon::Horizon;
use link::{Client, Link, Types};
use listen::Listener;
use live_rows::LiveRows;
use names::Names;
use notifier::Notifier;
use own_rows::OwnRows;
use presence::Session;
use query::Query;
use server_clock::ServerClock;

/// Every port of a store, on one database. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    shared: Arc<Shared>,
    /// Counts the clones: the last ends the tasks.
    alive: Arc<Alive>,
}

struct Shared {
    database: String,
    settings: Settings,
    /// Leads to the server itself, where notifications can be heard.
    listen: Address,
    /// For waits only: every moment that is stored is the server's.
    clock: Arc<dyn Clock>,
    pool: Pool,
    /// Where statements cannot be prepared: behind a pooler.
    types: Option<Arc<Types>>,
    names: Names,
    news: News,
    notifier: Notifier,
    needs: Needs,
    horizon: Horizon,
    server_clock: ServerClock,
    live_rows: LiveRows,
    own_rows: OwnRows,
    session: Session,
    faults: Faults,
    commits: AtomicU32,
    /// Of the last dequeue: what a nack is judged by.
    routes: Mutex<Arc<Routes>>,
}

/// The tasks of one store, ended when its last clone goes.
struct Alive(Vec<tokio::task::AbortHandle>);

impl Alive {
    fn end(&self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.end();
    }
}

impl Postgres {
    /// Connects to a database whose tables are up to date ([`migrate`]). `clock` times waits;
    /// what is stored goes by the server's own.
    ///
    /// - `Unsupported`: the tables are missing or of another release.
    /// - `Invalid`: an address makes no sense, or none to listen at is given for PgBouncer.
    /// - `Unavailable`: the server is not reachable, or refuses the role.
    pub async fn connect(url: &str, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let address = Address::parse(url, settings.timeout)?;
        let listen = match &settings.listen_url {
            Some(url) => Address::parse(url, settings.timeout)?,
            None if settings.through_pgbouncer => {
                let message = "nothing can be heard through PgBouncer; set `listen_url` to the \
                               address of the server itself";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            None => address.clone(),
        };
        let pool = connect::pool(&address, &settings)?;
        let listener = Listener::connect::<Shared>(&listen).await?;
        let names = Names::default();
        let object = pool.get().await.map_err(error::pool)?;
        let mut client = Client::new(object, None, settings.timeout);
        migrate::check(&client).await?;
        if settings.through_pgbouncer {
            let direct = Client::new(connect::one(&listen).await?, None, settings.timeout);
            client.types = Some(Arc::new(Types::learn(&direct).await?));
        }
        let types = client.types.clone();
        names.load(&Link::Pooled(&client)).await?;
        partitions::make(&client).await?;
        drop(client);
        let shared = Arc::new(Shared {
            database: address.database().to_owned(),
            settings,
            listen: listen.clone(),
            clock,
            pool,
            types,
            names,
            news: News::default(),
            notifier: Notifier::new(instance()),
            needs: Needs::default(),
            horizon: Horizon::default(),
            server_clock: ServerClock::default(),
            live_rows: LiveRows::default(),
            own_rows: OwnRows::default(),
            session: Session::default(),
            faults: Faults::default(),
            commits: AtomicU32::new(0),
            routes: Mutex::default(),
        });
        shared.session.connected(listener.client());
        let send = tokio::spawn(notifier::send(Arc::downgrade(&shared)));
        let listen = tokio::spawn(listener.run(Arc::downgrade(&shared), listen));
        let alive = Arc::new(Alive(vec![send.abort_handle(), listen.abort_handle()]));
        let store = Self { shared, alive };
        store.complete_letters().await?;
        Ok(store)
    }

    /// Makes the next writing call fail. Does nothing in a release build.
    pub fn fail_next(&self, fault: Fault) {
        self.shared.faults.arm(fault);
    }

    /// Says whether payloads are sealed from now on: then `clinch_accept` refuses, as the
    /// database holds no key.
    pub async fn set_sealed(&self, sealed: bool) -> Result<()> {
        let client = self.client().await?;
        let text = "UPDATE clinch_meta SET sealed = $1 WHERE sealed <> $1";
        let set = client.execute_typed(text, &[(&sealed, Type::BOOL)]).await;
        set.map(|_| ()).map_err(error::sql)
    }

    /// Says how many bytes a payload may have that `clinch_accept` takes in; 256 KiB until it
    /// is said. Calls in Rust are not its business: their callers have limits of their own.
    pub async fn set_payload_max(&self, bytes: usize) -> Result<()> {
        let max = i32::try_from(bytes).unwrap_or(i32::MAX).max(1);
        let client = self.client().await?;
        let text = "UPDATE clinch_meta SET payload_max = $1 WHERE payload_max <> $1";
        let set = client.execute_typed(text, &[(&max, Type::INT4)]).await;
        set.map(|_| ()).map_err(error::sql)
    }

    /// Ends every connection; calls fail from now on.
    pub fn close(&self) {
        self.shared.pool.close();
        self.alive.end();
    }

    /// Every statement by name, for whoever asks how the server runs it.
    pub fn statements() -> impl Iterator<Item = (&'static str, &'static str)> {
        Query::ALL.iter().map(|query| (query.name(), query.text()))
    }

    fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    fn news(&self) -> &News {
        &self.shared.news
    }

    fn last_routes(&self) -> MutexGuard<'_, Arc<Routes>> {
        let routes = self.shared.routes.lock();
        routes.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells this instance from others; not a secret.
fn instance() -> Uuid {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || RandomState::new().build_hasher().finish();
    Uuid::from_u64_pair(random(), random())
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("database", &self.shared.database)
            .finish()
    }
}
