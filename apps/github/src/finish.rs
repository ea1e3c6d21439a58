//! The end of a run.
//!
//! The commit that ends the last job accepts `finish`, once. `finish` records the counts and
//! submits the statistics, in a batch of their own. The end of that batch, successful or not,
//! accepts `close`.

use std::collections::{BTreeMap, BTreeSet};

use clinch::{Call, Refusal, Result, Retry};

use crate::collector::Inner;
use crate::model::{
    Job, JobState, Jobs, PageEnd, Pages, Run, RunId, RunStatus, Statistics, Unavailable,
};
use crate::plan::retry_own_store;
use crate::queries::of_batch;
use crate::routes::{Ended, close_route, statistics_route};
use crate::statistics::{Figures, SeenPlaces};
use crate::streams::JobKind;
use crate::sweep::Lists;

/// Jobs whose resources the API does not give.
#[derive(Default)]
struct UnavailableJobs {
    count: u64,
    /// Those of which nothing can be missing: empty repositories.
    empty: u64,
    first: Vec<Unavailable>,
    /// Empty repositories, which are named after the others.
    first_empty: Vec<Unavailable>,
}

/// Codes of errors that a run counts apart; the rest is `other`.
const ERROR_CODES_MAX: usize = 50;

/// Codes of operations that ended while no attempt was running.
const BETWEEN_ATTEMPTS: [&str; 2] = ["deadline", "poison"];

/// Jobs by kind, and failed ones by the code of their error.
#[derive(Default)]
struct Ends {
    kinds: BTreeMap<JobKind, Jobs>,
    errors: BTreeMap<String, u64>,
    /// Failed ones that no attempt has counted: they ended between two attempts.
    uncounted: BTreeMap<JobKind, u64>,
}

impl Ends {
    /// Counts what no attempt has counted, the first time that the run's end is noted.
    fn count(&self, is_first: bool) {
        for (kind, count) in self.uncounted.iter().filter(|_| is_first) {
            crate::metrics::failed_between_attempts(*kind, *count);
        }
    }

    fn see(&mut self, job: &Job) {
        self.kinds.entry(job.kind).or_default().count(job.state);
        if job.state != JobState::Failed {
            return;
        }
        let error = job.error.as_deref().unwrap_or_default();
        let code = error.split_once(':').map_or(error, |(code, _)| code);
        if BETWEEN_ATTEMPTS.contains(&code) {
            *self.uncounted.entry(job.kind).or_default() += 1;
        }
        let is_new = !self.errors.contains_key(code);
        let code = match is_new && self.errors.len() >= ERROR_CODES_MAX {
            true => "other",
            false => code,
        };
        *self.errors.entry(code.to_owned()).or_default() += 1;
    }
}

/// What the jobs of a batch say.
#[derive(Default)]
struct Results {
    pages: Pages,
    unavailable: UnavailableJobs,
    lists: Lists,
    places: SeenPlaces,
    ends: Ends,
}

impl Inner {
    /// All jobs have ended.
    pub(crate) async fn finish(&self, call: Call<Ended>) -> Result<(), Refusal> {
        self.finished(&call.input).await.map_err(retry_own_store)
    }

