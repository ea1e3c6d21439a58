//! Slows down retries while there are too many.
//!
//! Every first call adds a fraction of a retry to the balance; every retry takes one out. If the
//! balance is used up, retries go into debt, and each is told to wait until its own part of the
//! debt is paid, at `min_per_second`. So under a retry storm a destination gets `ratio` retries for
//! each first call, plus `min_per_second`. No retry is lost: the budget only delays.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Invalid;
use clinch_core::ports::{Clock, RetryBudget};

use crate::sync::{Mutex, lock};

/// One retry in the unit of the balance. One nanosecond at one retry per second is one unit, so
/// nothing is rounded over time.
const RETRY: i128 = 1_000_000_000;

/// Maximum retries that one first call can pay for: more than any route makes.
pub const RATIO_MAX: f64 = 100.0;

/// How many retries a first call pays for. The defaults let one call in five be a retry, plus 10
/// per second, so that a quiet destination never notices the budget.
#[derive(Debug, Clone, PartialEq)]
pub struct RatioConfig {
    /// Retries that one first call pays for.
    pub ratio: f64,
    /// Retries per second that need no first call: the rate at which debts are paid.
    pub min_per_second: u32,
    /// Maximum saved retries: a quiet time must not save up for a storm.
    pub balance_max: u32,
    /// Longest delay. Debts that would take longer are dropped.
    pub delay_max: Duration,
}

impl Default for RatioConfig {
    fn default() -> Self {
        Self {
            ratio: 0.2,
            min_per_second: 10,
            balance_max: 100,
            delay_max: Duration::from_secs(5 * 60),
        }
    }
}

impl RatioConfig {
    /// Refuses a budget that could never pay a debt.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !(0.0..=RATIO_MAX).contains(&self.ratio) {
            let problem = format!("must be between 0 and {RATIO_MAX}");
            return Err(Invalid::new("budget", problem));
        }
        if self.min_per_second == 0 {
            let problem = "min_per_second must be at least 1: a budget only delays";
            return Err(Invalid::new("budget", problem));
        }
        Ok(())
    }
}

/// A budget in proportion to first calls. Starts with nothing saved.
pub struct Ratio {
    deposit: i128,
    per_second: i128,
    balance_max: i128,
    debt_max: i128,
    account: Mutex<Account>,
    clock: Arc<dyn Clock>,
}

struct Account {
    /// In units of [`RETRY`]. Below zero is debt.
    balance: i128,
    /// Debts are paid up to this time.
    paid_at: Duration,
}

impl Ratio {
    /// A budget. Its ratio is exact to the ninth digit.
    pub fn new(config: RatioConfig, clock: Arc<dyn Clock>) -> Result<Self, Invalid> {
        config.validate()?;
        let per_second = i128::from(config.min_per_second);
        Ok(Self {
            deposit: (config.ratio * RETRY as f64).round() as i128,
            per_second,
            balance_max: i128::from(config.balance_max) * RETRY,
            debt_max: nanos(config.delay_max).saturating_mul(per_second),
            account: Mutex::new(Account {
                balance: 0,
                paid_at: clock.monotonic(),
            }),
            clock,
        })
    }

    /// The account with all payments up to now.
    fn with<T>(&self, step: impl FnOnce(&mut Account) -> T) -> T {
        let mut account = lock(&self.account);
        let now = self.clock.monotonic();
        let paid = nanos(now.saturating_sub(account.paid_at)).saturating_mul(self.per_second);
        account.paid_at = now;
        if account.balance < 0 {
            // Time pays debts; it does not save retries.
            account.balance = account.balance.saturating_add(paid).min(0);
        }
        step(&mut account)
    }
}

impl RetryBudget for Ratio {
    fn deposit(&self) {
        self.with(|account| {
            account.balance = (account.balance + self.deposit).min(self.balance_max);
        });
    }

    fn withdraw(&self) -> Duration {
        let debt = self.with(|account| {
            account.balance = (account.balance - RETRY).max(-self.debt_max);
            account.balance.min(0).unsigned_abs()
        });
        let nanos = debt.div_ceil(self.per_second.unsigned_abs());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}
