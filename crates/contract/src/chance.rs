//! Random events for one row, from a seed.

use clinch_core::policy::SplitMix;
use clinch_core::ports::Operation;
use clinch_core::protocol::{Begin, Event, LaneStand, Phase, ProbeAnswer, Resolution, WriteAhead};
use clinch_core::{AttemptId, Effect, Status, Timestamp};
use uuid::Uuid;

use crate::fixtures::{LEASE, no, secs};

/// An event for a row: mostly one that fits its state, sometimes any.
pub(crate) fn event(row: &Operation, now: Timestamp, rng: &mut SplitMix) -> Event {
    let dice = rng.next_u64() % 100;
    let recorded = row.state.write_ahead != WriteAhead::Empty;
    match (row.state.status, row.state.phase) {
        _ if rng.next_u64().is_multiple_of(5) => anything(row, now, rng),
        (Status::Completed | Status::Failed, _) => anything(row, now, rng),
        (_, Some(Phase::Live)) if recorded => match dice {
            0..=59 => Event::Finalize,
            60..=79 => Event::Cancel,
            _ => attempted(row, rng),
        },
        (_, Some(Phase::Live)) => match dice {
            0..=24 => Event::AttemptLost,
            25..=29 => Event::Cancel,
            _ => attempted(row, rng),
        },
        (_, Some(Phase::Held)) => match dice {
            0..=49 => probed(row, row.state.fence, now, rng),
            50..=84 => resolved(rng),
            _ => Event::Cancel,
        },
        _ => match dice {
            0..=3 => Event::Cancel,
            4..=9 => Event::RetryNow,
            10..=59 if row.state.is_overdue(now) => Event::DeadlinePassed,
            _ => begun(rng),
        },
    }
}

/// Anything at all, with any fence.
fn anything(row: &Operation, now: Timestamp, rng: &mut SplitMix) -> Event {
    let fence = (row.state.fence + rng.next_u64() % 3).saturating_sub(1);
    match rng.next_u64() % 12 {
        0 => Event::Ok { fence: None },
        1 => Event::AttemptLost,
        2 => Event::DeadlinePassed,
        3 => Event::Finalize,
        4 => probed(row, fence, now, rng),
        5 => resolved(rng),
        6 => Event::Cancel,
        7 => Event::Restored {
            earliest_call: row.accepted_at,
        },
        8 => begun(rng),
        9 => Event::RetryNow,
        _ => {
            let mut other = row.clone();
            other.state.fence = fence;
            attempted(&other, rng)
        }
    }
}

/// A report of the attempt with the row's fence.
fn attempted(row: &Operation, rng: &mut SplitMix) -> Event {
    let fence = row.state.fence;
    let after = rng.next_u64().is_multiple_of(3).then_some(secs(90));
    let effect = [Effect::None, Effect::Unknown][(rng.next_u64() % 2) as usize];
    let reason = "the suite".to_owned();
    match rng.next_u64() % 12 {
        0..=1 => Event::Extend {
            fence,
            lease: LEASE,
        },
        2 => Event::Checkpoint { fence },
        3..=4 => Event::NotCalled {
            fence,
            after,
            reason,
        },
        5 => Event::Ok { fence: Some(fence) },
        6..=7 => Event::Fail { fence, fail: no() },
        _ => Event::Retry {
            fence,
            after,
            effect,
            reason,
        },
    }
}

fn begun(rng: &mut SplitMix) -> Event {
    Event::Begin(Begin {
        attempt_id: AttemptId(Uuid::from_u64_pair(rng.next_u64(), rng.next_u64())),
        lease: LEASE,
        paused: false,
        lane: LaneStand::Ours,
        intact: true,
    })
}

fn probed(row: &Operation, fence: u64, now: Timestamp, rng: &mut SplitMix) -> Event {
    let answers = [
        ProbeAnswer::Succeeded,
        ProbeAnswer::Failed(no()),
        ProbeAnswer::NotFound,
        ProbeAnswer::Unknown,
    ];
    Event::Probed {
        fence,
        asked_at: [now, row.accepted_at][(rng.next_u64() % 2) as usize],
        answer: answers[(rng.next_u64() % 4) as usize].clone(),
    }
}

fn resolved(rng: &mut SplitMix) -> Event {
    let said = [None, Some(Effect::None), Some(Effect::Unknown)];
    let effect = said[(rng.next_u64() % 3) as usize];
    Event::Resolve(match rng.next_u64() % 5 {
        0 => Resolution::Completed,
        1 => Resolution::Failed { fail: no(), effect },
        _ => Resolution::Retry,
    })
}
