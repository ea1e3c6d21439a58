//! Takes deliveries: by one script without waiting, or by a blocking read.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::{Delivery, Dequeue, Hint, Topic};
use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use super::receipt::Loan;
use super::{CONSUMER_IDLE_MAX, GROUP, RedisBus, TAKE_MAX};
use crate::clock::within;
use crate::error::{is_group_lost, is_group_there, is_unblocked, must_reconnect, ours};
use crate::millis;

/// A stream entry as a read returns it: its id and its fields.
type StreamEntry = (String, Vec<String>);

/// What one script returns: the number of vanished entries, cursors, deliveries.
type Taken = (u64, Vec<String>, Vec<(usize, String, u32, u32, String)>);

/// The result of a blocking read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) deliveries: Vec<Delivery>,
    /// A nudge arrived: loans expired, so look for them.
    pub(super) is_nudged: bool,
}

impl RedisBus {
    /// Takes expired loans first, then new hints.
    pub(super) async fn take(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let max = dequeue.max.min(TAKE_MAX);
        let taken = match self.run_take(dequeue, max).await {
            Err(error) if is_group_lost(&error) => {
                self.make_groups(&dequeue.topics).await.map_err(ours)?;
                self.run_take(dequeue, max).await
            }
            taken => taken,
        };
        let (vanished, cursors, taken) = taken.map_err(ours)?;
        self.inner.vanished.fetch_add(vanished, Ordering::Relaxed);
        self.keep_cursors(&dequeue.topics, cursors);
        // There may be more.
        if taken.len() >= max {
            self.inner.look_first.store(true, Ordering::SeqCst);
        }
        let mut deliveries = Vec::with_capacity(taken.len());
        let mut unreadable = Vec::new();
        for (number, id, count, before, hint) in taken {
            let Some(topic) = number.checked_sub(1).and_then(|n| dequeue.topics.get(n)) else {
                continue;
            };
            if count > 1 {
                self.redis.shared.counters.add_recovered(1);
            }
            let redeliveries = before.saturating_add(count.saturating_sub(1));
            let loan = self.loan(dequeue, topic, id, count);
            match delivery(&hint, redeliveries, &loan) {
                Some(delivery) => deliveries.push(delivery),
                None => unreadable.push(loan),
            }
        }
        self.drop_unreadable(&unreadable).await?;
        Ok(deliveries)
    }

    async fn run_take(&self, dequeue: &Dequeue, max: usize) -> RedisResult<Taken> {
        let shared = &self.redis.shared;
        let mut take = shared.scripts.take.prepare_invoke();
        for topic in &dequeue.topics {
            take.key(shared.keys.stream(topic));
        }
        take.arg(self.redis.offset())
            .arg(GROUP)
            .arg(dequeue.worker.as_str())
            .arg(max)
            .arg(millis(dequeue.visibility));
        for cursor in self.cursors(&dequeue.topics) {
            take.arg(cursor);
        }
        self.redis.run(&take).await
    }

    fn loan(&self, dequeue: &Dequeue, topic: &Topic, id: String, deliveries: u32) -> Loan {
        Loan {
            id,
            deliveries,
            visibility_ms: millis(dequeue.visibility),
            topic: topic.clone(),
        }
    }

