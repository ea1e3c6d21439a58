//! What the fake has seen.

use std::collections::BTreeMap;

/// Counts since the fake was made. The anonymous account is `anonymous`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them, refused and lost ones too.
    pub requests: u64,
    /// By account; those with bad credentials are in none.
    pub by_account: BTreeMap<String, u64>,
    /// By the status of the answer; lost ones are in none.
    pub by_status: BTreeMap<u16, u64>,
    /// Refused because the account had nothing left.
    pub primary_refusals: u64,
    /// Refused for haste.
    pub secondary_refusals: u64,
    /// Answered with 304.
    pub not_modified: u64,
    /// Never answered, or not to the end.
    pub lost: u64,
    /// The most that each account spent in one window.
    pub window_max: BTreeMap<String, u32>,
    /// The most requests at a time, of all accounts together.
    pub concurrent_max: u32,
    /// By path and query.
    pub by_url: BTreeMap<String, u64>,
}
