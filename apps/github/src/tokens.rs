//! Chooses the token, and so the budget, of each request.
//!
//! Budgets belong to accounts, not to tokens: two tokens of one account share one. The collector
//! looks up each token's account once and records it.

mod accounts;
mod in_flight;
mod pace;
mod refusals;
mod set;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use clinch::Result;
use clinch::policy::Reservation;
use clinch::ports::{Clock, Quota};
use clinch::types::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use in_flight::{InFlight, lock};
use pace::Pace;
use refusals::BadToken;
pub(crate) use set::TokenSet;
pub use view::{Budget, TokenView};

use crate::answer;
use crate::records::CollectorRecords;
use crate::streams::Bucket;
use crate::{ApiAnswer, ApiUrl, Token, Transport};

/// Waits up to this long may end early, with the answer to a request that is in flight.
const SHORT_WAIT: Duration = Duration::from_secs(30);
/// How often a job waits for such an answer before another job takes its place.
const RECHECKS_MAX: u32 = 4;
/// How long it waits each time, unless an answer comes earlier.
const RECHECK_PAUSE: Duration = Duration::from_secs(1);
/// After that it asks again at the latest after this time: its wait may end with the next answer.
const SHORT_WAIT_STEP: Duration = Duration::from_secs(3);
/// Pause while no token can be used, if nothing says for how long.
pub(crate) const NO_TOKEN_PAUSE: Duration = Duration::from_secs(60);

/// Permission to send one request. The request counts as in flight until this is dropped.
pub(crate) struct Grant {
    pub(crate) token: Option<Token>,
    account: String,
    bucket: Bucket,
    _in_flight: InFlight,
}

impl Grant {
    /// The hash of the token, if there is one.
    pub(crate) fn token_hash(&self) -> Option<String> {
        self.token.as_ref().map(Token::hash)
    }

    /// By which the API's refusals are remembered.
    fn refused_hash(&self) -> String {
        self.token_hash().unwrap_or_else(|| ANONYMOUS.to_owned())
    }
}

/// No request may be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Throttled {
    pub(crate) wait: Duration,
    pub(crate) reason: String,
}

/// The API refuses a token.
const REFUSED: &str = "the API refuses the token";
/// The API refuses requests without a token.
const REFUSED_ANONYMOUS: &str = "the API refuses requests without a token: set github.tokens";

impl Throttled {
    /// Whether there is no request because the API refuses a token, or requests without one.
    pub(crate) fn is_refused(&self) -> bool {
        self.reason == REFUSED || self.reason == REFUSED_ANONYMOUS
    }
}

/// The account, and the hash of the token, of requests without a token.
const ANONYMOUS: &str = "anonymous";

#[derive(Default)]
struct TokenStates {
    accounts: BTreeMap<String, String>,
    bad: BTreeMap<String, BadToken>,
    budgets: BTreeMap<String, Budget>,
    blocked_until: BTreeMap<String, Timestamp>,
    paces: BTreeMap<String, Pace>,
}

/// Tokens and accounts that a process remembers: many more than have requests at the same time. What
/// is forgotten is read from the store, or learned from the next answer.
const REMEMBERED_MAX: usize = 10_000;

impl TokenStates {
    /// Forgets what has passed, and if that is not enough, whose the tokens are.
    fn tidy(&mut self, now: Timestamp, most: usize) {
        if self.budgets.len() > most {
            self.budgets.retain(|_, budget| budget.reset_at > now);
        }
        if self.blocked_until.len() > most {
            self.blocked_until.retain(|_, until| *until > now);
        }
        if self.bad.len() > most {
            self.bad.retain(|_, bad| bad.until > now);
        }
        if self.accounts.len() > most {
            self.accounts.clear();
        }
    }
}

