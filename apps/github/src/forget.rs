//! Forgets a user: documents, cursors, runs, statistics and tokens.

use std::collections::BTreeSet;

use clinch::ports::{DocumentFilter, Expected, RecordList, RecordWrite};
use clinch::types::ErrorKind;
use clinch::{Error, Result};

use crate::collector::{Collector, Inner};
use crate::model::{PageJob, Run, RunId, RunStatus, Space, login};
use crate::records::CollectorRecords;
use crate::streams::JobKind;

/// Records that are deleted at once.
const STEP: usize = 500;

impl Collector {
    /// Deletes everything that was collected of a user, what was put aside and the shadow included,
    /// with the records of the user's runs and the user's tokens. Returns the number of documents.
    /// `NotFound`: there is neither a run nor a token of the user; `Conflict`: a run is active, or
    /// a request of a canceled one is not answered yet, whose documents would be stored afterwards.
    ///
    /// The number of the latest run stays, because operations are named by it. Operations and their
    /// results are pruned by the engine's retention.
    pub async fn forget(&self, user: &str) -> Result<u64> {
        let user =
            login(user).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        let mut is_known = !self.inner.records.tokens(&user).await?.is_empty();
        for space in [Space::Main, Space::Shadow] {
            let Some(latest) = self.inner.records.latest_or_forgotten(&user, space).await? else {
                continue;
            };
            is_known = true;
            if let Some(active) = latest.filter(|run| !run.status.is_terminal()) {
                let message = format!("{} is still running; cancel it first", active.run_id);
                return Err(Error::new(ErrorKind::Conflict, message).with("run", active.run_id));
            }
        }
        if !is_known {
            let message = format!("there is no run and no token of {user:?}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        for space in [Space::Main, Space::Shadow] {
            self.inner.refuse_open_work(&user, space).await?;
        }
        let mut documents = 0;
        for space in [Space::Main, Space::Shadow] {
            documents += self.inner.forget_collected(&user, space).await?;
            self.inner.records.forget(&user, space).await?;
        }
        self.inner.forget_tokens(&user).await?;
        self.inner.forget_switched(&user).await?;
        tracing::info!(target: "clinch::github", user, documents, "everything collected of a user was deleted");
        Ok(documents)
    }
}

impl Inner {
    /// `Conflict` while an operation of the user's runs may still write something.
    async fn refuse_open_work(&self, login: &str, space: Space) -> Result<()> {
        let busy = |run: &RunId| {
            let message =
                format!("{run} has ended, but not all of its work; try again in a minute");
            Err(Error::new(ErrorKind::Conflict, message).with("run", run))
        };
        if self.has_live_step(login).await? {
            let message = format!("a run of {login} is being finished; try again in a minute");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let mut list = all_of(format!("{}/run/{login}/", space.collection()));
        loop {
            let found = self.records.records.list_records(&list).await?;
            for record in &found {
                let run: Run = super::records::parse(record)?;
                let repairs = run.repairs.iter().map(|repair| repair.number);
                for part in std::iter::once(0).chain(repairs) {
                    let is_over = part == 0 && run.status == RunStatus::Completed;
                    if !is_over && self.has_open_jobs(&run.run_id, part).await? {
                        return busy(&run.run_id);
                    }
                }
            }
            list.after = found.last().map(|one| one.key.clone());
            if found.len() < STEP {
                return Ok(());
            }
        }
    }

    /// Deletes a user's documents, cursors and statistics; the runs stay. Returns the number of
    /// documents.
    pub(crate) async fn forget_collected(&self, login: &str, space: Space) -> Result<u64> {
        let filter = DocumentFilter {
            user: Some(login.to_owned()),
            ..DocumentFilter::default()
        };
        let (mut documents, sink) = (0, self.sink(space));
        for collection in [space.collection(), space.removed()] {
            let counts = sink.count(collection, Some(login)).await?;
            documents += counts.values().sum::<u64>();
            sink.clear(collection, &filter).await?;
        }
        self.records.forget_collected(login, space).await?;
        Ok(documents)
    }
}

impl CollectorRecords {
    /// Deletes the records of a user's runs, except the number of the latest.
    async fn forget(&self, login: &str, space: Space) -> Result<()> {
        self.delete_runs(login, space).await?;
        self.note_forgotten(login, space).await
    }

