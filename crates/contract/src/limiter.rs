//! Rate limits and pauses that nodes share: the area `limiter::`, for every implementation of the
//! port.

mod cases;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::RateLimiter;
use clinch_protect::RateConfig;
use libtest_mimic::{Failed, Trial};

use crate::BoxFuture;
use crate::case::{Failure, Verdict};
use crate::runner::{HANG_AFTER, guarded};

pub use cases::limiter_cases;

/// Fresh limiters: no call was made yet.
pub type LimiterSubject = Arc<dyn LimiterControl>;

/// The suite's control of an implementation.
#[async_trait]
pub trait LimiterControl: Send + Sync {
    /// The limiter of a destination on one more node that starts now.
    async fn node(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> clinch_core::Result<Arc<dyn RateLimiter>>;

    /// Advances the clock that the nodes share.
    async fn advance(&self, by: Duration);
}

/// Makes fresh subjects.
pub type LimiterFactory = Arc<dyn Fn() -> BoxFuture<Result<LimiterSubject, String>> + Send + Sync>;

/// One behaviour that the port promises.
#[derive(Debug, Clone, Copy)]
pub struct LimiterCase {
    /// `limiter::behaviour`.
    pub name: &'static str,
    /// Ids of the requirements that it proves.
    pub proves: &'static [&'static str],
    run: fn(LimiterSubject) -> BoxFuture<Verdict>,
}

/// Runs one case on a fresh subject. A panic and a hang are failures too.
pub fn check_limiter(case: &LimiterCase, factory: &LimiterFactory) -> Result<(), String> {
    let (run, factory) = (case.run, factory.clone());
    let body = move || -> BoxFuture<Result<(), String>> {
        Box::pin(async move {
            let verdict = run(factory().await?).await;
            verdict.map_err(|failure: Failure| failure.to_string())
        })
    };
    guarded(case.name, HANG_AFTER, body)
}

/// Every case as a test.
pub fn limiter_trials(adapter: &str, factory: &LimiterFactory) -> Vec<Trial> {
    let trial = |case: LimiterCase| {
        let (name, factory) = (format!("{adapter}::{}", case.name), factory.clone());
        Trial::test(name, move || {
            check_limiter(&case, &factory).map_err(Failed::from)
        })
        .with_kind(case.proves.join(" "))
    };
    limiter_cases().into_iter().map(trial).collect()
}
