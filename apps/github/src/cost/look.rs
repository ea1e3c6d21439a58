//! Cheap requests that tell how much there is to read.

use std::collections::BTreeSet;

use clinch::types::{ErrorKind, Timestamp};
use clinch::{Error, Result};
use serde::Deserialize;

use crate::answer::{self, Meaning};
use crate::collector::Inner;
use crate::items;
use crate::model::{PageJob, Repository, RunId, Space};
use crate::streams::{Bucket, JobKind, Owner, Shape};
use crate::tokens::{Budget, Throttled, TokenSet, TokenView};
use crate::{ApiAnswer, ApiRequest};

/// Lists whose length is asked for. A first run of small lists costs a request for each, so that
/// more would double its cost. Without a token, they would use up the budget.
const LENGTHS_MAX: u64 = 30;

/// The same if the run makes a request for each item of some lists, which costs much more than the look.
const LENGTHS_OF_ITEMS_MAX: u64 = 200;

/// Pages of repositories that are read: a thousand repositories.
const PAGES_MAX: u32 = 10;

/// Requests that tell how much there is to read, and their number.
pub(super) struct Look<'a> {
    inner: &'a Inner,
    pub(super) requests: u64,
    /// Why the API could not be asked, or not for everything.
    pub(super) problem: Option<String>,
    /// The API cannot be asked.
    is_broken: bool,
    lengths: u64,
    lengths_max: u64,
    /// The last request had no token.
    is_anonymous: bool,
    /// The user is an organization.
    is_organization: bool,
}

impl<'a> Look<'a> {
    /// For a run of these streams.
    pub(super) fn new(inner: &'a Inner, streams: &[JobKind]) -> Self {
        let is_of_items = |kind: &JobKind| matches!(kind.stream().owner, Owner::Item(_));
        let lengths_max = match streams.iter().any(is_of_items) {
            true => LENGTHS_OF_ITEMS_MAX,
            false => LENGTHS_MAX,
        };
        Self {
            inner,
            requests: 0,
            problem: None,
            is_broken: false,
            lengths: 0,
            lengths_max,
            is_anonymous: false,
            is_organization: false,
        }
    }

    /// A user's repositories, and whether the user is an organization; `None`: the API does not say.
    pub(super) async fn repositories(
        &mut self,
        login: &str,
    ) -> Result<Option<(Vec<Repository>, bool)>> {
        let read = self.read_repositories(login).await;
        self.or_problem(read)
    }

