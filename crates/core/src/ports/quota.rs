//! A budget at a provider, shared by every node that spends it.

use async_trait::async_trait;

use crate::Result;
use crate::policy::{QuotaReading, Reservation};

/// Budgets by key: a hash of the token or account, never the token itself. The rules are
/// those of [`QuotaState`](crate::policy::QuotaState), on the store's clock.
#[async_trait]
pub trait Quota: Send + Sync {
    /// Takes `permits` calls out of what is left.
    ///
    /// - A granted permit is spent, whether or not the call is made.
    /// - While nothing is known, one reservation is granted at a time: until its answer is
    ///   reported, or the wait for the answer has ended.
    /// - Of a known budget a reserve is kept: the threshold, at most a tenth of the limit.
    ///   Concurrent callers together never take more than the rest.
    /// - All permits or none.
    /// - A wait is never longer than the rules' bound. After the window's end nothing is known
    ///   again.
    /// - More permits than a whole window has are refused as `Invalid`, and so is none.
    async fn reserve(&self, key: &str, permits: u32) -> Result<Reservation>;

    /// Records what an answer said about the budget.
    ///
    /// - Within one window the lowest remaining count applies; a later answer gives nothing back.
    /// - Calls that cost nothing are given back, up to what the answer says is left.
    /// - An answer of an older window changes nothing; one of a newer window begins that window.
    /// - Without a reset time, or with an implausible one, no window begins.
    /// - A negative remaining count means zero.
    /// - `retry_after` stops every reservation of the key; a shorter one does not end a
    ///   longer one.
    async fn update(&self, key: &str, reading: &QuotaReading) -> Result<()>;
}
