//! Requests of each account that are not answered yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts a request that may be in flight.
pub(super) struct InFlight {
    account: String,
    in_flight: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl InFlight {
    pub(super) fn begin(account: &str, in_flight: &Arc<Mutex<BTreeMap<String, u32>>>) -> Self {
        *lock(in_flight).entry(account.to_owned()).or_default() += 1;
        Self {
            account: account.to_owned(),
            in_flight: in_flight.clone(),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.in_flight);
        if let Some(count) = in_flight.get_mut(&self.account) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                in_flight.remove(&self.account);
            }
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_without_requests_takes_no_room() {
        let in_flight = Arc::default();
        let (one, other) = (
            InFlight::begin("ann", &in_flight),
            InFlight::begin("ann", &in_flight),
        );
        drop(one);
        assert_eq!(lock(&in_flight).get("ann"), Some(&1));
        drop(other);
        assert!(lock(&in_flight).is_empty());
    }
}
