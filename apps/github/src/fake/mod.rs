//! A fake GitHub for tests and the demo: the rules of the real one, with a given clock and seed.
//!
//! A [`World`] is generated and may change between runs; [`World::with_streams`] adds comments,
//! reviews, releases, workflow runs and more. A [`Fake`] answers for it, in process as a
//! [`Transport`] or over HTTP with [`serve`]. Tokens have the form `fake-ACCOUNT-N`: those of one
//! account share a budget, any other token is refused. [`Faults`] scripts failures, [`Limits`] sets
//! the budgets of accounts, and [`Tally`] counts requests.
//!
//! ETags depend only on the token and the body. As at GitHub, a full last page therefore keeps its
//! ETag when another page follows it; only the `Link` header of the 304 shows the new page.

mod answer;
mod app;
mod branches;
mod changes;
mod faults;
mod generate;
mod git;
mod history;
mod http;
mod kind;
mod large;
mod limits;
mod links;
mod page;
mod private;
mod query;
mod render;
mod replay;
mod search;
mod state;
mod streams;
mod tally;
mod upset;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::Clock;

pub use app::App;
pub use faults::{Fault, Faults};
pub use http::{Served, serve};
pub use kind::Kind;
pub use limits::{Limits, Secondary};
pub use links::Links;
pub use page::Paging;
pub use replay::{BadScenario, Replay};
pub use tally::Tally;
pub use world::{Item, Size, World};

use crate::{ApiAnswer, ApiRequest, Broken, Token, Transport};
use state::State;

/// The origin of the fake in process.
pub const BASE: &str = "http://fake.invalid";

/// Settings of a fake.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The budgets of accounts.
    pub limits: Limits,
    /// The scripted faults.
    pub faults: Faults,
    /// How pages are linked.
    pub paging: Paging,
    /// How `Link` headers are written.
    pub links: Links,
    /// A 304 has no `Link` header.
    pub hides_links_on_304: bool,
    /// Answers over HTTP are not compressed, also for clients that take it.
    pub is_uncompressed: bool,
    /// Results that a search counts and does not show.
    pub unlisted: usize,
    /// The world changes while it is read.
    pub restless: Option<Restless>,
    /// The GitHub App that may ask for tokens of its installations.
    pub app: Option<App>,
    /// How long every answer takes.
    pub latency: Duration,
    /// Timeout of a client in process: a later answer is lost. HTTP clients have a timeout of their
    /// own.
    pub timeout: Option<Duration>,
}

/// A world that changes while it is read, so that lists move on between their pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Restless {
    /// Decides, with the number of the request, whether something changes and what.
    pub seed: u64,
    /// The share of requests, 0 … 1, after which one change of [`World::upset`] happens.
    pub share: f64,
}

/// Answers like GitHub. Clones share everything.
#[derive(Clone)]
pub struct Fake {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

/// One request, in process or over HTTP: a GET, or a POST without a body.
struct Get<'a> {
    is_post: bool,
    base: &'a str,
    /// Path and query.
    target: &'a str,
    token: Option<&'a Token>,
    if_none_match: Option<&'a str>,
    /// The client's timeout, if the fake must apply it.
    timeout: Option<Duration>,
}

/// What the client gets.
enum Reply {
    Answer(ApiAnswer),
    /// The answer ends in the middle of the body.
    Cut(ApiAnswer),
    Lost,
}

impl Fake {
    /// A fake for this world, with this clock.
    pub fn new(world: World, setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Arc::new(Mutex::new(State::new(world, setup))),
        }
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }

    /// Reads the world, or changes it. Changes happen now, by the clock of the fake.
    pub fn with_world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let mut state = self.state();
        state.world.follow(self.clock.now());
        act(&mut state.world)
    }

    /// Replaces the script of faults.
    pub fn set_faults(&self, faults: Faults) {
        self.state().setup.faults = faults;
    }

    /// Replaces the app.
    pub fn set_app(&self, app: Option<App>) {
        self.state().setup.app = app;
    }

    /// How `Link` headers are written.
    pub fn links(&self) -> Links {
        self.state().setup.links
    }

    /// Writes `Link` headers in this form from now on.
    pub fn set_links(&self, links: Links) {
        self.state().setup.links = links;
    }

    /// Makes the world restless, or calms it.
    pub fn set_restless(&self, restless: Option<Restless>) {
        self.state().setup.restless = restless;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, get: &Get<'_>) -> Reply {
        let caller = Caller::of(get.token);
        let flight = InFlight::begin(self, caller);
        let latency = self.state().setup.latency;
        if latency > Duration::ZERO {
            self.clock.sleep(latency).await;
        }
        let (now, is_throttled) = (self.clock.now(), flight.is_throttled);
        let (reply, delay) = {
            let mut state = self.state();
            let decided = state.decide(get, caller, now, is_throttled);
            state.stir(now);
            decided
        };
        if delay > Duration::ZERO {
            self.clock.sleep(delay).await;
        }
        reply
    }
}

/// A request that is not answered yet.
struct InFlight<'a> {
    fake: &'a Fake,
    caller: Caller<'a>,
    /// A secondary limit refused it on arrival.
    is_throttled: bool,
}

impl<'a> InFlight<'a> {
    fn begin(fake: &'a Fake, caller: Caller<'a>) -> Self {
        let now = fake.clock.now();
        let is_throttled = fake.state().arrive(caller, now);
        Self {
            fake,
            caller,
            is_throttled,
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.fake.state().leave(self.caller);
    }
}

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller<'a> {
    Anonymous,
    Account(&'a str),
    BadToken,
}

impl<'a> Caller<'a> {
    /// Identifies the sender by a token, `fake-ACCOUNT-N` or that of an installation.
    fn of(token: Option<&'a Token>) -> Self {
        let Some(token) = token else {
            return Self::Anonymous;
        };
        account(token.secret()).map_or(Self::BadToken, Self::Account)
    }
}

fn account(secret: &str) -> Option<&str> {
    if let Some(account) = app::account(secret) {
        return Some(account);
    }
    let (account, number) = secret.strip_prefix("fake-")?.rsplit_once('-')?;
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_numbered && !account.is_empty()).then_some(account)
}

#[async_trait]
impl Transport for Fake {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        self.send(request, false).await
    }

    async fn post(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        self.send(request, true).await
    }
}

impl Fake {
    async fn send(&self, request: &ApiRequest, is_post: bool) -> Result<ApiAnswer, Broken> {
        let Some(target) = links::target(&request.url, BASE) else {
            return Err(Broken::NotSent(format!("not at {BASE}: {}", request.url)));
        };
        let get = Get {
            is_post,
            base: BASE,
            target,
            token: request.token.as_ref(),
            if_none_match: request.if_none_match.as_deref(),
            timeout: self.state().setup.timeout,
        };
        match self.answer(&get).await {
            Reply::Answer(answer) => {
                let lines = self.links().header_lines(&answer);
                Ok(ApiAnswer::received(answer.status, lines, answer.body))
            }
            Reply::Cut(_) => Err(Broken::Lost("the connection ended in the body".to_owned())),
            Reply::Lost => Err(Broken::Lost("the connection ended".to_owned())),
        }
    }
}
