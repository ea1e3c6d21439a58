//! The beginning of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use clinch::types::{Batch, ErrorKind, OpId, Request, Timestamp};
use clinch::{Call, Done, Error, Refusal, Result, Retry};
use serde::{Deserialize, Serialize};

use crate::collector::Inner;
use crate::execute::{of_child, request};
use crate::model::{
    InvalidText, PageJob, Repository, Run, RunId, RunStatus, Selection, Space, Start, Trigger,
    login,
};
use crate::routes::{Collect, Ended, collect_route, finish_route};
use crate::schedule::Schedule;
use crate::streams::{JobKind, Owner, with_needed};

/// Pause of a step while our own store does not take it.
const OWN_STORE_PAUSE: Duration = Duration::from_secs(5);

/// What a run reads.
pub(crate) struct Asked {
    pub(crate) streams: Vec<JobKind>,
    pub(crate) selection: Selection,
    /// Less than usual was asked for.
    pub(crate) is_partial: bool,
}

/// How far the plan of a run has added what earlier runs owe: the next attempt goes on there.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OwedSoFar {
    after: Option<String>,
    jobs: usize,
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
    /// Records a run and submits its planning. Refused while a run of the user is active. The same
    /// operation begins one run, however often it asks.
    pub(crate) async fn start(
        &self,
        user: &str,
        start: &Start,
        begun_by: Option<OpId>,
    ) -> Result<Run> {
        let user =
            login(user).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        if let Some(run) = self.records.begun_by(begun_by).await? {
            self.resume(&run).await?;
            return Ok(run);
        }
        let now = self.clock.now();
        // Read once: a switch in between must not make a trial of a run of the live documents.
        let live = self.live().await?;
        let space = space_in(start, live);
        let is_trial = space != live;
        let every = self.settings.full_every;
        let asked = self.asked(&user, start).map_err(|wrong| {
            let message = wrong.to_string();
            Error::new(ErrorKind::Invalid, message)
        })?;
        let make = |run_id, full_at: Option<Timestamp>| {
            let is_due = full_at.is_none_or(|at| now.since(at) >= every);
            // What was asked for is read, and no more.
            let is_due = is_due && !asked.is_partial;
            Run {
                begun_by,
                is_full: start.is_full || is_due || is_trial,
                is_trial,
                streams: asked.streams.clone(),
                selection: asked.selection.clone(),
                bounds: start.bounds.clone(),
                is_partial: asked.is_partial,
                ..Run::new(run_id, start.trigger, now)
            }
        };
        let created = self.records.create_run(&user, space, &asked.streams, make);
        let run = match created.await? {
            Ok(run) => run,
            Err(active) => {
                // A step of the active run may have been given up.
                self.resume(&active).await?;
                let message = format!("{} is still running", active.run_id);
                return Err(Error::new(ErrorKind::Conflict, message).with("run", active.run_id));
            }
        };
        crate::metrics::run(RunStatus::Created.as_str());
        self.resume(&run).await?;
        Ok(run)
    }

    /// What a run reads, by what was asked for and by the settings.
    pub(crate) fn asked(&self, user: &str, start: &Start) -> Result<Asked, InvalidText> {
        let streams = match start.streams.is_empty() {
            true => self.settings.streams.clone(),
            false => with_needed(&start.streams),
        };
        let is_bounded = !start.bounds.is_all();
        let is_selected = !start.selection.is_all();
        let selection = match is_selected {
            true => start.selection.clone(),
            false => Selection::configured(user, &self.settings.repositories)?,
        };
        let refused = |message: &str| Err(InvalidText(message.to_owned()));
        let is_partial = is_bounded || is_selected;
        if is_partial && start.space == Space::Shadow {
            return refused("a shadow run reads everything; leave out what selects a part");
        }
        if is_bounded && start.is_full {
            return refused("a full run reads all time; leave out since and until, or full");
        }
        if is_selected && !streams.iter().any(|kind| kind.is_of_repository()) {
            return refused("the streams of this run read no repository; select none");
        }
        Ok(Asked {
            streams,
            selection,
            is_partial,
        })
    }

    /// Creates the first jobs. Every step has the same result when it is repeated.
    pub(crate) async fn plan(&self, call: Call<RunId>) -> Result<(), Refusal> {
        self.planned(&call).await.map_err(retry_own_store)
    }

    async fn planned(&self, call: &Call<RunId>) -> Result<()> {
        let run_id = &call.input;
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
        if run.is_trial {
            self.clear_trial(run_id).await?;
        }
        let batch = clinch
            .batch_as(batch_id, Some(ended_request(&ended)))
            .await?;
        let first = |kind| request(&run.first_job(kind, None));
        let jobs: Vec<_> = self.streams(&run, Owner::Run).map(first).collect();
        for accepted in batch.add(jobs).await? {
            accepted?;
        }
        self.plan_owed(call, &run, &batch).await?;
        batch.seal().await?;
        self.records
            .change_run(run_id, to(RunStatus::Running))
            .await?;
        Ok(())
    }

    /// Where the documents of a run go: to the live ones, or to the shadow if it was asked for.
    pub(crate) async fn space_of(&self, start: &Start) -> Result<Space> {
        Ok(space_in(start, self.live().await?))
    }

    /// Deletes what earlier trials have left of the user: a trial begins from the beginning, in
    /// whatever sink. Once the run has jobs, nothing is deleted; nor if the shadow has become live
    /// since the run was recorded, which makes it a run like others.
    async fn clear_trial(&self, run_id: &RunId) -> Result<()> {
        let batch = self.clinch()?.find_batch(run_id.batch("jobs", 0));
        match batch.look().await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !self.begin_clearing(run_id).await? {
            let no_trial = |run: &mut Run| std::mem::take(&mut run.is_trial);
            self.records.change_run(run_id, no_trial).await?;
            return Ok(());
        }
        self.forget_collected(&run_id.login, run_id.space).await?;
        self.end_clearing(run_id).await
    }

    /// Adds the jobs that did not succeed in earlier runs although the list of their items went on.
    async fn plan_owed(&self, call: &Call<RunId>, run: &Run, batch: &Batch) -> Result<()> {
        // What is owed need not be of the time that a run is bounded to; the next run reads it.
        if !run.bounds.is_all() {
            return Ok(());
        }
        // A repository may have another name since the job was noted.
        let known = self.known_repositories(&run.run_id).await?;
        let is_whole = known.as_ref().is_some_and(|known| known.is_whole);
        let known = known.into_iter().flat_map(|known| known.all);
        let named: BTreeMap<u64, Repository> = known.map(|one| (one.id, one)).collect();
        // A repository that is gone is not asked for.
        let is_there = |one: &Repository| !is_whole || named.contains_key(&one.id);
        let is_read = |one: &Repository| is_there(one) && run.selection.has(&one.full_name);
        let is_collected = |job: &&PageJob| {
            run.streams.contains(&job.kind) && job.repository.as_ref().is_none_or(is_read)
        };
        let saved = call.saved();
        let saved = saved.and_then(|bytes| serde_json::from_slice(bytes).ok());
        let mut so_far: OwedSoFar = saved.unwrap_or_default();
        loop {
            let (noted, next) = self.records.owed(&run.run_id, so_far.after.clone()).await?;
            let owed: Vec<PageJob> = noted.iter().map(|job| renamed(job, &named)).collect();
            let mut jobs = Vec::new();
            for job in owed.iter().filter(is_collected) {
                let first = PageJob {
                    item: job.item.clone(),
                    is_owed: true,
                    ..run.first_job(job.kind, job.repository.clone())
                };
                jobs.push(request(&first).priority(of_child(0, so_far.jobs)));
                so_far.jobs += 1;
            }
            for accepted in batch.add(jobs).await? {
                match accepted {
                    // An attempt before added it, under the name that the repository had then.
                    Err(error) if error.kind() == ErrorKind::Mismatch => {}
                    other => {
                        other?;
                    }
                }
            }
            // Afterwards: a new name may be listed before the place where the next attempt goes on.
            for (before, now) in noted.iter().zip(&owed) {
                self.records.rename_owed(before, now).await?;
            }
            so_far.after = next;
            if so_far.after.is_none() {
                return Ok(());
            }
            call.save(crate::records::text(&so_far)?.as_bytes()).await?;
        }
    }

    /// Begins a run because it is scheduled, or because another service requests it.
    pub(crate) async fn collect(&self, call: Call<Collect>) -> Result<Done<String>, Refusal> {
        let Collect {
            login: user,
            trigger,
        } = call.input.clone();
        let start = Start {
            trigger,
            ..Start::default()
        };
        let begun_by = Some(call.op_id());
        let began = match self.start(&user, &start, begun_by).await {
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

/// The job, of a repository as it is named now.
fn renamed(job: &PageJob, named: &BTreeMap<u64, Repository>) -> PageJob {
    let mut job = job.clone();
    if let Some(one) = &mut job.repository
        && let Some(now) = named.get(&one.id)
    {
        one.clone_from(now);
    }
    job
}

/// Where the documents of a run go while these are live.
fn space_in(start: &Start, live: Space) -> Space {
    match start.space {
        Space::Main => live,
        Space::Shadow => Space::Shadow,
    }
}

/// The operation that is accepted when the last job ends.
pub(crate) fn ended_request(ended: &Ended) -> Request<()> {
    let user = format!("user:{}", ended.run_id.login);
    finish_route().request(user, ended.name(), ended)
}

/// The same write would be refused again.
pub(crate) fn is_permanent(error: &Error) -> bool {
    use ErrorKind::{Corrupt, Invalid, Mismatch, Unsupported};
    matches!(error.kind(), Invalid | Unsupported | Mismatch | Corrupt)
}

/// Only our own store was written to; repeating that is harmless. A store that is away costs no
/// attempt: the step waits for it.
pub(crate) fn retry_own_store(error: Error) -> Refusal {
    let is_away = error.is_retryable() || error.kind() == ErrorKind::Ambiguous;
    match is_away {
        true => Retry::not_called(error.to_string())
            .after(OWN_STORE_PAUSE)
            .into(),
        false => Retry::not_applied(error.to_string()).into(),
    }
}
