//! The embedded default: every port of a store, and the queue, in one SQLite file.
#![forbid(unsafe_code)]

mod accept;
mod backup;
mod batches;
mod bell;
mod caller;
mod change;
mod checkpointer;
mod column;
mod db;
mod domains;
mod error;
mod fault;
mod filesystem;
mod inspect;
mod lane;
mod ledger;
mod line;
mod locks;
mod names;
mod news;
mod open;
mod outbox;
mod prune;
mod query;
mod queue;
mod readers;
mod recovery;
mod request;
mod row;
mod settings;
mod store;
mod turn;
mod tx;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use clinch_core::policy::Routes;
use clinch_core::ports::{Clock, Notice};
use clinch_core::{Error, ErrorKind, Result};

pub use backup::Restored;
pub use caller::WakeUp;
pub use fault::Fault;
pub use settings::Settings;
pub use turn::Turn;

use bell::Bell;
use checkpointer::Log;
use db::Db;
use fault::Faults;
use news::News;
use open::Use;
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
    /// - `Corrupt`: it is damaged or belongs to another program.
    /// - `Unsupported`: it is of a newer release, or on a network file system.
    /// - `Unavailable`: it is read-only, locked, or its folder is missing.
    pub fn open(path: impl AsRef<Path>, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let path = absolute(path.as_ref())?;
        filesystem::check(path.parent().unwrap_or(&path))?;
        let side = side_of(&path)?;
        let mut conn = {
            let _turn = turn::take_one(&side)?;
            let mut conn = open::connect(&path, &settings, Use::Write)?;
            open::migrate(&mut conn, &settings).map_err(|e| e.with("path", path.display()))?;
            conn
        };
        let log = Log::start(open::connect(&path, &settings, Use::Checkpoint)?)?;
        let grown = log.clone();
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            grown.grew(pages);
            Ok(())
        };
        conn.wal_hook(Some(hook)).map_err(error::sql)?;
        let reader = |_| open::connect(&path, &settings, Use::Read);
        let readers = (0..settings.readers.max(1)).map(reader).collect::<Result<_>>()?;
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
            tell: teller(&news, &bell),
        };
        let builder = thread::Builder::new().name("clinch-sqlite-write".into());
        let started = builder.spawn(move || desk.run(&conn, &jobs));
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
                routes,
            }),
        })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Makes the next writing call fail. Does nothing in a release build.
    pub fn fail_next(&self, fault: Fault) {
        self.shared.faults.arm(fault);
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
        self.shared.readers.call(work).await
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
    match fs::create_dir(&side) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            let message = "the folder of the database cannot be written; check that it exists \
                           and is not read-only";
            Err(Error::new(ErrorKind::Unavailable, message)
                .with("path", path.display())
                .caused_by(error))
        }
        _ => Ok(side),
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.shared.path).finish()
    }
}
