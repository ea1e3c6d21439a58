//! The embedded default: every port of a store, and the queue, in one SQLite file.
//!
//! [`Sqlite`] is all of it. Calls that write are jobs of one writer thread, which commits once
//! for whoever waits (`writer`); calls that read go to a small pool (`readers`). A transaction
//! is a `Tx`: every change of an operation goes through `change`, which reads the row, asks
//! [`State::apply`](clinch_core::protocol::State::apply), and writes the row once with
//! everything that follows from it.
//!
//! # Where things lie
//!
//! | table | rows | written |
//! | --- | --- | --- |
//! | `clinch_request` | what was asked for | once, at accept |
//! | `clinch_operation` | state, place in the queue, result, ledger | once a commit that changes it |
//! | `clinch_key` and its levels | short hash of the four keys | at accept, then merged (`keys`) |
//! | `clinch_domain`, `clinch_store` | counters, last seq | once a commit |
//! | `clinch_record`, `clinch_document` | what an application keeps (`records`, `documents`) | as it asks |
//!
//! Both big tables are in order of acceptance, so that the rows of one commit are neighbours.
//! The queue is four partial indexes of `clinch_operation`: they hold open operations only.
//!
//! # The budget of one operation
//!
//! Rows and index entries written on the way through the queue, for an operation without a
//! lane or a batch:
//!
//! | commit | table rows | index entries |
//! | --- | --- | --- |
//! | accept | request, operation, key: 3 | id, fresh, overdue: 3 in |
//! | dequeue, which begins | operation: 1 | fresh, overdue out; needy in |
//! | settle: write-ahead and finalize | operation: 1 | needy out |
//!
//! and once a commit, however many operations share it: one row of each domain touched, and
//! the row of the store. On the fast path accept and begin are one commit: 3 rows and 2
//! entries (id, needy), then settle.
//!
//! In pages of 4 KiB, for operations of about 100 bytes of payload: a thousand accepts in one
//! commit fill about 75 pages of requests, 45 of operations and 10 of their indexes, all of them
//! neighbours, and rewrite the 40 pages of new keys. A begin or a settle of a thousand rewrites
//! the same 45 to 80 pages of operations.
//!
//! Merges of keys come on top: after every 8,192 keys one commit writes the pages of
//! `clinch_key_mid`, at most about 1,200 (5 MB), and each of the next two writes a slice of
//! 4,096 keys to `clinch_key`, about 360 pages (1.5 MB) if that has five million. That is a
//! quarter of a page an accept, where one tree of that size would cost each accept a page of
//! its own, to the log and again to the file.
//!
//! # Several processes
//!
//! `turn` lets processes write in turns, `bell` wakes those that wait, and what one process
//! cached of another's work is read anew: nothing of a row is kept between transactions.
#![forbid(unsafe_code)]

mod api_keys;
mod backup;
mod batches;
mod bell;
mod caller;
mod checkpointer;
mod column;
mod db;
mod documents;
mod domains;
mod error;
mod filesystem;
mod inspect;
mod keys;
mod line;
mod locks;
mod names;
mod news;
mod open;
mod outbox;
mod partial;
mod plan;
mod presence;
mod private;
mod prune;
mod query;
mod queue;
mod readers;
mod records;
mod recovery;
mod request;
mod restore;
mod restore_keys;
mod row;
mod schema;
mod settings;
mod store;
mod turn;
mod tx;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use clinch_core::policy::Routes;
use clinch_core::ports::{Clock, Notice};
use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::{Faults, News};

pub use backup::Existing;
pub use caller::WakeUp;
pub use clinch_stored::Fault;
pub use restore::Restored;
pub use restore_keys::{BackupKeys, RestoredKeys};
pub use schema::{Schema, Version};
pub use settings::Settings;
pub use turn::Turn;

use bell::Bell;
use checkpointer::Log;
use db::Db;
use open::Use;
use presence::{Arrival, Watch};
use query::Query;
use readers::{Quick, Readers};
use turn::Turnstile;
use tx::Tx;
use writer::{Desk, Writer};

/// Every port of a store, in one file. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    /// Sockets and locks that the processes on this file share.
    side: PathBuf,
    settings: Settings,
    clock: Arc<dyn Clock>,
    writer: Writer,
    readers: Readers,
    quick: Quick,
    news: Arc<News>,
    bell: Arc<Bell>,
    faults: Arc<Faults>,
    watch: Arc<Watch>,
    /// Of the last dequeue: what a nack is judged by.
    routes: Mutex<Arc<Routes>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.bell.take_down();
    }
}

