//! What the collector speaks of.

mod job;
mod run;

pub use job::{Job, JobKind, JobState, PageDone, PageEnd, PageJob, Repository, Seen};
pub(crate) use run::login;
pub use run::{Jobs, Pages, Repair, Run, RunId, RunStatus, Space, Statistics, Trigger, Unknown};
