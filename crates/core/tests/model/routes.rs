//! The routes that are explored, and how far.

use clinch_core::policy::{Backoff, ProbeRules, ReaperStrategy, RetryRules, Rules, Safety};

use super::clock::ticks;
use super::operation::Bounds;
use super::world::Budget;

/// Three attempts, a lease and a backoff of one tick each.
fn route(safety: Safety) -> Rules {
    let backoff = Backoff {
        base: ticks(1),
        cap: ticks(1),
        jitter: 0.0,
    };
    Rules {
        safety,
        lease: ticks(1),
        margin: ticks(0),
        retry: RetryRules {
            max_attempts: 3,
            backoff: backoff.clone(),
            retry_after_max: ticks(1),
        },
        deliveries_max: 2,
        deadline: None,
        probe: Some(ProbeRules {
            not_found_final_after: None,
            inconclusive_max: 2,
            backoff,
        }),
        reaper: ReaperStrategy::Auto,
        ..Rules::default()
    }
}

/// "Not found" is final one tick after the last lease.
fn final_not_found(mut rules: Rules) -> Rules {
    if let Some(probe) = rules.probe.as_mut() {
        probe.not_found_final_after = Some(ticks(1));
    }
    rules
}

/// The default: no repeating, and a "not found" that can be final.
pub(crate) fn unsafe_route() -> Rules {
    final_not_found(route(Safety::Unsafe))
}

/// No repeating and nobody to ask.
pub(crate) fn blind_route() -> Rules {
    Rules {
        probe: None,
        ..route(Safety::Unsafe)
    }
}

/// Repeating does no harm; "not found" can be final.
pub(crate) fn natural_route() -> Rules {
    final_not_found(route(Safety::Natural))
}

/// Repeating does no harm, nobody to ask, and the Reaper does as it is told.
pub(crate) fn reaped_route(reaper: ReaperStrategy) -> Rules {
    Rules {
        probe: None,
        reaper,
        ..route(Safety::Natural)
    }
}

/// The provider remembers our key for four ticks: long enough for a second call, too short
/// for a third.
pub(crate) fn keyed_route(remembers_refusals: bool) -> Rules {
    route(Safety::Keyed {
        ttl: ticks(4),
        remembers_refusals,
    })
}

/// A keyed route whose "not found" can be final.
pub(crate) fn keyed_final_route() -> Rules {
    final_not_found(keyed_route(false))
}

/// The same with two attempts in all.
pub(crate) fn twice(mut rules: Rules) -> Rules {
    rules.retry.max_attempts = 2;
    rules
}

/// The same with a deadline, early enough to come before a "not found" is final.
pub(crate) fn urgent(mut rules: Rules) -> Rules {
    rules.deadline = Some(ticks(3));
    rules
}

/// A cancel, and two attempts at once: what every exploration allows.
pub(crate) const BASE: Bounds = Bounds {
    budget: Budget {
        not_called: 0,
        person_retries: 0,
        extends: 0,
        cancels: 1,
    },
    in_flight: 2,
    probes: 1,
    doubled_reports: false,
};

impl Bounds {
    /// An attempt may find that it sent nothing, once.
    pub(crate) fn refund(mut self) -> Self {
        self.budget.not_called = 1;
        self
    }

    /// A person may have a call repeated, once.
    pub(crate) fn person(mut self) -> Self {
        self.budget.person_retries = 1;
        self
    }

    /// Nobody cancels.
    pub(crate) fn uncanceled(mut self) -> Self {
        self.budget.cancels = 0;
        self
    }

    /// A worker may extend a lease once, and say everything twice.
    pub(crate) fn talkative(mut self) -> Self {
        self.budget.extends = 1;
        self.doubled_reports = true;
        self
    }

    /// Two probes may be out at once.
    pub(crate) fn two_probes(mut self) -> Self {
        self.probes = 2;
        self
    }
}
