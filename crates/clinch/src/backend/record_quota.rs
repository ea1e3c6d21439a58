//! Budgets with providers on any store that keeps records.
//!
//! One record holds what is known of a budget. A process takes several permits in one commit and
//! hands them out itself, so that most requests cost no commit: while much is left, one commit pays
//! for 33 of them, and near the end one for each. Permits that a process holds and does not use are
//! lost when the window ends, and never spent twice: a process that has no more requests may leave a
//! few of the budget unused.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{
    QuotaFacts, QuotaReading, QuotaRules, QuotaState, Reservation, check_quota_ask, check_quota_key,
};
use clinch_core::ports::{Clock, Expected, Quota, RecordWrite, Records};
use clinch_core::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// The part of what is left that a process takes at once.
const SHARE: u64 = 16;
/// Most permits that a process takes at once.
const HELD_MAX: u64 = 32;
/// How long a process hands out permits before it looks whether another one was told to pause.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a change is tried again after a lost race; each time another one succeeded.
const TRIES_MAX: usize = 200;
/// Keys that are remembered at once; those whose window has ended are forgotten first.
const KEYS_MAX: usize = 10_000;

/// Budgets that all processes of a store share, by the rules of [`QuotaState`] on the clock of each
/// process.
pub struct RecordQuota {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    rules: QuotaRules,
    keys: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Known>>>>,
}

/// What this process knows of a budget.
#[derive(Debug, Default)]
struct Known {
    /// Permits that this process has taken out of the record, of the window that ends then.
    held: u64,
    /// The record as it was last read or written; others may have taken permits since.
    facts: QuotaFacts,
    looked_at: Option<Timestamp>,
}

/// A budget as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Stored {
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_at: Option<i64>,
    asking_until: Option<i64>,
    blocked_until: Option<i64>,
}

impl From<QuotaFacts> for Stored {
    fn from(facts: QuotaFacts) -> Self {
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        Self {
            limit: facts.limit,
            remaining: facts.remaining,
            reset_at: millis(facts.reset_at),
            asking_until: millis(facts.asking_until),
            blocked_until: millis(facts.blocked_until),
        }
    }
}

impl From<Stored> for QuotaFacts {
    fn from(stored: Stored) -> Self {
        let at = |millis: Option<i64>| millis.map(Timestamp::from_millis);
        Self {
            limit: stored.limit,
            remaining: stored.remaining,
            reset_at: at(stored.reset_at),
            asking_until: at(stored.asking_until),
            blocked_until: at(stored.blocked_until),
        }
    }
}

impl Known {
    /// Whether held permits may be handed out now.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let is_open = self.facts.reset_at.is_some_and(|at| at > now);
        let is_blocked = self.facts.blocked_until.is_some_and(|until| until > now);
        let has_looked = |at: Timestamp| at <= now && now.since(at) < LOOK_EVERY;
        is_open && !is_blocked && self.looked_at.is_some_and(has_looked)
    }

    /// What is left together with what this process holds.
    fn total(&self) -> u64 {
        self.facts
            .remaining
            .unwrap_or_default()
            .saturating_add(self.held)
    }

    /// Whether an answer leaves the record as it is: it is about the known window, and shows no
    /// fewer permits than are counted.
    fn is_expected(&self, reading: &QuotaReading, now: Timestamp, rules: &QuotaRules) -> bool {
        let (Some(known), Some(told)) = (self.facts.reset_at, reading.reset_at) else {
            return false;
        };
        let is_same = told <= known + rules.same_window && known <= told + rules.same_window;
        let left = reading.remaining.and_then(|left| u64::try_from(left).ok());
        let counted = self.total().saturating_add(u64::from(reading.unspent));
        is_same
            && known > now
            && reading.retry_after.is_none()
            && self.facts.asking_until.is_none()
            && (reading.limit.is_none() || reading.limit == self.facts.limit)
            && left.is_some_and(|left| left >= counted)
            && self.facts.limit.is_none_or(|limit| counted <= limit)
    }
}

impl RecordQuota {
    /// Budgets in these records. Nothing is known yet.
    pub fn new(records: Arc<dyn Records>, clock: Arc<dyn Clock>, rules: QuotaRules) -> Self {
        Self {
            records,
            clock,
            rules,
            keys: Mutex::default(),
        }
    }

