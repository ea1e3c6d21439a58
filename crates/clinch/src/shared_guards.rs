//! One state of a destination for every process of a store: whether it is down, and until when its
//! provider asked for a pause. Each destination has one record of the store.
//!
//! - A breaker that opened or closed by the calls of a process, a provider's pause and an
//!   operator's word are each written with a compare-and-set. Whoever loses takes over what the
//!   winner wrote.
//! - Before a call a process reads the records, at most once in [`FRESH`]. While one of its
//!   destinations is down or paused it also reads them in the background. Otherwise it does not
//!   read them: an idle process costs nothing.
//! - A process that does not reach the store decides for itself, as without other processes.
//!
//! - A destination whose name is too long for a key of a record is not shared.
//!
//! Times in records are those of the store's clock.

mod word;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{
    CircuitState, Clock, Expected, Gate as _, Inspect, RECORD_KEY_BYTES_MAX, RECORDS_MAX, Record,
    RecordWrite, Records, Spawner,
};
use clinch_core::{Error, ErrorKind, Result, Timestamp};
use clinch_protect::{Destination, Opener, Sharing};

use word::{Down, Known, Word};

/// How old the knowledge may be with which a call is made.
const FRESH: Duration = Duration::from_secs(1);
/// The longest wait for the store before a call. After it, this process decides for itself.
const READ_WAIT: Duration = Duration::from_millis(500);
/// The longest wait for the store when an operator says something.
const OPERATOR_WAIT: Duration = Duration::from_secs(2);
/// How often a write is repeated because another process wrote first.
const WRITES_MAX: usize = 8;
/// The keys of the records.
const PREFIX: &str = "clinch/destination/";

/// Keeps the guards of this process in step with those of the others.
pub(crate) struct SharedGuards {
    this: Weak<Self>,
    records: Arc<dyn Records>,
    inspect: Arc<dyn Inspect>,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawner>,
    destinations: BTreeMap<String, Weak<Destination>>,
    known: Mutex<BTreeMap<String, Known>>,
    /// When the records were last read, or could not be read.
    read_at: Mutex<Option<Duration>>,
    /// The last access failed.
    is_cut_off: AtomicBool,
    /// One access at a time.
    turn: tokio::sync::Mutex<()>,
    is_following: AtomicBool,
    /// Called when a destination takes calls again.
    reopened: OnceLock<Weak<Reopened>>,
}

/// Wakes work that waits for a destination.
pub(crate) type Reopened = dyn Fn() + Send + Sync;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

