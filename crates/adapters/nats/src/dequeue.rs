//! Taking deliveries.
//!
//! Hints are handed out in the last step, without an await in between: a call that is dropped
//! leaves every hint where the next call finds it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clinch_core::Result;
use clinch_core::ports::{Delivery, Dequeue};

use crate::call::apart;
use crate::clock::{real_now, until};
use crate::names::token;
use crate::shared::{Shared, State};
use crate::topic_consumer::TopicConsumer;
use crate::wire::NAK;

/// When more deliveries than this are remembered, old ones are forgotten.
const REMEMBERED_MAX: usize = 10_000;

impl Shared {
    pub(crate) async fn dequeue(self: &Arc<Self>, ask: &Dequeue) -> Result<Vec<Delivery>> {
        let end = self.now().saturating_add(ask.wait);
        if ask.topics.is_empty() || ask.max == 0 {
            self.clock.sleep(ask.wait).await;
            return Ok(Vec::new());
        }
        let names: Result<Vec<String>> = ask.topics.iter().map(token).collect();
        let names = self.turn_to(names?, ask);
        let mut wakes = self.wakes.subscribe();
        loop {
            wakes.borrow_and_update();
            self.give_back_what_ended().await;
            let filled = self.fill(&names, ask).await;
            let taken = self.take(&names, ask);
            if !taken.is_empty() {
                return Ok(taken);
            }
            filled?;
            if end <= self.now() {
                return Ok(Vec::new());
            }
            for name in &names {
                let (shared, name) = (self.clone(), name.clone());
                apart(async move { shared.send_waiting_pull(&name).await }).await?;
            }
            tokio::select! {
                // The sender lives as long as `self`.
                _ = wakes.changed() => {}
                () = self.clock.sleep(self.nap(end)) => {}
                () = until(self.silent_at(&names)) => self.drop_silent_pulls(),
            }
        }
    }

    /// How long to sleep unless woken. Read right before the sleep: the clock may have moved while
    /// the waiting pulls were sent.
    fn nap(&self, end: Duration) -> Duration {
        let next_end = self.state().loans.next_end();
        let next = next_end.map_or(end, |next| next.min(end));
        next.saturating_sub(self.now())
    }

    /// The consumers to ask, starting with another one each time.
    fn turn_to(&self, mut names: Vec<String>, ask: &Dequeue) -> Vec<String> {
        let mut state = self.state();
        state.turns = state.turns.wrapping_add(1);
        let first = state.turns % names.len();
        names.rotate_left(first);
        for name in &names {
            state.consumer(name).visibility = ask.visibility;
        }
        if state.loans.len() > REMEMBERED_MAX {
            state.loans.forget_old(real_now());
        }
        names
    }

    /// Tells the server about loans and delays that have ended on this process's clock.
    async fn give_back_what_ended(&self) {
        let ended = self.state().loans.ended(self.now(), real_now());
        if !ended.is_empty() {
            let words = ended.into_iter().map(|ack| (ack, NAK.into()));
            // If a message is lost, the server's own timer ends the loan.
            let _ = self.tell(words.collect()).await;
        }
    }

    /// Fetches as many hints as there is room for. A call that waits skips topics whose waiting
    /// pull will announce hints.
    async fn fill(self: &Arc<Self>, names: &[String], ask: &Dequeue) -> Result<()> {
        for name in names {
            loop {
                let room = ask.max.saturating_sub(self.ready(names));
                if room == 0 {
                    return Ok(());
                }
                let at_once = ask.wait.is_zero();
                let more = at_once || self.state().consumer(name).more;
                let (shared, name) = (self.clone(), name.clone());
                let fetch = async move { shared.fetch(&name, room, at_once).await };
                if !more || !apart(fetch).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn ready(&self, names: &[String]) -> usize {
        let state = self.state();
        let consumers = names.iter().filter_map(|name| state.consumers.get(name));
        consumers.map(|consumer| consumer.ready.len()).sum()
    }

    fn take(&self, names: &[String], ask: &Dequeue) -> Vec<Delivery> {
        let moment = (self.now(), real_now());
        let mut state = self.state();
        let mut taken = Vec::new();
        for name in names {
            while taken.len() < ask.max {
                let ready = state.consumers.get_mut(name);
                let Some(ready) = ready.and_then(|consumer| consumer.ready.pop_front()) else {
                    break;
                };
                let State { loans, .. } = &mut *state;
                let seen = loans.lend(ready.seq, &ready.ack, ask.visibility, moment);
                // The hint was acked by its earlier holder.
                let Some(redeliveries) = seen else {
                    continue;
                };
                taken.push(Delivery {
                    hint: ready.hint,
                    receipt: state.receipt(&ready.ack),
                    redeliveries,
                    begun: None,
                });
            }
        }
        taken
    }

    fn silent_at(&self, names: &[String]) -> Option<Instant> {
        let state = self.state();
        let consumers = names.iter().filter_map(|name| state.consumers.get(name));
        consumers.filter_map(TopicConsumer::silent_at).min()
    }
}
