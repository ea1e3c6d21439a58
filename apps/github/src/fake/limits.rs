//! What an account may spend, and what becomes of one that asks for more.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use clinch::types::Timestamp;
use serde_json::{Value, json};

use super::answer::refusal;
use crate::ApiAnswer;

const MINUTE: Duration = Duration::from_secs(60);

/// The limits of every account.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests in a window, with a token.
    pub primary: u32,
    /// Requests in a window of all that send no token.
    pub anonymous: u32,
    /// Begins with the first request after the last one's end.
    pub window: Duration,
    /// Requests at a time.
    pub concurrent: u32,
    /// Requests in any minute.
    pub per_minute: u32,
    /// What one that goes over either of these gets, for a minute.
    pub secondary: Secondary,
}

impl Default for Limits {
    /// GitHub's own.
    fn default() -> Self {
        Self {
            primary: 5_000,
            anonymous: 60,
            window: Duration::from_secs(3_600),
            concurrent: 100,
            per_minute: 900,
            secondary: Secondary::default(),
        }
    }
}

/// How a secondary limit is made known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Secondary {
    /// 403 or 429.
    pub status: u16,
    /// With `Retry-After`; otherwise the message alone tells.
    pub has_retry_after: bool,
}

impl Default for Secondary {
    fn default() -> Self {
        Self {
            status: 403,
            has_retry_after: true,
        }
    }
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Primary,
    Secondary,
}

/// What every account has spent.
#[derive(Default)]
pub(super) struct Budgets(BTreeMap<String, Budget>);

#[derive(Default)]
pub(super) struct Budget {
    limit: u32,
    used: u32,
    /// In seconds, as the header has it.
    reset: Option<i64>,
    /// Of the last minute; no more than the limit.
    recent: VecDeque<Timestamp>,
    blocked_until: Option<Timestamp>,
    in_flight: u32,
}

impl Budgets {
    /// Of one account; none is the anonymous one.
    pub(super) fn of(&mut self, account: Option<&str>, limits: &Limits) -> &mut Budget {
        let budget = self.0.entry(account.unwrap_or_default().to_owned());
        let budget = budget.or_default();
        budget.limit = match account {
            Some(_) => limits.primary,
            None => limits.anonymous,
        };
        budget
    }
}

impl Budget {
    /// Counts a request in, and says whether a secondary limit stands in its way. One that came
    /// before the limit was reached goes through, however late it is answered.
    pub(super) fn arrive(&mut self, now: Timestamp, limits: &Limits) -> bool {
        self.in_flight += 1;
        if self.blocked_until.is_some_and(|until| now < until) {
            return true;
        }
        let is_old = |at: &Timestamp| now.since(*at) >= MINUTE;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        let is_busy = self.recent.len() as u64 >= u64::from(limits.per_minute);
        if is_busy || self.in_flight > limits.concurrent {
            self.block(now, MINUTE);
            return true;
        }
        self.recent.push_back(now);
        false
    }

    pub(super) fn leave(&mut self) {
        self.in_flight -= 1;
    }

    /// Begins a window if none is open, and says what stands in the way.
    pub(super) fn admit(
        &mut self,
        now: Timestamp,
        limits: &Limits,
        is_hasty: bool,
    ) -> Option<Over> {
        if self.is_over(now) {
            self.used = 0;
            self.reset = Some(end(now, limits));
        }
        if self.used >= self.limit {
            return Some(Over::Primary);
        }
        is_hasty.then_some(Over::Secondary)
    }

    pub(super) fn block(&mut self, now: Timestamp, pause: Duration) {
        self.blocked_until = Some(now + pause);
    }

    /// Counts one request, and says how many that makes in this window.
    pub(super) fn spend(&mut self) -> u32 {
        self.used += 1;
        self.used
    }

    /// Adds what every answer says of the budget.
    pub(super) fn label(&self, answer: &mut ApiAnswer, now: Timestamp, limits: &Limits) {
        let (used, reset) = self.shown(now, limits);
        let mut insert = |name: &str, value: String| {
            answer.headers.insert(name.to_owned(), value);
        };
        insert("x-ratelimit-limit", self.limit.to_string());
        insert(
            "x-ratelimit-remaining",
            (self.limit.saturating_sub(used)).to_string(),
        );
        insert("x-ratelimit-used", used.to_string());
        insert("x-ratelimit-reset", reset.to_string());
        insert("x-ratelimit-resource", "core".to_owned());
    }

    /// The body of `/rate_limit`.
    pub(super) fn overview(&self, now: Timestamp, limits: &Limits) -> Value {
        let (used, reset) = self.shown(now, limits);
        let core = json!({
            "limit": self.limit,
            "used": used,
            "remaining": self.limit.saturating_sub(used),
            "reset": reset,
            "resource": "core",
        });
        json!({ "resources": { "core": core }, "rate": core })
    }

    pub(super) fn refuse_secondary(&self, now: Timestamp, how: Secondary) -> ApiAnswer {
        let mut answer = refusal(
            how.status,
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        );
        if how.has_retry_after {
            let wait = self.blocked_until.map_or(MINUTE, |until| until.since(now));
            let seconds = wait.as_millis().div_ceil(1_000);
            answer
                .headers
                .insert("retry-after".into(), seconds.to_string());
        }
        answer
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.reset
            .is_none_or(|reset| now.as_millis() >= reset.saturating_mul(1_000))
    }

    fn shown(&self, now: Timestamp, limits: &Limits) -> (u32, i64) {
        match self.reset {
            Some(reset) if !self.is_over(now) => (self.used, reset),
            _ => (0, end(now, limits)),
        }
    }
}

/// The refusal of one that has spent all.
pub(super) fn refuse_primary(user_id: Option<u64>) -> ApiAnswer {
    let message = match user_id {
        Some(id) => format!("API rate limit exceeded for user ID {id}."),
        None => "API rate limit exceeded for this address. (But here's the good news: \
                 Authenticated requests get a higher rate limit.)"
            .to_owned(),
    };
    refusal(403, &message)
}

fn end(now: Timestamp, limits: &Limits) -> i64 {
    let millis = (now + limits.window).as_millis();
    millis.div_euclid(1_000) + i64::from(millis.rem_euclid(1_000) > 0)
}
