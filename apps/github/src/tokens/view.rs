//! Tokens as operators see them.

use clinch::Result;
use clinch::types::Timestamp;
use serde::{Deserialize, Serialize};

use super::TokenPool;
use super::refusals::{BadToken, NOT_TRIED_AGAIN, REFUSED_AFTER};
use crate::Token;

/// A token and its state. Shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenView {
    /// The token's hash.
    pub token: String,
    /// The token's account, once it is known.
    pub account: Option<String>,
    /// The budget in the last answer to this process.
    pub budget: Option<Budget>,
    /// The token is not used before this time.
    pub blocked_until: Option<Timestamp>,
    /// True: the API has refused the token several times in a row.
    pub refused: bool,
}

/// An account's budget according to an answer of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Requests per window.
    pub limit: u64,
    /// Requests that are left.
    pub remaining: u64,
    /// When the window ends.
    pub reset_at: Timestamp,
}

impl TokenPool {
    /// Every token of the server, and its state.
    pub(crate) async fn view(&self) -> Result<Vec<TokenView>> {
        let tokens = self.server();
        let mut views = Vec::with_capacity(tokens.len());
        for token in tokens.iter() {
            views.push(self.view_of(token.hash()).await?);
        }
        Ok(views)
    }

    /// The state of the token with this hash.
    pub(crate) async fn view_of(&self, hash: String) -> Result<TokenView> {
        let noted = self.records.account(&hash).await?;
        let (now, seen) = (self.clock.now(), self.seen());
        let bad = seen.bad.get(&hash).copied();
        let account = seen.accounts.get(&hash).cloned().or(noted);
        let of_account = account.as_ref();
        let blocked = of_account.and_then(|account| seen.blocked_until.get(account));
        let budget = of_account.and_then(|account| seen.budgets.get(account));
        Ok(TokenView {
            refused: bad.is_some_and(|bad| bad.times >= REFUSED_AFTER),
            blocked_until: blocked
                .copied()
                .max(bad.map(|bad| bad.until))
                .filter(|until| *until > now),
            budget: budget.copied().filter(|budget| budget.reset_at > now),
            token: hash,
            account,
        })
    }

    /// Number of the server's tokens.
    pub(crate) fn size(&self) -> usize {
        self.server().len()
    }

    /// Number of the server's tokens that cannot be used now.
    pub(crate) fn blocked(&self) -> usize {
        let (now, seen) = (self.clock.now(), self.seen());
        let is_blocked = |token: &&Token| {
            let hash = token.hash();
            let account = seen.accounts.get(&hash);
            let paused = account.and_then(|account| seen.blocked_until.get(account));
            let budget = account.and_then(|account| seen.budgets.get(account));
            paused.is_some_and(|until| *until > now)
                || budget.is_some_and(|one| one.reset_at > now && one.remaining == 0)
                || seen.bad.get(&hash).is_some_and(|bad| bad.until > now)
        };
        self.server().iter().filter(is_blocked).count()
    }

    /// Number of tokens of users, and of installations of the app, that the API refuses.
    pub(crate) fn refused_of_users(&self) -> usize {
        let now = self.clock.now();
        let is_refused = |bad: &&BadToken| {
            let is_tried = bad.until + NOT_TRIED_AGAIN > now;
            !bad.is_of_server && bad.times >= REFUSED_AFTER && is_tried
        };
        self.seen().bad.values().filter(is_refused).count()
    }
}
