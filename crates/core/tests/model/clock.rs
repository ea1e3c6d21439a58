//! Time without a horizon: now is always zero and the world grows older instead.
//!
//! Guards compare only differences of moments, so a world and the same world an hour later
//! are one state. A tick takes one unit off every moment, and a moment too old for any
//! guard to tell it from an older one stays where it is: so the state space is finite and
//! yet no time is the last one. The floors below are exact, not an approximation: each is
//! further back than the largest sum that a guard adds to the moment it floors.

use std::time::Duration;

use clinch_core::Timestamp;
use clinch_core::policy::{Rules, Safety};
use clinch_core::protocol::State;

/// The moment at which everything happens.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(0);
/// The unit of time.
const TICK: Duration = Duration::from_secs(1);
/// An answer to a probe that takes longer has been lost.
pub(crate) const PROBE_AGE_MAX: u32 = 1;

/// `n` units of time.
pub(crate) fn ticks(n: u32) -> Duration {
    TICK * n
}

/// After how long a "not found" is final, if ever.
pub(crate) fn final_after(rules: &Rules) -> Option<Duration> {
    rules.probe.as_ref()?.not_found_final_after
}

/// How far back each kind of moment can matter.
#[derive(Debug, Clone)]
pub(crate) struct Floors {
    /// Ends of leases in the row: compared with now and with the moment of a probe.
    pub(crate) lease: Timestamp,
    /// The same as workers know them: compared with now.
    pub(crate) worker: Timestamp,
    /// Calls with our key: compared with now less the ttl.
    pub(crate) key: Timestamp,
    /// Effects: compared with now less the time until a provider shows them.
    pub(crate) shown: Timestamp,
    /// Moments of probes.
    pub(crate) probe: Timestamp,
}

impl Floors {
    pub(crate) fn of(rules: &Rules) -> Self {
        let shown_after = final_after(rules).unwrap_or_default();
        let oldest_probe = match final_after(rules) {
            Some(_) => ticks(PROBE_AGE_MAX),
            None => Duration::ZERO,
        };
        let key_ttl = match rules.safety {
            Safety::Keyed { ttl, .. } => ttl,
            Safety::Natural | Safety::Unsafe => Duration::ZERO,
        };
        Self {
            lease: NOW - (ticks(1) + oldest_probe + shown_after),
            worker: NOW - ticks(1),
            key: NOW - key_ttl,
            shown: NOW - shown_after,
            probe: NOW - ticks(PROBE_AGE_MAX),
        }
    }

    /// Makes every moment of a row one tick older.
    pub(crate) fn age_row(&self, row: &mut State) {
        for moment in [&mut row.next_attempt_at, &mut row.deadline] {
            age(moment.as_mut(), NOW);
        }
        for moment in [&mut row.lease_until, &mut row.call_deadline] {
            age(moment.as_mut(), self.lease);
        }
        age(row.first_call_at.as_mut(), self.key);
        if let Some(refund) = row.refund.as_mut() {
            age(refund.first_call_at.as_mut(), self.key);
        }
        if let Some(hold) = row.hold.as_mut() {
            age(hold.probe_at.as_mut(), NOW);
        }
    }
}

/// Makes a moment one tick older, down to `floor`.
pub(crate) fn age(moment: Option<&mut Timestamp>, floor: Timestamp) {
    if let Some(moment) = moment {
        *moment = floor.max(*moment - TICK);
    }
}
