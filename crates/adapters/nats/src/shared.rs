//! What all clones of a bus share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::{Clock, Receipt};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::Settings;
use crate::inlet::Inlet;
use crate::link::Link;
use crate::loans::Loans;
use crate::reader::read;
use crate::wire::Position;

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) link: Link,
    /// Counts what a waiting call wants to hear of.
    pub(crate) rings: watch::Sender<u64>,
    /// One at a time looks after stream and consumers.
    pub(crate) topology: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    reader: OnceLock<AbortHandle>,
}

#[derive(Default)]
pub(crate) struct State {
    /// By the name of the consumer.
    pub(crate) inlets: HashMap<String, Inlet>,
    pub(crate) loans: Loans,
    /// The stream is there.
    pub(crate) stream_known: bool,
    /// When it was created: another moment, another stream.
    pub(crate) created: String,
    /// Counts streams. Receipts of an earlier one mean nothing.
    pub(crate) epoch: u64,
    /// Counts lost connections.
    pub(crate) losses: u64,
    /// Which topic comes first.
    pub(crate) turns: usize,
}

impl Shared {
    pub(crate) async fn open(
        url: &str,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        settings.validate()?;
        let (link, ear) = Link::open(url, &settings).await?;
        let shared = Arc::new(Self {
            settings,
            clock,
            link,
            rings: watch::Sender::new(0),
            topology: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            reader: OnceLock::new(),
        });
        let reader = tokio::spawn(read(Arc::downgrade(&shared), ear));
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

    pub(crate) fn ring(&self) {
        self.rings.send_modify(|count| *count += 1);
    }

    /// The connection is lost: nothing under way will be answered, and nothing is known of
    /// the server that comes back.
    pub(crate) fn reset(&self) {
        self.link.give_up();
        let mut state = self.state();
        state.losses += 1;
        state.stream_known = false;
        state.inlets.values_mut().for_each(Inlet::reset);
        drop(state);
        self.ring();
    }
}

impl State {
    pub(crate) fn inlet(&mut self, name: &str) -> &mut Inlet {
        self.inlets
            .entry(name.to_owned())
            .or_insert_with(Inlet::new)
    }

    /// Another stream: what was on loan is gone with the old one.
    pub(crate) fn stream_is(&mut self, created: &str) {
        if self.created == created {
            return;
        }
        created.clone_into(&mut self.created);
        self.epoch += 1;
        self.loans.clear();
        for inlet in self.inlets.values_mut() {
            inlet.restart();
        }
    }

    pub(crate) fn receipt(&self, ack: &str) -> Receipt {
        Receipt(format!("{}/{ack}", self.epoch))
    }

    /// Number in the stream and subject for acks, if the receipt is of this stream.
    pub(crate) fn read_receipt<'a>(&self, receipt: &'a Receipt) -> Option<(u64, &'a str)> {
        let (epoch, ack) = receipt.0.split_once('/')?;
        let is_ours = epoch.parse() == Ok(self.epoch);
        let position = Position::parse(ack).filter(|_| is_ours)?;
        Some((position.seq, ack))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // It keeps the connection open otherwise.
        if let Some(reader) = self.reader.get() {
            reader.abort();
        }
    }
}
