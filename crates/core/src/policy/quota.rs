//! The pure rules of a provider's budget: what is known about it, and which callers may spend it.
//!
//! A provider counts calls per window. Each of its answers says how many calls are left and when
//! the window ends. Answers arrive late and out of order, from many nodes. Every adapter of the
//! port [`Quota`](crate::ports::Quota) must decide as this module does.

use std::time::Duration;

use crate::{Invalid, Timestamp};

/// Maximum length of a key, in bytes.
pub const QUOTA_KEY_BYTES_MAX: usize = 128;

/// Larger numbers count as this one: the largest that every backend counts exactly.
pub const QUOTA_COUNT_MAX: u64 = 1 << 53;

/// How a budget is spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRules {
    /// Calls of every window that are kept in reserve, at most a tenth of its limit.
    pub threshold: u64,
    /// While the budget is unknown, one request asks for it. How long that request may go
    /// unanswered before another may ask.
    pub answer_within: Duration,
    /// Upper bound of a wait that is handed out. A waiting caller asks again afterwards.
    pub wait_max: Duration,
    /// A reading whose window ends later than this is ignored.
    pub window_max: Duration,
    /// Windows that end this close to each other count as one: providers round.
    pub same_window: Duration,
}

impl Default for QuotaRules {
    fn default() -> Self {
        Self {
            threshold: 100,
            answer_within: Duration::from_secs(30),
            wait_max: Duration::from_secs(60 * 60),
            window_max: Duration::from_secs(24 * 60 * 60),
            same_window: Duration::from_secs(2),
        }
    }
}

/// What an answer said about the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaReading {
    /// Calls of a whole window.
    pub limit: Option<u64>,
    /// Calls that are left in the window.
    pub remaining: Option<i64>,
    /// When the window ends.
    pub reset_at: Option<Timestamp>,
    /// The provider asked for a pause of this length.
    pub retry_after: Option<Duration>,
    /// Calls that were reserved and turned out to cost nothing.
    pub unspent: u32,
}

/// The answer to a caller that wants to spend permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    /// The permits are spent: make the calls.
    Granted,
    /// Nothing is spent. Ask again after this time.
    WaitFor(Duration),
}

/// What is known about one budget. The default knows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaState {
    window: Option<Window>,
    /// A request that asks for the budget is in flight. No other asks until then.
    asking_until: Option<Timestamp>,
    blocked_until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    limit: u64,
    remaining: u64,
    reset_at: Timestamp,
}

impl Window {
    fn reserve(&self, rules: &QuotaRules) -> u64 {
        rules.threshold.min(self.limit / 10)
    }
}

/// What is known about one budget, as a backend stores it. A window has all three of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaFacts {
    /// Calls of the whole window.
    pub limit: Option<u64>,
    /// Calls that are left in the window.
    pub remaining: Option<u64>,
    /// When the window ends.
    pub reset_at: Option<Timestamp>,
    /// A request that asks for the budget is in flight. No other asks until then.
    pub asking_until: Option<Timestamp>,
    /// No call is granted until then.
    pub blocked_until: Option<Timestamp>,
}

impl From<&QuotaState> for QuotaFacts {
    fn from(state: &QuotaState) -> Self {
        Self {
            limit: state.window.map(|window| window.limit),
            remaining: state.window.map(|window| window.remaining),
            reset_at: state.window.map(|window| window.reset_at),
            asking_until: state.asking_until,
            blocked_until: state.blocked_until,
        }
    }
}

impl From<QuotaFacts> for QuotaState {
    fn from(facts: QuotaFacts) -> Self {
        let window = match (facts.limit, facts.remaining, facts.reset_at) {
            (Some(limit), Some(remaining), Some(reset_at)) => Some(Window {
                limit,
                remaining,
                reset_at,
            }),
            _ => None,
        };
        Self {
            window,
            asking_until: facts.asking_until,
            blocked_until: facts.blocked_until,
        }
    }
}

/// Refuses invalid keys, and a request for no permits.
pub fn check_quota_ask(key: &str, permits: u32) -> Result<(), Invalid> {
    check_quota_key(key)?;
    match permits {
        0 => Err(Invalid::new("permits", "must be at least 1")),
        _ => Ok(()),
    }
}

