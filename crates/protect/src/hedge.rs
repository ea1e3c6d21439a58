//! Further copies of a slow call.

use std::time::Duration;

use clinch_core::Invalid;
use clinch_core::ports::HedgePolicy;

/// Maximum copies of one attempt: each takes permits of its own.
pub const COPIES_MAX: u32 = 10;

/// Sends one more copy each time `after` passes without an answer. Only for calls that may be
/// repeated, and never on an ordered route; the route's rules refuse it elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedge {
    /// Time from the call of the last copy to the next one.
    pub after: Duration,
    /// Maximum copies of one attempt, including the first.
    pub copies_max: u32,
}

impl Hedge {
    /// Two copies, the second after `after`. Choose the time of the slowest calls, for example
    /// their 95th percentile.
    pub fn new(after: Duration) -> Self {
        Self {
            after,
            copies_max: 2,
        }
    }

    /// Refuses copies that would all be sent at once, and more than [`COPIES_MAX`].
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.after.is_zero() {
            return Err(Invalid::new("hedge", "after must be longer than 0"));
        }
        if self.copies_max == 0 || self.copies_max > COPIES_MAX {
            let problem = format!("copies_max must be between 1 and {COPIES_MAX}");
            return Err(Invalid::new("hedge", problem));
        }
        Ok(())
    }
}

impl HedgePolicy for Hedge {
    fn after(&self, copies_sent: u32) -> Option<Duration> {
        (copies_sent < self.copies_max).then_some(self.after)
    }

    fn copies_max(&self) -> u32 {
        self.copies_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_bounded() {
        let after = Duration::from_millis(300);
        let hedge = Hedge {
            copies_max: 3,
            ..Hedge::new(after)
        };
        assert_eq!(Hedge::new(after).copies_max, 2);
        assert_eq!(hedge.after(1), Some(after));
        assert_eq!(hedge.after(2), Some(after));
        assert_eq!(hedge.after(3), None);
        assert_eq!(hedge.copies_max(), 3);
    }

    #[test]
    fn a_hedge_that_is_no_hedge_is_refused() {
        assert!(Hedge::new(Duration::from_millis(1)).validate().is_ok());
        assert!(Hedge::new(Duration::ZERO).validate().is_err());
        for copies_max in [0, COPIES_MAX + 1] {
            let hedge = Hedge {
                after: Duration::from_millis(1),
                copies_max,
            };
            assert!(hedge.validate().is_err());
        }
    }
}
