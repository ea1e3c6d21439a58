//! The simulated machine of a process: clock, ids, tasks, files, alerts.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Alert, AlertNote, Clock, Ids, Journal, JournalRecords, Spawner};
use clinch_core::{AttemptId, BatchId, Error, ErrorKind, OpId, Result, Timestamp};
use uuid::Uuid;

use crate::world::{Host, World};

/// The start of simulated time. Nothing may depend on it.
pub(crate) const EPOCH_MS: i64 = 1_790_000_000_000;

/// A clock whose wall time can step; its monotonic time cannot.
pub(crate) struct SimClock {
    pub(crate) world: World,
    pub(crate) skew_ms: AtomicI64,
}

impl SimClock {
    pub(crate) fn new(world: World) -> Self {
        Self {
            world,
            skew_ms: AtomicI64::new(0),
        }
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let passed = self.world.now().as_millis() as i64;
        let skew = self.skew_ms.load(Ordering::SeqCst);
        Timestamp::from_millis(EPOCH_MS + passed + skew)
    }

    fn monotonic(&self) -> Duration {
        self.world.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.world.sleep(duration).await;
    }
}

/// Ids of one process, drawn from the seed, so that jitter differs between operations but not
/// between replays.
pub(crate) struct SimIds(pub(crate) World);

impl SimIds {
    fn draw(&self) -> Uuid {
        Uuid::from_u64_pair(self.0.draw(), self.0.draw())
    }
}

impl Ids for SimIds {
    fn op_id(&self) -> OpId {
        OpId(self.draw())
    }
    fn attempt_id(&self) -> AttemptId {
        AttemptId(self.draw())
    }
    fn batch_id(&self) -> BatchId {
        BatchId(self.draw())
    }
}

/// Tasks of one process. They are dropped when it crashes.
pub(crate) struct SimSpawner {
    pub(crate) world: World,
    pub(crate) host: Host,
}

impl Spawner for SimSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.world.spawn(self.host, task);
    }
}

/// A file that survives crashes. Its disk can be full.
#[derive(Default)]
pub(crate) struct SimFile {
    records: Mutex<Vec<(u64, Vec<u8>)>>,
    last: AtomicU64,
    pub(crate) full: AtomicBool,
}

impl SimFile {
    pub(crate) fn len(&self) -> usize {
        let records = self.records.lock();
        records.unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[async_trait]
impl Journal for SimFile {
    async fn append(&self, new: &[Vec<u8>]) -> Result<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Full, "no space is left (simulated)"));
        }
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        for record in new {
            let position = self.last.fetch_add(1, Ordering::SeqCst) + 1;
            records.push((position, record.clone()));
        }
        Ok(())
    }

    async fn read(&self) -> Result<JournalRecords> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(JournalRecords {
            records: records.clone(),
            damaged: 0,
        })
    }

    async fn forget(&self, through: u64) -> Result<()> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|(position, _)| *position > through);
        Ok(())
    }
}

/// Collects all alerts of the whole world.
#[derive(Default)]
pub(crate) struct Pager {
    notes: Mutex<Vec<AlertNote>>,
}

impl Pager {
    /// The alerts that were raised.
    pub(crate) fn notes(&self) -> Vec<AlertNote> {
        let notes = self.notes.lock();
        notes.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Alert for Pager {
    async fn raise(&self, note: &AlertNote) -> Result<()> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(note.clone());
        Ok(())
    }
}

/// Shared handles on the machine of one node.
pub(crate) struct Machine {
    pub(crate) clock: Arc<SimClock>,
    pub(crate) spill: Arc<SimFile>,
    pub(crate) dead_letters: Arc<SimFile>,
}

impl Machine {
    pub(crate) fn new(world: &World) -> Self {
        Self {
            clock: Arc::new(SimClock::new(world.clone())),
            spill: Arc::default(),
            dead_letters: Arc::default(),
        }
    }
}
