//! The breaker as a pure state machine: no clock, no lock.

use std::time::Duration;

use clinch_core::ports::{
    CircuitChange, CircuitState, CircuitStatus, Opened, Reason, Rejection, Room, Verdict,
};

use super::config::{CircuitConfig, Window};
use super::window::{Mark, Sliding, Totals};

/// When a caller that found all trial permits in use may try again: a trial takes about as long as
/// a call.
const TRIAL_LOOK: Duration = Duration::from_secs(1);
/// When a caller may try again that was refused by an operator's word: a reset can come at any time.
/// Nobody asks in vain so often: work for a breaker without room is not begun.
const FORCED_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Core {
    config: CircuitConfig,
    state: State,
    /// Raised by every change of state. A report from a permit of another epoch is void.
    epoch: u64,
    /// Failed trials since the breaker was last closed.
    failed_trials: u32,
    /// When it left the state closed, and for how long the destination was down by then.
    down_since: Option<(Duration, Duration)>,
    /// The share of failed calls at the last change of state.
    failure_rate: Option<f64>,
    /// The last change of state came from outside.
    is_told: bool,
}

#[derive(Debug)]
enum State {
    Closed(Sliding),
    Open {
        until: Duration,
        /// An operator opened it. `until` is [`Duration::MAX`] if no end was given.
        is_forced: bool,
    },
    /// `out` permits are in use; `ended` is the total of the others' reports.
    HalfOpen {
        out: u32,
        ended: Totals,
    },
}

impl Core {
    pub(super) fn new(mut config: CircuitConfig) -> Self {
        if let Window::Count(calls) = config.window {
            config.min_calls = config.min_calls.min(calls);
        }
        Self {
            state: State::Closed(Sliding::new(config.window)),
            config,
            epoch: 0,
            failed_trials: 0,
            down_since: None,
            failure_rate: None,
            is_told: false,
        }
    }

    /// Raised by every change of state.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last change of state.
    pub(super) fn change(&self, now: Duration) -> CircuitChange {
        CircuitChange {
            state: self.state(now),
            failure_rate: self.failure_rate,
            lasting: match self.state {
                // A breaker that an operator opened has no end.
                State::Open { until, .. } if until != Duration::MAX => {
                    Some(until.saturating_sub(now))
                }
                State::Open { .. } => None,
                State::Closed(_) | State::HalfOpen { .. } => None,
            },
            is_told: self.is_told,
        }
    }

    /// The epoch of the permit, or why none was given.
    pub(super) fn try_acquire(&mut self, now: Duration) -> Result<u64, Rejection> {
        if let State::Open { until, .. } = self.state
            && now >= until
        {
            let ended = Totals::default();
            self.failure_rate = None;
            self.enter(State::HalfOpen { out: 0, ended });
        }
        match &mut self.state {
            State::Closed(_) => Ok(self.epoch),
            State::HalfOpen { out, ended } => {
                if u64::from(*out) + ended.calls >= u64::from(self.config.half_open) {
                    return Err(refused(TRIAL_LOOK.min(self.config.open)));
                }
                *out += 1;
                Ok(self.epoch)
            }
            State::Open { until, is_forced } => {
                let left = until.saturating_sub(now);
                let after = if *is_forced {
                    left.min(FORCED_LOOK)
                } else {
                    left
                };
                Err(refused(after))
            }
        }
    }

    /// The report of a permit from `epoch`. Each permit reports once.
    pub(super) fn report(&mut self, epoch: u64, verdict: Verdict, now: Duration) {
        if epoch != self.epoch {
            return;
        }
        let mark = self.mark(verdict);
        match &mut self.state {
            State::Closed(window) => {
                let Some(mark) = mark else { return };
                let totals = window.record(mark, now);
                if totals.calls >= u64::from(self.config.min_calls) && self.is_bad(totals) {
                    self.failure_rate = Some(share(totals.failed, totals));
                    self.open(now);
                }
            }
            State::HalfOpen { out, ended } => {
                *out = out.saturating_sub(1);
                let Some(mark) = mark else { return };
                ended.add(mark);
                let totals = *ended;
                if totals.calls >= u64::from(self.config.half_open) {
                    self.judge(totals, now);
                }
            }
            State::Open { .. } => {}
        }
    }

