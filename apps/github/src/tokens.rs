//! Chooses the token, and so the budget, of each request.
//!
//! Budgets belong to accounts, not to tokens: two tokens of one account share one. The collector
//! looks up each token's account once and records it.

mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch::Result;
use clinch::policy::Reservation;
use clinch::ports::{Clock, Quota};
use clinch::types::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

pub use view::{Budget, TokenView};

use crate::answer::{self, Meaning};
use crate::model::JobKind;
use crate::records::CollectorRecords;
use crate::{ApiAnswer, ApiRequest, ApiUrl, Token, Transport};

/// Waits up to this long may end early, with the answer to a request that is in flight.
const SHORT_WAIT: Duration = Duration::from_secs(30);
/// How often a job waits for such an answer before another job takes its place.
const RECHECKS_MAX: u32 = 4;
/// How long it waits each time, unless an answer comes earlier.
const RECHECK_PAUSE: Duration = Duration::from_secs(1);
/// Pauses of a token that the API refuses, by the number of refusals in a row: one or two may be a
/// mistake of the API.
const BAD_TOKEN_PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(60),
    Duration::from_secs(10 * 60),
];
/// Refusals in a row after which a token counts as refused.
const REFUSED_AFTER: usize = 3;
/// Pause while no token can be used, if nothing says for how long.
const NO_TOKEN_PAUSE: Duration = Duration::from_secs(60);
/// Pause after an answer that does not tell the token's account.
const UNKNOWN_ACCOUNT_PAUSE: Duration = Duration::from_secs(30);

/// Permission to send one request. The request counts as in flight until this is dropped.
pub(crate) struct Grant {
    pub(crate) token: Option<Token>,
    account: String,
    _in_flight: InFlight,
}

