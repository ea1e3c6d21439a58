//! One topic's consumer, as this process uses it.
//!
//! At most two pulls of ours are at the server: a bell, which waits for one hint, and after
//! it a fetch, which is answered at once with what is there. The server serves them in that
//! order, so that a hint's pull is known although it does not say.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clinch_core::ports::Hint;
use tokio::sync::{Mutex, oneshot};

/// A bell at the server rings or is renewed after this.
pub(crate) const BELL_LASTS: Duration = Duration::from_secs(60);
/// Meanwhile the server gives a sign of life this often.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
/// A bell that was not heard for so long is hung up anew: two signs of life are missing.
const SILENCE_MAX: Duration = Duration::from_secs(25);
/// What arrived and nobody takes for so long goes back, for others to take.
const KEEP: Duration = Duration::from_secs(1);

/// A hint that arrived and nobody has yet.
pub(crate) struct Ready {
    pub(crate) hint: Hint,
    pub(crate) seq: u64,
    pub(crate) ack: String,
    pub(crate) arrived: Instant,
}

pub(crate) struct Bell {
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
    /// It brought all it asked for.
    Full,
    /// There is no more.
    Dry,
    /// There is no such consumer.
    Gone,
    /// The server says why.
    Refused(String),
}

pub(crate) struct Inlet {
    pub(crate) ready: VecDeque<Ready>,
    pub(crate) bell: Option<Bell>,
    fetch: Option<Fetch>,
    /// The server may have hints that no bell announces.
    pub(crate) more: bool,
    /// The consumer's own, once the consumer is known.
    pub(crate) ack_wait: Option<Duration>,
    /// What was asked for last.
    pub(crate) visibility: Duration,
    /// Number of the last hint that this process published here.
    published: u64,
    /// Number of the last hint that came. They come in order the first time.
    seen: u64,
    /// Why the server took the bell down.
    pub(crate) trouble: Option<String>,
    /// One at a time sends pulls.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl Inlet {
    pub(crate) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            bell: None,
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

    /// The connection, and every pull with it, is lost; the consumer may be too.
    pub(crate) fn reset(&mut self) {
        self.bell = None;
        self.fetch = None;
        self.ack_wait = None;
        self.more = true;
    }

    /// The stream is another one.
    pub(crate) fn restart(&mut self) {
        self.ready.clear();
        (self.published, self.seen) = (0, 0);
    }

    /// This process has published the hint with that number.
    pub(crate) fn published(&mut self, seq: u64) {
        self.published = self.published.max(seq);
    }

    /// Hints up to that number came, to us or to somebody else.
    pub(crate) fn saw(&mut self, seq: u64) {
        self.seen = self.seen.max(seq);
    }

    /// Number of a hint of our own that must be on its way, or somebody else's.
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
        if self.bell.take().is_some() {
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

    /// The server says something about one of our pulls. False if it is none of ours.
    pub(crate) fn status(&mut self, id: u64, code: u16, text: &str, real: Instant) -> bool {
        let is_gone = code == 503 || text.contains("Deleted");
        if let Some(bell) = self.bell.as_mut().filter(|bell| bell.id == id) {
            match code {
                100 => bell.heard = real,
                404 | 408 => self.bell = None,
                _ => {
                    self.bell = None;
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

    /// When a bell that stays silent is hung up anew.
    pub(crate) fn silent_at(&self) -> Option<Instant> {
        self.bell.as_ref().map(|bell| bell.heard + SILENCE_MAX)
    }

    /// When the oldest hint that nobody took goes back.
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
        let mut inlet = Inlet::new();
        inlet.bell = Some(Bell {
            id: 1,
            heard: real_now(),
        });
        let mut fetched = inlet.begin_fetch(2, 2);
        inlet.count();
        assert!(inlet.bell.is_none(), "it has rung");
        inlet.count();
        assert!(fetched.try_recv().is_err(), "one is to come");
        inlet.count();
        assert_eq!(fetched.try_recv(), Ok(Fetched::Full));
        inlet.count();
    }

    #[test]
    fn what_the_server_says_ends_the_pull_it_is_about() {
        let (mut inlet, now) = (Inlet::new(), real_now());
        let mut fetched = inlet.begin_fetch(2, 2);
        assert!(!inlet.status(9, 404, "No Messages", now), "another's");
        assert!(inlet.status(2, 404, "No Messages", now));
        assert_eq!((fetched.try_recv(), inlet.more), (Ok(Fetched::Dry), false));
        inlet.ack_wait = Some(Duration::from_secs(1));
        inlet.bell = Some(Bell { id: 3, heard: now });
        assert!(inlet.status(3, 100, "Idle Heartbeat", now));
        assert!(inlet.bell.is_some());
        assert!(inlet.status(3, 409, "Consumer Deleted", now));
        assert!(inlet.bell.is_none() && inlet.ack_wait.is_none() && inlet.trouble.is_none());
        inlet.bell = Some(Bell { id: 4, heard: now });
        inlet.status(4, 409, "Exceeded MaxWaiting", now);
        assert_eq!(inlet.trouble.as_deref(), Some("409 Exceeded MaxWaiting"));
    }

    #[test]
    fn a_bell_is_silent_when_no_sign_of_life_came_for_a_while() {
        let (mut inlet, start) = (Inlet::new(), real_now());
        assert_eq!(inlet.silent_at(), None, "no bell");
        inlet.bell = Some(Bell {
            id: 1,
            heard: start,
        });
        assert_eq!(inlet.silent_at(), Some(start + SILENCE_MAX));
        let heartbeat = start + HEARTBEAT;
        inlet.status(1, 100, "Idle Heartbeat", heartbeat);
        assert_eq!(inlet.silent_at(), Some(heartbeat + SILENCE_MAX));
        assert!(SILENCE_MAX > HEARTBEAT * 2 && BELL_LASTS >= HEARTBEAT * 2);
    }
}
