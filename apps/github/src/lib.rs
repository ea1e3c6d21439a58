//! Collects what GitHub knows of a user: the user, events, repositories, and their issues,
//! pull requests and commits.
//!
//! A run is a batch of operations, one for each request to the API. Follow one through the
//! modules: `plan` makes the first jobs, `execute` runs a job and spawns those that follow
//! from its answer, `finish` ends the run when its last job has ended. `tokens` says whose
//! budget a request is spent from, `shelf` holds what is known between runs, `look` is what
//! people see and do.
//!
//! Built on the public API of the crate `clinch` alone: it has no queue, no retry loop and no
//! recovery of its own.
#![forbid(unsafe_code)]

mod act;
mod address;
mod answer;
mod api;
mod collector;
mod compare;
mod execute;
pub mod fake;
mod finish;
mod guard;
mod items;
mod look;
mod metrics;
mod model;
mod plan;
mod reading;
mod routes;
mod schedule;
mod settings;
mod shelf;
mod tokens;
mod transport;

pub use address::ApiUrl;
pub use api::{absent, api};
pub use collector::{Collector, Parts};
pub use compare::Comparison;
pub use execute::ANSWER_BYTES_MAX;
pub use look::{JobFilter, Progress};
pub use model::{
    Job, JobKind, JobState, Jobs, PageDone, PageEnd, PageJob, Pages, Repair, Repository, Run,
    RunId, RunStatus, Seen, Space, Statistics, Trigger, Unknown,
};
pub use routes::{Collect, DOMAIN, Ended, collect_route};
pub use schedule::{Cron, Schedule};
pub use settings::Settings;
pub use shelf::{Cursor, Figures};
pub use tokens::{Budget, TokenView};
pub use transport::{ApiAnswer, ApiRequest, Broken, Token, Transport};
