//! Budgets: the area `quota::`, for every implementation of the port, store or not.

mod cases;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{QuotaReading, Reservation};
use clinch_core::ports::Quota;
use clinch_core::{ErrorKind, Timestamp};
use libtest_mimic::{Failed, Trial};

use crate::BoxFuture;
use crate::case::{Failure, Verdict};
use crate::runner::{HANG_AFTER, guarded};

pub use cases::quota_cases;

/// One fresh implementation under the default rules.
#[derive(Clone)]
pub struct QuotaSubject {
    /// The port.
    pub quota: Arc<dyn Quota>,
    /// The suite's control of its clock.
    pub control: Arc<dyn QuotaControl>,
}

/// The clock of an implementation.
#[async_trait]
pub trait QuotaControl: Send + Sync {
    /// The current time.
    async fn now(&self) -> Timestamp;
    /// Advances the clock.
    async fn advance(&self, by: Duration);
}

/// Makes fresh subjects.
pub type QuotaFactory = Arc<dyn Fn() -> BoxFuture<Result<QuotaSubject, String>> + Send + Sync>;

/// One behaviour that the port promises.
#[derive(Debug, Clone, Copy)]
pub struct QuotaCase {
    /// `quota::behaviour`.
    pub name: &'static str,
    /// Ids of the requirements that it proves.
    pub proves: &'static [&'static str],
    run: fn(QuotaSubject) -> BoxFuture<Verdict>,
}

/// Runs one case on a fresh subject. A panic and a hang are failures too.
pub fn check_quota(case: &QuotaCase, factory: &QuotaFactory) -> Result<(), String> {
    let (run, factory) = (case.run, factory.clone());
    let body = move || -> BoxFuture<Result<(), String>> {
        Box::pin(async move {
            let verdict = run(factory().await?).await;
            verdict.map_err(|failure| failure.to_string())
        })
    };
    guarded(case.name, HANG_AFTER, body)
}

/// The cases as tests of one adapter.
pub fn quota_trials(adapter: &str, factory: &QuotaFactory) -> Vec<Trial> {
    let trial = |case: QuotaCase| {
        let (name, factory) = (format!("{adapter}::{}", case.name), factory.clone());
        Trial::test(name, move || {
            check_quota(&case, &factory).map_err(Failed::from)
        })
        .with_kind(case.proves.join(" "))
    };
    quota_cases().into_iter().map(trial).collect()
}

/// A budget as the cases use it.
#[derive(Clone)]
struct Budget {
    subject: QuotaSubject,
}

const KEY: &str = "token-1";

impl Budget {
    async fn ask(&self, permits: u32) -> Verdict<Reservation> {
        Ok(self.subject.quota.reserve(KEY, permits).await?)
    }

    async fn is_granted(&self, permits: u32) -> Verdict<bool> {
        Ok(self.ask(permits).await? == Reservation::Granted)
    }

    /// The wait of a reservation that must not be granted.
    async fn wait(&self, permits: u32) -> Verdict<Duration> {
        match self.ask(permits).await? {
            Reservation::WaitFor(lasting) => Ok(lasting),
            Reservation::Granted => Err(Failure::new("granted what must wait")),
        }
    }

    /// How many single permits are granted in a row, up to a bound.
    async fn left(&self) -> Verdict<u64> {
        /// More than any case leaves.
        const LEFT_MAX: u64 = 200;
        for granted in 0..LEFT_MAX {
            if !self.is_granted(1).await? {
                return Ok(granted);
            }
        }
        Err(Failure::new(format!("more than {LEFT_MAX} permits")))
    }

    async fn tell(&self, reading: QuotaReading) -> Verdict {
        Ok(self.subject.quota.update(KEY, &reading).await?)
    }

    /// Reports an answer: `remaining` of `limit` left, until the window ends in `reset_in`.
    async fn says(&self, limit: u64, remaining: i64, reset_in: Duration) -> Verdict {
        let reset_at = Some(self.subject.control.now().await + reset_in);
        self.tell(reading(limit, remaining, reset_at)).await
    }

    async fn advance(&self, by: Duration) {
        self.subject.control.advance(by).await;
    }

    async fn is_invalid(&self, key: &str, permits: u32) -> bool {
        let asked = self.subject.quota.reserve(key, permits).await;
        asked.is_err_and(|error| error.kind() == ErrorKind::Invalid)
    }
}

fn reading(limit: u64, remaining: i64, reset_at: Option<Timestamp>) -> QuotaReading {
    QuotaReading {
        limit: Some(limit),
        remaining: Some(remaining),
        reset_at,
        retry_after: None,
        unspent: 0,
    }
}
