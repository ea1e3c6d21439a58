//! Pulls: waiting pulls, and fetches, which do not wait.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Result;

use crate::clock::{real_now, within};
use crate::error::{silent, unavailable};
use crate::link::ANSWER_MAX;
use crate::shared::Shared;
use crate::topic_consumer::{Fetched, HEARTBEAT, WAITING_PULL_LASTS, WaitingPull};
use crate::wire::{pull_now, pull_soon, pull_waiting};

/// Maximum hints of one fetch.
const FETCH_MAX: usize = 1_000;
/// The server makes a new hint available to its consumer a moment after it confirmed the
/// publication. A fetch waits this long for such a hint. It returns as soon as there is one; the
/// whole time passes only if another process took the hint.
const SOON: Duration = Duration::from_millis(500);
/// If the consumer is gone, it is created again and asked once more.
const TRIES: usize = 2;

impl Shared {
    /// Fetches up to `room` hints that are there now. True: there may be more. Without a preceding
    /// waiting pull, it waits for the hints that this process has published.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        name: &str,
        room: usize,
        at_once: bool,
    ) -> Result<bool> {
        let batch = room.min(FETCH_MAX);
        let turn = self.state().consumer(name).turn.clone();
        let _turn = turn.lock().await;
        for _ in 0..TRIES {
            self.know_consumer(name).await?;
            let id = self.link.id();
            let (fetched, published) = {
                let mut state = self.state();
                let consumer = state.consumer(name);
                let published = consumer.unseen().filter(|_| at_once);
                (consumer.begin_fetch(id, batch), published)
            };
            let body = match published {
                Some(_) => pull_soon(batch, SOON),
                None => pull_now(batch),
            };
            self.link.send_as(id, self.next_subject(name), body).await?;
            match within(ANSWER_MAX, fetched).await {
                Some(Ok(Fetched::Full)) => return Ok(true),
                Some(Ok(Fetched::Dry)) => {
                    // Hints that did not arrive were taken by another process.
                    let seen = published.unwrap_or(0);
                    self.state().consumer(name).saw(seen);
                    return Ok(false);
                }
                Some(Ok(Fetched::Refused(why))) => return Err(refused(&why)),
                Some(Ok(Fetched::Gone)) => self.doubt_stream(),
                // The connection was lost.
                Some(Err(_)) => {}
                None => {
                    self.doubt_stream();
                    return Err(silent());
                }
            }
        }
        Err(unavailable("the consumer on the NATS server is gone"))
    }

    /// Sends a waiting pull, unless there is one.
    pub(crate) async fn send_waiting_pull(self: &Arc<Self>, name: &str) -> Result<()> {
        let turn = self.state().consumer(name).turn.clone();
        let _turn = turn.lock().await;
        if let Some(why) = self.state().consumer(name).trouble.take() {
            return Err(refused(&why));
        }
        if self.state().consumer(name).waiting_pull.is_some() {
            return Ok(());
        }
        self.know_consumer(name).await?;
        let id = self.link.id();
        self.state().consumer(name).waiting_pull = Some(WaitingPull {
            id,
            heard: real_now(),
        });
        let mut unsent = Unsent(Some((self, name, id)));
        let body = pull_waiting(WAITING_PULL_LASTS, HEARTBEAT);
        self.link.send_as(id, self.next_subject(name), body).await?;
        unsent.0 = None;
        Ok(())
    }

    /// Drops waiting pulls without a heartbeat for too long.
    pub(crate) fn drop_silent_pulls(&self) {
        let real = real_now();
        let mut state = self.state();
        let mut is_any = false;
        for consumer in state.consumers.values_mut() {
            if consumer.silent_at().is_some_and(|at| at <= real) {
                consumer.reset();
                is_any = true;
            }
        }
        state.stream_known &= !is_any;
    }

    fn next_subject(&self, name: &str) -> String {
        let prefix = &self.settings.prefix;
        format!("$JS.API.CONSUMER.MSG.NEXT.{prefix}.{name}")
    }
}

fn refused(why: &str) -> clinch_core::Error {
    unavailable(format!("the NATS server refuses a pull: {why}"))
}

/// Removes a waiting pull that was not sent: it would never be answered.
struct Unsent<'a>(Option<(&'a Shared, &'a str, u64)>);

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        let Some((shared, name, id)) = self.0 else {
            return;
        };
        let mut state = shared.state();
        let consumer = state.consumer(name);
        if consumer
            .waiting_pull
            .as_ref()
            .is_some_and(|waiting_pull| waiting_pull.id == id)
        {
            consumer.waiting_pull = None;
        }
    }
}
