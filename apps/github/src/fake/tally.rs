//! Counts of the requests to the fake.

use std::collections::BTreeMap;

/// Counts since the fake was created. The account of requests without a token is `anonymous`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All requests, including refused and lost ones.
    pub requests: u64,
    /// Requests by account, without those with bad credentials.
    pub by_account: BTreeMap<String, u64>,
    /// Requests by status of the answer, without lost ones.
    pub by_status: BTreeMap<u16, u64>,
    /// Requests refused because the account's budget was used up.
    pub primary_refusals: u64,
    /// Requests refused by a secondary limit.
    pub secondary_refusals: u64,
    /// Requests answered with 304.
    pub not_modified: u64,
    /// Requests without an answer, or without a complete one.
    pub lost: u64,
    /// The most that each account spent in one window.
    pub window_max: BTreeMap<String, u32>,
    /// The most searches that each account made in one minute.
    pub searches_max: BTreeMap<String, u32>,
    /// The most concurrent requests, of all accounts together.
    pub concurrent_max: u32,
    /// Requests by path and query.
    pub by_url: BTreeMap<String, u64>,
}