    /// Deletes cursors, known pages, statistics and whatever else is known of what was collected.
    async fn forget_collected(&self, login: &str, space: Space) -> Result<()> {
        let name = space.collection();
        for sort in ["cursor", "page", "owed", "place", "weeks", "tally"] {
            self.delete_all(format!("{name}/{sort}/{login}/")).await?;
        }
        let single = ["figures/user", "weeks-listed"];
        let deleted = single.map(|sort| delete(format!("{name}/{sort}/{login}")));
        self.records.write_records(&deleted).await?;
        Ok(())
    }

    /// Deletes the cursors and pages of these repositories, named by their ids.
    pub(crate) async fn forget_lists(&self, run: &RunId, repositories: &[String]) -> Result<()> {
        let (space, login) = (run.space.collection(), &run.login);
        for id in repositories {
            let kinds = JobKind::all().filter(|kind| kind.is_of_repository());
            let mut cursors = Vec::new();
            for kind in kinds {
                cursors.push(delete(format!("{space}/cursor/{login}/{kind}/repo:{id}")));
                self.delete_all(format!("{space}/page/{login}/{kind}/repo:{id}/"))
                    .await?;
            }
            self.records.write_records(&cursors).await?;
        }
        self.forget_owed(run, repositories).await
    }

    /// Nothing of these repositories is owed any more.
    async fn forget_owed(&self, run: &RunId, repositories: &[String]) -> Result<()> {
        let gone: BTreeSet<u64> = repositories
            .iter()
            .filter_map(|id| id.parse().ok())
            .collect();
        let mut after = None;
        while !gone.is_empty() {
            let (owed, next) = self.owed(run, after).await?;
            let is_gone = |job: &&PageJob| {
                let of = job.repository.as_ref();
                of.is_some_and(|one| gone.contains(&one.id))
            };
            let forgotten: Vec<_> = owed.iter().filter(is_gone).collect();
            let resources: Vec<_> = forgotten
                .iter()
                .map(|job| (job.kind, job.resource()))
                .collect();
            let items = resources.iter().map(|(kind, one)| (*kind, one.as_str()));
            self.settle_owed(run, items).await?;
            after = next;
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    async fn delete_runs(&self, login: &str, space: Space) -> Result<()> {
        let mut list = all_of(format!("{}/run/{login}/", space.collection()));
        loop {
            let found = self.records.list_records(&list).await?;
            for record in &found {
                let run: Run = super::records::parse(record)?;
                let keys = super::records::keys_of(&run).into_iter();
                let writes: Vec<RecordWrite> = keys.map(delete).collect();
                self.records.write_records(&writes).await?;
            }
            list.after = found.last().map(|one| one.key.clone());
            if found.len() < STEP {
                return Ok(());
            }
        }
    }

    pub(crate) async fn delete_all(&self, prefix: String) -> Result<()> {
        let mut list = all_of(prefix);
        loop {
            let found = self.records.list_records(&list).await?;
            let keys = found.iter().map(|one| one.key.clone());
            let writes: Vec<RecordWrite> = keys.map(delete).collect();
            if !writes.is_empty() {
                self.records.write_records(&writes).await?;
            }
            list.after = found.last().map(|one| one.key.clone());
            if found.len() < STEP {
                return Ok(());
            }
        }
    }
}

fn all_of(prefix: String) -> RecordList {
    RecordList {
        prefix,
        descending: false,
        after: None,
        limit: STEP,
    }
}

fn delete(key: String) -> RecordWrite {
    RecordWrite {
        key,
        expected: Expected::Anything,
        body: None,
    }
}