    fn known(&self, key: &str) -> Result<Arc<tokio::sync::Mutex<Known>>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.contains_key(key) && keys.len() >= KEYS_MAX {
            let now = self.clock.now();
            // One that is in use stays.
            keys.retain(|_, known| match known.try_lock() {
                Ok(known) => known.facts.reset_at.is_some_and(|at| at > now),
                Err(_) => true,
            });
            if keys.len() >= KEYS_MAX {
                let full = "too many budgets are in use; try again after a window has ended";
                return Err(Error::new(ErrorKind::Full, full));
            }
        }
        Ok(keys.entry(key.to_owned()).or_default().clone())
    }

    /// Changes the record, with the permits that this process holds put back; `change` says how many
    /// of those that are left it takes out again.
    async fn change<T>(
        &self,
        key: &str,
        known: &mut Known,
        change: impl Fn(&mut QuotaState, Timestamp, u64) -> (T, u64),
    ) -> Result<T> {
        let record_key = format!("clinch/quota/{key}");
        let mut is_contended = false;
        for _ in 0..TRIES_MAX {
            let found = self
                .records
                .read_records(std::slice::from_ref(&record_key))
                .await?;
            let found = found.into_iter().next().flatten();
            let version = found.as_ref().map(|record| record.version);
            let stored: Stored = match &found {
                Some(record) => serde_json::from_str(&record.body).map_err(|_| {
                    let message = "a stored budget cannot be read";
                    Error::new(ErrorKind::Corrupt, message).with("record", &record_key)
                })?,
                None => Stored::default(),
            };
            let now = self.clock.now();
            let mut facts = QuotaFacts::from(stored);
            // Permits of a window that has ended, or was replaced, are worth nothing.
            let held = match facts.reset_at == known.facts.reset_at {
                // The change that came first may have told that less is left than was known.
                true if is_contended => known.held.min(facts.remaining.unwrap_or_default()),
                true => known.held,
                false => 0,
            };
            facts.remaining = facts.remaining.map(|left| left.saturating_add(held));
            let mut state = QuotaState::from(facts);
            let (result, taken) = change(&mut state, now, held);
            let mut facts = QuotaFacts::from(&state);
            let taken = taken.min(facts.remaining.unwrap_or_default());
            facts.remaining = facts.remaining.map(|left| left - taken);
            let after = Stored::from(facts);
            let is_written = after == stored || {
                let write = RecordWrite {
                    key: record_key.clone(),
                    expected: version.map_or(Expected::Absent, Expected::Version),
                    body: Some(text(&after)?),
                };
                // If the answer is lost, so are the permits: none is spent twice. Another change that
                // came first has left them to this process.
                let held = std::mem::take(&mut known.held);
                let is_written = self.records.write_records(&[write]).await?;
                known.held = held;
                is_written
            };
            if is_written {
                known.held = taken;
                known.facts = facts;
                known.looked_at = Some(now);
                return Ok(result);
            }
            is_contended = true;
        }
        let message = "too many concurrent changes of a budget; try again";
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Permits that a process takes beside those that it was asked for.
    fn share(&self, state: &QuotaState) -> u64 {
        let facts = QuotaFacts::from(state);
        let (limit, left) = (facts.limit.unwrap_or(0), facts.remaining.unwrap_or(0));
        let kept = self.rules.threshold.min(limit / 10);
        (left.saturating_sub(kept) / SHARE).min(HELD_MAX)
    }
}

fn text(stored: &Stored) -> Result<String> {
    let failed = |_| Error::new(ErrorKind::Internal, "a budget cannot be written as JSON");
    serde_json::to_string(stored).map_err(failed)
}

#[async_trait]
impl Quota for RecordQuota {
    async fn reserve(&self, key: &str, permits: u32) -> Result<Reservation> {
        check_quota_ask(key, permits)?;
        let known = self.known(key)?;
        let mut known = known.lock().await;
        let wanted = u64::from(permits);
        if known.is_fresh(self.clock.now()) && known.held >= wanted {
            known.held -= wanted;
            return Ok(Reservation::Granted);
        }
        let reserve = |state: &mut QuotaState, now: Timestamp, held: u64| {
            let reserved = state.reserve(permits, now, &self.rules);
            let taken = match reserved {
                Ok(Reservation::Granted) => match held >= wanted {
                    // The record stays as it is: this was only a look.
                    true => held - wanted,
                    false => self.share(state),
                },
                // What is held stays held, so that the record need not be written.
                _ => held,
            };
            (reserved, taken)
        };
        Ok(self.change(key, &mut known, reserve).await??)
    }

    async fn update(&self, key: &str, reading: &QuotaReading) -> Result<()> {
        check_quota_key(key)?;
        let known = self.known(key)?;
        let mut known = known.lock().await;
        if known.is_expected(reading, self.clock.now(), &self.rules) {
            known.held += u64::from(reading.unspent);
            return Ok(());
        }
        let update = |state: &mut QuotaState, now: Timestamp, held: u64| {
            state.update(reading, now, &self.rules);
            let facts = QuotaFacts::from(&*state);
            let kept = self.rules.threshold.min(facts.limit.unwrap_or(0) / 10);
            let left = facts.remaining.unwrap_or_default();
            ((), held.min(left.saturating_sub(kept)))
        };
        self.change(key, &mut known, update).await
    }
}

impl fmt::Debug for RecordQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordQuota").finish_non_exhaustive()
    }
}
