//! A bus of hints on Redis streams.

mod read;
mod receipt;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Bus, Delivery, Depth, Dequeue, Publication, Receipt, Topic};
use clinch_core::{Error, ErrorKind, Result};
use redis::ScriptInvocation;
use redis::aio::MultiplexedConnection;
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::receipt::Loan;
use crate::clock::{after, now, sleep};
use crate::error::{is_group_lost, ours};
use crate::scheduler::{Poke, Scheduler};
use crate::{Redis, Settings, micros, millis};

/// The only consumer group of every stream.
pub(crate) const GROUP: &str = "workers";

/// Maximum hints or receipts of one script, so that it blocks the server for a few milliseconds at
/// most.
const CHUNK: usize = 500;

/// Maximum deliveries of one call.
const TAKE_MAX: usize = 1_000;

/// A consumer that was idle for this long and has no pending entries is deleted.
const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum waiting test calls that ask the scheduler to catch up.
const POKES_MAX: usize = 16;

/// Hints on Redis streams: delivered at least once, in order of publication within a topic and so
/// within a lane of it, with delays and a visibility timeout. If Redis loses a hint, the sweeper
/// announces its operation again. A loan can be extended only up to its original length.
#[derive(Clone)]
pub struct RedisBus {
    redis: Redis,
    inner: Arc<Inner>,
}

struct Inner {
    /// Idle connections for blocking reads.
    readers: Mutex<Vec<MultiplexedConnection>>,
    permits: Semaphore,
    /// Where the search for expired loans continues, by topic.
    cursors: Mutex<BTreeMap<Topic, String>>,
    /// The next call looks for expired loans before it waits: set at the start, and if there may
    /// be more than the last call could take.
    look_first: AtomicBool,
    has_started: AtomicBool,
    vanished: AtomicU64,
    pokes: Option<mpsc::Sender<Poke>>,
}

impl RedisBus {
    /// Connects, and runs a scheduler if the settings say so.
    pub async fn connect(url: &str, settings: Settings) -> Result<Self> {
        Self::on(&Redis::connect(url, settings).await?)
    }

    /// A bus on a connected server. Must be called within a Tokio runtime.
    pub fn on(redis: &Redis) -> Result<Self> {
        let settings = &redis.shared.settings;
        let pokes = if settings.scheduler {
            let (pokes, inbox) = mpsc::channel(POKES_MAX);
            tokio::spawn(Scheduler::new(redis)?.run(inbox));
            Some(pokes)
        } else {
            None
        };
        let inner = Inner {
            readers: Mutex::default(),
            permits: Semaphore::new(settings.readers_max),
            cursors: Mutex::default(),
            look_first: AtomicBool::new(true),
            has_started: AtomicBool::new(false),
            vanished: AtomicU64::new(0),
            pokes,
        };
        Ok(Self {
            redis: redis.clone(),
            inner: Arc::new(inner),
        })
    }

    /// Entries that were on loan and disappeared from their stream, because another client deleted
    /// or trimmed them. The sweeper finds their operations: they stay silent.
    pub fn vanished(&self) -> u64 {
        self.inner.vanished.load(Ordering::Relaxed)
    }

    /// The server.
    pub fn redis(&self) -> &Redis {
        &self.redis
    }

    /// Advances the clock of everything stored, and waits until the scheduler has seen it. For
    /// tests.
    #[doc(hidden)]
    pub async fn advance(&self, by: Duration) -> Result<()> {
        let shared = &self.redis.shared;
        shared.settings.test_clock.advance(by);
        let mut age = shared.scripts.age.key(shared.keys.topics());
        age.arg(self.redis.offset())
            .arg(GROUP)
            .arg(millis(by))
            .arg(shared.keys.streams());
        let _: u64 = self.redis.run(&age).await.map_err(ours)?;
        if let Some(pokes) = &self.inner.pokes {
            let (reply, done) = oneshot::channel();
            let _ = pokes.send(reply).await;
            let _ = done.await;
        }
        Ok(())
    }

