//! Pulls: bells that wait, and fetches that do not.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Result;

use crate::clock::{real_now, within};
use crate::error::{silent, unavailable};
use crate::inlet::{BELL_LASTS, Bell, Fetched, HEARTBEAT};
use crate::link::ANSWER_MAX;
use crate::shared::Shared;
use crate::wire::{pull_now, pull_soon, pull_waiting};

/// Hints of one fetch.
const FETCH_MAX: usize = 1_000;
/// The server tells a consumer of a new hint a moment after it told us that it has it. Returns
/// as soon as there is one; waited out only if somebody else took it.
const SOON: Duration = Duration::from_millis(500);
/// A consumer that is gone is created again and asked once more.
const TRIES: usize = 2;

impl Shared {
    /// Fetches up to `room` hints that are there now. True if there may be more. Without a bell
    /// to follow, the hints that this process has published are waited for.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        name: &str,
        room: usize,
        at_once: bool,
    ) -> Result<bool> {
        let batch = room.min(FETCH_MAX);
        let turn = self.state().inlet(name).turn.clone();
        let _turn = turn.lock().await;
        for _ in 0..TRIES {
            self.know_consumer(name).await?;
            let id = self.link.id();
            let (fetched, published) = {
                let mut state = self.state();
                let inlet = state.inlet(name);
                let published = inlet.unseen().filter(|_| at_once);
                (inlet.begin_fetch(id, batch), published)
            };
            let body = match published {
                Some(_) => pull_soon(batch, SOON),
                None => pull_now(batch),
            };
            self.link.send_as(id, self.next_subject(name), body).await?;
            match within(ANSWER_MAX, fetched).await {
                Some(Ok(Fetched::Full)) => return Ok(true),
                Some(Ok(Fetched::Dry)) => {
                    // What did not come is somebody else's.
                    let seen = published.unwrap_or(0);
                    self.state().inlet(name).saw(seen);
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

    /// Hangs up a bell, unless there is one.
    pub(crate) async fn hang_bell(self: &Arc<Self>, name: &str) -> Result<()> {
        let turn = self.state().inlet(name).turn.clone();
        let _turn = turn.lock().await;
        if let Some(why) = self.state().inlet(name).trouble.take() {
            return Err(refused(&why));
        }
        if self.state().inlet(name).bell.is_some() {
            return Ok(());
        }
        self.know_consumer(name).await?;
        let id = self.link.id();
        self.state().inlet(name).bell = Some(Bell {
            id,
            heard: real_now(),
        });
        let mut unsent = Unsent(Some((self, name, id)));
        let body = pull_waiting(BELL_LASTS, HEARTBEAT);
        self.link.send_as(id, self.next_subject(name), body).await?;
        unsent.0 = None;
        Ok(())
    }

    /// Takes down bells that were not heard of for too long.
    pub(crate) fn drop_silent_bells(&self) {
        let real = real_now();
        let mut state = self.state();
        let mut is_any = false;
        for inlet in state.inlets.values_mut() {
            if inlet.silent_at().is_some_and(|at| at <= real) {
                inlet.reset();
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

/// A bell that the server does not know of would never ring.
struct Unsent<'a>(Option<(&'a Shared, &'a str, u64)>);

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        let Some((shared, name, id)) = self.0 else {
            return;
        };
        let mut state = shared.state();
        let inlet = state.inlet(name);
        if inlet.bell.as_ref().is_some_and(|bell| bell.id == id) {
            inlet.bell = None;
        }
    }
}
