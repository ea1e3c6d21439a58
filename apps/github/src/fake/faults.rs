//! Scripted faults, decided by a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clinch::testing::SplitMix;
use sha2::{Digest, Sha256};

use super::limits::Secondary;

/// One kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// An error instead of the answer: 500, 502, 503. A 401 refuses the credentials of this one
    /// request.
    Status(u16),
    /// No answer, and the request is not counted.
    LostBefore,
    /// No answer, although the request was counted.
    LostAfter,
    /// The connection ends in the middle of the body.
    Cut,
    /// 200 with half of the JSON.
    Malformed,
    /// The answer is late.
    Slow(Duration),
    /// 202 without a body; the next request gets the answer.
    Accepted,
    /// A secondary limit blocks the account for this long.
    Secondary(Secondary, Duration),
}

/// A script of faults.
///
/// - Chance depends on the seed, the path and query, and how often that was requested before. The
///   order of other requests does not matter.
/// - Requests that a limit refuses are not counted.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    seed: u64,
    chances: Vec<(f64, Fault)>,
    listed: BTreeMap<u64, Fault>,
    paths: Vec<(Vec<String>, u32, Fault)>,
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
    /// A script without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// An empty script; chances are drawn from this seed.
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
        self.paths.push((vec![part.to_owned()], times, fault));
        self
    }

    /// Happens to every request whose path and query contain all of these parts.
    pub fn always(mut self, parts: &[&str], fault: Fault) -> Self {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        self.paths.push((parts, u32::MAX, fault));
        self
    }

    /// Limits how often chance hits one path and query, so that a client that retries succeeds in
    /// the end.
    pub fn at_most(mut self, per_url: u32) -> Self {
        self.per_url_max = Some(per_url);
        self
    }

    /// Makes a repository, `OWNER/NAME`, answer every request with this status: 404, 409,
    /// 410, 451, 502.
    pub fn repository(mut self, full_name: &str, status: u16) -> Self {
        self.repositories.insert(full_name.to_lowercase(), status);
        self
    }

    /// Makes the API refuse a token with 401.
    pub fn token(mut self, secret: &str) -> Self {
        self.tokens.insert(secret.to_owned());
        self
    }

    pub(super) fn revokes(&self, secret: &str) -> bool {
        self.tokens.contains(secret)
    }

    /// The fault of the next request.
    pub(super) fn draw(&mut self, target: &str) -> Option<Fault> {
        self.seen += 1;
        let asked = self.by_url.entry(target.to_owned()).or_default();
        asked.times += 1;
        if let Some(fault) = self.listed.get(&self.seen) {
            return Some(fault.clone());
        }
        let mut paths = self.paths.iter_mut();
        let is_meant = |parts: &[String]| parts.iter().all(|part| target.contains(part.as_str()));
        if let Some((_, left, fault)) = paths.find(|(parts, left, _)| *left > 0 && is_meant(parts))
        {
            *left = match *left {
                u32::MAX => u32::MAX,
                some => some - 1,
            };
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