    fn readers(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        let readers = self.inner.readers.lock();
        readers.unwrap_or_else(PoisonError::into_inner)
    }

    fn cursors(&self, topics: &[Topic]) -> Vec<String> {
        let cursors = self.inner.cursors.lock();
        let cursors = cursors.unwrap_or_else(PoisonError::into_inner);
        let cursor = |topic| cursors.get(topic).cloned();
        let start = || "0-0".to_owned();
        topics
            .iter()
            .map(|topic| cursor(topic).unwrap_or_else(start))
            .collect()
    }

    fn keep_cursors(&self, topics: &[Topic], new: Vec<String>) {
        let cursors = self.inner.cursors.lock();
        let mut cursors = cursors.unwrap_or_else(PoisonError::into_inner);
        cursors.extend(topics.iter().cloned().zip(new));
    }

    async fn publish_some(&self, publications: &[Publication]) -> Result<()> {
        let shared = &self.redis.shared;
        let (keys, settings) = (&shared.keys, &shared.settings);
        let named = TopicIndex::of(publications.iter().map(|one| &one.topic));
        let mut publish = shared.scripts.publish.prepare_invoke();
        publish
            .key(keys.delayed())
            .key(keys.sequence())
            .key(keys.topics());
        named.add_streams(&self.redis, &mut publish);
        publish
            .arg(self.redis.offset())
            .arg(settings.delayed_max)
            .arg(settings.backlog_max)
            .arg(keys.channel())
            .arg(named.topics.len());
        for topic in &named.topics {
            publish.arg(topic.as_str());
        }
        for (publication, number) in publications.iter().zip(&named.numbers) {
            let hint = serde_json::to_string(&publication.hint).map_err(|_| unwritable())?;
            publish
                .arg(number)
                .arg(micros_up(publication.delay))
                .arg(hint);
        }
        let has_room: bool = self.redis.run(&publish).await.map_err(ours)?;
        if has_room {
            return Ok(());
        }
        let full = "the bus is full; hints wait in the store until workers catch up";
        Err(Error::new(ErrorKind::Full, full))
    }

    async fn finish(&self, loans: &[Loan]) -> Result<()> {
        for loans in loans.chunks(CHUNK) {
            let named = TopicIndex::of(loans.iter().map(|loan| &loan.topic));
            let mut ack = self.redis.shared.scripts.ack.prepare_invoke();
            named.add_streams(&self.redis, &mut ack);
            ack.arg(self.redis.offset()).arg(GROUP);
            for (loan, number) in loans.iter().zip(&named.numbers) {
                ack.arg(number).arg(&loan.id);
            }
            let done: redis::RedisResult<u64> = self.redis.run(&ack).await;
            match done {
                // The server lost all its data, including this entry.
                Err(error) if is_group_lost(&error) => {}
                done => drop(done.map_err(ours)?),
            }
        }
        Ok(())
    }

    async fn give_back(&self, loans: &[(&Loan, Duration)]) -> Result<()> {
        let shared = &self.redis.shared;
        for loans in loans.chunks(CHUNK) {
            let named = TopicIndex::of(loans.iter().map(|(loan, _)| &loan.topic));
            let mut nack = shared.scripts.nack.prepare_invoke();
            nack.key(shared.keys.delayed()).key(shared.keys.sequence());
            named.add_streams(&self.redis, &mut nack);
            nack.arg(self.redis.offset())
                .arg(GROUP)
                .arg(shared.keys.channel());
            for ((loan, delay), number) in loans.iter().zip(&named.numbers) {
                nack.arg(number)
                    .arg(loan.topic.as_str())
                    .arg(&loan.id)
                    .arg(loan.deliveries)
                    .arg(micros_up(*delay));
            }
            let _: u64 = self.redis.run(&nack).await.map_err(ours)?;
        }
        Ok(())
    }