/// The server's tokens, and access to the budgets of all tokens.
pub(crate) struct TokenPool {
    server: Mutex<Arc<[Token]>>,
    quota: Arc<dyn Quota>,
    transport: Arc<dyn Transport>,
    api_url: ApiUrl,
    records: CollectorRecords,
    clock: Arc<dyn Clock>,
    /// Requests a minute of one account.
    per_minute: Option<u32>,
    seen: Mutex<TokenStates>,
    in_flight: Arc<Mutex<BTreeMap<String, u32>>>,
    turn: AtomicUsize,
    answered: Notify,
    /// One lookup of a token's account at a time; the others then find what it got.
    asking: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
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
            server: Mutex::new(tokens.into()),
            quota,
            transport,
            api_url,
            records,
            clock,
            per_minute: None,
            seen: Mutex::default(),
            in_flight: Arc::default(),
            turn: AtomicUsize::new(0),
            answered: Notify::new(),
            asking: Mutex::default(),
        }
    }

    /// With at most this many requests a minute of one account.
    pub(crate) fn paced(self, per_minute: Option<u32>) -> Self {
        Self { per_minute, ..self }
    }

    fn seen(&self) -> MutexGuard<'_, TokenStates> {
        lock(&self.seen)
    }

    /// The server's tokens.
    pub(crate) fn server(&self) -> Arc<[Token]> {
        lock(&self.server).clone()
    }

    /// Replaces the server's tokens. False: they are the same.
    pub(crate) fn replace_server(&self, tokens: Vec<Token>) -> bool {
        let mut server = lock(&self.server);
        let is_new = **server != *tokens;
        if is_new {
            *server = tokens.into();
        }
        is_new
    }

    /// Reserves a request, with one of these tokens, a preferred one if possible.
    pub(crate) async fn acquire(
        &self,
        bucket: Bucket,
        tokens: &TokenSet,
        preferred: &BTreeSet<String>,
    ) -> Result<Result<Grant, Throttled>> {
        let mut left = RECHECKS_MAX;
        loop {
            // Registers before the check, so that no answer in between is missed.
            let answered = self.answered.notified();
            let throttled = match self.try_acquire(bucket, tokens, preferred).await? {
                Ok(grant) => return Ok(Ok(grant)),
                Err(throttled) => throttled,
            };
            if throttled.wait > SHORT_WAIT {
                return Ok(Err(throttled));
            }
            if left == 0 {
                let wait = throttled.wait.min(SHORT_WAIT_STEP);
                return Ok(Err(Throttled { wait, ..throttled }));
            }
            left -= 1;
            tokio::select! {
                () = answered => {}
                () = self.clock.sleep(throttled.wait.min(RECHECK_PAUSE)) => {}
            }
        }
    }

    async fn try_acquire(
        &self,
        bucket: Bucket,
        tokens: &TokenSet,
        preferred: &BTreeSet<String>,
    ) -> Result<Result<Grant, Throttled>> {
        if tokens.is_anonymous() {
            return match self.refused(ANONYMOUS, REFUSED_ANONYMOUS) {
                Some(throttled) => Ok(Err(throttled)),
                None => self.reserve(bucket, None, ANONYMOUS.to_owned()).await,
            };
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut order = tokens.from(first);
        order.sort_by_key(|token| !preferred.contains(&token.hash()));
        let mut shortest: Option<Throttled> = None;
        let mut asked = BTreeSet::new();
        for token in order {
            let held = match self.account(token).await? {
                Ok(account) if asked.insert(account.clone()) => {
                    match self.reserve(bucket, Some(token.clone()), account).await? {
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
        bucket: Bucket,
        token: Option<Token>,
        account: String,
    ) -> Result<Result<Grant, Throttled>> {
        if bucket == Bucket::Core && self.awaits_last_window(&account) {
            return Ok(Err(Throttled {
                wait: RECHECK_PAUSE,
                reason: "requests of the last rate-limit window are still in flight".to_owned(),
            }));
        }
        if let Err(wait) = self.take_turn(bucket, &account) {
            return Ok(Err(Throttled {
                wait,
                reason: "an account may make only so many requests a minute".to_owned(),
            }));
        }
        match self.quota.reserve(&quota_key(bucket, &account), 1).await {
            Ok(Reservation::Granted) => Ok(Ok(self.grant(bucket, token, account))),
            Ok(Reservation::WaitFor(wait)) => {
                self.give_turn_back(bucket, &account);
                Ok(Err(Throttled {
                    wait,
                    reason: "the API's budget is used up".to_owned(),
                }))
            }
            Err(error) => {
                self.give_turn_back(bucket, &account);
                Err(error)
            }
        }
    }

    /// Counts a request of this account; `Err`: for how long there is no room for one.
    fn take_turn(&self, bucket: Bucket, account: &str) -> std::result::Result<(), Duration> {
        let (Some(most), Bucket::Core) = (self.per_minute, bucket) else {
            return Ok(());
        };
        let now = self.clock.monotonic();
        let mut seen = self.seen();
        if seen.paces.len() > REMEMBERED_MAX {
            seen.paces.retain(|_, pace| !pace.is_idle(now));
        }
        let pace = seen.paces.entry(account.to_owned()).or_default();
        pace.take(now, most)
    }

    fn give_turn_back(&self, bucket: Bucket, account: &str) {
        if let (Some(_), Bucket::Core) = (self.per_minute, bucket) {
            let mut seen = self.seen();
            seen.paces
                .entry(account.to_owned())
                .or_default()
                .give_back();
        }
    }

    fn grant(&self, bucket: Bucket, token: Option<Token>, account: String) -> Grant {
        Grant {
            token,
            _in_flight: InFlight::begin(&account, &self.in_flight),
            account,
            bucket,
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
        if told.status != 401 {
            self.seen().bad.remove(&grant.refused_hash());
        }
        if answer::is_about(grant.bucket, told) {
            let mut reading = answer::reading(told, now);
            // A 304 costs nothing, except without a token.
            reading.unspent = u32::from(told.status == 304 && grant.token.is_some());
            let key = quota_key(grant.bucket, &grant.account);
            self.quota.update(&key, &reading).await?;
            let mut seen = self.seen();
            if let Some(pause) = reading.retry_after {
                let until = now + pause;
                seen.blocked_until.insert(grant.account.clone(), until);
            }
            let remaining = reading
                .remaining
                .map(|left| u64::try_from(left).unwrap_or(0));
            if let (Some(limit), Some(remaining), Some(reset_at), Bucket::Core) =
                (reading.limit, remaining, reading.reset_at, grant.bucket)
            {
                let budget = Budget {
                    limit,
                    remaining,
                    reset_at,
                };
                seen.budgets.insert(grant.account.clone(), budget);
            }
            seen.tidy(now, REMEMBERED_MAX);
        }
        self.answered.notify_waiters();
        Ok(())
    }

    /// Wakes jobs that wait for an answer or for the end of a request.
    pub(crate) fn wake_waiters(&self) {
        self.answered.notify_waiters();
    }

    /// The hashes of the server's tokens, in order.
    pub(crate) fn hashes(&self) -> Vec<String> {
        let mut hashes: Vec<String> = self.server().iter().map(Token::hash).collect();
        hashes.sort();
        hashes
    }
}

/// Budgets are stored by hash, so that the store holds neither tokens nor account names.
fn quota_key(bucket: Bucket, account: &str) -> String {
    let digest = Sha256::digest(account.to_ascii_lowercase().as_bytes());
    let hex: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
    match bucket {
        Bucket::Core => format!("github:{hex}"),
        Bucket::Search => format!("github-search:{hex}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_remembers_a_bounded_number_of_tokens_and_what_still_holds() {
        let at = Timestamp::from_millis;
        let mut states = TokenStates::default();
        for n in 0..100_i64 {
            let (name, until) = (format!("{n}"), at(n * 10));
            let (limit, remaining) = (1, 1);
            let budget = Budget {
                limit,
                remaining,
                reset_at: until,
            };
            states.budgets.insert(name.clone(), budget);
            states.blocked_until.insert(name.clone(), until);
            let bad = BadToken {
                times: 1,
                until,
                is_of_server: true,
            };
            states.bad.insert(name.clone(), bad);
            states.accounts.insert(name.clone(), name);
        }
        states.tidy(at(500), 100);
        assert_eq!(
            states.budgets.len() + states.accounts.len(),
            200,
            "few enough"
        );
        states.tidy(at(500), 99);
        let left = [
            states.budgets.len(),
            states.blocked_until.len(),
            states.bad.len(),
        ];
        assert_eq!((left, states.accounts.len()), ([49; 3], 0));
        assert!(states.budgets.contains_key("99") && !states.budgets.contains_key("50"));
    }
}
