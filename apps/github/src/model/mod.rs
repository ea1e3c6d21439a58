//! The types of the collector: runs and jobs.

mod job;
mod run;

pub use job::{FirstPage, Job, JobKind, JobState, PageDone, PageEnd, PageJob, Repository};
pub(crate) use run::login;
pub use run::{
    InvalidText, Jobs, Pages, Repair, Run, RunId, RunStatus, Space, Statistics, Trigger,
};
