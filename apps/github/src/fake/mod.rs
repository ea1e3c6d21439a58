//! A GitHub for tests and the demo: the rules of the real one, on a clock and a seed.
//!
//! A [`World`] is generated and may change between runs; a [`Fake`] answers for it, in process as
//! a [`Transport`] or over HTTP by [`serve`]. Tokens are `fake-ACCOUNT-N`: those of one account
//! share a budget, anything else has bad credentials. [`Faults`] say what goes wrong, [`Limits`]
//! what an account may spend, and [`Tally`] what was asked.
//!
//! ETags are made of the token and the body, and of nothing else: as at GitHub, a page that was
//! full and the last one keeps its ETag when another follows it. The `Link` of the 304 tells.

mod answer;
mod faults;
mod generate;
mod http;
mod limits;
mod page;
mod query;
mod render;
mod replay;
mod state;
mod tally;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::Clock;

pub use faults::{Fault, Faults};
pub use http::{Served, serve};
pub use limits::{Limits, Secondary};
pub use page::Paging;
pub use replay::{BadScenario, Replay};
pub use tally::Tally;
pub use world::{Item, Kind, Size, World};

use crate::{ApiAnswer, ApiRequest, Broken, Token, Transport};
use state::State;

/// Where it is in process.
pub const BASE: &str = "http://fake.invalid";

/// How a fake behaves.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// What accounts may spend.
    pub limits: Limits,
    /// What goes wrong.
    pub faults: Faults,
    /// How pages are linked.
    pub paging: Paging,
    /// How long every answer takes.
    pub latency: Duration,
    /// An answer in process that takes longer is lost; none waits forever. Over HTTP the client
    /// has a limit of its own.
    pub patience: Option<Duration>,
}

/// Answers as GitHub does. Clones share everything.
#[derive(Clone)]
pub struct Fake {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

/// One GET, however it came.
struct Get<'a> {
    base: &'a str,
    /// Path and query.
    target: &'a str,
    token: Option<&'a Token>,
    if_none_match: Option<&'a str>,
    /// How long the client waits, where the fake must know.
    patience: Option<Duration>,
}

/// What becomes of it.
enum Reply {
    Answer(ApiAnswer),
    /// Ends in the middle of the body.
    Cut(ApiAnswer),
    Lost,
}

impl Fake {
    /// A fake of this world, on this clock.
    pub fn new(world: World, setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Arc::new(Mutex::new(State::new(world, setup))),
        }
    }

    /// What it has seen so far.
    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }

    /// Reads the world, or changes it.
    pub fn with_world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        act(&mut self.state().world)
    }

    /// Goes on by another script.
    pub fn set_faults(&self, faults: Faults) {
        self.state().setup.faults = faults;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, get: &Get<'_>) -> Reply {
        let caller = Caller::of(get.token);
        let flight = Flight::take_off(self, caller);
        let latency = self.state().setup.latency;
        if latency > Duration::ZERO {
            self.clock.sleep(latency).await;
        }
        let (now, is_hasty) = (self.clock.now(), flight.is_hasty);
        let (reply, delay) = self.state().decide(get, caller, now, is_hasty);
        if delay > Duration::ZERO {
            self.clock.sleep(delay).await;
        }
        reply
    }
}

/// A request that is not answered yet.
struct Flight<'a> {
    fake: &'a Fake,
    caller: Caller<'a>,
    /// A secondary limit stood in its way when it came.
    is_hasty: bool,
}

impl<'a> Flight<'a> {
    fn take_off(fake: &'a Fake, caller: Caller<'a>) -> Self {
        let now = fake.clock.now();
        let is_hasty = fake.state().arrive(caller, now);
        Self {
            fake,
            caller,
            is_hasty,
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.fake.state().leave(self.caller);
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller<'a> {
    Anonymous,
    Account(&'a str),
    BadToken,
}

impl<'a> Caller<'a> {
    /// By a token, `fake-ACCOUNT-N`.
    fn of(token: Option<&'a Token>) -> Self {
        let Some(token) = token else {
            return Self::Anonymous;
        };
        account(token.secret()).map_or(Self::BadToken, Self::Account)
    }
}

fn account(secret: &str) -> Option<&str> {
    let (account, number) = secret.strip_prefix("fake-")?.rsplit_once('-')?;
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_numbered && !account.is_empty()).then_some(account)
}

#[async_trait]
impl Transport for Fake {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        let target = request.url.strip_prefix(BASE);
        let Some(target) = target.filter(|target| target.starts_with('/')) else {
            return Err(Broken::NotSent(format!("not at {BASE}: {}", request.url)));
        };
        let get = Get {
            base: BASE,
            target,
            token: request.token.as_ref(),
            if_none_match: request.if_none_match.as_deref(),
            patience: self.state().setup.patience,
        };
        match self.answer(&get).await {
            Reply::Answer(answer) => Ok(answer),
            Reply::Cut(_) => Err(Broken::Lost("the connection ended in the body".to_owned())),
            Reply::Lost => Err(Broken::Lost("the connection ended".to_owned())),
        }
    }
}
