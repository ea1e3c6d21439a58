//! Notices of other nodes, by Pub/Sub on one connection. A notice is a hint: a lost one costs
//! latency.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use crate::clock::{Backoff, sleep};
use crate::link::Link;

/// How many notices a slow listener may lag behind. Then it checks everything.
const BEHIND_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Subscribed, for the first time or again: notices may have been missed.
    Connected,
    /// A delayed hint is due earlier than all others.
    Due,
    /// The scheduler stepped down.
    Free,
    /// A destination is paused for this long.
    Paused {
        destination: String,
        lasting: Duration,
    },
}

pub(crate) struct Hub {
    events: broadcast::Sender<Event>,
    task: AbortHandle,
}

impl Hub {
    pub(crate) fn start(link: Arc<Link>, channel: String) -> Self {
        let events = broadcast::Sender::new(BEHIND_MAX);
        let task = tokio::spawn(listen(link, channel, events.clone()));
        Self {
            events,
            task: task.abort_handle(),
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(link: Arc<Link>, channel: String, events: broadcast::Sender<Event>) {
    let mut backoff = Backoff::default();
    loop {
        if let Ok(pubsub) = link.pubsub(&channel).await {
            backoff.reset();
            // There may be no listener.
            let _ = events.send(Event::Connected);
            let mut messages = pubsub.into_on_message();
            while let Some(message) = messages.next().await {
                let event = message.get_payload::<String>().ok();
                if let Some(event) = event.and_then(|text| parse(&text)) {
                    let _ = events.send(event);
                }
            }
        }
        sleep(backoff.next()).await;
    }
}

fn parse(text: &str) -> Option<Event> {
    match text {
        "due" => return Some(Event::Due),
        "free" => return Some(Event::Free),
        _ => {}
    }
    let (lasting, destination) = text.strip_prefix("pause ")?.split_once(' ')?;
    Some(Event::Paused {
        destination: destination.to_owned(),
        lasting: Duration::from_micros(lasting.parse().ok()?),
    })
}