    /// Waits in the server for the first hint. If the call is dropped, its connection closes, and
    /// hints that were being delivered come again after their visibility timeout.
    pub(super) async fn read(&self, dequeue: &Dequeue, wait: Duration) -> Result<Read> {
        let permit = within(wait, self.inner.permits.acquire()).await;
        let Some(Ok(_permit)) = permit else {
            return Ok(Read::default());
        };
        let mut tries = 0;
        let streams: Vec<(String, Vec<StreamEntry>)> = loop {
            let kept = self.readers().pop();
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.redis.shared.link.reader().await.map_err(ours)?,
            };
            tries += 1;
            match self.block(&mut connection, dequeue, wait).await {
                Ok(streams) => {
                    self.readers().push(connection);
                    break streams.unwrap_or_default();
                }
                Err(error) if is_group_lost(&error) && tries <= 2 => {
                    self.readers().push(connection);
                    self.make_groups(&dequeue.topics).await.map_err(ours)?;
                }
                Err(error) if is_unblocked(&error) => {
                    self.readers().push(connection);
                    return Ok(Read::default());
                }
                // The idle connection broke, so the other idle ones did too.
                Err(error) if was_kept && must_reconnect(&error) && !error.is_timeout() => {
                    self.readers().clear();
                }
                Err(error) => return Err(ours(error)),
            }
        };
        self.sort(dequeue, streams).await
    }

    async fn block(
        &self,
        connection: &mut MultiplexedConnection,
        dequeue: &Dequeue,
        wait: Duration,
    ) -> RedisResult<Option<Vec<(String, Vec<StreamEntry>)>>> {
        let shared = &self.redis.shared;
        let block = millis(wait.min(shared.settings.block_max)).max(1);
        // The server counts for each stream separately.
        let count = (dequeue.max.min(TAKE_MAX) / dequeue.topics.len()).max(1);
        let mut command = redis::cmd("XREADGROUP");
        command
            .arg("GROUP")
            .arg(GROUP)
            .arg(dequeue.worker.as_str())
            .arg("COUNT")
            .arg(count)
            .arg("BLOCK")
            .arg(block)
            .arg("STREAMS");
        for topic in &dequeue.topics {
            command.arg(shared.keys.stream(topic));
        }
        for _ in &dequeue.topics {
            command.arg(">");
        }
        command.query_async(connection).await
    }

    async fn sort(
        &self,
        dequeue: &Dequeue,
        streams: Vec<(String, Vec<StreamEntry>)>,
    ) -> Result<Read> {
        let keys = &self.redis.shared.keys;
        let mut read = Read::default();
        let (mut done, mut too_many) = (Vec::new(), Vec::new());
        for (key, entries) in streams {
            let mut topics = dequeue.topics.iter();
            let Some(topic) = topics.find(|topic| keys.stream(topic) == key) else {
                continue;
            };
            for (id, fields) in entries {
                let loan = self.loan(dequeue, topic, id, 1);
                let before = field(&fields, "n").and_then(|n| n.parse().ok());
                let Some(hint) = field(&fields, "h") else {
                    read.is_nudged = true;
                    done.push(loan);
                    continue;
                };
                match delivery(hint, before.unwrap_or(0), &loan) {
                    None => done.push(loan),
                    Some(_) if read.deliveries.len() == dequeue.max => too_many.push(loan),
                    Some(delivery) => read.deliveries.push(delivery),
                }
            }
        }
        self.drop_unreadable(&done).await?;
        let back: Vec<_> = too_many.iter().map(|loan| (loan, Duration::ZERO)).collect();
        self.give_back(&back).await?;
        Ok(read)
    }

    /// Deletes entries that are not valid hints.
    async fn drop_unreadable(&self, loans: &[Loan]) -> Result<()> {
        if loans.is_empty() {
            return Ok(());
        }
        self.finish(loans).await
    }

    /// Creates the group of each stream, and the stream. The group starts at the stream's
    /// beginning, so that hints which were published before the first reader are delivered too.
    pub(super) async fn make_groups(&self, topics: &[Topic]) -> RedisResult<()> {
        let shared = &self.redis.shared;
        for topic in topics {
            let mut create = redis::cmd("XGROUP");
            create
                .arg("CREATE")
                .arg(shared.keys.stream(topic))
                .arg(GROUP)
                .arg("0")
                .arg("MKSTREAM");
            let created: RedisResult<String> = shared.link.command(&create).await;
            match created {
                Err(error) if !is_group_there(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes consumers of processes that are long gone.
    pub(super) async fn forget_consumers(&self, topics: &[Topic]) -> RedisResult<u64> {
        let shared = &self.redis.shared;
        let mut leave = shared.scripts.leave.prepare_invoke();
        for topic in topics {
            leave.key(shared.keys.stream(topic));
        }
        leave
            .arg(self.redis.offset())
            .arg(GROUP)
            .arg(millis(CONSUMER_IDLE_MAX));
        self.redis.run(&leave).await
    }
}

fn field<'a>(fields: &'a [String], name: &str) -> Option<&'a str> {
    let mut pairs = fields.chunks_exact(2);
    let found = pairs.find(|pair| pair[0] == name);
    found.map(|pair| pair[1].as_str())
}

fn delivery(hint: &str, redeliveries: u32, loan: &Loan) -> Option<Delivery> {
    let hint: Hint = serde_json::from_str(hint).ok()?;
    Some(Delivery {
        hint,
        receipt: loan.receipt(),
        redeliveries,
        begun: None,
    })
}