    /// Of an API that cannot be asked, notes why.
    fn or_problem<T>(&mut self, asked: Result<T>) -> Result<Option<T>> {
        match asked {
            Ok(told) => Ok(Some(told)),
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.problem = Some(error.message().to_owned());
                self.is_broken = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the user is an organization; `None`: the API does not say.
    pub(super) async fn is_organization(&mut self, login: &str) -> Result<Option<bool>> {
        let read = self.read_user(&first_run(login)).await;
        self.or_problem(read)
    }

    async fn read_user(&mut self, run: &RunId) -> Result<bool> {
        let user = PageJob::first(run, JobKind::USER_BASIC, None);
        self.is_organization = self.page(&user).await?.0.is_organization;
        Ok(self.is_organization)
    }

    async fn read_repositories(&mut self, login: &str) -> Result<(Vec<Repository>, bool)> {
        let run = first_run(login);
        let is_organization = self.read_user(&run).await?;
        let (mut all, mut job) = (Vec::new(), PageJob::first(&run, JobKind::USER_REPOS, None));
        loop {
            let (page, next) = self.page(&job).await?;
            all.extend(page.repositories);
            let Some(next) = next else { break };
            if job.page >= PAGES_MAX {
                let count = all.len();
                let message = format!("only the first {count} repositories were looked at");
                self.problem = Some(message);
                break;
            }
            job.page += 1;
            job.url = Some(next);
        }
        Ok((all, is_organization))
    }

    /// One page, and the address of the next one.
    async fn page(&mut self, job: &PageJob) -> Result<(items::Items, Option<String>)> {
        let api = &self.inner.settings.api_url;
        let given = job.url.as_ref().map(|url| api.own(url));
        let url = match given {
            Some(Ok(url)) => url,
            Some(Err(_)) => return Err(unusable("the API names a page elsewhere")),
            None => api
                .first_page(job, self.inner.settings.page_size)
                .map_err(|wrong| unusable(&wrong.to_string()))?,
        };
        let answer = self.get(job, url).await?;
        let page = items::read(job, &answer.body).map_err(|wrong| unusable(&wrong))?;
        Ok((page, answer::next_page(&answer)))
    }

    /// Number of items of a list; `None`: it is not told, or enough was asked for.
    pub(super) async fn length(&mut self, job: &PageJob) -> Result<Option<u64>> {
        if job.kind.stream().shape == Shape::One {
            return Ok(Some(1));
        }
        let most = match self.is_anonymous {
            true => self.lengths_max.min(LENGTHS_MAX),
            false => self.lengths_max,
        };
        if self.lengths >= most || self.is_broken {
            return Ok(None);
        }
        self.lengths += 1;
        // Pages of one item: the number of the last page is the number of items.
        let first = self.inner.settings.api_url.first_page(job, 1);
        let url = first.map_err(|wrong| unusable(&wrong.to_string()))?;
        let answer = match self.get(job, url).await {
            Ok(answer) => answer,
            // The run says so when it reads the list.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(0)),
            Err(error) => return self.or_problem(Err(error)),
        };
        let count = items::read(job, &answer.body).map(|page| page.rows.len() as u64);
        let Ok(count) = count else {
            return Ok(None);
        };
        Ok(match answer::next_page(&answer) {
            None => Some(count),
            // Some lists are linked without numbers.
            Some(_) => answer::last_page(&answer),
        })
    }

    /// An answer of the API. `NotFound`: the API has no such thing, or does not give it.
    async fn get(&mut self, job: &PageJob, url: String) -> Result<ApiAnswer> {
        let (kind, tokens) = (job.kind, &self.inner.tokens);
        let throttled = |throttled: Throttled| unusable(&throttled.reason);
        let before = self.inner.records.before(job).await?;
        let own = self.inner.tokens_for(&job.run_id, &before).await?;
        let own = own.map_err(throttled)?;
        let (url, own) = self.seen_by(job, url, own).await?.map_err(throttled)?;
        let grant = tokens
            .acquire(Bucket::Core, &own, &BTreeSet::new())
            .await?
            .map_err(throttled)?;
        let request = ApiRequest {
            url,
            token: grant.token.clone(),
            accept: kind.stream().accept,
            if_none_match: None,
        };
        self.requests += 1;
        self.is_anonymous = request.token.is_none();
        let answer = self.inner.transport.get(&request).await;
        let answer = answer.map_err(|broken| unusable(&broken.to_string()))?;
        tokens.record_budget(&grant, &answer).await?;
        match answer::meaning(kind, &answer) {
            Meaning::Page => Ok(answer),
            Meaning::BadToken => {
                tokens.refuse(&grant);
                Err(unusable("it refused the token"))
            }
            Meaning::Nothing | Meaning::Empty(_) | Meaning::Unavailable(_) | Meaning::Moved(_) => {
                Err(Error::new(ErrorKind::NotFound, "the API has no such list"))
            }
            Meaning::Refused(_) if answer.status == 404 => {
                Err(Error::new(ErrorKind::NotFound, "GitHub has no such user"))
            }
            Meaning::Refused(reason) | Meaning::Broken(reason) => Err(unusable(&reason)),
            Meaning::Limited => Err(unusable("its rate limit refused the request")),
            Meaning::Pending(_) | Meaning::NotModified => Err(unusable("it has no answer yet")),
        }
    }

    /// The list of repositories that a run would read, with the private ones that the tokens show.
    async fn seen_by(
        &self,
        job: &PageJob,
        url: String,
        tokens: TokenSet,
    ) -> Result<std::result::Result<(String, TokenSet), Throttled>> {
        let inner = self.inner;
        let size = inner.settings.page_size;
        let is_public = |given: &str| given == url;
        let is_own = tokens.is_own() && self.is_organization && job.url.is_none();
        let seen = inner.page_of(job, size, url.clone(), tokens).await;
        let seen =
            seen.map_err(|_| unusable("the list of repositories was begun with another token"))?;
        Ok(
            seen.map(|(given, tokens)| match is_own && is_public(&given) {
                // No run has noted yet that the user is an organization.
                true if job.kind == JobKind::USER_REPOS => {
                    (inner.of_organization(&job.run_id.login, size), tokens)
                }
                _ => (given, tokens),
            }),
        )
    }

    /// The tokens that a run would use, with their budgets. Asking for a budget costs nothing.
    pub(super) async fn budgets(&mut self, run: &RunId) -> Result<Vec<TokenView>> {
        let user = PageJob::first(run, JobKind::USER_BASIC, None);
        let before = self.inner.records.before(&user).await?;
        let tokens = match self.inner.tokens_for(run, &before).await? {
            Ok(tokens) => tokens,
            Err(throttled) => {
                self.problem.get_or_insert(throttled.reason);
                return Ok(Vec::new());
            }
        };
        let mut views = Vec::new();
        for token in tokens.tokens() {
            let mut view = self.inner.tokens.view_of(token.hash()).await?;
            if view.budget.is_some() {
                views.push(view);
                continue;
            }
            let request = ApiRequest {
                url: self.inner.settings.api_url.at("/rate_limit"),
                token: Some(token.clone()),
                if_none_match: None,
                accept: None,
            };
            let answer = self.inner.transport.get(&request).await;
            view.budget = answer.ok().and_then(|answer| budget(&answer));
            views.push(view);
        }
        Ok(views)
    }
}

fn first_run(login: &str) -> RunId {
    RunId {
        login: login.to_owned(),
        space: Space::Main,
        number: 1,
    }
}

fn unusable(reason: &str) -> Error {
    let message = format!("cannot look at what there is to read: {reason}");
    Error::new(ErrorKind::Unavailable, message)
}

/// The budget of plain requests in an answer of `/rate_limit`.
fn budget(answer: &ApiAnswer) -> Option<Budget> {
    #[derive(Deserialize)]
    struct Limits {
        resources: Resources,
    }
    #[derive(Deserialize)]
    struct Resources {
        core: Core,
    }
    #[derive(Deserialize)]
    struct Core {
        limit: u64,
        remaining: u64,
        reset: i64,
    }
    let limits: Limits = serde_json::from_slice(&answer.body).ok()?;
    let core = limits.resources.core;
    Some(Budget {
        limit: core.limit,
        remaining: core.remaining,
        reset_at: Timestamp::from_millis(core.reset.saturating_mul(1_000)),
    })
}
