//! The state that all clones of a bus share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::{Clock, Receipt};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::Settings;
use crate::link::Link;
use crate::loans::Loans;
use crate::reader::read;
use crate::topic_consumer::TopicConsumer;
use crate::wire::Position;

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) link: Link,
    /// Counts the events that wake a waiting call.
    pub(crate) wakes: watch::Sender<u64>,
    /// Lets one caller at a time check and create the stream and consumers.
    pub(crate) topology: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    reader: OnceLock<AbortHandle>,
}

#[derive(Default)]
pub(crate) struct State {
    /// By the consumer's name.
    pub(crate) consumers: HashMap<String, TopicConsumer>,
    pub(crate) loans: Loans,
    /// The stream is known to exist.
    pub(crate) stream_known: bool,
    /// When the stream was created. A different time means a different stream.
    pub(crate) created: String,
    /// Counts streams. Receipts of an earlier stream are void.
    pub(crate) epoch: u64,
    /// Counts lost connections.
    pub(crate) losses: u64,
    /// The topic that comes first next time.
    pub(crate) turns: usize,
}

impl Shared {
    pub(crate) async fn open(
        url: &str,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        settings.validate()?;
        let (link, input) = Link::open(url, &settings).await?;
        let shared = Arc::new(Self {
            settings,
            clock,
            link,
            wakes: watch::Sender::new(0),
            topology: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            reader: OnceLock::new(),
        });
        let reader = tokio::spawn(read(Arc::downgrade(&shared), input));
        let _ = shared.reader.set(reader.abort_handle());
        shared.know_stream().await?;
        Ok(shared)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    pub(crate) fn wake_waiting(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }

    /// The connection is lost: no request in flight will be answered, and a server that comes back
    /// may have lost everything.
    pub(crate) fn reset(&self) {
        self.link.give_up();
        let mut state = self.state();
        state.losses += 1;
        state.stream_known = false;
        state.consumers.values_mut().for_each(TopicConsumer::reset);
        drop(state);
        self.wake_waiting();
    }
}

impl State {
    pub(crate) fn consumer(&mut self, name: &str) -> &mut TopicConsumer {
        self.consumers
            .entry(name.to_owned())
            .or_insert_with(TopicConsumer::new)
    }

    /// Notes the stream's creation time. If it is another stream, all loans are gone with the old
    /// one.
    pub(crate) fn stream_is(&mut self, created: &str) {
        if self.created == created {
            return;
        }
        created.clone_into(&mut self.created);
        self.epoch += 1;
        self.loans.clear();
        for consumer in self.consumers.values_mut() {
            consumer.restart();
        }
    }

    pub(crate) fn receipt(&self, ack: &str) -> Receipt {
        Receipt(format!("{}/{ack}", self.epoch))
    }

    /// The hint's number in the stream and its subject for acks, if the receipt is of this stream.
    pub(crate) fn read_receipt<'a>(&self, receipt: &'a Receipt) -> Option<(u64, &'a str)> {
        let (epoch, ack) = receipt.0.split_once('/')?;
        let is_ours = epoch.parse() == Ok(self.epoch);
        let position = Position::parse(ack).filter(|_| is_ours)?;
        Some((position.seq, ack))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Otherwise this task would keep the connection open.
        if let Some(reader) = self.reader.get() {
            reader.abort();
        }
    }
}
