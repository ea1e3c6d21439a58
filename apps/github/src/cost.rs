//! What a run would cost, before it begins.
//!
//! The numbers come from what the store knows of the lists. Of lists that no run has read yet, a
//! few cheap requests tell how long they are. Beyond those, the most that a stream costs is known in
//! part: of the lists that were looked at.

mod estimate;
mod look;

use std::collections::BTreeMap;

use clinch::types::ErrorKind;
use clinch::{Error, Result};
use serde::Serialize;

use crate::collector::{Collector, Inner};
use crate::model::{PageJob, Repository, RunId, Start, login};
use crate::plan::Asked;
use crate::streams::{JobKind, Owner, Walk};
use crate::tokens::TokenView;
use estimate::{Estimate, Length, Lists, most, pages};
use look::Look;

/// Events that GitHub shows of a user.
const EVENTS_SHOWN: u64 = 300;

/// Requests of a run, by what is known now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Login of the user.
    pub login: String,
    /// Repositories that the run reads, or that a search may find.
    pub repositories: u64,
    /// Requests that were made to learn this.
    pub looked: u64,
    /// Why the API could not be asked, so that more is unknown.
    pub problem: Option<String>,
    /// Requests if nothing has changed since the last run.
    pub at_least: u64,
    /// Requests if everything has changed; `None`: unknown.
    pub at_most: Option<u64>,
    /// The part of `at_most` that is known.
    pub at_most_known: u64,
    /// The same by stream.
    pub streams: Vec<StreamCost>,
    /// The budgets of the tokens.
    pub tokens: Vec<TokenView>,
}

/// Requests of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StreamCost {
    /// The stream.
    pub kind: JobKind,
    /// Requests if nothing has changed since the last run.
    pub at_least: u64,
    /// Requests if everything has changed; `None`: unknown.
    pub at_most: Option<u64>,
    /// The part of `at_most` that is known: of lists whose length is known.
    pub at_most_known: u64,
    /// Lists that tell the cost; `None`: it is not known which repositories there are.
    pub lists: Option<u64>,
    /// Those of them whose length is known.
    pub lists_known: u64,
}

/// A user's repositories.
#[derive(Debug, Default)]
pub(crate) struct KnownRepositories {
    pub(crate) all: Vec<Repository>,
    /// No page is missing.
    pub(crate) is_whole: bool,
}

impl Collector {
    /// The cost of a run that would begin in this way. Nothing begins. `NotFound`: there is no such
    /// user.
    pub async fn cost(&self, user: &str, start: &Start) -> Result<Cost> {
        let invalid = |wrong: crate::InvalidText| Error::new(ErrorKind::Invalid, wrong.to_string());
        let user = login(user).map_err(invalid)?;
        let asked = self.inner.asked(&user, start).map_err(invalid)?;
        self.inner.cost(&user, start, &asked).await
    }
}

impl Inner {
    async fn cost(&self, user: &str, start: &Start, asked: &Asked) -> Result<Cost> {
        let run = RunId {
            login: user.to_owned(),
            space: self.space_of(start).await?,
            number: 1,
        };
        let mut look = Look::new(self, &asked.streams);
        let lists = self.lists(&run, asked, &mut look).await?;
        let mut streams: Vec<StreamCost> = asked
            .streams
            .iter()
            .map(|kind| self.stream_cost(*kind, start, asked, &lists))
            .collect();
        if asked.selection.search().is_some() {
            let all = lists.repositories.as_ref().map(|all| all.len() as u64);
            let pages = all.map(|all| pages(all, self.settings.page_size));
            let search = match pages {
                Some(pages) => Estimate::known(1, most(Walk::Whole, pages)),
                None => Estimate::unknown(1, Some(1)),
            };
            streams.push(search.of(JobKind::SEARCH));
        }
        let at_most: Option<u64> = streams.iter().map(|one| one.at_most).sum();
        Ok(Cost {
            login: user.to_owned(),
            repositories: lists.repositories.map_or(0, |all| all.len() as u64),
            at_least: streams.iter().map(|one| one.at_least).sum(),
            at_most,
            at_most_known: streams.iter().map(|one| one.at_most_known).sum(),
            streams,
            tokens: look.budgets(&run).await?,
            looked: look.requests,
            problem: look.problem,
        })
    }

    /// What the store knows of the user's lists, and what a look at the API tells of the others.
    async fn lists(&self, run: &RunId, asked: &Asked, look: &mut Look<'_>) -> Result<Lists> {
        let (records, login) = (&self.records, run.login.as_str());
        let mut lists = Lists {
            repositories: None,
            is_organization: None,
            by_list: BTreeMap::new(),
            documents: self
                .sink(run.space)
                .count(run.space.collection(), Some(login))
                .await?,
        };
        for ((kind, id), pages) in records.known_lists(login, run.space).await? {
            let length = Length {
                pages,
                items: None,
                is_known: true,
            };
            lists.by_list.insert((kind, id), length);
        }
        let user = PageJob::first(run, JobKind::USER_BASIC, None);
        let known = records.page(&user).await?;
        lists.is_organization = known.map(|known| known.is_organization);
        let is_read = |kind: &JobKind| kind.is_of_repository() || *kind == JobKind::USER_REPOS;
        let repositories = match asked.streams.iter().any(is_read) {
            true => self.owned(run, &mut lists, look).await?,
            false => None,
        };
        self.look_up_user(run, asked, &mut lists, look).await?;
        if let Some(mut repositories) = repositories {
            if asked.selection.search().is_none() {
                let is_selected = |one: &Repository| asked.selection.has(&one.full_name);
                repositories.retain(is_selected);
            }
            self.look_up(run, asked, &repositories, &mut lists, look)
                .await?;
            lists.repositories = Some(repositories);
        }
        Ok(lists)
    }

