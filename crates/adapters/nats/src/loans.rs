//! The hints that this process has from the server and has not given back.
//!
//! Two clocks are involved. A loan, or a delay, ends on the injected clock: then this process tells
//! the server to deliver the hint again. The server has a timer of its own, on real time and a
//! margin later, for processes that are gone. After that moment another process may hold the hint,
//! so this process says nothing about it any more.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// How much longer the server waits than the process that holds a hint, before it delivers the hint
/// to another process: long enough for the holder to end the loan itself.
pub const MARGIN: Duration = Duration::from_secs(5);

/// A message that is sent later than this before the server's own timer may cross with a
/// redelivery.
const SLACK: Duration = Duration::from_secs(1);

/// Hints by their number in the stream.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    hints: HashMap<u64, Held>,
    /// Loans and delays by their end on the injected clock, soonest first.
    ends: BTreeSet<(Duration, u64)>,
}

#[derive(Debug)]
struct Held {
    /// Subject for acks: a different one for each delivery.
    ack: String,
    delivered: u32,
    /// Deliveries that no caller saw: this process handed them back by itself.
    unseen: u32,
    /// When the server delivers the hint again by itself.
    server_at: Instant,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Arrived; not handed out yet.
    Here,
    /// On loan until then.
    Lent(Duration),
    /// Waits for that moment, at the server.
    Postponed(Duration),
    /// Handed back. Remembered only for its delivery count.
    Back,
}

impl Loans {
    /// A delivery arrived.
    pub(crate) fn arrived(&mut self, seq: u64, ack: &str, delivered: u32, server_at: Instant) {
        self.forget_end(seq);
        let before = self.hints.remove(&seq);
        let unseen = before.map_or(0, |held| held.unseen);
        let held = Held {
            ack: ack.to_owned(),
            delivered,
            unseen: unseen.min(delivered.saturating_sub(1)),
            server_at,
            state: State::Here,
        };
        self.hints.insert(seq, held);
    }

    /// Lends a hint that is here, until `now + visibility` or shortly before the server's own
    /// timer. Returns how often callers saw it before. `None`: it is no longer here.
    pub(crate) fn lend(
        &mut self,
        seq: u64,
        ack: &str,
        visibility: Duration,
        (now, real): (Duration, Instant),
    ) -> Option<u32> {
        let held = self.current(seq, ack)?;
        let server = held.server_at.saturating_duration_since(real);
        let lasting = visibility.min(server.saturating_sub(SLACK));
        let seen = held.delivered.saturating_sub(1 + held.unseen);
        self.set(seq, State::Lent(now.saturating_add(lasting)));
        Some(seen)
    }

    /// Whether this delivery is on loan now, to this process.
    pub(crate) fn is_lent(&self, seq: u64, ack: &str, now: Duration) -> bool {
        let held = self.hints.get(&seq).filter(|held| held.ack == ack);
        held.is_some_and(|held| matches!(held.state, State::Lent(until) if until > now))
    }

    /// Extends the loan until then.
    pub(crate) fn extend(&mut self, seq: u64, ack: &str, until: Duration, server_at: Instant) {
        if let Some(held) = self.current(seq, ack) {
            held.server_at = server_at;
            self.set(seq, State::Lent(until));
        }
    }

    /// The server holds the hint until then.
    pub(crate) fn postpone(&mut self, seq: u64, ack: &str, until: Duration, server_at: Instant) {
        if let Some(held) = self.current(seq, ack) {
            held.server_at = server_at;
            self.set(seq, State::Postponed(until));
        }
    }

    /// No caller saw this delivery.
    pub(crate) fn unseen(&mut self, seq: u64, ack: &str) {
        if let Some(held) = self.current(seq, ack) {
            held.unseen += 1;
        }
    }

    /// The server has the hint and delivers it again.
    pub(crate) fn back(&mut self, seq: u64, ack: &str) {
        let Some(held) = self.current(seq, ack) else {
            return;
        };
        if held.unseen > 0 {
            self.set(seq, State::Back);
        } else {
            self.done(seq);
        }
    }

    /// The hint will not come again.
    pub(crate) fn done(&mut self, seq: u64) {
        self.forget_end(seq);
        self.hints.remove(&seq);
    }

    /// The stream was replaced by another one.
    pub(crate) fn clear(&mut self) {
        self.hints.clear();
        self.ends.clear();
    }

