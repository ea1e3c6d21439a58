//! The collector in memory with a fake GitHub, on a clock that tests move.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they rely on"
)]

mod apart;
mod attack;
mod bounds;
mod branches;
mod cost;
mod counted;
mod exact;
mod forged;
mod forgotten;
mod installations;
mod lab;
mod later;
mod lists;
mod lookups;
mod neighbors;
mod octokit;
mod oracle;
mod patience;
mod points;
mod progress;
mod property;
mod pruned;
mod runs;
mod selection;
mod shadow;
mod statistics;
mod steps;
mod streams;
mod stuck;
mod switch;
mod switch_race;
mod tenants;
mod token_keys;
mod trouble;
mod unavailable;
mod waits;
