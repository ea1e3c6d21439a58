//! What goes wrong, by a script that a seed decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clinch::testing::SplitMix;
use sha2::{Digest, Sha256};

use super::limits::Secondary;

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// An error in place of the answer: 500, 502, 503.
    Status(u16),
    /// No answer, and nothing is counted.
    LostBefore,
    /// No answer, though the request was counted.
    LostAfter,
    /// The connection ends in the middle of the body.
    Cut,
    /// 200 with half of the JSON.
    Malformed,
    /// The answer comes later.
    Slow(Duration),
    /// 202 without a body; asked again, the answer.
    Accepted,
    /// A secondary limit stops the account for this long.
    Secondary(Secondary, Duration),
}

/// A script of faults.
///
/// - Chance decides by the seed, the path and query, and how often that was asked before: the
///   order in which other requests come changes nothing.
/// - Requests that a limit refuses are not counted.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    seed: u64,
    chances: Vec<(f64, Fault)>,
    listed: BTreeMap<u64, Fault>,
    paths: Vec<(String, u32, Fault)>,
    per_url_max: Option<u32>,
    pub(super) repositories: BTreeMap<String, u16>,
    tokens: BTreeSet<String>,
    seen: u64,
    by_url: BTreeMap<String, Asked>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    times: u32,
    faults: u32,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// Nothing goes wrong yet; chances are drawn from this seed.
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// Happens to this share of the requests, 0 … 1. Shares add up.
    pub fn chance(mut self, share: f64, fault: Fault) -> Self {
        self.chances.push((share, fault));
        self
    }

    /// Happens to the n-th request, the first being 1.
    pub fn at(mut self, n: u64, fault: Fault) -> Self {
        self.listed.insert(n, fault);
        self
    }

    /// Happens to the first `times` requests whose path and query contain `part`.
    pub fn first(mut self, part: &str, times: u32, fault: Fault) -> Self {
        self.paths.push((part.to_owned(), times, fault));
        self
    }

    /// Chance strikes no path and query more often, so that a client that tries again gets
    /// through.
    pub fn at_most(mut self, per_url: u32) -> Self {
        self.per_url_max = Some(per_url);
        self
    }

    /// A repository, `OWNER/NAME`, answers everything with this status for good: 404, 410, 451.
    pub fn repository(mut self, full_name: &str, status: u16) -> Self {
        self.repositories.insert(full_name.to_lowercase(), status);
        self
    }

    /// A token is refused with 401 for good.
    pub fn token(mut self, secret: &str) -> Self {
        self.tokens.insert(secret.to_owned());
        self
    }

    pub(super) fn revokes(&self, secret: &str) -> bool {
        self.tokens.contains(secret)
    }

    /// What happens to the next request.
    pub(super) fn draw(&mut self, target: &str) -> Option<Fault> {
        self.seen += 1;
        let asked = self.by_url.entry(target.to_owned()).or_default();
        asked.times += 1;
        if let Some(fault) = self.listed.get(&self.seen) {
            return Some(fault.clone());
        }
        let mut paths = self.paths.iter_mut();
        if let Some((_, left, fault)) =
            paths.find(|(part, left, _)| *left > 0 && target.contains(part.as_str()))
        {
            *left -= 1;
            return Some(fault.clone());
        }
        if self.per_url_max.is_some_and(|max| asked.faults >= max) {
            return None;
        }
        let mut drawn = draw(self.seed, target, asked.times);
        let (_, fault) = self.chances.iter().find(|(share, _)| {
            drawn -= share;
            drawn < 0.0
        })?;
        asked.faults += 1;
        Some(fault.clone())
    }
}

/// A number in 0 … 1.
fn draw(seed: u64, target: &str, times: u32) -> f64 {
    let digest = Sha256::digest(target.as_bytes());
    let key = digest
        .iter()
        .take(8)
        .fold(0, |key: u64, byte| key << 8 | u64::from(*byte));
    let mut rng = SplitMix::new(seed ^ key ^ u64::from(times).rotate_left(32));
    rng.next_f64()
}
