//! Actions of operators on a run: cancel it, retry its failed jobs.

use clinch::ports::Operation;
use clinch::types::{ErrorKind, OpId, Status};
use clinch::{Error, Result};

use crate::collector::{Collector, Inner};
use crate::model::{JobState, Jobs, Repair, Run, RunId, RunStatus};
use crate::plan::ended_request;
use crate::queries::of_batch;
use crate::routes::Ended;

/// Repairs of a run. The record of a run, which each of its jobs reads, has them all, and the next
/// repair looks at the jobs of each.
const REPAIRS_MAX: usize = 100;

/// Jobs that are redriven in one commit.
const PAGE: usize = 500;

impl Collector {
    /// Cancels a run: no further request is made for it. `Conflict`: the run has ended.
    pub async fn cancel(&self, id: &RunId, reason: &str) -> Result<Run> {
        self.run(id).await?;
        let now = self.inner.clock.now();
        let reason = reason.chars().take(200).collect::<String>();
        let change = |run: &mut Run| {
            run.error = Some(reason.clone());
            run.become_status(RunStatus::Canceled, now)
        };
        if self.inner.records.change_run(id, change).await?.is_none() {
            let message = format!("{id} has ended already");
            return Err(Error::new(ErrorKind::Conflict, message).with("run", id));
        }
        crate::metrics::run(RunStatus::Canceled.as_str());
        self.inner.prune_runs(id).await;
        let filter = of_batch(id.batch("jobs", 0));
        let mut open = Vec::new();
        self.inner
            .each_job(&filter, |job| match job.state {
                JobState::Succeeded | JobState::Failed | JobState::Unavailable => {}
                JobState::Ready | JobState::Enqueued | JobState::Running => {
                    open.push(job.op_id);
                }
            })
            .await?;
        for op_id in open {
            match self
                .inner
                .clinch()?
                .cancel(op_id, "its run was canceled")
                .await
            {
                Ok(_) => {}
                // The job has ended in the meantime.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        self.run(id).await
    }

    /// Retries the failed jobs of an ended run, in a batch of their own; the run keeps its counts.
    /// Returns how many jobs are retried.
    pub async fn retry(&self, id: &RunId) -> Result<(Run, u64)> {
        let run = self.run(id).await?;
        if run.status != RunStatus::Completed {
            let message = format!(
                "{id} is {}; only the jobs of a completed run can be retried",
                run.status.as_str()
            );
            return Err(Error::new(ErrorKind::Conflict, message).with("run", id));
        }
        if run.repairs.len() >= REPAIRS_MAX {
            let message = format!(
                "{id} was repaired {REPAIRS_MAX} times; start a new run, which reads what is missing"
            );
            return Err(Error::new(ErrorKind::Conflict, message).with("run", id));
        }
        let failed = self.inner.failed(&run).await?;
        if failed.is_empty() {
            return Ok((run, 0));
        }
        let number = u32::try_from(run.repairs.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let repair = Repair {
            number,
            jobs: Jobs::default(),
            completed_at: None,
        };
        let note = |run: &mut Run| {
            let is_next = run.repairs.len() + 1 == number as usize;
            if is_next {
                run.repairs.push(repair);
            }
            is_next
        };
        let Some(run) = self.inner.records.change_run(id, note).await? else {
            let message = "another repair of the run has begun; check the run again";
            return Err(Error::new(ErrorKind::Conflict, message).with("run", id));
        };
        self.inner.repair(id, number, &failed).await?;
        Ok((run, failed.len() as u64))
    }
}

impl Inner {
    /// Failed jobs of a run and of its repairs that were not redriven yet.
    async fn failed(&self, run: &Run) -> Result<Vec<OpId>> {
        let mut failed = Vec::new();
        let repairs = run.repairs.iter().map(|repair| repair.number);
        for part in std::iter::once(0).chain(repairs) {
            let mut filter = of_batch(run.run_id.batch("jobs", part));
            filter.status = Some(Status::Failed);
            let see = |row: Operation| {
                if row.redriven_by.is_none() {
                    failed.push(row.op_id);
                }
            };
            self.each_row(&filter, see).await?;
        }
        Ok(failed)
    }

    /// Redrives jobs as members of a repair.
    async fn repair(&self, id: &RunId, number: u32, failed: &[OpId]) -> Result<()> {
        let ended = Ended {
            run_id: id.clone(),
            repair: number,
        };
        let clinch = self.clinch()?;
        let batch_id = id.batch("jobs", number);
        let batch = clinch
            .batch_as(batch_id, Some(ended_request(&ended)))
            .await?;
        for ops in failed.chunks(PAGE) {
            batch.redrive(ops).await?;
        }
        batch.seal().await?;
        Ok(())
    }
}
