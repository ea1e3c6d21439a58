//! Tokens that the API refuses: for how long each is not used.

use std::time::Duration;

use clinch::types::Timestamp;

use super::{Grant, REFUSED_ANONYMOUS, REMEMBERED_MAX, Throttled, TokenPool};

/// Pauses of a token that the API refuses, by the number of refusals in a row: one or two may be a
/// mistake of the API.
const BAD_TOKEN_PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(60),
    Duration::from_secs(10 * 60),
];
/// Refusals in a row after which a token counts as refused.
pub(super) const REFUSED_AFTER: usize = 3;
/// A refused token of a user that was not tried again for so long counts no more: it may have been
/// removed by another process. While a run waits for it, it is tried every ten minutes.
pub(super) const NOT_TRIED_AGAIN: Duration = Duration::from_secs(10 * 60);

/// A token that the API refuses.
#[derive(Clone, Copy)]
pub(super) struct BadToken {
    /// Refusals in a row.
    pub(super) times: usize,
    pub(super) until: Timestamp,
    /// It was one of the server's tokens when it was refused first.
    pub(super) is_of_server: bool,
}

impl TokenPool {
    /// For how long a token is not used because the API refused it.
    pub(super) fn refused(&self, hash: &str, reason: &str) -> Option<Throttled> {
        let now = self.clock.now();
        let bad = self.seen().bad.get(hash).copied();
        let bad = bad.filter(|bad| bad.until > now)?;
        Some(Throttled {
            wait: bad.until.since(now),
            reason: reason.to_owned(),
        })
    }

    /// Records that the API refuses the token, or requests without one; returns for how long none is
    /// sent. Requests that were in flight together count as one refusal.
    pub(crate) fn refuse(&self, grant: &Grant) -> Duration {
        let (hash, now) = (grant.refused_hash(), self.clock.now());
        // Requests without a token are the server's.
        let is_known = grant.token.is_none() || self.server().iter().any(|one| one.hash() == hash);
        let mut seen = self.seen();
        let before = seen.bad.get(&hash).copied();
        if let Some(bad) = before.filter(|bad| bad.until > now) {
            return bad.until.since(now);
        }
        let times = before.map_or(1, |bad| bad.times + 1);
        let pause = BAD_TOKEN_PAUSES[times.min(BAD_TOKEN_PAUSES.len()) - 1];
        let bad = BadToken {
            times,
            until: now + pause,
            is_of_server: before.map_or(is_known, |bad| bad.is_of_server),
        };
        seen.bad.insert(hash.clone(), bad);
        seen.tidy(now, REMEMBERED_MAX);
        drop(seen);
        match times < REFUSED_AFTER {
            true => {
                tracing::warn!(target: "clinch::github", token = hash, "the API refused a token; trying again soon");
            }
            false if grant.token.is_none() => {
                tracing::error!(target: "clinch::github", "{REFUSED_ANONYMOUS}");
            }
            false => {
                tracing::error!(target: "clinch::github", token = hash, "the API refuses a token; replace it");
            }
        }
        pause
    }
}
