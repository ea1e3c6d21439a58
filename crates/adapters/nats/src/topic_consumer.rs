//! One topic's consumer, as this process uses it.
//!
//! At most two pulls of this process are at the server: a waiting pull, which waits for one hint,
//! and after it a fetch, which is answered at once with the hints that are there. The server serves
//! them in that order, so that the pull of an arriving hint is known although the hint does not
//! name it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clinch_core::ports::Hint;
use tokio::sync::{Mutex, oneshot};

/// A waiting pull is answered or renewed within this time.
pub(crate) const WAITING_PULL_LASTS: Duration = Duration::from_secs(60);
/// Meanwhile the server sends a heartbeat this often.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
/// A waiting pull without a heartbeat for this long is sent again: two heartbeats are missing.
const SILENCE_MAX: Duration = Duration::from_secs(25);
/// A hint that arrived and is not taken for this long goes back to the server, for other processes.
const KEEP: Duration = Duration::from_secs(1);

/// A hint that arrived and is not handed out yet.
pub(crate) struct Ready {
    pub(crate) hint: Hint,
    pub(crate) seq: u64,
    pub(crate) ack: String,
    pub(crate) arrived: Instant,
}

pub(crate) struct WaitingPull {
    pub(crate) id: u64,
    pub(crate) heard: Instant,
}

pub(crate) struct Fetch {
    pub(crate) id: u64,
    left: usize,
    done: oneshot::Sender<Fetched>,
}

/// How a fetch ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It returned as many hints as it asked for.
    Full,
    /// There are no more hints.
    Dry,
    /// The consumer does not exist.
    Gone,
    /// The server refused, with its reason.
    Refused(String),
}