    /// Removes the loans and delays that have ended. Returns the ack subjects of those that the
    /// server must be told about.
    pub(crate) fn ended(&mut self, now: Duration, real: Instant) -> Vec<String> {
        let mut tell = Vec::new();
        while let Some(&(end, seq)) = self.ends.first() {
            if end > now {
                break;
            }
            let Some(held) = self.hints.get(&seq) else {
                self.ends.pop_first();
                continue;
            };
            let ack = held.ack.clone();
            if real + SLACK < held.server_at {
                tell.push(ack.clone());
            }
            self.back(seq, &ack);
        }
        tell
    }

    /// When the next loan or delay ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Number of hints that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.hints.len()
    }

    /// Forgets hints that were handed back and that another process has taken meanwhile.
    pub(crate) fn forget_old(&mut self, real: Instant) {
        self.hints
            .retain(|_, held| held.state != State::Back || held.server_at + MARGIN > real);
    }

    fn current(&mut self, seq: u64, ack: &str) -> Option<&mut Held> {
        self.hints.get_mut(&seq).filter(|held| held.ack == ack)
    }

    fn set(&mut self, seq: u64, state: State) {
        self.forget_end(seq);
        if let Some(held) = self.hints.get_mut(&seq) {
            held.state = state;
        }
        if let State::Lent(end) | State::Postponed(end) = state {
            self.ends.insert((end, seq));
        }
    }

    fn forget_end(&mut self, seq: u64) {
        let state = self.hints.get(&seq).map(|held| held.state);
        if let Some(State::Lent(end) | State::Postponed(end)) = state {
            self.ends.remove(&(end, seq));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::real_now;

    const SEC: Duration = Duration::from_secs(1);

    #[test]
    fn a_loan_ends_once_and_says_so_in_time() {
        let (mut loans, real) = (Loans::default(), real_now());
        loans.arrived(7, "a", 1, real + SEC * 35);
        assert_eq!(loans.lend(7, "a", SEC * 30, (SEC, real)), Some(0));
        assert!(loans.is_lent(7, "a", SEC * 30));
        assert!(!loans.is_lent(7, "b", SEC * 30), "another delivery");
        assert!(loans.ended(SEC * 30, real).is_empty());
        assert_eq!(loans.ended(SEC * 31, real), ["a"]);
        assert!(loans.ended(SEC * 99, real).is_empty());
        assert_eq!((loans.len(), loans.next_end()), (0, None));
    }

    #[test]
    fn run_7_nothing_is_said_about_a_loan_that_the_server_may_have_ended() {
        let (mut loans, real) = (Loans::default(), real_now());
        loans.arrived(7, "a", 1, real + SEC * 35);
        loans.lend(7, "a", SEC * 30, (SEC, real));
        let after_a_pause_of_the_process = real + SEC * 35;
        let told = loans.ended(SEC * 40, after_a_pause_of_the_process);
        assert!(told.is_empty());
    }

    #[test]
    fn what_nobody_saw_does_not_count() {
        let (mut loans, real) = (Loans::default(), real_now());
        loans.arrived(7, "a", 1, real + SEC * 35);
        loans.unseen(7, "a");
        loans.postpone(7, "a", SEC * 100, real + SEC * 105);
        assert_eq!(loans.ended(SEC * 100, real), ["a"]);
        loans.arrived(7, "b", 2, real + SEC * 35);
        assert_eq!(loans.lend(7, "b", SEC, (SEC, real)), Some(0));
        loans.back(7, "b");
        loans.arrived(7, "c", 3, real + SEC * 35);
        assert_eq!(loans.lend(7, "c", SEC, (SEC, real)), Some(1));
        loans.done(7);
        assert_eq!((loans.len(), loans.next_end()), (0, None));
    }

    #[test]
    fn a_stale_word_changes_nothing() {
        let (mut loans, real) = (Loans::default(), real_now());
        loans.arrived(7, "a", 1, real + SEC * 35);
        loans.arrived(7, "b", 2, real + SEC * 35);
        loans.lend(7, "b", SEC * 30, (SEC, real));
        loans.back(7, "a");
        loans.extend(7, "a", SEC * 999, real);
        loans.postpone(7, "a", SEC, real);
        assert!(loans.is_lent(7, "b", SEC * 30));
        assert_eq!(loans.next_end(), Some(SEC * 31));
    }
}