    /// Runs once, with the first call: cleans up after earlier processes.
    async fn start(&self, topics: &[Topic]) -> Result<()> {
        if !self.inner.has_started.swap(true, Ordering::SeqCst) {
            self.make_groups(topics).await.map_err(ours)?;
            self.forget_consumers(topics).await.map_err(ours)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Bus for RedisBus {
    async fn publish(&self, publications: &[Publication]) -> Result<()> {
        for some in publications.chunks(CHUNK) {
            self.publish_some(some).await?;
        }
        Ok(())
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        if dequeue.topics.is_empty() || dequeue.max == 0 {
            sleep(dequeue.wait).await;
            return Ok(Vec::new());
        }
        self.start(&dequeue.topics).await?;
        let until = after(dequeue.wait);
        let mut look = dequeue.wait.is_zero()
            || dequeue.topics.len() > dequeue.max
            || self.inner.look_first.swap(false, Ordering::SeqCst);
        loop {
            if look {
                let deliveries = self.take(dequeue).await?;
                if !deliveries.is_empty() || dequeue.wait.is_zero() {
                    return Ok(deliveries);
                }
            }
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(Vec::new());
            }
            let read = self.read(dequeue, left).await?;
            if !read.deliveries.is_empty() {
                if read.is_nudged {
                    self.inner.look_first.store(true, Ordering::SeqCst);
                }
                return Ok(read.deliveries);
            }
            look = read.is_nudged;
        }
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        let loans: Vec<Loan> = receipts.iter().filter_map(Loan::parse).collect();
        self.finish(&loans).await
    }

    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        let parsed = receipts
            .iter()
            .map(|(one, delay)| (Loan::parse(one), *delay));
        let loans: Vec<(Loan, Duration)> = parsed
            .filter_map(|(loan, delay)| Some((loan?, delay)))
            .collect();
        let loans: Vec<_> = loans.iter().map(|(loan, delay)| (loan, *delay)).collect();
        self.give_back(&loans).await
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        let loans: Vec<Loan> = receipts.iter().filter_map(Loan::parse).collect();
        for loans in loans.chunks(CHUNK) {
            let named = TopicIndex::of(loans.iter().map(|loan| &loan.topic));
            let mut extend = self.redis.shared.scripts.extend.prepare_invoke();
            named.add_streams(&self.redis, &mut extend);
            extend.arg(self.redis.offset()).arg(GROUP);
            for (loan, number) in loans.iter().zip(&named.numbers) {
                extend
                    .arg(number)
                    .arg(&loan.id)
                    .arg(loan.deliveries)
                    .arg(loan.idle_ms(visibility));
            }
            let _: u64 = self.redis.run(&extend).await.map_err(ours)?;
        }
        Ok(())
    }

    async fn depth(&self) -> Result<Option<Depth>> {
        Self::depth(self).await.map(Some)
    }
}

/// The distinct topics of a call, and for each item the number of its topic, from 1.
struct TopicIndex {
    topics: Vec<Topic>,
    numbers: Vec<usize>,
}

impl TopicIndex {
    fn of<'a>(items: impl Iterator<Item = &'a Topic>) -> Self {
        let mut known: BTreeMap<&Topic, usize> = BTreeMap::new();
        let (mut topics, mut numbers) = (Vec::new(), Vec::new());
        for topic in items {
            let number = *known.entry(topic).or_insert_with(|| {
                topics.push(topic.clone());
                topics.len()
            });
            numbers.push(number);
        }
        Self { topics, numbers }
    }

    fn add_streams(&self, redis: &Redis, script: &mut ScriptInvocation<'_>) {
        for topic in &self.topics {
            script.key(redis.shared.keys.stream(topic));
        }
    }
}

/// Rounds up, so that nothing is delivered early.
fn micros_up(delay: Duration) -> u64 {
    let rest = u64::from(!delay.subsec_nanos().is_multiple_of(1_000));
    micros(delay) + rest
}

fn unwritable() -> Error {
    Error::new(ErrorKind::Internal, "a hint cannot be written as JSON")
}

impl fmt::Debug for RedisBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBus")
            .field("redis", &self.redis)
            .field("vanished", &self.vanished())
            .finish_non_exhaustive()
    }
}