    async fn finished(&self, ended: &Ended) -> Result<()> {
        let Ended { run_id, repair } = ended;
        if self.records.run(run_id).await?.is_none() {
            // The user was forgotten: nothing is to be noted any more.
            return Ok(());
        }
        let batch = self.clinch()?.find_batch(run_id.batch("jobs", *repair));
        let Results {
            mut pages,
            unavailable,
            lists,
            places,
            ends,
        } = self.results(batch.batch_id()).await?;
        let jobs = Jobs::from(batch.look().await?).without_unavailable(unavailable.count);
        let latest = self.records.latest(&run_id.login, run_id.space).await?;
        // What a later run owes is not what this one has read.
        if latest.is_some_and(|run| run.run_id == *run_id) {
            self.settle(run_id, &lists).await?;
        }
        let run = self.records.run(run_id).await?;
        let run = run.filter(|run| *repair == 0 && run.status != RunStatus::Canceled);
        let is_whole = run.as_ref().is_some_and(Run::reads_all);
        self.mark_changed(run_id, &places, is_whole).await?;
        let mut missing = Vec::new();
        if let Some(run) = &run {
            pages.removed = self.swept(run_id, &lists, jobs.total).await?;
            missing = lists.missing(run, jobs.total);
        }
        let now = self.clock.now();
        let mut is_first = false;
        let change = |run: &mut Run| match repair {
            0 => {
                // A canceled run shows what was done until then.
                (run.jobs, run.pages) = (jobs, pages);
                let not_read = jobs.failed + jobs.unavailable.saturating_sub(unavailable.empty);
                let is_read = not_read == 0 && run_id.number > 1;
                run.has_swept = is_read && is_whole && run.status != RunStatus::Canceled;
                run.missing.clone_from(&missing);
                run.unavailable.clone_from(&unavailable.first);
                run.kinds.clone_from(&ends.kinds);
                run.errors.clone_from(&ends.errors);
                is_first = run.become_status(RunStatus::Finalizing, now);
                true
            }
            repair => {
                let one = run.repairs.iter_mut().find(|one| one.number == *repair);
                one.is_some_and(|one| {
                    is_first = one.completed_at.is_none();
                    one.jobs = jobs;
                    one.completed_at.get_or_insert(now);
                    true
                })
            }
        };
        let Some(run) = self.records.change_run(run_id, change).await? else {
            return Ok(());
        };
        ends.count(is_first);
        if *repair == 0 {
            self.records.delete_tally(run_id).await?;
        }
        tracing::info!(target: "clinch::github", run = %run_id, repair, succeeded = jobs.succeeded, failed = jobs.failed, unavailable = jobs.unavailable, "all jobs of the run have ended");
        if run.status == RunStatus::Canceled {
            return Ok(());
        }
        self.submit_statistics(ended).await
    }

    /// Puts the statistics into a batch of their own, whose end closes the run.
    async fn submit_statistics(&self, ended: &Ended) -> Result<()> {
        let (run_id, clinch) = (&ended.run_id, self.clinch()?);
        let user = format!("user:{}", run_id.login);
        let close = close_route().request(&user, ended.name(), ended);
        let batch_id = run_id.batch("statistics", ended.repair);
        let batch = clinch.batch_as(batch_id, Some(close)).await?;
        let statistics = statistics_route().request(&user, ended.name(), ended);
        for accepted in batch.add(vec![statistics]).await? {
            accepted?;
        }
        batch.seal().await?;
        Ok(())
    }

    /// Notes that what was owed has been read. A repository may have been renamed while its items
    /// were read under the old name: the next run reads them under the new one.
    async fn settle(&self, run_id: &RunId, lists: &Lists) -> Result<()> {
        let known = self.known_repositories(run_id).await?;
        let known = known.into_iter().flat_map(|known| known.all);
        let names = known.map(|one| one.full_name);
        let names: BTreeSet<String> = names.collect();
        let is_named = |resource: &str| {
            let (place, _) = resource.split_once('#').unwrap_or((resource, ""));
            let name = place.strip_prefix("repo:");
            name.is_none_or(|name| names.contains(name))
        };
        let read = lists.read_items();
        let read = read.filter(|(_, resource)| is_named(resource));
        self.records.settle_owed(run_id, read).await
    }

    /// Puts aside what is gone, unless the run was canceled, another one has begun, or retention has
    /// deleted some of its jobs.
    async fn swept(&self, run_id: &RunId, lists: &Lists, jobs: u64) -> Result<u64> {
        let latest = self.records.latest(&run_id.login, run_id.space).await?;
        match latest.filter(|run| run.run_id == *run_id) {
            Some(run) if run.status != RunStatus::Canceled && lists.jobs >= jobs => {
                self.sweep(&run, lists).await
            }
            _ => Ok(0),
        }
    }

