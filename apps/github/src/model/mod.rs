//! The types of the collector: runs and jobs.

mod changes;
mod job;
mod reading;
mod run;
mod run_id;
mod start;

pub use changes::Changes;
pub(crate) use job::repository_name;
pub use job::{
    FirstPage, History, Job, JobState, Listed, PageDone, PageEnd, PageJob, Pass, Repository,
};
pub(crate) use reading::hashes;
pub use reading::{Descent, Reading};
pub use run::{Jobs, Pages, Repair, Run, RunStatus, Statistics, Unavailable};
pub(crate) use run_id::login;
pub use run_id::{InvalidText, RunId, Space};
pub use start::{Bounds, Selection, Start, Trigger};
