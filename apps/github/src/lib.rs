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
mod app;
mod attempt;
mod base64;
mod collector;
mod compare;
mod config;
mod cost;
mod credentials;
mod execute;
pub mod fake;
mod finish;
mod forget;
mod health;
mod hold;
mod items;
mod metrics;
mod model;
mod overview;
mod plan;
mod progress;
mod queries;
mod records;
mod routes;
mod schedule;
pub mod schema;
mod seal;
mod settings;
mod statistics;
mod steps;
mod streams;
mod sweep;
mod switch;
mod tally;
mod tokens;
mod transport;
mod user_tokens;
mod validate;
mod wake;
mod walk;

pub use address::ApiUrl;
pub use api::{EXAMPLES, absent, api};
pub use app::App;
pub use collector::{Collector, Parts};
pub use compare::{CompareLimits, Comparison, Difference, RunComparison};
pub use config::Config;
pub use cost::{Cost, StreamCost};
pub use execute::ANSWER_BYTES_MAX;
pub use model::{
    Bounds, Changes, Descent, FirstPage, History, InvalidText, Job, JobState, Jobs, Listed,
    PageDone, PageEnd, PageJob, Pages, Pass, Reading, Repair, Repository, Run, RunId, RunStatus,
    Selection, Space, Start, Statistics, Trigger, Unavailable,
};
pub use overview::{EndedJobs, OpenJobs, Overview, WaitingJobs};
pub use progress::Progress;
pub use queries::JobFilter;
pub use records::Cursor;
pub use routes::{Collect, DOMAIN, Ended, collect_route};
pub use schedule::{Cron, Schedule};
pub use seal::{TokenKey, TokenKeys};
pub use settings::{Secrets, Settings, TokenReader};
pub use statistics::{Activity, Durations, Figures, Week, WeeklyStatistics};
pub use streams::{JobKind, selected, with_needed};
pub use switch::{Switch, SwitchLimits, WayBack};
pub use tokens::{Budget, TokenView};
pub use transport::{ApiAnswer, ApiRequest, Broken, Token, Transport};
pub use user_tokens::{UserToken, UserTokenState};
