//! Tokens of users: sealed in the store, used by the runs of their user and by no others.
//!
//! All tokens of a user lie in one record, which every job of the user reads together with its
//! cursor. So every process uses a new token, and stops using a removed one, with the next job.

use clinch::ports::{RecordList, RecordWrite};
use clinch::types::{ErrorKind, Timestamp};
use clinch::{Error, Result};
use serde::Serialize;

use crate::Token;
use crate::collector::{Collector, Inner};
use crate::model::{Space, login};
use crate::records::{CollectorRecords, TRIES_MAX, contended, expected, parse, text};
use crate::seal::SealedToken;
use crate::tokens::TokenView;

/// Tokens of one user: every job opens them all.
const TOKENS_MAX: usize = 20;
/// Longest token, in bytes: GitHub's own are shorter than half of it.
const TOKEN_BYTES_MAX: usize = 500;
/// Records that are read at once when a new key seals them.
const STEP: usize = 200;

/// A token of a user. Shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserToken {
    /// The token's hash.
    pub token: String,
    /// The token's account, once it is known.
    pub account: Option<String>,
    /// When the token was stored.
    pub added_at: Timestamp,
    /// Whether the token can be used.
    pub state: UserTokenState,
}

/// Whether a token of a user can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UserTokenState {
    /// It can be used.
    Usable,
    /// It has no budget now, or the API asked for a pause.
    Blocked,
    /// The API has refused it several times in a row.
    Refused,
    /// It was sealed with a key that this process does not have.
    Unreadable,
}

/// The key of the record with a user's tokens. Trial runs use the same tokens as the others.
pub(crate) fn tokens_key(login: &str) -> String {
    format!("{PREFIX}{login}")
}

const PREFIX: &str = "github/tokens/";

/// The tokens of a user in the record that a job has read; `None`: the user has no token.
pub(crate) fn stored(record: Option<&clinch::ports::Record>) -> Result<Option<Vec<SealedToken>>> {
    let tokens: Option<Vec<SealedToken>> = record.map(parse).transpose()?;
    Ok(tokens.filter(|tokens| !tokens.is_empty()))
}

fn user(text: &str) -> Result<String> {
    login(text).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
}