/// Refuses keys that are empty, too long or contain control characters.
pub fn check_quota_key(key: &str) -> Result<(), Invalid> {
    if key.is_empty() || key.len() > QUOTA_KEY_BYTES_MAX {
        let problem = format!("must be 1 to {QUOTA_KEY_BYTES_MAX} bytes; use a hash");
        return Err(Invalid::new("quota_key", problem));
    }
    if key.chars().any(char::is_control) {
        return Err(Invalid::new(
            "quota_key",
            "must not contain control characters",
        ));
    }
    Ok(())
}

/// The error of a request for more permits than a whole window has.
pub fn more_than_a_window() -> Invalid {
    Invalid::new("permits", "are more than a whole window has; ask for fewer")
}

impl QuotaState {
    /// See [`Quota::reserve`](crate::ports::Quota::reserve).
    pub fn reserve(
        &mut self,
        permits: u32,
        now: Timestamp,
        rules: &QuotaRules,
    ) -> Result<Reservation, Invalid> {
        self.forget_past(now);
        let wait = |until: Timestamp| {
            let left = until.since(now).min(rules.wait_max);
            Ok(Reservation::WaitFor(left))
        };
        if let Some(until) = self.blocked_until {
            return wait(until);
        }
        let Some(window) = &mut self.window else {
            if let Some(until) = self.asking_until {
                return wait(until);
            }
            self.asking_until = Some(now + rules.answer_within);
            return Ok(Reservation::Granted);
        };
        let (permits, kept) = (u64::from(permits), window.reserve(rules));
        if permits > 1 && window.limit > 0 && permits > window.limit - kept {
            return Err(more_than_a_window());
        }
        if window.remaining < kept + permits {
            return wait(window.reset_at);
        }
        window.remaining -= permits;
        Ok(Reservation::Granted)
    }

    /// See [`Quota::update`](crate::ports::Quota::update).
    pub fn update(&mut self, reading: &QuotaReading, now: Timestamp, rules: &QuotaRules) {
        self.forget_past(now);
        if let Some(lasting) = reading.retry_after {
            self.block(now, lasting.min(rules.window_max));
        }
        let credible = |at: &Timestamp| {
            at.since(now) <= rules.window_max && now.since(*at) <= rules.window_max
        };
        let reset_at = reading.reset_at.filter(credible);
        if reset_at.is_some_and(|at| at <= now) {
            return;
        }
        let Some(remaining) = reading.remaining else {
            self.asking_until = None;
            return;
        };
        let remaining = u64::try_from(remaining).unwrap_or(0).min(QUOTA_COUNT_MAX);
        let limit = reading.limit.map(|limit| limit.min(QUOTA_COUNT_MAX));
        let close = rules.same_window;
        match (&mut self.window, reset_at) {
            (Some(window), Some(at)) if at + close < window.reset_at => return,
            (Some(window), at) if at.is_none_or(|at| at <= window.reset_at + close) => {
                window.limit = limit.unwrap_or(window.limit);
                let back = window.remaining.saturating_add(u64::from(reading.unspent));
                window.remaining = back.min(remaining).min(window.limit);
            }
            (window, Some(reset_at)) => {
                let limit = limit.unwrap_or(remaining);
                *window = Some(Window {
                    limit,
                    remaining: remaining.min(limit),
                    reset_at,
                });
            }
            (_, None) if remaining == 0 => self.block(now, rules.answer_within),
            (_, None) => {}
        }
        self.asking_until = None;
    }

    /// The calls that are left, if known.
    pub fn remaining(&self) -> Option<u64> {
        self.window.map(|window| window.remaining)
    }

    /// Whether everything known has expired, so that the state equals the default.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        let mut state = self.clone();
        state.forget_past(now);
        state == Self::default()
    }

    fn block(&mut self, now: Timestamp, lasting: Duration) {
        let until = now + lasting;
        if until > now {
            self.blocked_until = self.blocked_until.max(Some(until));
        }
    }

    fn forget_past(&mut self, now: Timestamp) {
        self.window = self.window.filter(|window| window.reset_at > now);
        self.asking_until = self.asking_until.filter(|until| *until > now);
        self.blocked_until = self.blocked_until.filter(|until| *until > now);
    }
}