pub(crate) struct TopicConsumer {
    pub(crate) ready: VecDeque<Ready>,
    pub(crate) waiting_pull: Option<WaitingPull>,
    fetch: Option<Fetch>,
    /// The server may have hints that no waiting pull announces.
    pub(crate) more: bool,
    /// The consumer's visibility timeout, once the consumer is known.
    pub(crate) ack_wait: Option<Duration>,
    /// The visibility timeout of the last dequeue.
    pub(crate) visibility: Duration,
    /// Number of the last hint that this process published here.
    published: u64,
    /// Number of the last hint that arrived. First deliveries arrive in order.
    seen: u64,
    /// Why the server ended the waiting pull.
    pub(crate) trouble: Option<String>,
    /// Lets one caller at a time send pulls.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl TopicConsumer {
    pub(crate) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            waiting_pull: None,
            fetch: None,
            more: true,
            ack_wait: None,
            visibility: Duration::ZERO,
            published: 0,
            seen: 0,
            trouble: None,
            turn: Arc::default(),
        }
    }

    /// The connection is lost, and every pull with it; the consumer may be gone too.
    pub(crate) fn reset(&mut self) {
        self.waiting_pull = None;
        self.fetch = None;
        self.ack_wait = None;
        self.more = true;
    }

    /// The stream was replaced by another one.
    pub(crate) fn restart(&mut self) {
        self.ready.clear();
        (self.published, self.seen) = (0, 0);
    }

    /// This process has published the hint with this number.
    pub(crate) fn published(&mut self, seq: u64) {
        self.published = self.published.max(seq);
    }

    /// Hints up to this number were delivered, to this process or another.
    pub(crate) fn saw(&mut self, seq: u64) {
        self.seen = self.seen.max(seq);
    }

    /// Number of a hint that this process published and that is not known to be delivered yet.
    pub(crate) fn unseen(&self) -> Option<u64> {
        (self.published > self.seen).then_some(self.published)
    }

    pub(crate) fn begin_fetch(&mut self, id: u64, batch: usize) -> oneshot::Receiver<Fetched> {
        let (done, fetched) = oneshot::channel();
        self.fetch = Some(Fetch {
            id,
            left: batch,
            done,
        });
        fetched
    }

    /// One hint of a pull has arrived.
    pub(crate) fn count(&mut self) {
        if self.waiting_pull.take().is_some() {
            self.more = true;
            return;
        }
        if let Some(fetch) = &mut self.fetch {
            fetch.left = fetch.left.saturating_sub(1);
            if fetch.left == 0 {
                self.more = true;
                self.end_fetch(Fetched::Full);
            }
        }
    }

    /// Handles a status message about a pull. False: the pull is not one of this process's.
    pub(crate) fn status(&mut self, id: u64, code: u16, text: &str, real: Instant) -> bool {
        let is_gone = code == 503 || text.contains("Deleted");
        if let Some(waiting_pull) = self
            .waiting_pull
            .as_mut()
            .filter(|waiting_pull| waiting_pull.id == id)
        {
            match code {
                100 => waiting_pull.heard = real,
                404 | 408 => self.waiting_pull = None,
                _ => {
                    self.waiting_pull = None;
                    self.trouble = (!is_gone).then(|| format!("{code} {text}"));
                }
            }
        } else if self.fetch.as_ref().is_some_and(|fetch| fetch.id == id) {
            match code {
                100 => {}
                404 | 408 => {
                    self.more = false;
                    self.end_fetch(Fetched::Dry);
                }
                _ if is_gone => self.end_fetch(Fetched::Gone),
                _ => self.end_fetch(Fetched::Refused(format!("{code} {text}"))),
            }
        } else {
            return false;
        }
        if is_gone {
            self.ack_wait = None;
            self.more = true;
        }
        true
    }

    fn end_fetch(&mut self, how: Fetched) {
        if let Some(fetch) = self.fetch.take() {
            let _ = fetch.done.send(how);
        }
    }

    /// When a waiting pull without heartbeats is sent again.
    pub(crate) fn silent_at(&self) -> Option<Instant> {
        self.waiting_pull
            .as_ref()
            .map(|waiting_pull| waiting_pull.heard + SILENCE_MAX)
    }

    /// When the oldest hint that was not taken goes back.
    pub(crate) fn keep_ends(&self) -> Option<Instant> {
        self.ready.front().map(|ready| ready.arrived + KEEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::real_now;

    #[test]
    fn hints_are_counted_to_the_bell_first_then_to_the_fetch() {
        let mut consumer = TopicConsumer::new();
        consumer.waiting_pull = Some(WaitingPull {
            id: 1,
            heard: real_now(),
        });
        let mut fetched = consumer.begin_fetch(2, 2);
        consumer.count();
        assert!(consumer.waiting_pull.is_none(), "it was answered");
        consumer.count();
        assert!(fetched.try_recv().is_err(), "one is to come");
        consumer.count();
        assert_eq!(fetched.try_recv(), Ok(Fetched::Full));
        consumer.count();
    }

    #[test]
    fn what_the_server_says_ends_the_pull_it_is_about() {
        let (mut consumer, now) = (TopicConsumer::new(), real_now());
        let mut fetched = consumer.begin_fetch(2, 2);
        assert!(!consumer.status(9, 404, "No Messages", now), "another's");
        assert!(consumer.status(2, 404, "No Messages", now));
        assert_eq!(
            (fetched.try_recv(), consumer.more),
            (Ok(Fetched::Dry), false)
        );
        consumer.ack_wait = Some(Duration::from_secs(1));
        consumer.waiting_pull = Some(WaitingPull { id: 3, heard: now });
        assert!(consumer.status(3, 100, "Idle Heartbeat", now));
        assert!(consumer.waiting_pull.is_some());
        assert!(consumer.status(3, 409, "Consumer Deleted", now));
        assert!(
            consumer.waiting_pull.is_none()
                && consumer.ack_wait.is_none()
                && consumer.trouble.is_none()
        );
        consumer.waiting_pull = Some(WaitingPull { id: 4, heard: now });
        consumer.status(4, 409, "Exceeded MaxWaiting", now);
        assert_eq!(consumer.trouble.as_deref(), Some("409 Exceeded MaxWaiting"));
    }

    #[test]
    fn a_bell_is_silent_when_no_sign_of_life_came_for_a_while() {
        let (mut consumer, start) = (TopicConsumer::new(), real_now());
        assert_eq!(consumer.silent_at(), None, "no waiting pull");
        consumer.waiting_pull = Some(WaitingPull {
            id: 1,
            heard: start,
        });
        assert_eq!(consumer.silent_at(), Some(start + SILENCE_MAX));
        let heartbeat = start + HEARTBEAT;
        consumer.status(1, 100, "Idle Heartbeat", heartbeat);
        assert_eq!(consumer.silent_at(), Some(heartbeat + SILENCE_MAX));
        assert!(SILENCE_MAX > HEARTBEAT * 2 && WAITING_PULL_LASTS >= HEARTBEAT * 2);
    }
}
