//! Whose budget a request is spent from.
//!
//! Budgets belong to accounts, not to tokens: two tokens of one account share one. Which
//! account a token belongs to is asked once and noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch::Result;
use clinch::policy::Reservation;
use clinch::ports::{Clock, Quota};
use clinch::types::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::answer::{self, Meaning};
use crate::model::JobKind;
use crate::shelf::Shelf;
use crate::{ApiAnswer, ApiRequest, ApiUrl, Token, Transport};

/// A wait that is this short may be one for an answer that is on its way.
const SHORT: Duration = Duration::from_secs(30);
/// How often a job waits for such an answer before it gives its place to another.
const PATIENCE: u32 = 4;
/// How long it waits each time, if nothing is told before.
const GLANCE: Duration = Duration::from_secs(1);
/// A token that the API does not know is left alone for so long.
const BAD_FOR: Duration = Duration::from_secs(10 * 60);
/// After an answer that says nothing of who is asking.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);

/// Leave to send one request; it counts as on its way until this is dropped.
pub(crate) struct Grant {
    pub(crate) token: Option<Token>,
    account: String,
    _flight: Flight,
}

/// A request that may be on its way.
struct Flight {
    account: String,
    on_the_way: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Flight {
    fn begin(account: &str, on_the_way: &Arc<Mutex<BTreeMap<String, u32>>>) -> Self {
        *lock(on_the_way).entry(account.to_owned()).or_default() += 1;
        Self {
            account: account.to_owned(),
            on_the_way: on_the_way.clone(),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.on_the_way).get_mut(&self.account) {
            *count = count.saturating_sub(1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Grant {
    /// Names the token, if there is one.
    pub(crate) fn token_hash(&self) -> Option<String> {
        self.token.as_ref().map(Token::hash)
    }
}

/// Not now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) wait: Duration,
    pub(crate) reason: String,
}

/// A token as it stands. Shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenView {
    /// Names it: a hash.
    pub token: String,
    /// Whose it is, once that is known.
    pub account: Option<String>,
    /// What its last answer in this process said.
    pub budget: Option<Budget>,
    /// Nobody spends it until then.
    pub blocked_until: Option<Timestamp>,
    /// The API does not know it.
    pub refused: bool,
}

/// What an answer said of an account's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Requests of a whole window.
    pub limit: u64,
    /// Requests that are left.
    pub remaining: u64,
    /// When the window ends.
    pub reset_at: Timestamp,
}

#[derive(Default)]
struct Seen {
    accounts: BTreeMap<String, String>,
    bad_until: BTreeMap<String, Timestamp>,
    budgets: BTreeMap<String, Budget>,
    blocked_until: BTreeMap<String, Timestamp>,
}

/// All tokens of this process, and their budgets wherever they are kept.
pub(crate) struct Pool {
    tokens: Vec<Token>,
    quota: Arc<dyn Quota>,
    transport: Arc<dyn Transport>,
    api_url: ApiUrl,
    shelf: Shelf,
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
    on_the_way: Arc<Mutex<BTreeMap<String, u32>>>,
    turn: AtomicUsize,
    answered: Notify,
    asking: tokio::sync::Mutex<()>,
}

impl Pool {
    pub(crate) fn new(
        tokens: Vec<Token>,
        quota: Arc<dyn Quota>,
        transport: Arc<dyn Transport>,
        api_url: ApiUrl,
        shelf: Shelf,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            tokens,
            quota,
            transport,
            api_url,
            shelf,
            clock,
            seen: Mutex::default(),
            on_the_way: Arc::default(),
            turn: AtomicUsize::new(0),
            answered: Notify::new(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Reserves a request, from one of the preferred tokens if that is possible.
    pub(crate) async fn acquire(
        &self,
        preferred: &BTreeSet<String>,
    ) -> Result<Result<Grant, Hold>> {
        let mut left = PATIENCE;
        loop {
            // Told of an answer that comes after this line.
            let answered = self.answered.notified();
            let hold = match self.try_acquire(preferred).await? {
                Ok(grant) => return Ok(Ok(grant)),
                Err(hold) => hold,
            };
            if left == 0 || hold.wait > SHORT {
                return Ok(Err(hold));
            }
            left -= 1;
            tokio::select! {
                () = answered => {}
                () = self.clock.sleep(hold.wait.min(GLANCE)) => {}
            }
        }
    }

    async fn try_acquire(&self, preferred: &BTreeSet<String>) -> Result<Result<Grant, Hold>> {
        if self.tokens.is_empty() {
            return self.reserve(None, "anonymous".to_owned()).await;
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.tokens.len();
        let mut order: Vec<&Token> = (0..count)
            .filter_map(|n| self.tokens.get((first + n) % count))
            .collect();
        order.sort_by_key(|token| !preferred.contains(&token.hash()));
        let mut shortest: Option<Hold> = None;
        let mut asked = BTreeSet::new();
        for token in order {
            let held = match self.account(token).await? {
                Ok(account) if asked.insert(account.clone()) => {
                    match self.reserve(Some(token.clone()), account).await? {
                        Ok(grant) => return Ok(Ok(grant)),
                        Err(hold) => hold,
                    }
                }
                Ok(_) => continue,
                Err(hold) => hold,
            };
            if shortest.as_ref().is_none_or(|one| held.wait < one.wait) {
                shortest = Some(held);
            }
        }
        let none = || Hold {
            wait: BAD_FOR,
            reason: "no token can be used".to_owned(),
        };
        Ok(Err(shortest.unwrap_or_else(none)))
    }

    async fn reserve(&self, token: Option<Token>, account: String) -> Result<Result<Grant, Hold>> {
        if self.straddles(&account) {
            return Ok(Err(Hold {
                wait: GLANCE,
                reason: "requests of the window before are on their way".to_owned(),
            }));
        }
        match self.quota.reserve(&quota_key(&account), 1).await? {
            Reservation::Granted => Ok(Ok(self.grant(token, account))),
            Reservation::WaitFor(wait) => Ok(Err(Hold {
                wait,
                reason: "the API's budget is used up".to_owned(),
            })),
        }
    }

    fn grant(&self, token: Option<Token>, account: String) -> Grant {
        Grant {
            token,
            _flight: Flight::begin(&account, &self.on_the_way),
            account,
        }
    }

    /// The window has ended and requests that were reserved in it are on their way: the API
    /// may count them in the next one, so nobody asks what that holds before they are answered.
    fn straddles(&self, account: &str) -> bool {
        let now = self.clock.now();
        let ended = self
            .seen()
            .budgets
            .get(account)
            .is_some_and(|one| one.reset_at <= now);
        ended
            && lock(&self.on_the_way)
                .get(account)
                .is_some_and(|count| *count > 0)
    }

    /// Tells what an answer said of the budget it was spent from.
    pub(crate) async fn tell(&self, grant: &Grant, told: &ApiAnswer) -> Result<()> {
        let now = self.clock.now();
        if answer::is_core_budget(told) {
            let mut reading = answer::reading(told, now);
            // What did not change costs nothing, but for those without a token.
            reading.unspent = u32::from(told.status == 304 && grant.token.is_some());
            let key = quota_key(&grant.account);
            self.quota.update(&key, &reading).await?;
            let mut seen = self.seen();
            if let Some(pause) = reading.retry_after {
                let until = now + pause;
                seen.blocked_until.insert(grant.account.clone(), until);
            }
            let remaining = reading
                .remaining
                .map(|left| u64::try_from(left).unwrap_or(0));
            if let (Some(limit), Some(remaining), Some(reset_at)) =
                (reading.limit, remaining, reading.reset_at)
            {
                let budget = Budget {
                    limit,
                    remaining,
                    reset_at,
                };
                seen.budgets.insert(grant.account.clone(), budget);
            }
        }
        self.answered.notify_waiters();
        Ok(())
    }

    /// Whoever waits for an answer, or for a request to end, looks again.
    pub(crate) fn ended(&self) {
        self.answered.notify_waiters();
    }

    /// The API does not know the token.
    pub(crate) fn refuse(&self, grant: &Grant) {
        if let Some(token) = &grant.token {
            let hash = token.hash();
            tracing::error!(target: "clinch::github", token = hash, "the API refuses a token; replace it");
            let until = self.clock.now() + BAD_FOR;
            self.seen().bad_until.insert(hash, until);
        }
    }

    /// Whose token it is: noted, or asked.
    async fn account(&self, token: &Token) -> Result<Result<String, Hold>> {
        let hash = token.hash();
        let now = self.clock.now();
        if let Some(until) = self
            .seen()
            .bad_until
            .get(&hash)
            .filter(|until| **until > now)
        {
            return Ok(Err(Hold {
                wait: until.since(now),
                reason: "the API refuses the token".to_owned(),
            }));
        }
        if let Some(account) = self.seen().accounts.get(&hash) {
            return Ok(Ok(account.clone()));
        }
        // One at a time: others find the answer noted.
        let _asking = self.asking.lock().await;
        if let Some(account) = self.seen().accounts.get(&hash) {
            return Ok(Ok(account.clone()));
        }
        let account = match self.shelf.account(&hash).await? {
            Some(account) => account,
            None => match self.ask(token).await? {
                Ok(account) => {
                    self.shelf.note_account(&hash, &account).await?;
                    account
                }
                Err(hold) => return Ok(Err(hold)),
            },
        };
        self.seen().accounts.insert(hash, account.clone());
        Ok(Ok(account))
    }

    /// Asks the API who the token is. A look at the budget, which costs nothing, comes first:
    /// nothing is asked of an account that has nothing left.
    async fn ask(&self, token: &Token) -> Result<Result<String, Hold>> {
        let hash = token.hash();
        let own = self.grant(Some(token.clone()), format!("token {hash}"));
        let hold = |wait, reason: &str| {
            Ok(Err(Hold {
                wait,
                reason: reason.to_owned(),
            }))
        };
        let Some(budget) = self.send(token, "/rate_limit").await else {
            return hold(UNKNOWN_FOR, "the API does not answer");
        };
        if budget.status == 401 {
            self.refuse(&own);
            return hold(BAD_FOR, "the API refuses the token");
        }
        if let Some(wait) = used_up(&budget, self.clock.now()) {
            return hold(wait, "the API's budget is used up");
        }
        let Some(user) = self.send(token, "/user").await else {
            return hold(UNKNOWN_FOR, "the API does not answer");
        };
        #[derive(Deserialize)]
        struct User {
            login: String,
        }
        let named: Option<User> = serde_json::from_slice(&user.body).ok();
        match (answer::meaning(JobKind::UserBasic, &user), named) {
            (Meaning::Page, Some(User { login })) => {
                let known = self.grant(own.token.clone(), login.clone());
                self.tell(&known, &user).await?;
                Ok(Ok(login))
            }
            (Meaning::BadToken, _) => {
                self.refuse(&own);
                hold(BAD_FOR, "the API refuses the token")
            }
            (Meaning::Limited, _) => {
                let pause = answer::reading(&user, self.clock.now()).retry_after;
                hold(pause.unwrap_or(UNKNOWN_FOR), "the API's limit refused it")
            }
            // Tokens of an app have no user; each has a budget of its own.
            (Meaning::Refused(_), _) => {
                self.tell(&own, &user).await?;
                Ok(Ok(own.account.clone()))
            }
            _ => hold(UNKNOWN_FOR, "the API does not say whose token it is"),
        }
    }

    async fn send(&self, token: &Token, path: &str) -> Option<ApiAnswer> {
        let request = ApiRequest {
            url: self.api_url.at(path),
            token: Some(token.clone()),
            if_none_match: None,
        };
        self.transport.get(&request).await.ok()
    }

    /// Every token, with what is known of it.
    pub(crate) async fn view(&self) -> Result<Vec<TokenView>> {
        let mut views = Vec::with_capacity(self.tokens.len());
        for token in &self.tokens {
            let hash = token.hash();
            let noted = self.shelf.account(&hash).await?;
            let (now, seen) = (self.clock.now(), self.seen());
            let account = seen.accounts.get(&hash).cloned().or(noted);
            let of_account = account.as_ref();
            let blocked = of_account.and_then(|account| seen.blocked_until.get(account));
            let budget = of_account.and_then(|account| seen.budgets.get(account));
            views.push(TokenView {
                refused: seen.bad_until.get(&hash).is_some_and(|until| *until > now),
                blocked_until: blocked.copied().filter(|until| *until > now),
                budget: budget.copied().filter(|budget| budget.reset_at > now),
                token: hash,
                account,
            });
        }
        Ok(views)
    }

    /// Tokens that nobody can spend now.
    pub(crate) fn blocked(&self) -> usize {
        let (now, seen) = (self.clock.now(), self.seen());
        let is_blocked = |token: &&Token| {
            let hash = token.hash();
            let account = seen.accounts.get(&hash);
            let paused = account.and_then(|account| seen.blocked_until.get(account));
            let budget = account.and_then(|account| seen.budgets.get(account));
            paused.is_some_and(|until| *until > now)
                || budget.is_some_and(|one| one.reset_at > now && one.remaining == 0)
                || seen.bad_until.get(&hash).is_some_and(|until| *until > now)
        };
        self.tokens.iter().filter(is_blocked).count()
    }
}

/// Budgets are kept by hash: neither token nor account is named where they are kept.
fn quota_key(account: &str) -> String {
    let digest = Sha256::digest(account.to_ascii_lowercase().as_bytes());
    let hex: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
    format!("github:{hex}")
}

/// How long to wait, if an answer of `/rate_limit` says that nothing is left.
fn used_up(answer: &ApiAnswer, now: Timestamp) -> Option<Duration> {
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
        remaining: i64,
        reset: i64,
    }
    let limits: Limits = serde_json::from_slice(&answer.body).ok()?;
    let core = limits.resources.core;
    if core.remaining > 0 {
        return None;
    }
    let reset = Timestamp::from_millis(core.reset.saturating_mul(1_000));
    Some(reset.since(now).max(Duration::from_secs(1)))
}
