//! Whose a token is: budgets belong to accounts.

use std::sync::Arc;
use std::time::Duration;

use clinch::Result;
use clinch::types::Timestamp;
use serde::Deserialize;

use super::in_flight::lock;
use super::{REFUSED, Throttled, TokenPool};
use crate::answer::{self, Meaning};
use crate::streams::{Bucket, JobKind};
use crate::{ApiAnswer, ApiRequest, Token};

/// Pause after an answer that does not tell the token's account.
const UNKNOWN_ACCOUNT_PAUSE: Duration = Duration::from_secs(30);

impl TokenPool {
    /// The token's account: recorded, or requested from the API.
    pub(crate) async fn account(&self, token: &Token) -> Result<Result<String, Throttled>> {
        let hash = token.hash();
        if let Some(throttled) = self.refused(&hash, REFUSED) {
            return Ok(Err(throttled));
        }
        if let Some(account) = self.seen().accounts.get(&hash) {
            return Ok(Ok(account.clone()));
        }
        let asking = self.asking(&hash);
        let _asking = asking.lock().await;
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

    /// The lock for the lookup of a token. Those that nobody holds are forgotten.
    fn asking(&self, hash: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut asking = lock(&self.asking);
        asking.retain(|_, lock| Arc::strong_count(lock) > 1);
        asking.entry(hash.to_owned()).or_default().clone()
    }

    /// Notes whose a token is.
    pub(crate) fn know_account(&self, token: &Token, account: &str) {
        self.seen()
            .accounts
            .insert(token.hash(), account.to_owned());
    }

    /// Forgets whose a token is.
    pub(crate) async fn drop_account(&self, hash: &str) -> Result<()> {
        self.seen().accounts.remove(hash);
        self.seen().bad.remove(hash);
        self.records.drop_account(hash).await
    }

    /// Asks the API for the token's account. First it reads the budget, which costs nothing: an
    /// account without budget gets no further request.
    async fn ask(&self, token: &Token) -> Result<Result<String, Throttled>> {
        let hash = token.hash();
        let own = self.grant(Bucket::Core, Some(token.clone()), format!("token {hash}"));
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
            return throttled(self.refuse(&own), REFUSED);
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
        match (answer::meaning(JobKind::USER_BASIC, &user), named) {
            (Meaning::Page, Some(User { login })) => {
                let known = self.grant(Bucket::Core, own.token.clone(), login.clone());
                self.record_budget(&known, &user).await?;
                Ok(Ok(login))
            }
            (Meaning::BadToken, _) => throttled(self.refuse(&own), REFUSED),
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
            accept: None,
        };
        self.transport.get(&request).await.ok()
    }
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