/// Counts a request that may be in flight.
struct InFlight {
    account: String,
    in_flight: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl InFlight {
    fn begin(account: &str, in_flight: &Arc<Mutex<BTreeMap<String, u32>>>) -> Self {
        *lock(in_flight).entry(account.to_owned()).or_default() += 1;
        Self {
            account: account.to_owned(),
            in_flight: in_flight.clone(),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.in_flight).get_mut(&self.account) {
            *count = count.saturating_sub(1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Grant {
    /// The hash of the token, if there is one.
    pub(crate) fn token_hash(&self) -> Option<String> {
        self.token.as_ref().map(Token::hash)
    }
}

/// No request may be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Throttled {
    pub(crate) wait: Duration,
    pub(crate) reason: String,
}

#[derive(Default)]
struct TokenStates {
    accounts: BTreeMap<String, String>,
    bad: BTreeMap<String, BadToken>,
    budgets: BTreeMap<String, Budget>,
    blocked_until: BTreeMap<String, Timestamp>,
}

/// A token that the API refuses.
#[derive(Clone, Copy)]
struct BadToken {
    /// Refusals in a row.
    times: usize,
    until: Timestamp,
}

/// All tokens of this process, and access to their budgets.
pub(crate) struct TokenPool {
    tokens: Vec<Token>,
    quota: Arc<dyn Quota>,
    transport: Arc<dyn Transport>,
    api_url: ApiUrl,
    records: CollectorRecords,
    clock: Arc<dyn Clock>,
    seen: Mutex<TokenStates>,
    in_flight: Arc<Mutex<BTreeMap<String, u32>>>,
    turn: AtomicUsize,
    answered: Notify,
    asking: tokio::sync::Mutex<()>,
}

impl TokenPool {
    pub(crate) fn new(
        tokens: Vec<Token>,
        quota: Arc<dyn Quota>,
        transport: Arc<dyn Transport>,
        api_url: ApiUrl,
        records: CollectorRecords,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            tokens,
            quota,
            transport,
            api_url,
            records,
            clock,
            seen: Mutex::default(),
            in_flight: Arc::default(),
            turn: AtomicUsize::new(0),
            answered: Notify::new(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, TokenStates> {
        lock(&self.seen)
    }

    /// Reserves a request, with one of the preferred tokens if possible.
    pub(crate) async fn acquire(
        &self,
        preferred: &BTreeSet<String>,
    ) -> Result<Result<Grant, Throttled>> {
        let mut left = RECHECKS_MAX;
        loop {
            // Registers before the check, so that no answer in between is missed.
            let answered = self.answered.notified();
            let throttled = match self.try_acquire(preferred).await? {
                Ok(grant) => return Ok(Ok(grant)),
                Err(throttled) => throttled,
            };
            if left == 0 || throttled.wait > SHORT_WAIT {
                return Ok(Err(throttled));
            }
            left -= 1;
            tokio::select! {
                () = answered => {}
                () = self.clock.sleep(throttled.wait.min(RECHECK_PAUSE)) => {}
            }
        }
    }

    async fn try_acquire(&self, preferred: &BTreeSet<String>) -> Result<Result<Grant, Throttled>> {
        if self.tokens.is_empty() {
            return self.reserve(None, "anonymous".to_owned()).await;
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.tokens.len();
        let mut order: Vec<&Token> = (0..count)
            .filter_map(|n| self.tokens.get((first + n) % count))
            .collect();
        order.sort_by_key(|token| !preferred.contains(&token.hash()));
        let mut shortest: Option<Throttled> = None;
        let mut asked = BTreeSet::new();
        for token in order {
            let held = match self.account(token).await? {
                Ok(account) if asked.insert(account.clone()) => {
                    match self.reserve(Some(token.clone()), account).await? {
                        Ok(grant) => return Ok(Ok(grant)),
                        Err(throttled) => throttled,
                    }
                }
                Ok(_) => continue,
                Err(throttled) => throttled,
            };
            if shortest.as_ref().is_none_or(|one| held.wait < one.wait) {
                shortest = Some(held);
            }
        }
        let none = || Throttled {
            wait: NO_TOKEN_PAUSE,
            reason: "no token can be used".to_owned(),
        };
        Ok(Err(shortest.unwrap_or_else(none)))
    }

    async fn reserve(
        &self,
        token: Option<Token>,
        account: String,
    ) -> Result<Result<Grant, Throttled>> {
        if self.awaits_last_window(&account) {
            return Ok(Err(Throttled {
                wait: RECHECK_PAUSE,
                reason: "requests of the last rate-limit window are still in flight".to_owned(),
            }));
        }
        match self.quota.reserve(&quota_key(&account), 1).await? {
            Reservation::Granted => Ok(Ok(self.grant(token, account))),
            Reservation::WaitFor(wait) => Ok(Err(Throttled {
                wait,
                reason: "the API's budget is used up".to_owned(),
            })),
        }
    }

    fn grant(&self, token: Option<Token>, account: String) -> Grant {
        Grant {
            token,
            _in_flight: InFlight::begin(&account, &self.in_flight),
            account,
        }
    }

    /// True: the window has ended while requests that were reserved in it are in flight. The API
    /// may count them in the next window, so its budget is unknown until they are answered.
    fn awaits_last_window(&self, account: &str) -> bool {
        let now = self.clock.now();
        let ended = self
            .seen()
            .budgets
            .get(account)
            .is_some_and(|one| one.reset_at <= now);
        ended
            && lock(&self.in_flight)
                .get(account)
                .is_some_and(|count| *count > 0)
    }

    /// Records the budget that an answer shows.
    pub(crate) async fn record_budget(&self, grant: &Grant, told: &ApiAnswer) -> Result<()> {
        let now = self.clock.now();
        if let Some(hash) = grant.token_hash().filter(|_| told.status != 401) {
            self.seen().bad.remove(&hash);
        }
        if answer::is_core_budget(told) {
            let mut reading = answer::reading(told, now);
            // A 304 costs nothing, except without a token.
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

    /// Wakes jobs that wait for an answer or for the end of a request.
    pub(crate) fn wake_waiters(&self) {
        self.answered.notify_waiters();
    }

    /// Records that the API refuses the token; returns for how long it is not used. Requests that
    /// were in flight together count as one refusal.
    pub(crate) fn refuse(&self, grant: &Grant) -> Duration {
        let Some(token) = &grant.token else {
            return BAD_TOKEN_PAUSES[0];
        };
        let (hash, now) = (token.hash(), self.clock.now());
        let mut seen = self.seen();
        let before = seen.bad.get(&hash).copied();
        if let Some(bad) = before.filter(|bad| bad.until > now) {
            return bad.until.since(now);
        }
        let times = before.map_or(1, |bad| bad.times + 1);
        let pause = BAD_TOKEN_PAUSES[times.min(BAD_TOKEN_PAUSES.len()) - 1];
        let until = now + pause;
        seen.bad.insert(hash.clone(), BadToken { times, until });
        drop(seen);
        match times < REFUSED_AFTER {
            true => {
                tracing::warn!(target: "clinch::github", token = hash, "the API refused a token; trying again soon");
            }
            false => {
                tracing::error!(target: "clinch::github", token = hash, "the API refuses a token; replace it");
            }
        }
        pause
    }

    /// The hashes of all tokens, in order.
    pub(crate) fn hashes(&self) -> Vec<String> {
        let mut hashes: Vec<String> = self.tokens.iter().map(Token::hash).collect();
        hashes.sort();
        hashes
    }

    /// The token's account: recorded, or requested from the API.
    async fn account(&self, token: &Token) -> Result<Result<String, Throttled>> {
        let hash = token.hash();
        let now = self.clock.now();
        let bad = self.seen().bad.get(&hash).copied();
        if let Some(bad) = bad.filter(|bad| bad.until > now) {
            return Ok(Err(Throttled {
                wait: bad.until.since(now),
                reason: "the API refuses the token".to_owned(),
            }));
        }
        if let Some(account) = self.seen().accounts.get(&hash) {
            return Ok(Ok(account.clone()));
        }
        // One lookup at a time: the others then find the recorded account.
        let _asking = self.asking.lock().await;
        if let Some(account) = self.seen().accounts.get(&hash) {
            return Ok(Ok(account.clone()));
        }
        let account = match self.records.account(&hash).await? {
            Some(account) => account,
            None => match self.ask(token).await? {
                Ok(account) => {
                    self.records.note_account(&hash, &account).await?;
                    account
                }
                Err(throttled) => return Ok(Err(throttled)),
            },
        };
        self.seen().accounts.insert(hash, account.clone());
        Ok(Ok(account))
    }

    /// Asks the API for the token's account. First it reads the budget, which costs nothing: an
    /// account without budget gets no further request.
    async fn ask(&self, token: &Token) -> Result<Result<String, Throttled>> {
        let hash = token.hash();
        let own = self.grant(Some(token.clone()), format!("token {hash}"));
        let throttled = |wait, reason: &str| {
            Ok(Err(Throttled {
                wait,
                reason: reason.to_owned(),
            }))
        };
        let Some(budget) = self.send(token, "/rate_limit").await else {
            return throttled(UNKNOWN_ACCOUNT_PAUSE, "the API does not answer");
        };
        if budget.status == 401 {
            return throttled(self.refuse(&own), "the API refuses the token");
        }
        if let Some(wait) = used_up(&budget, self.clock.now()) {
            return throttled(wait, "the API's budget is used up");
        }
        let Some(user) = self.send(token, "/user").await else {
            return throttled(UNKNOWN_ACCOUNT_PAUSE, "the API does not answer");
        };
        #[derive(Deserialize)]
        struct User {
            login: String,
        }
        let named: Option<User> = serde_json::from_slice(&user.body).ok();
        match (answer::meaning(JobKind::UserBasic, &user), named) {
            (Meaning::Page, Some(User { login })) => {
                let known = self.grant(own.token.clone(), login.clone());
                self.record_budget(&known, &user).await?;
                Ok(Ok(login))
            }
            (Meaning::BadToken, _) => throttled(self.refuse(&own), "the API refuses the token"),
            (Meaning::Limited, _) => {
                let pause = answer::reading(&user, self.clock.now()).retry_after;
                throttled(
                    pause.unwrap_or(UNKNOWN_ACCOUNT_PAUSE),
                    "the API's rate limit refused the request",
                )
            }
            // Tokens of an app have no user; each has a budget of its own.
            (Meaning::Refused(_), _) => {
                self.record_budget(&own, &user).await?;
                Ok(Ok(own.account.clone()))
            }
            _ => throttled(
                UNKNOWN_ACCOUNT_PAUSE,
                "the API does not tell the token's account",
            ),
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
}

/// Budgets are stored by hash, so that the store holds neither tokens nor account names.
fn quota_key(account: &str) -> String {
    let digest = Sha256::digest(account.to_ascii_lowercase().as_bytes());
    let hex: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
    format!("github:{hex}")
}

/// How long to wait, if an answer of `/rate_limit` shows that no budget is left.
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
