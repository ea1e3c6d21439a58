//! The beginning of a run.

use clinch::types::{ErrorKind, Request};
use clinch::{Call, Done, Error, Refusal, Result, Retry};

use crate::collector::Inner;
use crate::execute::request;
use crate::model::{JobKind, PageJob, Run, RunId, RunStatus, Space, Trigger, login};
use crate::routes::{Collect, Ended, collect_route, finish_route, plan_route};
use crate::schedule::Schedule;

/// The operation that creates the first jobs of a run.
pub(crate) fn plan_request(run_id: &RunId) -> Request<()> {
    let user = format!("user:{}", run_id.login);
    plan_route().request(user, run_id.to_string(), run_id)
}

/// The operation that begins a run at its scheduled time.
pub(crate) fn scheduled(
    schedule: &Schedule,
    after: clinch::types::Timestamp,
) -> Option<Request<String>> {
    let at = schedule.cron.next_after(after)?;
    let collect = Collect {
        login: schedule.login.clone(),
        trigger: Trigger::Scheduled,
    };
    let user = format!("user:{}", schedule.login);
    let idem_key = format!("scheduled:{}", at.as_millis());
    Some(collect_route().request(user, idem_key, &collect).run_at(at))
}

impl Inner {
    /// Records a run and submits its planning. Refused while a run of the user is active.
    pub(crate) async fn start(&self, user: &str, trigger: Trigger, space: Space) -> Result<Run> {
        let user =
            login(user).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        let now = self.clock.now();
        let make = |run_id| Run::new(run_id, trigger, now);
        let run = match self.records.create_run(&user, space, make).await? {
            Ok(run) => run,
            Err(active) => {
                // The planner of the active run may have died.
                self.replan(&active).await?;
                let message = format!("{} is still running", active.run_id);
                return Err(Error::new(ErrorKind::Conflict, message).with("run", active.run_id));
            }
        };
        crate::metrics::run(RunStatus::Created.as_str());
        self.replan(&run).await?;
        Ok(run)
    }

    /// Submits the planning of a run that is not planned yet. Its keys make it one operation,
    /// however often it is submitted.
    pub(crate) async fn replan(&self, run: &Run) -> Result<()> {
        if matches!(run.status, RunStatus::Created | RunStatus::Planning) {
            let accepted = self
                .clinch()?
                .submit(vec![plan_request(&run.run_id)])
                .await?;
            accepted.into_iter().collect::<Result<Vec<_>>>()?;
        }
        Ok(())
    }

    /// Creates the first jobs. Every step has the same result when it is repeated.
    pub(crate) async fn plan(&self, call: Call<RunId>) -> Result<(), Refusal> {
        let run_id = call.input.clone();
        self.planned(&run_id).await.map_err(retry_own_store)
    }

    async fn planned(&self, run_id: &RunId) -> Result<()> {
        let now = self.clock.now();
        let to = |status| move |run: &mut Run| run.become_status(status, now);
        self.records
            .change_run(run_id, to(RunStatus::Planning))
            .await?;
        let Some(run) = self.records.run(run_id).await? else {
            return Err(Error::new(ErrorKind::NotFound, "there is no such run"));
        };
        if run.status != RunStatus::Planning {
            return Ok(());
        }
        let ended = Ended {
            run_id: run_id.clone(),
            repair: 0,
        };
        let clinch = self.clinch()?;
        let batch_id = run_id.batch("jobs", 0);
        let batch = clinch
            .batch_as(batch_id, Some(ended_request(&ended)))
            .await?;
        let first = [JobKind::UserBasic, JobKind::UserEvents];
        let jobs = first.map(|kind| request(&PageJob::first(run_id, kind, None)));
        for accepted in batch.add(jobs.into()).await? {
            accepted?;
        }
        batch.seal().await?;
        self.records
            .change_run(run_id, to(RunStatus::Running))
            .await?;
        Ok(())
    }

    /// Begins a run because it is scheduled, or because another service requests it.
    pub(crate) async fn collect(&self, call: Call<Collect>) -> Result<Done<String>, Refusal> {
        let Collect {
            login: user,
            trigger,
        } = call.input.clone();
        let began = match self.start(&user, trigger, Space::Main).await {
            Ok(run) => run.run_id.to_string(),
            // A run is active already: that is good enough.
            Err(error) if error.kind() == ErrorKind::Conflict => error.message().to_owned(),
            Err(error) if error.kind() == ErrorKind::Invalid => {
                return Err(clinch::Fail::new("invalid_login", error.to_string()).into());
            }
            Err(error) => return Err(retry_own_store(error)),
        };
        let done = Done::new(began);
        let user = user.to_ascii_lowercase();
        let scheduled_next = self
            .settings
            .schedule
            .iter()
            .filter(|one| one.login == user);
        match trigger {
            Trigger::Scheduled => {
                let now = self.clock.now();
                let next = scheduled_next.filter_map(|one| scheduled(one, now));
                Ok(next.fold(done, Done::then))
            }
            Trigger::Manual | Trigger::Event => Ok(done),
        }
    }
}

/// The operation that is accepted when the last job ends.
pub(crate) fn ended_request(ended: &Ended) -> Request<()> {
    let user = format!("user:{}", ended.run_id.login);
    finish_route().request(user, ended.name(), ended)
}

/// Only our own store was written to; repeating that is harmless.
pub(crate) fn retry_own_store(error: Error) -> Refusal {
    Retry::unknown(error.to_string()).into()
}
