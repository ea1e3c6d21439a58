//! A rate limit that several nodes share.

use std::time::Duration;

use crate::Invalid;

/// Maximum permits of a rate: a server stores this many moments.
const PERMITS_MAX: u32 = 100_000;

/// Maximum length of a destination's name, in bytes.
const DESTINATION_BYTES_MAX: usize = 256;

/// Longest period of a rate.
const PER_MAX: Duration = Duration::from_secs(366 * 86_400);

/// A number of calls in a period, over all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Number of calls in each period.
    pub permits: u32,
    /// The period.
    pub per: Duration,
    /// Calls that may be sent at once after a quiet time.
    pub burst: u32,
    /// Longest wait that a reservation may return.
    pub wait_max: Duration,
}

impl Rate {
    /// `permits` calls per `per`, with a burst of as many, and waits of up to 100 ms.
    pub fn new(permits: u32, per: Duration) -> Self {
        Self {
            permits,
            per,
            burst: permits,
            wait_max: Duration::from_millis(100),
        }
    }

    /// Refuses counts and periods that no server supports.
    pub fn validate(&self) -> Result<(), Invalid> {
        let counts = 1..=PERMITS_MAX;
        if !counts.contains(&self.permits) || !counts.contains(&self.burst) {
            let problem = "must have 1 to 100000 permits, and a burst of as many";
            return Err(Invalid::new("rate", problem));
        }
        if self.per.as_micros() < u128::from(self.permits) || self.per > PER_MAX {
            let problem = "must be at most one call per microsecond, per 366 days at most";
            return Err(Invalid::new("rate", problem));
        }
        Ok(())
    }

    /// Microseconds between two calls when the burst is used up.
    pub fn interval_us(&self) -> u64 {
        let per = u64::try_from(self.per.as_micros()).unwrap_or(u64::MAX);
        per.div_ceil(u64::from(self.permits.max(1)))
    }

    /// The duration of a whole burst less one call.
    pub fn tolerance_us(&self) -> u64 {
        self.interval_us()
            .saturating_mul(u64::from(self.burst.saturating_sub(1)))
    }
}

/// Refuses names that no server supports.
pub fn check_destination(name: &str) -> Result<(), Invalid> {
    match name.len() {
        1..=DESTINATION_BYTES_MAX => Ok(()),
        _ => Err(Invalid::new("destination", "must be 1 to 256 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_no_server_keeps_is_refused() {
        assert!(Rate::new(100_000, SECOND).validate().is_ok());
        assert!(Rate::new(1, PER_MAX).validate().is_ok());
        let burst = |burst| Rate {
            burst,
            ..Rate::new(5, SECOND)
        };
        let wrong = [
            Rate::new(0, SECOND),
            Rate::new(100_001, SECOND),
            Rate::new(5, Duration::from_micros(4)),
            Rate::new(5, PER_MAX + SECOND),
            burst(0),
            burst(100_001),
        ];
        for rate in wrong {
            assert!(rate.validate().is_err(), "{rate:?}");
        }
        assert!(check_destination("psp").is_ok());
        for name in [String::new(), "x".repeat(257)] {
            assert!(check_destination(&name).is_err());
        }
    }

    #[test]
    fn an_interval_is_never_too_short() {
        let rate = Rate::new(3, SECOND);
        assert_eq!(rate.interval_us(), 333_334);
        assert_eq!(rate.tolerance_us(), 2 * 333_334);
    }
}
