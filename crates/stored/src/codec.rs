//! The part of a state that no SQL statement reads, packed into a few bytes.
//!
//! A format number, flags, then the fields that the flags announce. Numbers have variable length.
//! Fields that statements read have columns of their own and are not repeated here.

use clinch_core::protocol::{Hold, LastError, Refund, State, Verdict, WriteAhead};
use clinch_core::{Effect, Failure, Result, Timestamp, WorkerId};

use crate::error;

const FORMAT: u8 = 1;

const CANCEL_REQUESTED: u64 = 1;
const REPEAT_PERMIT: u64 = 1 << 1;
const HAS_CHECKPOINT: u64 = 1 << 2;
const HAS_SPAWN: u64 = 1 << 3;
const HAS_RESULT: u64 = 1 << 4;
const EFFECT_UNKNOWN: u64 = 1 << 5;
const FIRST_CALL: u64 = 1 << 6;
const CALL_DEADLINE: u64 = 1 << 7;
const LEASE: u64 = 1 << 8;
const REFUND: u64 = 1 << 9;
const REFUND_PERMIT: u64 = 1 << 10;
const REFUND_FIRST_CALL: u64 = 1 << 11;
const HOLD: u64 = 1 << 12;
const FAILURE: u64 = 1 << 13;
const RECORDED_OK: u64 = 1 << 14;
const RECORDED_FAIL: u64 = 1 << 15;
const RECORDED_DONE: u64 = 1 << 16;
const LATE_OK: u64 = 1 << 17;
const LAST_ERROR: u64 = 1 << 18;

/// Which rows exist in other tables or columns next to the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SideRows {
    /// A checkpoint.
    pub checkpoint: bool,
    /// The operations that a recorded answer spawns.
    pub spawn: bool,
    /// A result.
    pub result: bool,
}

/// Packs a state.
pub fn encode(state: &State, side_rows: SideRows) -> Result<Vec<u8>> {
    let (recorded, recorded_fence) = match state.write_ahead {
        WriteAhead::Empty => (0, None),
        WriteAhead::Done => (RECORDED_DONE, None),
        WriteAhead::Pending { verdict, fence } => match verdict {
            Verdict::Ok => (RECORDED_OK, Some(fence)),
            Verdict::Fail => (RECORDED_FAIL, Some(fence)),
        },
    };
    let refund_first = state.refund.and_then(|refund| refund.first_call_at);
    let flags = [
        (state.cancel_requested, CANCEL_REQUESTED),
        (state.repeat_permit, REPEAT_PERMIT),
        (side_rows.checkpoint, HAS_CHECKPOINT),
        (side_rows.spawn, HAS_SPAWN),
        (side_rows.result, HAS_RESULT),
        (state.effect == Effect::Unknown, EFFECT_UNKNOWN),
        (state.first_call_at.is_some(), FIRST_CALL),
        (state.call_deadline.is_some(), CALL_DEADLINE),
        (state.lease_until.is_some(), LEASE),
        (state.refund.is_some(), REFUND),
        (state.refund.is_some_and(|r| r.repeat_permit), REFUND_PERMIT),
        (refund_first.is_some(), REFUND_FIRST_CALL),
        (state.hold.is_some(), HOLD),
        (state.failure.is_some(), FAILURE),
        (state.late_ok, LATE_OK),
        (state.last_error.is_some(), LAST_ERROR),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    let flags = flags.fold(recorded, |all, (_, flag)| all | flag);
    let mut blob = Vec::with_capacity(48);
    blob.push(FORMAT);
    number(&mut blob, flags);
    number(&mut blob, state.fence);
    for count in [state.attempts, state.maybe_calls, state.deliveries] {
        number(&mut blob, u64::from(count));
    }
    if let Some(fence) = recorded_fence {
        number(&mut blob, fence);
    }
    let moments = [
        state.first_call_at,
        state.call_deadline,
        state.lease_until,
        refund_first,
    ];
    for moment in moments.into_iter().flatten() {
        number(&mut blob, zigzag(moment.as_millis()));
    }
    let hold = state.hold.as_ref().map(serde_json::to_vec).transpose();
    let failure = state.failure.as_ref().map(serde_json::to_vec).transpose();
    let broken = |error: serde_json::Error| error::corrupt("json").caused_by(error);
    let error = state.last_error.as_ref();
    let error = error.map(serde_json::to_vec).transpose();
    let parts = [hold, failure, error].map(|part| part.map_err(broken));
    for part in parts {
        let Some(json) = part? else { continue };
        bytes(&mut blob, &json);
    }
    Ok(blob)
}

/// Restores the fields that [`encode`] packed. The rest of `state` comes from columns.
pub fn decode(blob: &[u8], state: &mut State) -> Result<SideRows> {
    let mut left = Reader(blob);
    if left.byte()? != FORMAT {
        return Err(damaged());
    }
    let flags = left.number()?;
    let has = |flag| flags & flag != 0;
    state.fence = left.number()?;
    for count in [
        &mut state.attempts,
        &mut state.maybe_calls,
        &mut state.deliveries,
    ] {
        *count = u32::try_from(left.number()?).map_err(|_| damaged())?;
    }
    state.write_ahead = if has(RECORDED_OK) || has(RECORDED_FAIL) {
        WriteAhead::Pending {
            verdict: if has(RECORDED_OK) {
                Verdict::Ok
            } else {
                Verdict::Fail
            },
            fence: left.number()?,
        }
    } else if has(RECORDED_DONE) {
        WriteAhead::Done
    } else {
        WriteAhead::Empty
    };
    state.cancel_requested = has(CANCEL_REQUESTED);
    state.repeat_permit = has(REPEAT_PERMIT);
    state.late_ok = has(LATE_OK);
    state.effect = if has(EFFECT_UNKNOWN) {
        Effect::Unknown
    } else {
        Effect::None
    };
    state.first_call_at = left.moment_if(has(FIRST_CALL))?;
    state.call_deadline = left.moment_if(has(CALL_DEADLINE))?;
    state.lease_until = left.moment_if(has(LEASE))?;
    let first_call_at = left.moment_if(has(REFUND_FIRST_CALL))?;
    state.refund = has(REFUND).then_some(Refund {
        repeat_permit: has(REFUND_PERMIT),
        first_call_at,
    });
    state.hold = left.json_if::<Hold>(has(HOLD))?;
    state.failure = left.json_if::<Failure>(has(FAILURE))?;
    state.last_error = left.json_if::<Box<LastError>>(has(LAST_ERROR))?;
    Ok(SideRows {
        checkpoint: has(HAS_CHECKPOINT),
        spawn: has(HAS_SPAWN),
        result: has(HAS_RESULT),
    })
}

/// The error for a packed value that ends too early or is not valid.
pub fn damaged() -> clinch_core::Error {
    error::corrupt("packed value")
}

/// Appends a number. Smaller numbers take fewer bytes.
pub fn number(blob: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        blob.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    blob.push(value as u8);
}

/// Appends bytes, preceded by their length.
pub fn bytes(blob: &mut Vec<u8>, bytes: &[u8]) {
    number(blob, bytes.len() as u64);
    blob.extend_from_slice(bytes);
}

/// Maps a signed number to an unsigned one, so that numbers near zero stay small.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The bytes that are not read yet.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// One byte.
    pub fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads what [`number`] appended.
    pub fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    /// Reads what [`bytes`] appended.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| damaged())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A number with a sign.
    pub fn signed(&mut self) -> Result<i64> {
        self.number().map(unzigzag)
    }

    /// A worker's name.
    pub fn worker(&mut self) -> Result<WorkerId> {
        WorkerId::new(self.text()?).map_err(error::unreadable)
    }

    /// A text.
    pub fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| damaged())
    }

    /// A text, if `is_there`.
    pub fn text_if(&mut self, is_there: bool) -> Result<Option<String>> {
        is_there.then(|| self.text()).transpose()
    }

    fn moment_if(&mut self, is_there: bool) -> Result<Option<Timestamp>> {
        let moment = is_there.then(|| self.signed().map(Timestamp::from_millis));
        moment.transpose()
    }

    fn json_if<T: for<'de> serde::Deserialize<'de>>(
        &mut self,
        is_there: bool,
    ) -> Result<Option<T>> {
        if !is_there {
            return Ok(None);
        }
        let value = serde_json::from_slice(self.bytes()?);
        value
            .map(Some)
            .map_err(|error| error::corrupt("json").caused_by(error))
    }
}

