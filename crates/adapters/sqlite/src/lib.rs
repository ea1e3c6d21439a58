//! The embedded default: every port of a store, and the queue, in one SQLite file.
//!
//! [`Sqlite`] implements all of them. Calls that write are jobs of one writer thread, which shares
//! a commit among all waiting callers (`writer`); calls that read go to a small pool (`readers`). A
//! transaction is a `Tx`. For the changes of operations it loads what `clinch_stored::commit` asks
//! for, lets that plan the commit, and writes the plan (`store`, `plan`).
//!
//! # Tables
//!
//! | table | rows | written |
//! | --- | --- | --- |
//! | `clinch_request` | the submitted command | once, at accept |
//! | `clinch_operation` | state, queue columns, result, ledger | once per commit that changes it |
//! | `clinch_key` and its levels | short hash of the four keys | at accept, then merged (`keys`) |
//! | `clinch_domain`, `clinch_store` | counters, last seq | once per commit |
//! | `clinch_record`, `clinch_document` | data of an application (`records`, `documents`) | on request |
//!
//! Both big tables are in order of acceptance, so that the rows of one commit are neighbours. The
//! queue consists of four partial indexes of `clinch_operation` that hold open operations only.
//!
//! # The budget of one operation
//!
//! Rows and index entries written on the way through the queue, for an operation without a lane or
//! a batch:
//!
//! | commit | table rows | index entries |
//! | --- | --- | --- |
//! | accept | request, operation, key: 3 | id, fresh, overdue: 3 in |
//! | dequeue, which begins | operation: 1 | fresh, overdue out; needy in |
//! | settle: write-ahead and finalize | operation: 1 | needy out |
//!
//! In addition, each commit writes one row for each domain that it touches and the row of the
//! store, however many operations share the commit. On the fast path accept and begin are one
//! commit: 3 rows and 2 entries (id, needy), then settle.
//!
//! In pages of 4 KiB, for operations of about 100 bytes of payload: a thousand accepts in one
//! commit fill about 75 pages of requests, 45 of operations and 10 of their indexes, all of them
//! neighbours, and 4 pages of new keys. A begin or a settle of a thousand rewrites the
//! same 45 to 80 pages of operations.
//!
//! Merges of keys come on top: after every 8,192 keys one commit writes the pages of
//! `clinch_key_mid`, at most about 1,200 (5 MB), and each of the next two commits writes a slice of
//! 4,096 keys to `clinch_key`, about 360 pages (1.5 MB) if that has five million keys. That is a
//! quarter of a page per accept. A single tree of that size would cost each accept a page of its
//! own, to the log and again to the file.
//!
//! # Several processes
//!
//! `turn` orders the writers of several processes, `peers` wakes processes that wait, and `presence`
//! tells which processes have died. What
//! the writer keeps between transactions is dropped when another process has committed (`kept`), so
//! each process sees the commits of the others.
#![forbid(unsafe_code)]

mod api_keys;
mod backup;
mod batches;
mod caller;
mod checkpointer;
mod column;
mod db;
mod documents;
mod domains;
mod error;
mod filesystem;
mod inspect;
mod integrity;
mod kept;
mod keys;
mod letters;
mod locks;
mod names;
mod news;
mod open;
mod outbox;
mod partial;
mod peers;
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
mod streams;
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

use checkpointer::Checkpointer;
use db::{Db, Steps};
use integrity::{FileWatch, OpenCheck};
use open::Purpose;
use peers::PeerSocket;
use presence::OwnProcesses;
use query::Query;
use readers::{InlineReader, Readers};
use turn::Turnstile;
use tx::Tx;
use writer::{Writer, WriterLoop};

/// Every port of a store, in one file. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    /// The folder of sockets and locks that the processes on this file share.
    wake_dir: PathBuf,
    settings: Settings,
    clock: Arc<dyn Clock>,
    writer: Writer,
    readers: Readers,
    inline_reader: InlineReader,
    news: Arc<News>,
    peers: Arc<PeerSocket>,
    processes: OwnProcesses,
    faults: Arc<Faults>,
    watch: Arc<FileWatch>,
    /// The routes of the last dequeue: `nack` needs them.
    routes: Mutex<Arc<Routes>>,
    steps: Steps,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.peers.close();
    }
}

