//! What a provider may do with a call, and what it may say when it is asked.

use clinch_core::Timestamp;
use clinch_core::policy::{Rules, Safety};

use super::clock::{NOW, final_after};
use super::world::{Attempt, KeyMemory, Known, Provider, Report};

/// What a provider does with a call that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Decision {
    /// It applies it and says yes.
    Apply,
    /// It knows the key and repeats its yes.
    RepeatYes,
    /// It refuses it for good.
    Refuse,
    /// It turns it away without looking at it.
    Decline,
}

impl Decision {
    /// What the worker hears, if it hears anything.
    pub(crate) fn report(self) -> Report {
        match self {
            Self::Apply | Self::RepeatYes => Report::Ok,
            Self::Refuse => Report::Fail,
            Self::Decline => Report::RetryNo,
        }
    }
}

impl Provider {
    /// Everything it may do with a call now.
    ///
    /// A provider that does not remember refusals may refuse a key that it has applied:
    /// its checks come before its memory. One that does answers every call with the same
    /// key alike, for as long as it remembers.
    pub(crate) fn decisions(&self, rules: &Rules) -> &'static [Decision] {
        use Decision::{Apply, Decline, Refuse, RepeatYes};
        let remembers_refusals = match rules.safety {
            Safety::Keyed {
                remembers_refusals, ..
            } => remembers_refusals,
            Safety::Natural | Safety::Unsafe => false,
        };
        match self.key {
            None => &[Apply, Refuse, Decline],
            Some(KeyMemory { applied: false, .. }) => &[Refuse, Decline],
            Some(_) if remembers_refusals => &[RepeatYes, Decline],
            Some(_) => &[RepeatYes, Refuse, Decline],
        }
    }

    /// A call arrives and is decided. True: it had an effect.
    pub(crate) fn decide(&mut self, decision: Decision, attempt: &Attempt, rules: &Rules) -> bool {
        match decision {
            Decision::RepeatYes | Decision::Decline => false,
            Decision::Refuse => {
                self.refused = true;
                if let Safety::Keyed {
                    remembers_refusals: true,
                    ..
                } = rules.safety
                {
                    self.remember(false);
                }
                false
            }
            Decision::Apply => {
                if matches!(rules.safety, Safety::Keyed { .. }) {
                    self.remember(true);
                }
                if self.effects == 0 {
                    self.first_effect_at = Some(NOW);
                    self.first_effect_late = attempt.is_late();
                }
                let most = if rules.safety == Safety::Natural {
                    1
                } else {
                    2
                };
                self.effects = most.min(self.effects + 1);
                true
            }
        }
    }

    fn remember(&mut self, applied: bool) {
        let memory = KeyMemory {
            since: NOW,
            applied,
        };
        self.key = self.key.or(Some(memory));
    }

    /// Everything it may say of our calls now. It never says what is not so, but it may
    /// show an effect late (by what the route declares; by any time if it declares nothing),
    /// and keep no record of what it refused.
    pub(crate) fn answers(&self, rules: &Rules) -> Vec<Known> {
        let mut answers = vec![Known::Unknown];
        if rules.probe.is_none() {
            return answers;
        }
        let shown = |at: Timestamp| final_after(rules).is_some_and(|after| NOW >= at + after);
        if !self.first_effect_at.is_some_and(shown) {
            answers.push(Known::NotFound);
        }
        if self.effects > 0 {
            answers.push(Known::Succeeded);
        }
        if self.refused {
            answers.push(Known::Failed);
        }
        answers
    }
}

impl Attempt {
    /// The row gave it up and waited for as long as it said it would.
    pub(crate) fn is_late(&self) -> bool {
        self.given_up.is_some_and(|deadline| NOW > deadline)
    }

    /// It acts after its lease and after the provider's memory of its key.
    pub(crate) fn outlived_its_key(&self, rules: &Rules) -> bool {
        match rules.safety {
            Safety::Keyed { ttl, .. } => NOW > self.lease_end && NOW >= self.first_call_at + ttl,
            Safety::Natural | Safety::Unsafe => false,
        }
    }
}
