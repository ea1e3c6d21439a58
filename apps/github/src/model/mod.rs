//! The types of the collector: runs and jobs.

mod job;
mod reading;
mod run;
mod run_id;
mod start;

pub(crate) use job::repository_name;
pub use job::{
    FirstPage, History, Job, JobState, Listed, PageDone, PageEnd, PageJob, Pass, Repository,
};
pub use reading::{Descent, Reading};
pub use run::{Jobs, Pages, Repair, Run, RunStatus, Statistics, Unavailable};
pub(crate) use run_id::login;
pub use run_id::{InvalidText, RunId, Space};
pub use start::{Bounds, Selection, Start, Trigger};
