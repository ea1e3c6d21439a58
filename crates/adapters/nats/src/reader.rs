//! Handles every message of the server, in order.

use std::sync::Weak;
use std::time::Instant;

use async_nats::Message;
use futures_util::StreamExt;

use crate::clock::{real_now, until};
use crate::link::ReaderInput;
use crate::loans::MARGIN;
use crate::shared::Shared;
use crate::topic_consumer::Ready;
use crate::wire::{Body, NAK, Position, TERM, nak_after};

/// A message to the server about one delivery: ack subject and body.
type AckMessage = (String, String);

/// Runs until the bus is dropped.
pub(crate) async fn read(shared: Weak<Shared>, mut input: ReaderInput) {
    loop {
        let Some(keep_ends) = shared.upgrade().map(|shared| shared.keep_ends()) else {
            return;
        };
        let heard = tokio::select! {
            message = input.inbox.next() => match message {
                Some(message) => Heard::Message(Box::new(message)),
                None => return,
            },
            Ok(()) = input.losses.changed() => Heard::Loss,
            () = until(keep_ends) => Heard::KeepEnds,
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let words = match heard {
            Heard::Message(message) => shared.heard(*message).into_iter().collect(),
            Heard::KeepEnds => shared.take_kept(real_now()),
            Heard::Loss => {
                shared.reset();
                Vec::new()
            }
        };
        for (ack, word) in words {
            // If it is lost, the server's own timer ends the loan.
            let _ = shared.link.send(ack, word).await;
        }
    }
}

enum Heard {
    Message(Box<Message>),
    Loss,
    KeepEnds,
}

impl Shared {
    /// Handles one message. Returns the reply, if any.
    fn heard(&self, message: Message) -> Option<AckMessage> {
        if let Some(id) = self.link.id_of(&message.subject) {
            let message = self.link.answer(id, message)?;
            self.heard_status(id, &message);
            return None;
        }
        let ack = message.reply?.to_string();
        let position = Position::parse(&ack)?;
        let (now, real) = (self.now(), real_now());
        let mut state = self.state();
        let state = &mut *state;
        let consumer = state.consumers.get_mut(position.consumer)?;
        consumer.count();
        consumer.saw(position.seq);
        let Some(body) = Body::decode(&message.payload) else {
            self.wake_waiting();
            return Some((ack, TERM.into()));
        };
        let seq = position.seq;
        let ack_wait = consumer
            .ack_wait
            .unwrap_or(self.settings.visibility + MARGIN);
        let lasting = consumer.visibility + MARGIN;
        let loans = &mut state.loans;
        loans.arrived(seq, &ack, position.delivered, real + lasting);
        let word = if let Some(early) = body.early_by(self.clock.now()) {
            loans.unseen(seq, &ack);
            loans.postpone(seq, &ack, now.saturating_add(early), later(real, early));
            Some(nak_after(early + MARGIN))
        } else {
            consumer.ready.push_back(Ready {
                hint: body.hint,
                seq,
                ack: ack.clone(),
                arrived: real,
            });
            (lasting != ack_wait).then(|| nak_after(lasting))
        };
        self.wake_waiting();
        word.map(|word| (ack, word))
    }

    fn heard_status(&self, id: u64, message: &Message) {
        let code = message.status.map_or(0, |status| status.as_u16());
        let text = message.description.as_deref().unwrap_or_default();
        let real = real_now();
        let mut state = self.state();
        let mut consumers = state.consumers.values_mut();
        if consumers.any(|consumer| consumer.status(id, code, text, real)) && code != 100 {
            self.wake_waiting();
        }
    }

    fn keep_ends(&self) -> Option<Instant> {
        let state = self.state();
        let ends = state
            .consumers
            .values()
            .filter_map(|consumer| consumer.keep_ends());
        ends.min()
    }

    /// Hands back hints that were not taken in time.
    fn take_kept(&self, real: Instant) -> Vec<AckMessage> {
        let mut state = self.state();
        let state = &mut *state;
        let mut words = Vec::new();
        for consumer in state.consumers.values_mut() {
            while consumer.keep_ends().is_some_and(|end| end <= real) {
                let Some(kept) = consumer.ready.pop_front() else {
                    break;
                };
                state.loans.unseen(kept.seq, &kept.ack);
                state.loans.back(kept.seq, &kept.ack);
                words.push((kept.ack, NAK.into()));
            }
        }
        words
    }
}

/// When the server's own timer ends a delay.
pub(crate) fn later(real: Instant, by: std::time::Duration) -> Instant {
    /// Longer than any process runs.
    const FAR: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 60 * 60);
    real + by.min(FAR) + MARGIN
}