    /// An open breaker whose open time has passed counts as half open: the next call is a trial.
    pub(super) fn state(&self, now: Duration) -> CircuitState {
        match self.state {
            State::Closed(_) => CircuitState::Closed,
            State::Open { until, .. } if now >= until => CircuitState::HalfOpen,
            State::HalfOpen { .. } => CircuitState::HalfOpen,
            State::Open { .. } => CircuitState::Open,
        }
    }

    pub(super) fn room(&self, now: Duration) -> Room {
        let bounded = |calls: u64, again_in| Room {
            calls: usize::try_from(calls).unwrap_or(usize::MAX),
            reason: Some(Reason::BreakerOpen),
            again_in,
        };
        let trial = u64::from(self.config.half_open);
        match &self.state {
            State::Closed(_) => Room::UNBOUNDED,
            State::Open { until, .. } if now >= *until => bounded(trial, None),
            State::Open { until, is_forced } => {
                let left = *until - now;
                let again = if *is_forced {
                    left.min(self.config.open)
                } else {
                    left
                };
                bounded(0, Some(again))
            }
            State::HalfOpen { out, ended } => {
                // If no permits are left, a running trial call has to end first.
                bounded(trial.saturating_sub(u64::from(*out) + ended.calls), None)
            }
        }
    }

    fn mark(&self, verdict: Verdict) -> Option<Mark> {
        let (failed, took) = match verdict {
            Verdict::Answered { took } => (false, took),
            Verdict::Failed { took } => (true, took),
            Verdict::Ignored => return None,
        };
        let slow = took >= self.config.slow;
        Some(Mark { failed, slow })
    }

    fn is_bad(&self, totals: Totals) -> bool {
        share(totals.failed, totals) >= self.config.failure_rate
            || share(totals.slow, totals) >= self.config.slow_rate
    }

    fn judge(&mut self, totals: Totals, now: Duration) {
        self.failure_rate = Some(share(totals.failed, totals));
        if self.is_bad(totals) {
            self.failed_trials = self.failed_trials.saturating_add(1);
            self.open(now);
        } else {
            self.close();
        }
    }

    fn open(&mut self, now: Duration) {
        // After 31 doublings every open time has reached its bound.
        let factor = 1_u32 << self.failed_trials.min(31);
        let lasting = self.config.open.saturating_mul(factor);
        let until = now.saturating_add(lasting.min(self.config.open_max));
        self.down_since.get_or_insert((now, Duration::ZERO));
        let is_forced = false;
        self.enter(State::Open { until, is_forced });
    }

    /// An operator or another process opens it.
    pub(super) fn open_as_told(&mut self, opened: Opened, now: Duration) {
        let until = opened.open_for;
        let until = until.map_or(Duration::MAX, |lasting| now.saturating_add(lasting));
        let known = self.down_for(now).unwrap_or_default();
        self.down_since = Some((now, opened.since.max(known)));
        self.failure_rate = None;
        let is_forced = opened.is_forced;
        self.enter(State::Open { until, is_forced });
        self.is_told = true;
    }

    /// An operator or another process closes it.
    pub(super) fn reset(&mut self) {
        self.failure_rate = None;
        self.close();
        self.is_told = true;
    }

    fn down_for(&self, now: Duration) -> Option<Duration> {
        let (at, before) = self.down_since?;
        Some(now.saturating_sub(at) + before)
    }

    /// The state with its times.
    pub(super) fn status(&self, now: Duration) -> CircuitStatus {
        let (open_for, is_forced) = match self.state {
            State::Open { until, is_forced } if now < until => {
                let has_end = until != Duration::MAX;
                (has_end.then(|| until - now), is_forced)
            }
            _ => (None, false),
        };
        CircuitStatus {
            state: self.state(now),
            since: self.down_for(now),
            open_for,
            is_forced,
            is_told: self.is_told,
        }
    }

    fn close(&mut self) {
        self.failed_trials = 0;
        self.down_since = None;
        self.enter(State::Closed(Sliding::new(self.config.window)));
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
        self.is_told = false;
    }
}

fn share(part: u64, totals: Totals) -> f64 {
    part as f64 / totals.calls.max(1) as f64
}

fn refused(after: Duration) -> Rejection {
    Rejection {
        reason: Reason::BreakerOpen,
        after,
    }
}
