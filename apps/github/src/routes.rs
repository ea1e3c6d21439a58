//! The routes of the collector.

use std::time::Duration;

use clinch::Route;
use clinch::policy::{Backoff, RetryRules};
use serde::{Deserialize, Serialize};

use crate::model::{PageDone, PageJob, RunId, Trigger};
use crate::streams::JobKind;

/// The domain of all operations of the collector.
pub const DOMAIN: &str = "github";

/// All requests to the API share the guards of this destination.
pub(crate) const DESTINATION: &str = "github";

/// A job may wait for many rate-limit windows.
const DEADLINE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The API answers within ten seconds or not at all, the transport waits for 15; the rest is for
/// storing the page.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(25);

/// The statistics of a first run read every document; an attempt continues where the last one ended.
const STATISTICS_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The other steps. The end of a run reads all its jobs, and the names of documents that may be gone;
/// its beginning adds what earlier runs owe, and the beginning of a trial deletes documents.
const STEP_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The steps of a run, which read and write our own store only.
pub(crate) const STEPS: [&str; 5] = ["collect", "plan", "finish", "statistics", "close"];

/// Retries of operations that only write to our own store.
const OWN_STORE: RetryRules = RetryRules {
    max_attempts: 50,
    ..RetryRules::WORKER
};

/// Attempts of a page job.
pub(crate) const PAGE_ATTEMPTS_MAX: u32 = 5;

/// A request for a page.
pub(crate) fn page_route(kind: JobKind) -> Route<PageJob, PageDone> {
    let retry = RetryRules {
        max_attempts: PAGE_ATTEMPTS_MAX,
        ..RetryRules::WORKER
    };
    Route::new(DOMAIN, kind.as_str())
        .internal()
        .natural()
        .destination(DESTINATION)
        .retry(retry)
        .deadline(DEADLINE)
        .timeout(PAGE_TIMEOUT)
}

/// Begins a run: scheduled, or requested by another service.
pub fn collect_route() -> Route<Collect, String> {
    Route::new(DOMAIN, "collect")
        .internal()
        .natural()
        .timeout(STEP_TIMEOUT)
        .retry(OWN_STORE)
        .deadline(DEADLINE)
}

/// Creates the first jobs of a run.
pub(crate) fn plan_route() -> Route<RunId, ()> {
    Route::new(DOMAIN, "plan")
        .internal()
        .natural()
        .timeout(STEP_TIMEOUT)
        .retry(OWN_STORE)
        .deadline(DEADLINE)
}

/// The completion event of a run: accepted in the commit that ends its last job.
pub(crate) fn finish_route() -> Route<Ended, ()> {
    Route::new(DOMAIN, "finish")
        .internal()
        .natural()
        .timeout(STEP_TIMEOUT)
        .retry(OWN_STORE)
        .deadline(DEADLINE)
}

/// Computes the statistics: retried after 1, 2, 4 … minutes, then a dead letter (COL-11).
pub(crate) fn statistics_route() -> Route<Ended, ()> {
    let retry = RetryRules {
        max_attempts: 6,
        backoff: Backoff {
            base: Duration::from_secs(60),
            cap: Duration::from_secs(60 * 60),
            ..Backoff::WORKER
        },
        ..RetryRules::WORKER
    };
    Route::new(DOMAIN, "statistics")
        .internal()
        .natural()
        .retry(retry)
        .deadline(DEADLINE)
        .timeout(STATISTICS_TIMEOUT)
}

/// Ends a run: accepted in the commit that ends its statistics, successful or not.
pub(crate) fn close_route() -> Route<Ended, ()> {
    Route::new(DOMAIN, "close")
        .internal()
        .natural()
        .timeout(STEP_TIMEOUT)
        .retry(OWN_STORE)
        .deadline(DEADLINE)
}

/// A request to collect a user's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collect {
    /// Login of the user.
    pub login: String,
    /// Why the run begins; other services leave it out.
    #[serde(default = "by_event")]
    pub trigger: Trigger,
}

fn by_event() -> Trigger {
    Trigger::Event
}

/// A run, or one of its repairs, whose jobs have all ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The run.
    pub run_id: RunId,
    /// The repair; 0: the run itself.
    pub repair: u32,
}

impl Ended {
    /// Identifies the run or repair.
    pub(crate) fn name(&self) -> String {
        match self.repair {
            0 => self.run_id.to_string(),
            repair => format!("{}#{repair}", self.run_id),
        }
    }
}