#[cfg(test)]
mod tests {
    use clinch_core::protocol::{HoldThen, Inherited};

    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, -1, 63, -64, 1 << 40, i64::MAX, i64::MIN] {
            let mut blob = Vec::new();
            number(&mut blob, zigzag(value));
            assert_eq!(unzigzag(Reader(&blob).number().expect("reads")), value);
        }
        assert!(Reader(&[0x80]).number().is_err());
        assert!(Reader(&[5, 1]).bytes().is_err());
    }

    #[test]
    fn a_state_comes_back() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        let mut state = State::accepted(Timestamp::from_millis(5), None, Inherited::default());
        let fresh = encode(&state, SideRows::default()).expect("packs");
        assert_eq!(fresh, [FORMAT, 0, 0, 0, 0, 0]);
        let failure = Failure::own("poison", "why", Effect::Unknown);
        state.fence = 300;
        state.attempts = 2;
        state.effect = Effect::Unknown;
        state.first_call_at = at(-7);
        state.lease_until = at(1 << 41);
        state.refund = Some(Refund {
            repeat_permit: true,
            first_call_at: at(9),
        });
        state.write_ahead = WriteAhead::Pending {
            verdict: Verdict::Fail,
            fence: 300,
        };
        state.hold = Some(Hold {
            then: HoldThen::Stay,
            failure: failure.clone(),
            probes: 3,
            probe_at: at(4),
        });
        state.failure = Some(failure);
        // A row of an earlier release has no last error, and its bytes are the same as before.
        let old = encode(&state, SideRows::default()).expect("packs");
        let mut read = state.clone();
        read.last_error = Some(Box::new(LastError {
            code: "stale".into(),
            message: String::new(),
            at: Timestamp::from_millis(0),
        }));
        decode(&old, &mut read).expect("reads");
        assert_eq!(read.last_error, None);
        state.last_error = Some(Box::new(LastError {
            code: "not_applied".into(),
            message: "HTTP 503".into(),
            at: Timestamp::from_millis(-5),
        }));
        let side_rows = SideRows {
            checkpoint: true,
            spawn: false,
            result: true,
        };
        let blob = encode(&state, side_rows).expect("packs");
        let mut read = State::accepted(Timestamp::from_millis(5), None, Inherited::default());
        assert_eq!(decode(&blob, &mut read).expect("reads"), side_rows);
        assert_eq!(read, state);
        assert!(decode(&blob[..blob.len() - 1], &mut read).is_err());
    }
}
