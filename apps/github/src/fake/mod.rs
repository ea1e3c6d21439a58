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
mod tally;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch::core::Timestamp;
use clinch::core::ports::Clock;
use sha2::{Digest, Sha256};

pub use faults::{Fault, Faults};
pub use http::{Served, serve};
pub use limits::{Limits, Secondary};
pub use page::Paging;
pub use tally::Tally;
pub use world::{Item, Kind, Size, World};

use crate::{ApiAnswer, ApiRequest, Broken, Token, Transport};
use answer::{Ask, ok, refusal};
use limits::{Budget, Budgets, Over, refuse_primary};

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

struct State {
    world: World,
    setup: Setup,
    budgets: Budgets,
    tally: Tally,
    in_flight: u32,
}

/// One GET, however it came.
struct Get<'a> {
    base: &'a str,
    /// Path and query.
    target: &'a str,
    token: Option<&'a Token>,
    if_none_match: Option<&'a str>,
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
        let state = State {
            world,
            setup,
            budgets: Budgets::default(),
            tally: Tally::default(),
            in_flight: 0,
        };
        Self {
            clock,
            state: Arc::new(Mutex::new(state)),
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

    async fn answer(&self, get: &Get<'_>, patience: Option<Duration>) -> Reply {
        let account = get.token.map(|token| account(token.secret()));
        let flight = Flight::take_off(self, account.flatten());
        let latency = self.state().setup.latency;
        if latency > Duration::ZERO {
            self.clock.sleep(latency).await;
        }
        let (reply, delay) = self.state().decide(get, account, self.clock.now());
        let is_lost = patience.is_some_and(|patience| latency + delay > patience);
        if delay > Duration::ZERO {
            let wait = patience.map_or(delay, |p| delay.min(p.saturating_sub(latency)));
            self.clock.sleep(wait).await;
        }
        drop(flight);
        if is_lost { Reply::Lost } else { reply }
    }
}

/// A request that is not answered yet.
struct Flight<'a> {
    fake: &'a Fake,
    account: Option<&'a str>,
}

impl<'a> Flight<'a> {
    fn take_off(fake: &'a Fake, account: Option<&'a str>) -> Self {
        let mut state = fake.state();
        state.in_flight += 1;
        state.tally.concurrent_max = state.tally.concurrent_max.max(state.in_flight);
        state.budget(account).in_flight += 1;
        Self { fake, account }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut state = self.fake.state();
        state.in_flight -= 1;
        state.budget(self.account).in_flight -= 1;
    }
}

impl State {
    fn budget(&mut self, account: Option<&str>) -> &mut Budget {
        self.budgets.of(account, &self.setup.limits)
    }

    /// The answer, and how long it takes. `account` is `Some(None)` for a bad token.
    fn decide(
        &mut self,
        get: &Get<'_>,
        account: Option<Option<&str>>,
        now: Timestamp,
    ) -> (Reply, Duration) {
        self.tally.requests += 1;
        *self.tally.by_url.entry(get.target.to_owned()).or_default() += 1;
        let revoked = get
            .token
            .is_some_and(|token| self.setup.faults.revokes(token.secret()));
        if revoked || account == Some(None) {
            return self.reply(refusal(401, "Bad credentials"));
        }
        let account = account.flatten();
        let name = account.unwrap_or("anonymous").to_owned();
        *self.tally.by_account.entry(name.clone()).or_default() += 1;
        let limits = self.setup.limits.clone();
        let path = get.target.split('?').next();
        if path == Some("/rate_limit") {
            let mut answer = ok(&self.budget(account).overview(now, &limits));
            self.budget(account).label(&mut answer, now, &limits);
            return self.reply(answer);
        }
        if let Some(over) = self.budget(account).admit(now, &limits) {
            let mut answer = self.refuse(over, account, now, limits.secondary);
            self.budget(account).label(&mut answer, now, &limits);
            return self.reply(answer);
        }
        let fault = self.setup.faults.draw(get.target);
        if fault == Some(Fault::LostBefore) {
            return self.lose();
        }
        if let Some(Fault::Secondary(how, pause)) = fault {
            self.budget(account).block(now, pause);
            let mut answer = self.refuse(Over::Secondary, account, now, how);
            self.budget(account).label(&mut answer, now, &limits);
            return self.reply(answer);
        }
        let mut answer = self.ask(get, account, fault.as_ref());
        if answer.status == 200 {
            tag(&mut answer, get);
        }
        // Without a token even a 304 costs, as at GitHub.
        if answer.status != 304 || account.is_none() {
            let used = self.budget(account).spend();
            let most = self.tally.window_max.entry(name).or_default();
            *most = used.max(*most);
        }
        self.budget(account).label(&mut answer, now, &limits);
        self.spoil(answer, fault)
    }

