//! The end of a run.
//!
//! The commit that ends the last job accepts `finish`, once. `finish` records the counts and
//! submits the statistics, in a batch of their own. The end of that batch, successful or not,
//! accepts `close`.

use std::collections::BTreeMap;

use clinch::ports::Filter;
use clinch::types::Status;
use clinch::{Call, Refusal, Result, Retry};

use crate::collector::Inner;
use crate::model::{Jobs, PageEnd, Pages, Run, RunStatus, Statistics};
use crate::plan::retry_own_store;
use crate::records::Figures;
use crate::routes::{Ended, close_route, statistics_route};

impl Inner {
    /// All jobs have ended.
    pub(crate) async fn finish(&self, call: Call<Ended>) -> Result<(), Refusal> {
        self.finished(&call.input).await.map_err(retry_own_store)
    }

    async fn finished(&self, ended: &Ended) -> Result<()> {
        let Ended { run_id, repair } = ended;
        let clinch = self.clinch()?;
        let batch = clinch.find_batch(run_id.batch("jobs", *repair));
        let jobs = Jobs::from(batch.look().await?);
        let pages = self.pages(batch.batch_id()).await?;
        let now = self.clock.now();
        let change = |run: &mut Run| match repair {
            0 => {
                // A canceled run shows what was done until then.
                (run.jobs, run.pages) = (jobs, pages);
                run.become_status(RunStatus::Finalizing, now);
                true
            }
            repair => {
                let one = run.repairs.iter_mut().find(|one| one.number == *repair);
                one.is_some_and(|one| {
                    one.jobs = jobs;
                    one.completed_at.get_or_insert(now);
                    true
                })
            }
        };
        let Some(run) = self.records.change_run(run_id, change).await? else {
            return Ok(());
        };
        tracing::info!(target: "clinch::github", run = %run_id, repair, succeeded = jobs.succeeded, failed = jobs.failed, "all jobs of the run have ended");
        if run.status == RunStatus::Canceled {
            return Ok(());
        }
        let user = format!("user:{}", run_id.login);
        let close = close_route().request(&user, ended.name(), ended);
        let batch_id = run_id.batch("statistics", *repair);
        let batch = clinch.batch_as(batch_id, Some(close)).await?;
        let statistics = statistics_route().request(&user, ended.name(), ended);
        for accepted in batch.add(vec![statistics]).await? {
            accepted?;
        }
        batch.seal().await?;
        Ok(())
    }

    /// Sums up the results of a batch's requests.
    async fn pages(&self, batch_id: clinch::types::BatchId) -> Result<Pages> {
        let mut pages = Pages::default();
        let filter = Filter {
            batch_id: Some(batch_id),
            status: Some(Status::Completed),
            ..Filter::default()
        };
        self.each_job(&filter, |job| {
            if let Some(done) = job.done {
                match done.end {
                    PageEnd::NotModified => pages.not_modified += 1,
                    PageEnd::Stored | PageEnd::Nothing => pages.fetched += 1,
                    PageEnd::Moved => {}
                }
                pages.skipped += done.skipped;
                pages.documents += done.documents;
            }
        })
        .await?;
        Ok(pages)
    }

    /// Computes the statistics of the user and of all users.
    pub(crate) async fn statistics(&self, call: Call<Ended>) -> Result<(), Refusal> {
        let made = self.figures_made(&call.input).await;
        made.map_err(|error| Retry::not_applied(format!("no statistics: {error}")).into())
    }

    async fn figures_made(&self, ended: &Ended) -> Result<()> {
        let (space, user) = (ended.run_id.space, ended.run_id.login.as_str());
        let collection = space.collection();
        for of in [Some(user), None] {
            let documents: BTreeMap<String, u64> = self.documents.count(collection, of).await?;
            let figures = Figures {
                documents,
                made_for: ended.name(),
                runs: 0,
                updated_at: self.clock.now(),
            };
            self.records.note_figures(space, of, &figures).await?;
        }
        Ok(())
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
            crate::metrics::run(run.status.as_str());
            tracing::info!(target: "clinch::github", run = %run_id, "run ended");
        }
        Ok(())
    }
}