    /// The user's repositories; `None`: no run has read them, and the API does not say.
    async fn owned(
        &self,
        run: &RunId,
        lists: &mut Lists,
        look: &mut Look<'_>,
    ) -> Result<Option<Vec<Repository>>> {
        let repositories = match self.known_repositories(run).await? {
            Some(known) => known.all,
            None => match look.repositories(&run.login).await? {
                Some((repositories, is_organization)) => {
                    lists.is_organization = Some(is_organization);
                    repositories
                }
                None => return Ok(None),
            },
        };
        let of_all = PageJob::first(run, JobKind::USER_REPOS, None).id();
        let count = repositories.len() as u64;
        lists.by_list.insert(
            (JobKind::USER_REPOS, of_all),
            Length {
                pages: pages(count, self.settings.page_size),
                items: Some(count),
                is_known: true,
            },
        );
        Ok(Some(repositories))
    }

    /// The user's repositories as the last run saw them; `None`: no run has read the list.
    pub(crate) async fn known_repositories(
        &self,
        run: &RunId,
    ) -> Result<Option<KnownRepositories>> {
        let mut all: Option<KnownRepositories> = None;
        for page in 1.. {
            let job = PageJob {
                page,
                ..PageJob::first(run, JobKind::USER_REPOS, None)
            };
            let Some(known) = self.records.page(&job).await? else {
                break;
            };
            let all = all.get_or_insert_default();
            all.all.extend(known.repositories);
            all.is_whole = known.next.is_none();
            if all.is_whole {
                break;
            }
        }
        Ok(all)
    }

    /// Asks how long the lists are that no run has read, as long as the look may go on. First those whose
    /// items cost a request each: they decide what the run costs. Then one repository after the other, so
    /// that no stream is left out.
    async fn look_up(
        &self,
        run: &RunId,
        asked: &Asked,
        repositories: &[Repository],
        lists: &mut Lists,
        look: &mut Look<'_>,
    ) -> Result<()> {
        let kinds = asked.streams.iter().copied();
        let kinds = kinds.filter(|kind| kind.stream().owner == Owner::Repository);
        let is_parent = |kind: &JobKind| {
            let mut parents = asked.streams.iter().flat_map(|one| one.parents());
            parents.any(|parent| parent == *kind)
        };
        let (parents, others): (Vec<JobKind>, Vec<JobKind>) = kinds.partition(is_parent);
        for kinds in [parents, others] {
            for repository in repositories {
                for kind in &kinds {
                    let job = PageJob::first(run, *kind, Some(repository.clone()));
                    self.look_at(&job, lists, look).await?;
                }
            }
        }
        Ok(())
    }

    /// The same of the lists of the user or the organization.
    async fn look_up_user(
        &self,
        run: &RunId,
        asked: &Asked,
        lists: &mut Lists,
        look: &mut Look<'_>,
    ) -> Result<()> {
        let of_organization = |kind: &JobKind| kind.stream().owner == Owner::Organization;
        let is_asked = lists.is_organization.is_none() && look.problem.is_none();
        if is_asked && asked.streams.iter().any(of_organization) {
            lists.is_organization = look.is_organization(&run.login).await?;
        }
        let is_organization = lists.is_organization == Some(true);
        for kind in &asked.streams {
            let is_there = match kind.stream().owner {
                Owner::User => *kind != JobKind::USER_REPOS,
                Owner::Organization => is_organization,
                _ => false,
            };
            if is_there {
                let job = PageJob::first(run, *kind, None);
                self.look_at(&job, lists, look).await?;
            }
        }
        Ok(())
    }

    /// Asks how long a list is, unless that is known.
    async fn look_at(&self, job: &PageJob, lists: &mut Lists, look: &mut Look<'_>) -> Result<()> {
        let key = (job.kind, job.id());
        if lists.by_list.contains_key(&key) {
            return Ok(());
        }
        if let Some(items) = look.length(job).await? {
            let length = Length {
                pages: pages(items, self.settings.page_size),
                items: Some(items),
                is_known: false,
            };
            lists.by_list.insert(key, length);
        }
        Ok(())
    }

    fn stream_cost(
        &self,
        kind: JobKind,
        start: &Start,
        asked: &Asked,
        lists: &Lists,
    ) -> StreamCost {
        let size = self.settings.page_size;
        let is_searched = asked.selection.search().is_some();
        let mut estimate = match kind.stream().owner {
            Owner::Run if kind == JobKind::USER_EVENTS => {
                Estimate::known(1, most(Walk::Events, pages(EVENTS_SHOWN, size)))
            }
            Owner::Run => Estimate::known(1, 1),
            Owner::User if kind == JobKind::USER_REPOS => {
                let mut estimate = lists.cost_of_user(kind);
                estimate.at_least = lists.of_user(kind).map_or(1, |length| length.pages);
                estimate
            }
            Owner::User => lists.cost_of_user(kind),
            Owner::Organization => match lists.is_organization {
                Some(true) => lists.cost_of_user(kind),
                Some(false) => Estimate::known(0, 0),
                None => Estimate::unknown(0, Some(1)),
            },
            Owner::Search => Estimate::unknown(1, Some(1)),
            Owner::Repository => lists.cost_of_lists(kind, start.is_full),
            Owner::Item(_) => lists.cost_of_items(kind, start.is_full),
        };
        // A search may find nothing.
        if kind.is_of_repository() && is_searched {
            estimate.at_least = 0;
        }
        estimate.of(kind)
    }
}