    fn refuse(
        &mut self,
        over: Over,
        account: Option<&str>,
        now: Timestamp,
        how: Secondary,
    ) -> ApiAnswer {
        match over {
            Over::Primary => {
                self.tally.primary_refusals += 1;
                let user = account.and_then(|login| self.world.user(login));
                let id = user.map(|user| self.world.users[user].id);
                refuse_primary(account.map(|_| id.unwrap_or(1)))
            }
            Over::Secondary => {
                self.tally.secondary_refusals += 1;
                self.budget(account).refuse_secondary(now, how)
            }
        }
    }

    fn ask(&self, get: &Get<'_>, account: Option<&str>, fault: Option<&Fault>) -> ApiAnswer {
        match fault {
            Some(Fault::Status(status)) => refusal(*status, "Server Error"),
            Some(Fault::Accepted) => ApiAnswer {
                status: 202,
                ..ApiAnswer::default()
            },
            _ => {
                let ask = Ask {
                    world: &self.world,
                    base: get.base,
                    paging: self.setup.paging,
                    account,
                    refused: &self.setup.faults.repositories,
                };
                ask.answer(get.target)
            }
        }
    }

    fn spoil(&mut self, mut answer: ApiAnswer, fault: Option<Fault>) -> (Reply, Duration) {
        match fault {
            Some(Fault::LostAfter) => self.lose(),
            // Nothing to cut.
            Some(Fault::Cut) if answer.body.is_empty() => self.lose(),
            Some(Fault::Cut) => {
                self.tally.lost += 1;
                (Reply::Cut(answer), Duration::ZERO)
            }
            Some(Fault::Malformed) => {
                answer.body.truncate(answer.body.len() / 2);
                self.reply(answer)
            }
            Some(Fault::Slow(delay)) => {
                let (reply, _) = self.reply(answer);
                (reply, delay)
            }
            _ => self.reply(answer),
        }
    }

    fn lose(&mut self) -> (Reply, Duration) {
        self.tally.lost += 1;
        (Reply::Lost, Duration::ZERO)
    }

    fn reply(&mut self, answer: ApiAnswer) -> (Reply, Duration) {
        *self.tally.by_status.entry(answer.status).or_default() += 1;
        self.tally.not_modified += u64::from(answer.status == 304);
        (Reply::Answer(answer), Duration::ZERO)
    }
}

/// Adds the ETag; makes it a 304 if the client has that already.
fn tag(answer: &mut ApiAnswer, get: &Get<'_>) {
    let mut hash = Sha256::new();
    hash.update(get.token.map_or("", Token::secret).as_bytes());
    hash.update([0]);
    hash.update(&answer.body);
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let etag = format!("W/\"{digits}\"");
    if get
        .if_none_match
        .is_some_and(|known| matches(known, &digits))
    {
        answer.status = 304;
        answer.body.clear();
        answer.headers.remove("content-type");
    }
    answer.headers.insert("etag".into(), etag);
}

/// Weak and strong forms are the same here.
fn matches(known: &str, digits: &str) -> bool {
    known.split(',').any(|one| {
        let one = one.trim();
        one.strip_prefix("W/").unwrap_or(one).trim_matches('"') == digits
    })
}

/// The account of a token, `fake-ACCOUNT-N`.
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
        };
        let patience = self.state().setup.patience;
        match self.answer(&get, patience).await {
            Reply::Answer(answer) => Ok(answer),
            Reply::Cut(_) => Err(Broken::Lost("the connection ended in the body".to_owned())),
            Reply::Lost => Err(Broken::Lost("the connection ended".to_owned())),
        }
    }
}
