//! The messages on the wire.

use std::time::Duration;

use clinch_core::ports::Hint;
use clinch_core::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Longest delay or loan at the server: it counts in nanoseconds.
const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) const ACK: &str = "+ACK";
pub(crate) const NAK: &str = "-NAK";
pub(crate) const IN_PROGRESS: &str = "+WPI";
/// Do not deliver it again: it cannot be read.
pub(crate) const TERM: &str = "+TERM";

/// Asks to deliver it again after this delay.
pub(crate) fn nak_after(delay: Duration) -> String {
    format!("{NAK} {{\"delay\": {}}}", nanos(delay))
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.min(DELAY_MAX).as_nanos()).unwrap_or(u64::MAX)
}

/// Body of a pull that is answered at once with the hints that are there.
pub(crate) fn pull_now(batch: usize) -> String {
    json!({ "batch": batch, "no_wait": true }).to_string()
}

/// The same, but if there are no hints it waits for the first.
pub(crate) fn pull_soon(batch: usize, expires: Duration) -> String {
    json!({ "batch": batch, "no_wait": true, "expires": nanos(expires) }).to_string()
}

/// Body of a pull that waits for one hint, with heartbeats meanwhile.
pub(crate) fn pull_waiting(expires: Duration, heartbeat: Duration) -> String {
    let (expires, heartbeat) = (nanos(expires), nanos(heartbeat));
    json!({ "batch": 1, "expires": expires, "idle_heartbeat": heartbeat }).to_string()
}

/// A hint as it is stored.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Body {
    pub(crate) hint: Hint,
    /// Not delivered before this time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<i64>,
}

impl Body {
    pub(crate) fn new(hint: &Hint, delay: Duration, now: Timestamp) -> Self {
        let not_before = (!delay.is_zero()).then(|| (now + delay).as_millis());
        Self {
            hint: hint.clone(),
            not_before,
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let broken = |error| Error::new(ErrorKind::Internal, format!("a hint: {error}"));
        serde_json::to_vec(self).map_err(broken)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// How much longer it has to wait. `None`: it is due.
    pub(crate) fn early_by(&self, now: Timestamp) -> Option<Duration> {
        let due = Timestamp::from_millis(self.not_before?);
        Some(due.since(now)).filter(|early| !early.is_zero())
    }
}

/// The facts that an ack subject carries about a delivery.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Position<'a> {
    pub(crate) consumer: &'a str,
    /// How often it was delivered, including this time.
    pub(crate) delivered: u32,
    /// Its number in the stream.
    pub(crate) seq: u64,
}

impl<'a> Position<'a> {
    /// Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.…`, which newer servers may begin
    /// with `$JS.ACK.<domain>.<account>.…`.
    pub(crate) fn parse(ack: &'a str) -> Option<Self> {
        let tokens: Vec<&str> = ack.strip_prefix("$JS.ACK.")?.split('.').collect();
        let of_stream = match tokens.len() {
            7 => &tokens[..],
            9.. => &tokens[2..],
            _ => return None,
        };
        Some(Self {
            consumer: of_stream[1],
            delivered: of_stream[2].parse().ok()?,
            seq: of_stream[3].parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_subject_for_acks_are_read() {
        let expected = Position {
            consumer: "dom",
            delivered: 2,
            seq: 7,
        };
        let short = "$JS.ACK.T.dom.2.7.9.1794761395359631694.4";
        assert_eq!(Position::parse(short).as_ref(), Some(&expected));
        let long = "$JS.ACK.hub.ACC.T.dom.2.7.9.1794761395359631694.4.x1";
        assert_eq!(Position::parse(long).as_ref(), Some(&expected));
        for bad in ["", "$JS.ACK.T", "$JS.ACK.T.dom.x.7.9.1.4", "a.b.c"] {
            assert_eq!(Position::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_longest_delay_is_still_a_number() {
        assert!(nanos(Duration::MAX) < i64::MAX.unsigned_abs());
        assert_eq!(
            nak_after(Duration::from_secs(2)),
            "-NAK {\"delay\": 2000000000}"
        );
    }

    #[test]
    fn bytes_that_are_no_hint_are_refused() {
        for bad in [&b""[..], b"{}", b"\xff", b"[1]"] {
            assert!(Body::decode(bad).is_none());
        }
    }
}
