//! Hears everything that the server says to us, in order.

use std::sync::Weak;
use std::time::Instant;

use async_nats::Message;
use futures_util::StreamExt;

use crate::clock::{real_now, until};
use crate::inlet::Ready;
use crate::link::Ear;
use crate::loans::MARGIN;
use crate::shared::Shared;
use crate::wire::{Body, NAK, Position, TERM, nak_after};

/// A word for the server about one delivery.
type Word = (String, String);

/// Runs until the bus is dropped.
pub(crate) async fn read(shared: Weak<Shared>, mut ear: Ear) {
    loop {
        let Some(keep_ends) = shared.upgrade().map(|shared| shared.keep_ends()) else {
            return;
        };
        let heard = tokio::select! {
            message = ear.inbox.next() => match message {
                Some(message) => Heard::Message(Box::new(message)),
                None => return,
            },
            Ok(()) = ear.losses.changed() => Heard::Loss,
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
            // If it is lost, the server's own timer runs.
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
    /// Takes in one message; returns what to answer.
    fn heard(&self, message: Message) -> Option<Word> {
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
        let inlet = state.inlets.get_mut(position.consumer)?;
        inlet.count();
        inlet.saw(position.seq);
        let Some(body) = Body::decode(&message.payload) else {
            self.ring();
            return Some((ack, TERM.into()));
        };
        let seq = position.seq;
        let ack_wait = inlet.ack_wait.unwrap_or(self.settings.visibility + MARGIN);
        let lasting = inlet.visibility + MARGIN;
        let loans = &mut state.loans;
        loans.arrived(seq, &ack, position.delivered, real + lasting);
        let word = if let Some(early) = body.early_by(self.clock.now()) {
            loans.unseen(seq, &ack);
            loans.postpone(seq, &ack, now.saturating_add(early), later(real, early));
            Some(nak_after(early + MARGIN))
        } else {
            inlet.ready.push_back(Ready {
                hint: body.hint,
                seq,
                ack: ack.clone(),
                arrived: real,
            });
            (lasting != ack_wait).then(|| nak_after(lasting))
        };
        self.ring();
        word.map(|word| (ack, word))
    }

    fn heard_status(&self, id: u64, message: &Message) {
        let code = message.status.map_or(0, |status| status.as_u16());
        let text = message.description.as_deref().unwrap_or_default();
        let real = real_now();
        let mut state = self.state();
        let mut inlets = state.inlets.values_mut();
        if inlets.any(|inlet| inlet.status(id, code, text, real)) && code != 100 {
            self.ring();
        }
    }

    fn keep_ends(&self) -> Option<Instant> {
        let state = self.state();
        let ends = state.inlets.values().filter_map(|inlet| inlet.keep_ends());
        ends.min()
    }

    /// Hands back what nobody took.
    fn take_kept(&self, real: Instant) -> Vec<Word> {
        let mut state = self.state();
        let state = &mut *state;
        let mut words = Vec::new();
        for inlet in state.inlets.values_mut() {
            while inlet.keep_ends().is_some_and(|end| end <= real) {
                let Some(kept) = inlet.ready.pop_front() else {
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
