//! Collects the data that GitHub has about a user: the user, events, repositories, and their
//! issues, pull requests and commits.
//!
//! A run is a batch of operations, one for each request to the API. The modules in the order of a
//! run: `plan` creates the first jobs, `execute` runs a job and spawns the jobs that follow from
//! its answer, `finish` ends the run when its last job has ended. `tokens` chooses the token, and
//! so the budget, of a request; `records` stores what is known between runs; `queries` and
//! `actions` serve operators.
//!
//! The collector uses only the public API of the crate `clinch`: it has no queue, no retry loop and
//! no recovery of its own.
#![forbid(unsafe_code)]

mod actions;
mod address;
mod answer;
mod api;
mod collector;
mod compare;
mod config;
mod execute;
pub mod fake;
mod finish;
mod items;
mod lately;
mod metrics;
mod model;
mod plan;
mod queries;
mod records;
mod routes;
mod schedule;
mod settings;
mod tokens;
mod transport;
mod traversal;
mod validate;
mod wake;

pub use address::ApiUrl;
pub use api::{absent, api};
pub use collector::{Collector, Parts};
pub use compare::Comparison;
pub use config::Config;
pub use execute::ANSWER_BYTES_MAX;
pub use lately::{EndedJobs, Lately};
pub use model::{
    FirstPage, InvalidText, Job, JobKind, JobState, Jobs, PageDone, PageEnd, PageJob, Pages,
    Repair, Repository, Run, RunId, RunStatus, Space, Statistics, Trigger,
};
pub use queries::{JobFilter, Progress};
pub use records::{Cursor, Figures};
pub use routes::{Collect, DOMAIN, Ended, collect_route};
pub use schedule::{Cron, Schedule};
pub use settings::Settings;
pub use tokens::{Budget, TokenView};
pub use transport::{ApiAnswer, ApiRequest, Broken, Token, Transport};
