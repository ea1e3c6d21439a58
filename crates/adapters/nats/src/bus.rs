//! The implementation of the `Bus` port.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{Bus, Clock, Delivery, Depth, Dequeue, Publication, Receipt};

use crate::Settings;
use crate::call::{IN_FLIGHT_MAX, is_nobody, read_answer};
use crate::check::{Finding, findings};
use crate::clock::real_now;
use crate::error::unavailable;
use crate::loans::MARGIN;
use crate::names::{subject, token};
use crate::reader::later;
use crate::shared::Shared;
use crate::wire::{ACK, Body, IN_PROGRESS, NAK, Position, nak_after};

/// If the stream is gone, it is created again and the hints are published once more.
const TRIES: usize = 2;

/// Hints on NATS JetStream. Clones share one connection, which closes when the last clone is
/// dropped.
#[derive(Clone)]
pub struct NatsBus {
    shared: Arc<Shared>,
}

impl NatsBus {
    /// Connects, and creates the stream if it does not exist. The address may contain a user name
    /// and password; no error repeats it. A connection that is lost later is restored in the
    /// background; meanwhile calls fail as unavailable.
    pub async fn connect(url: &str, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let shared = Shared::open(url, settings, clock).await?;
        Ok(Self { shared })
    }

    /// Findings about this server and its setup, for operators.
    pub async fn check(&self) -> Vec<Finding> {
        findings(&self.shared).await
    }

    async fn publish_some(&self, messages: &[Message]) -> Result<Published> {
        let link = &self.shared.link;
        let mut questions = Vec::with_capacity(messages.len());
        for message in messages {
            let question = link.ask(message.subject.clone(), message.body.clone());
            questions.push((question.await?, &message.topic));
        }
        for (question, topic) in questions {
            let answer = question.answered().await?;
            if is_nobody(&answer) {
                return Ok(Published::Nowhere);
            }
            let stored = read_answer(&answer.payload)??;
            let seq = stored["seq"].as_u64().unwrap_or(0);
            self.shared.state().consumer(topic).published(seq);
        }
        Ok(Published::All)
    }

    /// The deliveries that this process holds now: number in the stream and subject for acks.
    fn ours<'a>(&self, receipts: impl Iterator<Item = &'a Receipt>) -> Vec<Option<(u64, &'a str)>> {
        let now = self.shared.now();
        let state = self.shared.state();
        let ours = |receipt| {
            let (seq, ack) = state.read_receipt(receipt)?;
            state.loans.is_lent(seq, ack, now).then_some((seq, ack))
        };
        receipts.map(ours).collect()
    }
}

/// A hint to publish.
struct Message {
    topic: String,
    subject: String,
    body: Vec<u8>,
}

/// Whether a batch of hints was published.
enum Published {
    All,
    /// No stream takes this subject.
    Nowhere,
}

#[async_trait]
impl Bus for NatsBus {
    async fn publish(&self, publications: &[Publication]) -> Result<()> {
        let now = self.shared.clock.now();
        let prefix = &self.shared.settings.prefix;
        let message = |publication: &Publication| {
            let Publication { topic, hint, delay } = publication;
            Ok(Message {
                topic: token(topic)?,
                subject: subject(prefix, topic, hint)?,
                body: Body::new(hint, *delay, now).encode()?,
            })
        };
        for some in publications.chunks(IN_FLIGHT_MAX) {
            let messages: Result<Vec<_>> = some.iter().map(message).collect();
            let messages = messages?;
            let mut tries = 0;
            loop {
                self.shared.know_stream().await?;
                tries += 1;
                match self.publish_some(&messages).await? {
                    Published::All => break,
                    Published::Nowhere if tries < TRIES => self.shared.doubt_stream(),
                    Published::Nowhere => {
                        return Err(unavailable("the stream on the NATS server is gone"));
                    }
                }
            }
        }
        Ok(())
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        self.shared.dequeue(dequeue).await
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        self.shared.know_stream().await?;
        let mut words = Vec::with_capacity(receipts.len());
        {
            let mut state = self.shared.state();
            for receipt in receipts {
                // A delivery of an earlier stream does not come again.
                let Some((seq, ack)) = state.read_receipt(receipt) else {
                    continue;
                };
                state.loans.done(seq);
                words.push((ack.to_owned(), ACK.to_owned()));
            }
        }
        self.shared.tell(words).await
    }

    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        self.shared.know_stream().await?;
        let ours = self.ours(receipts.iter().map(|(receipt, _)| receipt));
        let ours = ours.into_iter().zip(receipts);
        let ours: Vec<_> = ours
            .filter_map(|(ours, (_, delay))| Some((ours?, *delay)))
            .collect();
        let word = |delay: Duration| match delay.is_zero() {
            true => NAK.to_owned(),
            false => nak_after(delay.saturating_add(MARGIN)),
        };
        let words = ours.iter();
        let words = words.map(|((_, ack), delay)| ((*ack).to_owned(), word(*delay)));
        self.shared.tell(words.collect()).await?;
        let (now, real) = (self.shared.now(), real_now());
        let mut state = self.shared.state();
        for ((seq, ack), delay) in ours {
            if delay.is_zero() {
                state.loans.back(seq, ack);
            } else {
                let end = now.saturating_add(delay);
                state.loans.postpone(seq, ack, end, later(real, delay));
            }
        }
        drop(state);
        // A waiting call has to know when these hints come again.
        self.shared.wake_waiting();
        Ok(())
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        self.shared.know_stream().await?;
        let ours: Vec<_> = self.ours(receipts.iter()).into_iter().flatten().collect();
        let lasting = visibility.saturating_add(MARGIN);
        let words: Vec<_> = {
            let state = self.shared.state();
            let ack_wait = |ack: &str| {
                let consumer = state.consumers.get(Position::parse(ack)?.consumer)?;
                consumer.ack_wait
            };
            let word = |ack: &str| match ack_wait(ack) == Some(lasting) {
                true => IN_PROGRESS.to_owned(),
                false => nak_after(lasting),
            };
            let words = ours.iter();
            words
                .map(|(_, ack)| ((*ack).to_owned(), word(ack)))
                .collect()
        };
        let (now, real) = (self.shared.now(), real_now());
        self.shared.tell(words).await?;
        let mut state = self.shared.state();
        for (seq, ack) in ours {
            let end = now.saturating_add(visibility);
            state.loans.extend(seq, ack, end, later(real, visibility));
        }
        Ok(())
    }

    async fn depth(&self) -> Result<Option<Depth>> {
        self.shared.depth().await.map(Some)
    }
}

impl fmt::Debug for NatsBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBus")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