impl Sqlite {
    /// Opens the file, or creates it. `clock` becomes the store's clock.
    ///
    /// - `Corrupt`: the file is damaged or belongs to another program; or, unless
    ///   [`Settings::accept_data_loss`] is set, it is not the file that was last used here or has
    ///   lost its log.
    /// - `Unsupported`: a newer release wrote the file, or it is on a network file system.
    /// - `Unavailable`: the file is read-only or locked, or its folder is missing.
    pub fn open(path: impl AsRef<Path>, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let path = absolute(path.as_ref())?;
        filesystem::check(path.parent().unwrap_or(&path))?;
        let wake_dir = wake_dir_of(&path)?;
        let (mut conn, open_mark) = {
            let _turn = turn::take_one(&wake_dir, settings.busy_timeout)?;
            let open_check = OpenCheck::before_open(&path, &wake_dir, settings.accept_data_loss)?;
            let mut conn = open::connect(&path, &settings, Purpose::Write)?;
            open_check.check(&conn)?;
            open::migrate(&mut conn, &settings).map_err(|e| e.with("path", path.display()))?;
            let open_mark = open_check.mark_in_use(&conn)?;
            (conn, open_mark)
        };
        let watch = open_mark.watch.clone();
        let checkpointer =
            Checkpointer::start(open::connect(&path, &settings, Purpose::Checkpoint)?)?;
        let grown = checkpointer.clone();
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            grown.grew(pages);
            Ok(())
        };
        conn.wal_hook(Some(hook)).map_err(error::sql)?;
        let reader = |_| open::connect(&path, &settings, Purpose::Read);
        let readers = (0..settings.readers.max(1))
            .map(reader)
            .collect::<Result<_>>()?;
        let steps = Steps::default();
        let readers = Readers::start(readers, &steps)?;
        let inline_reader = open::connect(&path, &settings, Purpose::Read)?;
        let inline_reader = InlineReader::new(inline_reader, steps.clone());
        let news = Arc::new(News::default());
        let heard = news.clone();
        let peers = PeerSocket::bind(&wake_dir, move |notices| heard.tell(notices))?;
        let faults = Arc::new(Faults::default());
        let (writer, jobs) = writer::channel();
        let writer_loop = WriterLoop {
            clock: clock.clone(),
            faults: faults.clone(),
            turnstile: Turnstile::open(&wake_dir, settings.busy_timeout)?,
            checkpointer,
            watch: watch.clone(),
            notify: notifier(&news, &peers),
            steps: steps.clone(),
        };
        let builder = thread::Builder::new().name("clinch-sqlite-write".into());
        let started = builder.spawn(move || writer_loop.run(&conn, jobs, open_mark));
        started.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot start a thread").caused_by(error)
        })?;
        let routes = Mutex::default();
        Ok(Self {
            shared: Arc::new(Shared {
                path,
                wake_dir,
                settings,
                clock,
                writer,
                readers,
                inline_reader,
                news,
                peers,
                processes: OwnProcesses::default(),
                faults,
                watch,
                routes,
                steps,
            }),
        })
    }

    /// The path of the database file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Checks that the opened file is still in its place, by its name. Writing calls check this
    /// themselves.
    ///
    /// - `Unavailable`: the file or its log was removed, replaced or truncated.
    pub fn check(&self) -> Result<()> {
        self.shared.watch.check()
    }

    /// Finishes the current commit and takes no more calls. If no other process has the file open,
    /// it also moves the log into the file, so that the file is complete without its log. Dropping
    /// the store does the same in the background. Blocks the thread; meant for the end of a
    /// process.
    pub fn close(&self) -> Result<()> {
        self.shared.writer.close()
    }

    /// Makes the next writing call fail. Does nothing in a release build.
    pub fn fail_next(&self, fault: Fault) {
        self.shared.faults.arm(fault);
    }

    /// Steps of SQLite's virtual machine that the statements of this store have taken: at least one
    /// for each row that was examined. Not counted in a release build.
    pub fn steps(&self) -> u64 {
        self.shared.steps.taken()
    }

    /// The query plan of each statement, by name: for finding out why one is slow.
    pub fn plans(&self, conn: &rusqlite::Connection) -> Result<Vec<(String, Vec<String>)>> {
        let plan = |query: &Query| -> rusqlite::Result<_> {
            let text = format!("EXPLAIN QUERY PLAN {}", query.text());
            let mut statement = conn.prepare(&text)?;
            // The plan does not depend on the bound values.
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

    /// If the file was lost, that explains the failed read better than the read's own error.
    fn lost_or(&self, error: Error) -> Error {
        self.check().err().unwrap_or(error)
    }
}

/// Sends notices to other processes, then to waiters in this one.
fn notifier(news: &Arc<News>, peers: &Arc<PeerSocket>) -> Box<dyn Fn(Vec<Notice>) + Send> {
    let (news, peers) = (news.clone(), Arc::downgrade(peers));
    Box::new(move |notices| {
        if let Some(peers) = peers.upgrade() {
            peers.notify(&notices);
        }
        news.tell(notices);
    })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let invalid = |error| {
        let message = "the path of the database is not valid";
        Error::new(ErrorKind::Invalid, message).caused_by(error)
    };
    let path = std::path::absolute(path).map_err(invalid)?;
    // Two paths of one folder must lead to the same sockets and locks.
    let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
    Ok(match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path,
    })
}

/// The folder beside the file, created if it is missing.
fn wake_dir_of(path: &Path) -> Result<PathBuf> {
    let mut wake_dir = path.as_os_str().to_owned();
    wake_dir.push(".wake");
    let wake_dir = PathBuf::from(wake_dir);
    private::folder(&wake_dir)?;
    Ok(wake_dir)
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite")
            .field("path", &self.shared.path)
            .finish()
    }
}
