//! The steps that take a run to its end: `plan`, `finish` and `close`.
//!
//! Each is one operation, however often it is submitted. A step that was given up (its store was
//! away for longer than its deadline, or an operator canceled it) would leave its run active for
//! ever, and refuse every later run of the user. So an active run is looked at when a process
//! starts and when a run of its user is asked for, and a step that was given up is made again.

use clinch::ports::Operation;
use clinch::types::{ErrorKind, OpId, Redriven, Request, Status};
use clinch::{Error, Result};

use crate::collector::Inner;
use crate::model::{Run, RunStatus};
use crate::routes::{Ended, close_route, finish_route, plan_route};

/// How often a step is made again under a new key; each time an operator has canceled it, or its
/// operation was pruned.
const KEYS_MAX: u32 = 20;

impl Inner {
    /// Submits the step that an active run waits for, unless it is under way.
    pub(crate) async fn resume(&self, run: &Run) -> Result<()> {
        let user = format!("user:{}", run.run_id.login);
        let ended = Ended {
            run_id: run.run_id.clone(),
            repair: 0,
        };
        match run.status {
            RunStatus::Created | RunStatus::Planning => {
                let plan = |key| plan_route().request(&user, key, &run.run_id);
                self.submit_step(&run.run_id.to_string(), plan).await
            }
            RunStatus::Running | RunStatus::Finalizing => {
                if self.is_complete("jobs", run).await? {
                    let finish = |key| finish_route().request(&user, key, &ended);
                    self.submit_step(&ended.name(), finish).await?;
                }
                if self.is_complete("statistics", run).await? {
                    let close = |key| close_route().request(&user, key, &ended);
                    self.submit_step(&ended.name(), close).await?;
                }
                Ok(())
            }
            RunStatus::Completed | RunStatus::Failed | RunStatus::Canceled => Ok(()),
        }
    }

    async fn is_complete(&self, what: &str, run: &Run) -> Result<bool> {
        let batch = self.clinch()?.find_batch(run.run_id.batch(what, 0));
        match batch.look().await {
            Ok(batch) => Ok(batch.completed_at.is_some()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Submits a step. If it was given up before, it is made again.
    async fn submit_step(&self, name: &str, step: impl Fn(String) -> Request<()>) -> Result<()> {
        for again in 0..KEYS_MAX {
            let key = match again {
                0 => name.to_owned(),
                again => format!("{name}+{again}"),
            };
            let accepted = self.clinch()?.submit(vec![step(key)]).await?;
            for op_id in accepted {
                if self.is_under_way(op_id?).await? {
                    return Ok(());
                }
            }
        }
        let message = "a step of the run was canceled too often; cancel the run";
        Err(Error::new(ErrorKind::Conflict, message).with("step", name))
    }

    /// Whether the operation, or its last redrive, has not failed; redrives it if it has. False:
    /// it was canceled or pruned.
    async fn is_under_way(&self, mut op_id: OpId) -> Result<bool> {
        let row = |op_id: OpId| async move {
            let rows = self.inspect.get(&[op_id]).await?;
            Ok::<Option<Operation>, Error>(rows.into_iter().next().flatten())
        };
        while let Some(row) = row(op_id).await? {
            if row.state.status != Status::Failed {
                return Ok(true);
            }
            let Some(redriven_by) = row.redriven_by else {
                let orchestrator = self.clinch()?.orchestrator();
                let by = orchestrator.actor();
                let redriven = orchestrator.redrive(&[op_id], false, &by).await?;
                let is_refused = |one: &Redriven| matches!(one, Redriven::Refused(_));
                return Ok(!redriven.iter().any(is_refused));
            };
            op_id = redriven_by;
        }
        Ok(false)
    }
}
