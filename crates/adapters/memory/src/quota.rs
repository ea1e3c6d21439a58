//! Budgets with providers, by the rules themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use clinch_core::policy::{
    QuotaReading, QuotaRules, QuotaState, Reservation, check_quota_ask, check_quota_key,
};
use clinch_core::ports::{Clock, Quota};
use clinch_core::{Error, ErrorKind, Result};

/// Keys that are remembered at once; a full table forgets what no longer matters first.
const KEYS_MAX: usize = 10_000;

/// Budgets of this process. The reference that the shared ones are compared with.
pub struct MemoryQuota {
    clock: Arc<dyn Clock>,
    rules: QuotaRules,
    states: Mutex<BTreeMap<String, QuotaState>>,
}

impl MemoryQuota {
    /// Nothing is known yet.
    pub fn new(clock: Arc<dyn Clock>, rules: QuotaRules) -> Self {
        Self {
            clock,
            rules,
            states: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, QuotaState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, key: &str, change: impl FnOnce(&mut QuotaState) -> T) -> Result<T> {
        let mut states = self.lock();
        if !states.contains_key(key) && states.len() >= KEYS_MAX {
            let now = self.clock.now();
            states.retain(|_, state| !state.is_forgotten(now));
            if states.len() >= KEYS_MAX {
                let full = "too many budgets are in use; try again after a window has ended";
                return Err(Error::new(ErrorKind::Full, full));
            }
        }
        Ok(change(states.entry(key.to_owned()).or_default()))
    }
}

#[async_trait]
impl Quota for MemoryQuota {
    async fn reserve(&self, key: &str, permits: u32) -> Result<Reservation> {
        check_quota_ask(key, permits)?;
        let now = self.clock.now();
        let reserved = self.with(key, |state| state.reserve(permits, now, &self.rules))?;
        Ok(reserved?)
    }

    async fn update(&self, key: &str, reading: &QuotaReading) -> Result<()> {
        check_quota_key(key)?;
        let now = self.clock.now();
        self.with(key, |state| state.update(reading, now, &self.rules))
    }
}

impl fmt::Debug for MemoryQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.lock().len();
        f.debug_struct("MemoryQuota").field("keys", &keys).finish()
    }
}
