//! Sheds new work while old work waits too long.

use std::time::Duration;

use clinch_core::ports::LoadShed;
use clinch_core::{Command, Invalid};

/// Shortest retry delay for a shed caller: sooner, the queue would be as long as before.
pub const COME_BACK_MIN: Duration = Duration::from_secs(1);
/// Longest retry delay for a shed caller: later, the queue may have been empty for long.
pub const COME_BACK_MAX: Duration = Duration::from_secs(60);

/// Sheds by how long the oldest due operation of a command's domain and destination has waited
/// although it could have run. If that age stays low, the workers keep up, however long the queue
/// is.
///
/// - Priority 0 is shed past `limit`, lower priorities past half of it, higher ones past twice.
/// - A caller that is turned away is told to try again after as long as the queue is over the
///   limit, between [`COME_BACK_MIN`] and [`COME_BACK_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueAge {
    /// Maximum age of the oldest due operation.
    pub limit: Duration,
}

impl Default for QueueAge {
    fn default() -> Self {
        Self {
            limit: Duration::from_secs(30),
        }
    }
}

impl QueueAge {
    /// Refuses a limit that sheds everything.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.limit.is_zero() {
            return Err(Invalid::new("shed", "limit must be longer than 0"));
        }
        Ok(())
    }
}

impl LoadShed for QueueAge {
    fn shed(&self, command: &Command, oldest_due: Duration) -> Option<Duration> {
        let limit = match command.options.priority.get() {
            ..0 => self.limit / 2,
            0 => self.limit,
            1.. => self.limit.saturating_mul(2),
        };
        let over = oldest_due
            .checked_sub(limit)
            .filter(|over| !over.is_zero())?;
        Some(over.clamp(COME_BACK_MIN, COME_BACK_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clinch_core::{BizKey, Domain, EventType, IdemKey, Keys, Payload, Priority};

    fn command(priority: i8) -> Command {
        let keys = Keys {
            domain: Domain::new("payments").expect("domain"),
            event_type: EventType::new("charge").expect("event type"),
            biz_key: BizKey::new("order-1").expect("biz key"),
            idem_key: IdemKey::new("1").expect("idem key"),
        };
        let mut command = Command::new(keys, Payload::null());
        command.options.priority = Priority::new(priority).expect("priority");
        command
    }

    fn shed(priority: i8, age_ms: u64) -> Option<u64> {
        let age = Duration::from_millis(age_ms);
        let answer = QueueAge::default().shed(&command(priority), age);
        answer.map(|back| back.as_secs())
    }

    #[test]
    fn lower_priorities_are_shed_earlier() {
        for (priority, limit) in [
            (-10, 15_000),
            (-1, 15_000),
            (0, 30_000),
            (1, 60_000),
            (10, 60_000),
        ] {
            assert_eq!(shed(priority, limit), None, "{priority} at its limit");
            assert_eq!(shed(priority, limit + 1), Some(1), "{priority} past it");
        }
    }

    #[test]
    fn the_answer_grows_with_the_age_within_bounds() {
        assert_eq!(shed(0, 0), None);
        assert_eq!(shed(0, 37_000), Some(7));
        assert_eq!(shed(0, 60_000), Some(30));
        assert_eq!(shed(0, 3_600_000), Some(60));
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        assert!(QueueAge::default().validate().is_ok());
        let limit = Duration::ZERO;
        assert!(QueueAge { limit }.validate().is_err());
    }
}
