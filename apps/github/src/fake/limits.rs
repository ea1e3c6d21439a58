//! The budgets of accounts, and the refusals for exceeding them.

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
    /// Requests per window, with a token.
    pub primary: u32,
    /// Requests per window of all clients without a token.
    pub anonymous: u32,
    /// Searches in a minute, with a token; a third of that without one.
    pub search: u32,
    /// Length of a window. A window begins with the first request after the last one's end.
    pub window: Duration,
    /// Concurrent requests.
    pub concurrent: u32,
    /// Requests in any minute.
    pub per_minute: u32,
    /// The refusal for exceeding one of the last two limits; it lasts a minute.
    pub secondary: Secondary,
}

impl Default for Limits {
    /// GitHub's own limits.
    fn default() -> Self {
        Self {
            primary: 5_000,
            anonymous: 60,
            search: 30,
            window: Duration::from_secs(3_600),
            concurrent: 100,
            per_minute: 900,
            secondary: Secondary::default(),
        }
    }
}

/// The form of a secondary limit's refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Secondary {
    /// 403 or 429.
    pub status: u16,
    /// With `Retry-After`; otherwise only the message shows that it is a secondary limit.
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

/// The limit that refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    Primary,
    Secondary,
}

/// The spent budget of every account.
#[derive(Default)]
pub(super) struct Budgets(BTreeMap<String, Budget>);

#[derive(Default)]
pub(super) struct Budget {
    /// What it is a budget of: `core` or `search`.
    resource: &'static str,
    window: Duration,
    limit: u32,
    used: u32,
    /// End of the window in seconds, as in the header.
    reset: Option<i64>,
    /// Requests of the last minute; no more than the limit.
    recent: VecDeque<Timestamp>,
    blocked_until: Option<Timestamp>,
    in_flight: u32,
}

impl Budgets {
    /// The budget of an account; `None`: the anonymous one.
    pub(super) fn of(&mut self, account: Option<&str>, limits: &Limits) -> &mut Budget {
        let budget = self.0.entry(account.unwrap_or_default().to_owned());
        let budget = budget.or_default();
        budget.limit = match account {
            Some(_) => limits.primary,
            None => limits.anonymous,
        };
        (budget.resource, budget.window) = ("core", limits.window);
        budget
    }

    /// An account's budget of searches.
    pub(super) fn of_searches(&mut self, account: Option<&str>, limits: &Limits) -> &mut Budget {
        let key = format!("search {}", account.unwrap_or_default());
        let budget = self.0.entry(key).or_default();
        budget.limit = match account {
            Some(_) => limits.search,
            None => limits.search / 3,
        };
        (budget.resource, budget.window) = ("search", MINUTE);
        budget
    }
}

impl Budget {
    /// Counts a request in; returns whether a secondary limit refuses it. A request that arrived
    /// before the limit was reached passes, however late it is answered.
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

    /// Begins a window if none is open; returns the limit that refuses the request.
    pub(super) fn admit(&mut self, now: Timestamp, is_throttled: bool) -> Option<ExceededLimit> {
        if self.is_over(now) {
            self.used = 0;
            self.reset = Some(end(now, self.window));
        }
        if self.used >= self.limit {
            return Some(ExceededLimit::Primary);
        }
        is_throttled.then_some(ExceededLimit::Secondary)
    }

    pub(super) fn block(&mut self, now: Timestamp, pause: Duration) {
        self.blocked_until = Some(now + pause);
    }

    /// Counts one request; returns how many that makes in this window.
    pub(super) fn spend(&mut self) -> u32 {
        self.used += 1;
        self.used
    }

    /// Adds the budget headers to an answer.
    pub(super) fn label(&self, answer: &mut ApiAnswer, now: Timestamp) {
        let (used, reset) = self.shown(now);
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
        insert("x-ratelimit-resource", self.resource.to_owned());
    }

    /// The body of `/rate_limit`.
    pub(super) fn overview(&self, now: Timestamp) -> Value {
        let (used, reset) = self.shown(now);
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

    fn shown(&self, now: Timestamp) -> (u32, i64) {
        match self.reset {
            Some(reset) if !self.is_over(now) => (self.used, reset),
            _ => (0, end(now, self.window)),
        }
    }
}

/// The refusal for a used-up budget.
pub(super) fn refuse_primary(user_id: Option<u64>) -> ApiAnswer {
    let message = match user_id {
        Some(id) => format!("API rate limit exceeded for user ID {id}."),
        None => "API rate limit exceeded for this address. (But here's the good news: \
                 Authenticated requests get a higher rate limit.)"
            .to_owned(),
    };
    refusal(403, &message)
}

fn end(now: Timestamp, window: Duration) -> i64 {
    let millis = (now + window).as_millis();
    millis.div_euclid(1_000) + i64::from(millis.rem_euclid(1_000) > 0)
}
