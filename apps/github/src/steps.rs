//! The steps that take a run to its end: `plan`, `finish` and `close`.
//!
//! Each is one operation, however often it is submitted. A step that was given up (its store was
//! away for longer than its deadline, or an operator canceled it) would leave its run active for
//! ever, and refuse every later run of the user. So an active run is looked at when a process
//! starts, every few minutes after that, and when a run of its user is asked for, and a step that was
//! given up is made again. If that happens too often, the run ends FAILED, and an alert says so.

use clinch::ports::{Filter, Operation};
use clinch::types::{ErrorKind, EventType, Invalid, OpId, Phase, Redriven, Request, Status};
use clinch::{Error, Result};

use crate::collector::Inner;
use crate::model::{Jobs, Run, RunId, RunStatus};
use crate::queries::domain;
use crate::routes::{Ended, STEPS, close_route, finish_route, plan_route};

/// How often a step is made again under a new key; each time an operator has canceled it, or its
/// operation was pruned.
const KEYS_MAX: u32 = 20;
/// How often a step that was given up is made again; each time takes hours.
const REDRIVES_MAX: u32 = 8;

impl Inner {
    /// Submits the step that an active run waits for, unless it is under way. A run whose step was
    /// given up too often ends.
    pub(crate) async fn resume(&self, run: &Run) -> Result<()> {
        match self.submit_next(run).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.end_failed(&run.run_id, error.message()).await
            }
            other => other,
        }
    }

    async fn end_failed(&self, id: &RunId, why: &str) -> Result<()> {
        let now = self.clock.now();
        let change = |run: &mut Run| {
            run.error = Some(why.to_owned());
            run.become_status(RunStatus::Failed, now)
        };
        if self.records.change_run(id, change).await?.is_none() {
            return Ok(());
        }
        crate::metrics::run(RunStatus::Failed.as_str());
        let message = format!("the run {id} has failed: {why}");
        tracing::error!(target: "clinch::github", run = %id, "{message}");
        self.clinch()?
            .alert("github_run_failed", &message, None)
            .await;
        self.prune_runs(id).await;
        Ok(())
    }

    async fn submit_next(&self, run: &Run) -> Result<()> {
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

    /// Whether jobs of a run, or of one of its repairs, have not ended.
    pub(crate) async fn has_open_jobs(&self, run: &RunId, repair: u32) -> Result<bool> {
        let batch = self.clinch()?.find_batch(run.batch("jobs", repair));
        match batch.look().await {
            Ok(batch) => Ok(Jobs::from(batch).open() > 0),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a step of one of the user's runs is being executed.
    pub(crate) async fn has_live_step(&self, login: &str) -> Result<bool> {
        let wrong = |error: Invalid| Error::new(ErrorKind::Invalid, error.to_string());
        let steps = STEPS.iter().filter(|step| **step != "collect");
        let steps = steps.map(|step| EventType::new(*step));
        let filter = Filter {
            domains: vec![domain()?],
            event_types: steps.collect::<Result<_, _>>().map_err(wrong)?,
            phase: Some(Phase::Live),
            ..Filter::default()
        };
        let user = format!("user:{login}");
        let mut is_live = false;
        let see = |row: Operation| is_live |= row.keys.biz_key.as_str() == user;
        self.each_row(&filter, see).await?;
        Ok(is_live)
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
        Err(given_up(name))
    }

    /// Whether the operation, or its last redrive, has not failed; redrives it if it has. False:
    /// it was canceled or pruned.
    async fn is_under_way(&self, mut op_id: OpId) -> Result<bool> {
        let row = |op_id: OpId| async move {
            let rows = self.inspect.get(&[op_id]).await?;
            Ok::<Option<Operation>, Error>(rows.into_iter().next().flatten())
        };
        let mut redrives = 0;
        while let Some(row) = row(op_id).await? {
            if row.state.status != Status::Failed {
                return Ok(true);
            }
            op_id = match row.redriven_by {
                Some(redriven_by) => redriven_by,
                None if redrives >= REDRIVES_MAX => {
                    return Err(given_up(row.keys.event_type.as_str()));
                }
                None => return self.redrive(op_id).await,
            };
            redrives += 1;
        }
        Ok(false)
    }

    /// False: the operation cannot be redriven.
    async fn redrive(&self, op_id: OpId) -> Result<bool> {
        let orchestrator = self.clinch()?.orchestrator();
        let by = orchestrator.actor();
        let redriven = orchestrator.redrive(&[op_id], false, &by).await?;
        let is_refused = |one: &Redriven| matches!(one, Redriven::Refused(_));
        if !redriven.iter().any(is_refused) {
            return Ok(true);
        }
        // Another process may have been faster.
        let rows = self.inspect.get(&[op_id]).await?;
        let mut rows = rows.into_iter().flatten();
        Ok(rows.any(|row| row.redriven_by.is_some()))
    }
}

fn given_up(step: &str) -> Error {
    let message = format!("its step {step} was given up or canceled too often");
    Error::new(ErrorKind::Conflict, message)
}
