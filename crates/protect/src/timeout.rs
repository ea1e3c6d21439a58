//! How long one attempt may take.

use std::time::Duration;

use clinch_core::Invalid;
use clinch_core::ports::TimeoutPolicy;

/// The timeouts of one attempt. Defaults: 3 s for a call (recommended are 2 to 5), 30 s in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of one call, from its first byte.
    pub per_attempt: Duration,
    /// Timeout of the whole attempt, including waits for permits and further copies.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            per_attempt: Duration::from_secs(3),
            total: Duration::from_secs(30),
        }
    }
}

impl Timeouts {
    /// Refuses timeouts that no call could meet.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.per_attempt.is_zero() {
            return Err(Invalid::new("timeout", "must be longer than 0"));
        }
        if self.total < self.per_attempt {
            let problem = "total must not be shorter than the timeout of one call";
            return Err(Invalid::new("timeout", problem));
        }
        Ok(())
    }
}

impl TimeoutPolicy for Timeouts {
    fn per_attempt(&self) -> Duration {
        self.per_attempt
    }

    fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_no_call_could_keep_are_refused() {
        let with = |per_attempt, total| Timeouts {
            per_attempt: Duration::from_secs(per_attempt),
            total: Duration::from_secs(total),
        };
        assert!(Timeouts::default().validate().is_ok());
        assert!(with(3, 3).validate().is_ok());
        assert!(with(0, 3).validate().is_err());
        assert!(with(3, 2).validate().is_err());
    }
}