impl Collector {
    /// Stores a token that only the runs of this user use. The same token again changes nothing.
    /// `Unsupported`: there is no key to seal it with.
    pub async fn add_token(&self, login: &str, token: &Token) -> Result<UserToken> {
        let (login, secret) = (user(login)?, token.secret());
        let is_token = (1..=TOKEN_BYTES_MAX).contains(&secret.len())
            && secret.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            let message = "a token is 1 to 500 visible ASCII characters";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let key = tokens_key(&login);
        let keys = &self.inner.settings.token_keys;
        let sealed = keys.seal(&key, token, self.inner.clock.now())?;
        let add = |tokens: &mut Vec<SealedToken>| {
            // A token that cannot be opened any more is replaced.
            let is_same = |one: &SealedToken| one.token == sealed.token;
            let is_there = |one: &SealedToken| is_same(one) && keys.open(&key, one).is_some();
            if tokens.iter().any(is_there) {
                return Ok(false);
            }
            tokens.retain(|one| !is_same(one));
            if tokens.len() >= TOKENS_MAX {
                let message = format!("a user has at most {TOKENS_MAX} tokens; remove one first");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            tokens.push(sealed.clone());
            Ok(true)
        };
        if self.inner.records.change_tokens(&login, add).await? {
            tracing::info!(target: "clinch::github", user = login, token = sealed.token, "a token of a user was added");
            self.inner.wake_user(&login).await?;
        }
        let tokens = self.user_tokens(&login).await?;
        let added = tokens.into_iter().find(|one| one.token == sealed.token);
        let gone = || Error::new(ErrorKind::Conflict, "the token was removed at once");
        added.ok_or_else(gone)
    }

    /// The tokens of a user, oldest first.
    pub async fn user_tokens(&self, login: &str) -> Result<Vec<UserToken>> {
        let login = user(login)?;
        let key = tokens_key(&login);
        let stored = self.inner.records.tokens(&login).await?;
        let mut tokens = Vec::with_capacity(stored.len());
        for sealed in stored {
            let opened = self.inner.settings.token_keys.open(&key, &sealed);
            let view = self.inner.tokens.view_of(sealed.token).await?;
            tokens.push(UserToken {
                state: match opened {
                    Some(_) => state(&view),
                    None => UserTokenState::Unreadable,
                },
                token: view.token,
                account: view.account,
                added_at: sealed.added_at,
            });
        }
        Ok(tokens)
    }

    /// Removes a token of a user, named by its hash. `NotFound`: the user has no such token.
    pub async fn remove_token(&self, login: &str, token: &str) -> Result<()> {
        let login = user(login)?;
        let remove = |tokens: &mut Vec<SealedToken>| {
            let before = tokens.len();
            tokens.retain(|one| one.token != token);
            Ok(tokens.len() < before)
        };
        if !self.inner.records.change_tokens(&login, remove).await? {
            let message = format!("{login:?} has no such token");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        tracing::info!(target: "clinch::github", user = login, token, "a token of a user was removed");
        self.inner.drop_account(token).await?;
        self.inner.wake_user(&login).await
    }
}

fn state(view: &TokenView) -> UserTokenState {
    match (view.refused, view.blocked_until) {
        (true, _) => UserTokenState::Refused,
        (false, Some(_)) => UserTokenState::Blocked,
        (false, None) => UserTokenState::Usable,
    }
}

impl Inner {
    /// Seals every token of users again whose key is not the first one; returns how many. A token
    /// whose key is missing stays as it is.
    pub(crate) async fn reseal_tokens(&self) -> Result<u64> {
        let keys = &self.settings.token_keys;
        let mut resealed = 0;
        let mut list = RecordList {
            prefix: PREFIX.to_owned(),
            descending: false,
            after: None,
            limit: STEP,
        };
        while keys.can_seal() {
            let found = self.records.records.list_records(&list).await?;
            for record in &found {
                let mut count = 0;
                let again = |tokens: &mut Vec<SealedToken>| {
                    count = 0;
                    for sealed in tokens.iter_mut().filter(|one| !keys.is_newest(one)) {
                        if let Some(token) = keys.open(&record.key, sealed) {
                            *sealed = keys.seal(&record.key, &token, sealed.added_at)?;
                            count += 1;
                        }
                    }
                    Ok(count > 0)
                };
                let login = record.key.strip_prefix(PREFIX).unwrap_or_default();
                self.records.change_tokens(login, again).await?;
                resealed += count;
            }
            list.after = found.last().map(|one| one.key.clone());
            if found.len() < STEP {
                break;
            }
        }
        Ok(resealed)
    }

    /// Deletes the tokens of a user; returns whether there were any.
    pub(crate) async fn forget_tokens(&self, login: &str) -> Result<bool> {
        let stored = self.records.tokens(login).await?;
        for sealed in &stored {
            self.drop_account(&sealed.token).await?;
        }
        let all = |tokens: &mut Vec<SealedToken>| {
            tokens.clear();
            Ok(true)
        };
        self.records.change_tokens(login, all).await?;
        Ok(!stored.is_empty())
    }

    /// Forgets whose a removed token was, unless it is one of the server's.
    async fn drop_account(&self, token: &str) -> Result<()> {
        match self.tokens.hashes().iter().any(|hash| hash == token) {
            true => Ok(()),
            false => self.tokens.drop_account(token).await,
        }
    }

    /// Makes the jobs of a user's active runs due that wait for a token or a budget.
    async fn wake_user(&self, login: &str) -> Result<()> {
        for space in [Space::Main, Space::Shadow] {
            let latest = self.records.latest(login, space).await?;
            let Some(run) = latest else { continue };
            let is_active = !run.status.is_terminal();
            let repairs = run.repairs.iter().filter(|one| one.completed_at.is_none());
            let repairs = repairs.map(|one| one.number);
            for part in is_active.then_some(0).into_iter().chain(repairs) {
                let batch = run.run_id.batch("jobs", part);
                self.wake_waiting(Some(batch)).await?;
            }
        }
        Ok(())
    }
}

impl CollectorRecords {
    /// The sealed tokens of a user.
    pub(crate) async fn tokens(&self, login: &str) -> Result<Vec<SealedToken>> {
        let found = self.records.read_records(&[tokens_key(login)]).await?;
        Ok(stored(found.iter().flatten().next())?.unwrap_or_default())
    }

    /// Changes the tokens of a user; the record of a user without any is deleted. `Ok(false)` from
    /// `change`: they stay as they are.
    async fn change_tokens(
        &self,
        login: &str,
        mut change: impl FnMut(&mut Vec<SealedToken>) -> Result<bool>,
    ) -> Result<bool> {
        let key = tokens_key(login);
        for _ in 0..TRIES_MAX {
            let found = self
                .records
                .read_records(std::slice::from_ref(&key))
                .await?;
            let found = found.into_iter().next().flatten();
            let version = found.as_ref().map(|record| record.version);
            let mut tokens = stored(found.as_ref())?.unwrap_or_default();
            if !change(&mut tokens)? {
                return Ok(false);
            }
            let body = match tokens.is_empty() {
                true => None,
                false => Some(text(&tokens)?),
            };
            if version.is_none() && body.is_none() {
                return Ok(true);
            }
            let write = RecordWrite {
                key: key.clone(),
                expected: expected(version),
                body,
            };
            if self.records.write_records(&[write]).await? {
                return Ok(true);
            }
        }
        Err(contended(&key))
    }
}