impl Sqlite {
    /// Opens the file, or makes it. `clock` is the store's own.
    ///
    /// - `Corrupt`: it is damaged or belongs to another program; or it is not the one that was
    ///   last used here, or has lost its log, unless [`Settings::accept_data_loss`] says so.
    /// - `Unsupported`: it is of a newer release, or on a network file system.
    /// - `Unavailable`: it is read-only, locked, or its folder is missing.
    pub fn open(path: impl AsRef<Path>, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let path = absolute(path.as_ref())?;
        filesystem::check(path.parent().unwrap_or(&path))?;
        let side = side_of(&path)?;
        let (mut conn, presence) = {
            let _turn = turn::take_one(&side, settings.busy_timeout)?;
            let arrival = Arrival::at(&path, &side, settings.accept_data_loss)?;
            let mut conn = open::connect(&path, &settings, Use::Write)?;
            arrival.check(&conn)?;
            open::migrate(&mut conn, &settings).map_err(|e| e.with("path", path.display()))?;
            let presence = arrival.enter(&conn)?;
            (conn, presence)
        };
        let watch = presence.watch.clone();
        let log = Log::start(open::connect(&path, &settings, Use::Checkpoint)?)?;
        let grown = log.clone();
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            grown.grew(pages);
            Ok(())
        };
        conn.wal_hook(Some(hook)).map_err(error::sql)?;
        let reader = |_| open::connect(&path, &settings, Use::Read);
        let readers = (0..settings.readers.max(1))
            .map(reader)
            .collect::<Result<_>>()?;
        let readers = Readers::start(readers)?;
        let quick = Quick::new(open::connect(&path, &settings, Use::Read)?);
        let news = Arc::new(News::default());
        let heard = news.clone();
        let bell = Bell::hang(&side, move |notices| heard.tell(notices))?;
        let faults = Arc::new(Faults::default());
        let (writer, jobs) = writer::channel();
        let desk = Desk {
            clock: clock.clone(),
            faults: faults.clone(),
            turnstile: Turnstile::open(&side, settings.busy_timeout)?,
            log,
            watch: watch.clone(),
            tell: teller(&news, &bell),
        };
        let builder = thread::Builder::new().name("clinch-sqlite-write".into());
        let started = builder.spawn(move || desk.run(&conn, jobs, presence));
        started.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot start a thread").caused_by(error)
        })?;
        let routes = Mutex::default();
        Ok(Self {
            shared: Arc::new(Shared {
                path,
                side,
                settings,
                clock,
                writer,
                readers,
                quick,
                news,
                bell,
                faults,
                watch,
                routes,
            }),
        })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Whether the file that was opened is still in its place; a look at its name. Writing calls
    /// look by themselves.
    ///
    /// - `Unavailable`: it was removed, replaced or cut short, or its log was.
    pub fn check(&self) -> Result<()> {
        self.shared.watch.check()
    }

    /// Ends what was begun, brings everything into the file if no other process has it open, so
    /// that it is whole without its log, and takes no more calls. A store that is dropped does
    /// the same, and nobody waits for it. Blocks the thread; meant for the end of a process.
    pub fn close(&self) -> Result<()> {
        self.shared.writer.close()
    }

    /// Makes the next writing call fail. Does nothing in a release build.
    pub fn fail_next(&self, fault: Fault) {
        self.shared.faults.arm(fault);
    }

    /// How SQLite finds the rows of each statement, by name: for whoever asks why it is slow.
    pub fn plans(&self, conn: &rusqlite::Connection) -> Result<Vec<(String, Vec<String>)>> {
        let plan = |query: &Query| -> rusqlite::Result<_> {
            let text = format!("EXPLAIN QUERY PLAN {}", query.text());
            let mut statement = conn.prepare(&text)?;
            // The plan does not ask for the values.
            let mut rows = statement.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next()? {
                steps.push(row.get::<_, String>(3)?);
            }
            Ok((query.name().to_owned(), steps))
        };
        let explained = |query: &&Query| !query.is_control();
        let plans = Query::ALL.iter().filter(explained).map(plan);
        plans.collect::<rusqlite::Result<_>>().map_err(error::sql)
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

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_, '_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.shared.writer.call(work).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Db<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let read = self.shared.readers.call(work).await;
        read.map_err(|error| self.lost_or(error))
    }

    /// What a read that failed tells: that the file was lost, if it was.
    fn lost_or(&self, error: Error) -> Error {
        self.check().err().unwrap_or(error)
    }
}

/// Tells who waits here, then who waits in other processes.
fn teller(news: &Arc<News>, bell: &Arc<Bell>) -> Box<dyn Fn(Vec<Notice>) + Send> {
    let (news, bell) = (news.clone(), Arc::downgrade(bell));
    Box::new(move |notices| {
        if let Some(bell) = bell.upgrade() {
            bell.ring(&notices);
        }
        news.tell(notices);
    })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let invalid = |error| {
        let message = "the path of the database makes no sense";
        Error::new(ErrorKind::Invalid, message).caused_by(error)
    };
    let path = std::path::absolute(path).map_err(invalid)?;
    // Two names of one folder must lead to the same sockets and locks.
    let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
    Ok(match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path,
    })
}

/// The folder beside the file, made if it is not there.
fn side_of(path: &Path) -> Result<PathBuf> {
    let mut side = path.as_os_str().to_owned();
    side.push(".wake");
    let side = PathBuf::from(side);
    private::folder(&side)?;
    Ok(side)
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite")
            .field("path", &self.shared.path)
            .finish()
    }
}
