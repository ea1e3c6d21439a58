//! What a run would cost, before it begins.
//!
//! The numbers come from what the store knows of the lists. Of lists that no run has read yet, a
//! few cheap requests tell how long they are; beyond those, the most that a list costs is unknown.

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
}

/// How long a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Length {
    pages: u64,
    /// Number of items, if it was looked up.
    items: Option<u64>,
    /// A run has read it.
    is_known: bool,
}

/// A user's repositories.
#[derive(Debug, Default)]
pub(crate) struct KnownRepositories {
    pub(crate) all: Vec<Repository>,
    /// No page is missing.
    pub(crate) is_whole: bool,
}

/// What is known of a user's lists.
struct Lists {
    /// `None`: no run has read them, and the API does not say.
    repositories: Option<Vec<Repository>>,
    is_organization: Option<bool>,
    by_list: BTreeMap<(JobKind, String), Length>,
    /// Documents by kind, if a run has collected some.
    documents: BTreeMap<String, u64>,
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
        let mut look = Look::new(self);
        let lists = self.lists(&run, asked, &mut look).await?;
        let mut streams: Vec<StreamCost> = asked
            .streams
            .iter()
            .map(|kind| self.stream_cost(*kind, start, asked, &lists))
            .collect();
        if asked.selection.search().is_some() {
            let all = lists.repositories.as_ref().map(|all| all.len() as u64);
            let pages = all.map(|all| pages(all, self.settings.page_size));
            streams.push(StreamCost {
                kind: JobKind::SEARCH,
                at_least: 1,
                at_most: pages.map(|pages| most(Walk::Whole, pages)),
            });
        }
        let at_most: Option<u64> = streams.iter().map(|one| one.at_most).sum();
        Ok(Cost {
            login: user.to_owned(),
            repositories: lists.repositories.map_or(0, |all| all.len() as u64),
            at_least: streams.iter().map(|one| one.at_least).sum(),
            at_most,
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
        if !asked.streams.iter().any(is_read) {
            return Ok(lists);
        }
        let mut repositories = match self.known_repositories(run).await? {
            Some(known) => known.all,
            None => match look.repositories(login).await? {
                Some((repositories, is_organization)) => {
                    lists.is_organization = Some(is_organization);
                    repositories
                }
                None => return Ok(lists),
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
        if asked.selection.search().is_none() {
            let is_selected = |one: &Repository| asked.selection.has(&one.full_name);
            repositories.retain(is_selected);
        }
        self.look_up(run, asked, &repositories, &mut lists.by_list, look)
            .await?;
        lists.repositories = Some(repositories);
        Ok(lists)
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

    /// Asks how long the lists are that no run has read, as long as the look may go on.
    async fn look_up(
        &self,
        run: &RunId,
        asked: &Asked,
        repositories: &[Repository],
        by_list: &mut BTreeMap<(JobKind, String), Length>,
        look: &mut Look<'_>,
    ) -> Result<()> {
        let is_list = |kind: &&JobKind| kind.stream().owner == Owner::Repository;
        for kind in asked.streams.iter().filter(is_list) {
            for repository in repositories {
                let job = PageJob::first(run, *kind, Some(repository.clone()));
                let key = (*kind, job.id());
                if by_list.contains_key(&key) {
                    continue;
                }
                let Some(items) = look.length(&job).await? else {
                    continue;
                };
                let length = Length {
                    pages: pages(items, self.settings.page_size),
                    items: Some(items),
                    is_known: false,
                };
                by_list.insert(key, length);
            }
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
        let (at_least, at_most) = match kind.stream().owner {
            Owner::Run if kind == JobKind::USER_EVENTS => {
                (1, Some(most(Walk::Events, pages(EVENTS_SHOWN, size))))
            }
            Owner::Run => (1, Some(1)),
            Owner::User if kind == JobKind::USER_REPOS => {
                let count = lists.by_list.iter().find(|((of, _), _)| *of == kind);
                let pages = count.map_or(1, |(_, length)| length.pages);
                (pages, Some(most(Walk::Whole, pages)))
            }
            Owner::User => lists.cost_of_user(kind),
            Owner::Organization => match lists.is_organization {
                Some(true) => lists.cost_of_user(kind),
                Some(false) => (0, Some(0)),
                None => (0, None),
            },
            Owner::Search => (1, None),
            Owner::Repository => lists.cost_of_lists(kind, start.is_full),
            Owner::Item(_) => lists.cost_of_items(kind, start.is_full),
        };
        let is_below = kind.is_of_repository() && is_searched;
        StreamCost {
            kind,
            // A search may find nothing.
            at_least: if is_below { 0 } else { at_least },
            at_most,
        }
    }
}

impl Lists {
    /// One list of the user.
    fn cost_of_user(&self, kind: JobKind) -> (u64, Option<u64>) {
        let known = self.by_list.iter().find(|((of, _), _)| *of == kind);
        (1, known.map(|(_, length)| most(Walk::Whole, length.pages)))
    }

    /// One list of each repository.
    fn cost_of_lists(&self, kind: JobKind, is_full: bool) -> (u64, Option<u64>) {
        let walk = kind.stream().walk;
        let Some(repositories) = &self.repositories else {
            return (0, None);
        };
        let (mut at_least, mut at_most) = (0, Some(0));
        for repository in repositories {
            let length = self.length(kind, repository);
            at_least += match length {
                // One request tells that nothing has changed.
                Some(length) if length.is_known && !is_full => 1,
                Some(length) => length.pages,
                None => 1,
            };
            at_most = at_most
                .zip(length)
                .map(|(sum, one)| sum + most(walk, one.pages));
        }
        (at_least, at_most)
    }

    /// One request for each item of other lists.
    fn cost_of_items(&self, kind: JobKind, is_full: bool) -> (u64, Option<u64>) {
        let mut items = Some(0);
        for parent in kind.parents() {
            items = items.zip(self.items(parent)).map(|(sum, one)| sum + one);
        }
        // A stream that is added reads something of every item.
        let is_first = !self.documents.contains_key(kind.document());
        match items {
            // The default branch has no commits of its own.
            Some(items) if kind.document() == "branch_commit" => (0, Some(items)),
            Some(items) if is_full || is_first => (items, Some(items)),
            items => (0, items),
        }
    }

    /// Number of items of the selected repositories, or of all if only that is known.
    fn items(&self, kind: JobKind) -> Option<u64> {
        if let Some(stored) = self.documents.get(kind.document()) {
            return Some(*stored);
        }
        let mut sum = 0;
        for repository in self.repositories.as_ref()? {
            let items = self.length(kind, repository)?.items?;
            // GitHub lists pull requests as issues too.
            let pulls = match kind {
                JobKind::REPO_ISSUES => self.length(JobKind::REPO_PRS, repository),
                _ => None,
            };
            let pulls = pulls.and_then(|length| length.items).unwrap_or(0);
            sum += items.saturating_sub(pulls);
        }
        Some(sum)
    }

    fn length(&self, kind: JobKind, repository: &Repository) -> Option<Length> {
        let key = (kind, format!("repo:{}", repository.id));
        self.by_list.get(&key).copied()
    }
}

/// Pages of a list; a list without items is one page.
fn pages(items: u64, size: u32) -> u64 {
    items.div_ceil(u64::from(size.max(1))).max(1)
}

/// Requests of a list if all of its pages have changed.
fn most(walk: Walk, pages: u64) -> u64 {
    match walk {
        // A list of several pages that has changed is read again.
        Walk::Whole | Walk::Events if pages > 1 => 2 * pages,
        // The first page tells where the next run begins.
        Walk::Newest(_) if pages > 1 => 2 * pages + 1,
        Walk::Whole | Walk::Newest(_) | Walk::Events => 1,
        // The last request may show that nothing follows.
        Walk::Updated => pages + 1,
        // The newest page, and the comparison of two heads.
        Walk::Commits => pages + 2,
    }
}