    /// Sums up the results of a batch's requests.
    async fn results(&self, batch_id: clinch::types::BatchId) -> Result<Results> {
        let mut results = Results::default();
        let Results {
            pages,
            unavailable,
            lists,
            places,
            ends,
        } = &mut results;
        self.each_job(&of_batch(batch_id), |job| {
            lists.see(&job);
            places.see(&job);
            ends.see(&job);
            if let Some(done) = job.done {
                match done.end {
                    PageEnd::NotModified => pages.not_modified += 1,
                    PageEnd::Stored | PageEnd::Nothing => pages.fetched += 1,
                    PageEnd::Moved => {}
                    PageEnd::Unavailable | PageEnd::Empty => {
                        unavailable.count += 1;
                        let reason = done.reason.unwrap_or_default();
                        let list = match done.end {
                            PageEnd::Empty => {
                                unavailable.empty += 1;
                                &mut unavailable.first_empty
                            }
                            _ => &mut unavailable.first,
                        };
                        Unavailable::note(list, job.resource, reason);
                    }
                }
                pages.skipped += done.skipped;
                pages.documents += done.documents;
            }
        })
        .await?;
        for one in std::mem::take(&mut unavailable.first_empty) {
            Unavailable::note(&mut unavailable.first, one.resource, one.reason);
        }
        Ok(results)
    }

    /// Counts the documents of the user and of all users, and computes the weekly figures of the
    /// places that changed.
    pub(crate) async fn statistics(&self, call: Call<Ended>) -> Result<(), Refusal> {
        let made = self.figures_made(&call.input).await;
        made.map_err(|error| Retry::not_applied(format!("no statistics: {error}")).into())
    }

    async fn figures_made(&self, ended: &Ended) -> Result<()> {
        if self.records.run(&ended.run_id).await?.is_none() {
            // The user was forgotten.
            return Ok(());
        }
        let (space, user) = (ended.run_id.space, ended.run_id.login.as_str());
        let collection = space.collection();
        let sink = self.sink(space);
        let own: BTreeMap<String, u64> = sink.count(collection, Some(user)).await?;
        let all = sink.count(collection, None).await?;
        for (of, documents) in [(Some(user), &own), (None, &all)] {
            let figures = Figures {
                documents: documents.clone(),
                made_for: ended.name(),
                runs: 0,
                updated_at: self.clock.now(),
            };
            self.records.note_figures(space, of, &figures).await?;
        }
        self.count_marked(&ended.run_id, &own).await
    }

    /// The statistics have succeeded or failed: closes the run.
    pub(crate) async fn close(&self, call: Call<Ended>) -> Result<(), Refusal> {
        self.closed(&call.input).await.map_err(retry_own_store)
    }

    async fn closed(&self, ended: &Ended) -> Result<()> {
        let Ended { run_id, repair } = ended;
        let batch = self
            .clinch()?
            .find_batch(run_id.batch("statistics", *repair));
        let made = batch.look().await?.failed == 0;
        let statistics = match made {
            true => Statistics::Done,
            false => Statistics::Failed,
        };
        if !made {
            crate::metrics::statistics_failed();
            let message = format!(
                "the statistics of run {run_id} were given up; `clinch dlq ls --domain github` shows why"
            );
            self.clinch()?
                .alert("github_statistics_failed", &message, None)
                .await;
        }
        let now = self.clock.now();
        let change = |run: &mut Run| {
            run.statistics = statistics;
            run.become_status(RunStatus::Completed, now);
            true
        };
        if let Some(run) = self.records.change_run(run_id, change).await? {
            let is_everything = run.is_full && !run.is_partial;
            if is_everything && run.status == RunStatus::Completed && *repair == 0 {
                self.records.note_full(&run).await?;
            }
            crate::metrics::run(run.status.as_str());
            tracing::info!(target: "clinch::github", run = %run_id, "run ended");
        }
        self.prune_runs(run_id).await;
        Ok(())
    }

    /// Deletes the records of the user's old runs. If that fails, the end of the next run does it.
    pub(crate) async fn prune_runs(&self, ended: &RunId) {
        let RunId { login, space, .. } = ended;
        let (keep, now) = (self.settings.keep_runs, self.clock.now());
        match self.records.prune_runs(login, *space, keep, now).await {
            Ok(0) => {}
            Ok(runs) => {
                tracing::info!(target: "clinch::github", login, runs, "old runs deleted");
            }
            Err(error) => {
                tracing::warn!(target: "clinch::github", login, %error, "cannot delete old runs");
            }
        }
    }
}