impl SharedGuards {
    pub(crate) fn new(
        records: Arc<dyn Records>,
        inspect: Arc<dyn Inspect>,
        clock: Arc<dyn Clock>,
        spawner: Arc<dyn Spawner>,
        destinations: &[Arc<Destination>],
    ) -> Arc<Self> {
        let is_shared = |one: &&Arc<Destination>| {
            let name = one.destination();
            key(name).len() <= RECORD_KEY_BYTES_MAX && !name.contains('\0')
        };
        let named = |one: &Arc<Destination>| (one.destination().to_owned(), Arc::downgrade(one));
        let destinations: Vec<_> = destinations.iter().filter(is_shared).cloned().collect();
        let shared = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            records,
            inspect,
            clock,
            spawner,
            destinations: destinations.iter().map(named).collect(),
            known: Mutex::default(),
            read_at: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            is_following: AtomicBool::new(false),
            reopened: OnceLock::new(),
        });
        for destination in &destinations {
            destination.share(shared.clone());
        }
        shared
    }

    pub(crate) fn when_reopened(&self, reopened: &Arc<Reopened>) {
        let _ = self.reopened.set(Arc::downgrade(reopened));
    }

    /// Whether the store could be reached the last time.
    pub(crate) fn is_shared(&self) -> bool {
        !self.is_cut_off.load(Ordering::Relaxed)
    }

    /// The breaker of a destination changed by calls of this process, or by an operator whose word
    /// could not be shared at once.
    pub(crate) fn breaker_changed(&self, name: &str) {
        self.has_news(name, |known| known.has_breaker_news = true);
    }

    /// An operator opens a breaker in every process. False: the store was not reached, and only
    /// this process knows.
    pub(crate) async fn open(
        &self,
        name: &str,
        open_for: Option<Duration>,
        opener: &Opener,
    ) -> bool {
        let change = |word: &mut Word, now: Timestamp| {
            let since = word.down.as_ref().filter(|down| !down.is_over(now));
            word.down = Some(Down {
                since: since.map_or(now, |down| down.since),
                until: open_for.map(|lasting| now + lasting),
                by: opener.by.clone(),
                reason: opener.reason.clone(),
            });
        };
        self.say(name, change).await
    }

    /// An operator closes a breaker and ends a pause in every process. False: as above.
    pub(crate) async fn reset(&self, name: &str) -> bool {
        self.say(name, |word, _| *word = Word::default()).await
    }

    async fn say(&self, name: &str, change: impl Fn(&mut Word, Timestamp)) -> bool {
        if !self.destinations.contains_key(name) {
            return false;
        }
        let said = self.within(OPERATOR_WAIT, async {
            let _turn = self.turn.lock().await;
            for _ in 0..WRITES_MAX {
                self.read().await?;
                let now = self.inspect.now().await?;
                let mut known = self.known(name);
                change(&mut known.word, now);
                // The operator's word is newer than what this process had to say.
                (known.has_breaker_news, known.has_pause_news) = (false, false);
                if self.write(name, known).await? {
                    return Ok(());
                }
            }
            Err(Error::new(
                ErrorKind::Conflict,
                "too many processes write at once",
            ))
        });
        let is_said = said.await;
        self.follow();
        is_said
    }

    fn known(&self, name: &str) -> Known {
        lock(&self.known).get(name).cloned().unwrap_or_default()
    }

    fn has_news(&self, name: &str, note: impl FnOnce(&mut Known)) {
        if !self.destinations.contains_key(name) {
            return;
        }
        note(lock(&self.known).entry(name.to_owned()).or_default());
        self.follow();
    }

    fn is_fresh(&self) -> bool {
        let now = self.clock.monotonic();
        lock(&self.read_at).is_some_and(|at| now.saturating_sub(at) < FRESH)
    }

    /// False: the store did not answer in time, or failed. That is logged once.
    async fn within(&self, wait: Duration, access: impl Future<Output = Result<()>>) -> bool {
        let done = tokio::select! {
            biased;
            done = access => done,
            () = self.clock.sleep(wait) => {
                Err(Error::new(ErrorKind::Unavailable, "the store does not answer"))
            }
        };
        *lock(&self.read_at) = Some(self.clock.monotonic());
        let was_cut_off = self.is_cut_off.swap(done.is_err(), Ordering::Relaxed);
        match (was_cut_off, &done) {
            (false, Err(error)) => tracing::warn!(
                target: "clinch",
                "breakers and pauses are those of this process until the store answers: {}",
                error.message()
            ),
            (true, Ok(())) => {
                tracing::info!(target: "clinch", "breakers and pauses are shared again");
            }
            _ => {}
        }
        done.is_ok()
    }

    /// Reads the records and takes over what changed.
    async fn read(&self) -> Result<()> {
        let names: Vec<&String> = self.destinations.keys().collect();
        for names in names.chunks(RECORDS_MAX) {
            let keys: Vec<String> = names.iter().map(|name| key(name)).collect();
            let found = self.records.read_records(&keys).await?;
            for (name, record) in names.iter().zip(found) {
                let version = record.as_ref().map(|record| record.version);
                if version != self.known(name).version {
                    self.take_over(name, record).await?;
                }
            }
        }
        Ok(())
    }

    async fn take_over(&self, name: &str, record: Option<Record>) -> Result<()> {
        let now = self.inspect.now().await?;
        let version = record.as_ref().map(|record| record.version);
        // A record of a later release that cannot be read says nothing to this one.
        let word = record.and_then(|record| serde_json::from_str::<Word>(&record.body).ok());
        let word = word.unwrap_or_default();
        let is_news = |down: &Down| !down.is_over(now);
        let (is_down_new, is_pause_new) = {
            let mut all = lock(&self.known);
            let known = all.entry(name.to_owned()).or_default();
            let is_down_new =
                word.down != known.word.down && word.down.as_ref().is_none_or(is_news);
            let is_pause_new = word.paused_until != known.word.paused_until
                && word.paused_until.is_none_or(|until| until > now);
            known.has_breaker_news &= !is_down_new;
            known.has_pause_news &= !is_pause_new;
            (known.version, known.word) = (version, word.clone());
            (is_down_new, is_pause_new)
        };
        let destination = self.destinations.get(name).and_then(Weak::upgrade);
        let Some(destination) = destination else {
            return Ok(());
        };
        let was_closed = destination.room().is_closed();
        if is_down_new {
            match &word.down {
                Some(down) => {
                    destination.open(down.opened(now), down.opener());
                }
                None if destination.breaker().state() != CircuitState::Closed => {
                    destination.breaker().reset();
                }
                None => {}
            }
        }
        if is_pause_new && !destination.limiter().is_shared() {
            match word.paused_until {
                Some(until) => destination.limiter().pause(until.since(now)).await,
                None => drop(destination.limiter().resume().await),
            }
        }
        if was_closed && !destination.room().is_closed() {
            self.tell_reopened();
        }
        Ok(())
    }

    fn tell_reopened(&self) {
        if let Some(reopened) = self.reopened.get().and_then(Weak::upgrade) {
            reopened();
        }
    }

    /// Writes the word of `known` if no other process wrote since. False: one did.
    async fn write(&self, name: &str, known: Known) -> Result<bool> {
        let failed = |error: serde_json::Error| Error::new(ErrorKind::Internal, error.to_string());
        let write = RecordWrite {
            key: key(name),
            expected: known.version.map_or(Expected::Absent, Expected::Version),
            body: Some(serde_json::to_string(&known.word).map_err(failed)?),
        };
        let is_written = self.records.write_records(&[write]).await?;
        if is_written {
            let version = Some(known.version.map_or(1, |version| version + 1));
            let mut all = lock(&self.known);
            let entry = all.entry(name.to_owned()).or_default();
            (entry.version, entry.word) = (version, known.word);
        }
        Ok(is_written)
    }

    /// Writes what this process has to say about a destination.
    async fn publish(&self, name: &str, destination: &Destination) -> Result<()> {
        for _ in 0..WRITES_MAX {
            let before = self.known(name);
            if !before.has_news() {
                return Ok(());
            }
            self.forget_news(name);
            let published = self.publish_once(name, destination, before.clone()).await;
            if let Ok(true) = published {
                return Ok(());
            }
            {
                let mut all = lock(&self.known);
                let known = all.entry(name.to_owned()).or_default();
                known.has_breaker_news |= before.has_breaker_news;
                known.has_pause_news |= before.has_pause_news;
            }
            published?;
            self.read().await?;
        }
        Ok(())
    }

    /// What happens from now on is news again.
    fn forget_news(&self, name: &str) {
        if let Some(known) = lock(&self.known).get_mut(name) {
            (known.has_breaker_news, known.has_pause_news) = (false, false);
        }
    }

    async fn publish_once(
        &self,
        name: &str,
        destination: &Destination,
        mut known: Known,
    ) -> Result<bool> {
        let now = self.inspect.now().await?;
        let status = destination.status();
        let before = known.word.clone();
        if known.has_breaker_news {
            let circuit = status.circuit;
            match circuit.state {
                CircuitState::Open => {
                    let failure = status.last_failure;
                    let failure = failure.map(|one| format!("{}: {}", one.code, one.message));
                    let opener = status.opener.unwrap_or(Opener {
                        by: None,
                        reason: failure.unwrap_or_default(),
                    });
                    known.word.down = Some(Down {
                        since: now - circuit.since.unwrap_or_default(),
                        until: circuit.open_for.map(|left| now + left),
                        by: opener.by,
                        reason: opener.reason,
                    });
                }
                CircuitState::Closed => known.word.down = None,
                // Each process tries a few calls; the first result is news again.
                CircuitState::HalfOpen => {}
            }
        }
        if known.has_pause_news {
            known.word.paused_until = status.paused.map(|left| now + left);
        }
        if known.word == before {
            return Ok(true);
        }
        self.write(name, known).await
    }

    /// Follows the records until no destination is down or paused.
    fn follow(&self) {
        if self.is_following.swap(true, Ordering::SeqCst) {
            return;
        }
        let (this, clock) = (self.this.clone(), self.clock.clone());
        self.spawner.spawn(Box::pin(async move {
            loop {
                let Some(shared) = this.upgrade() else {
                    return;
                };
                let is_done = shared.step().await && !shared.must_follow();
                if is_done {
                    shared.is_following.store(false, Ordering::SeqCst);
                    // What happened meanwhile found this task still following.
                    let is_over = !shared.must_follow();
                    if is_over || shared.is_following.swap(true, Ordering::SeqCst) {
                        return;
                    }
                }
                drop(shared);
                clock.sleep(FRESH).await;
            }
        }));
    }

    /// Says what this process has to say, and reads. False: the store was not reached.
    async fn step(&self) -> bool {
        self.within(OPERATOR_WAIT, async {
            let _turn = self.turn.lock().await;
            for (name, destination) in &self.destinations {
                if let Some(destination) = destination.upgrade() {
                    self.publish(name, &destination).await?;
                }
            }
            self.read().await
        })
        .await
    }

    fn must_follow(&self) -> bool {
        if lock(&self.known).values().any(Known::has_news) {
            return true;
        }
        let mut all = self.destinations.values().filter_map(Weak::upgrade);
        all.any(|destination| {
            let status = destination.status();
            status.circuit.state != CircuitState::Closed || status.paused.is_some()
        })
    }
}

#[async_trait]
impl Sharing for SharedGuards {
    async fn catch_up(&self) {
        if self.is_fresh() {
            return;
        }
        self.within(READ_WAIT, async {
            let _turn = self.turn.lock().await;
            match self.is_fresh() {
                true => Ok(()),
                false => self.read().await,
            }
        })
        .await;
        if self.must_follow() {
            self.follow();
        }
    }

    fn paused(&self, destination: &str) {
        self.has_news(destination, |known| known.has_pause_news = true);
    }
}
