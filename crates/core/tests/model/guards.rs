//! The real `State::apply`, and the same with one guard taken away.
//!
//! A guard is taken away from outside, by showing `apply` a row, an event or rules that
//! hide from it what the guard looks at. The core is never touched.

use std::time::Duration;

use clinch_core::Effect;
use clinch_core::policy::{Rules, Safety};
use clinch_core::protocol::{Effects, Event, IllegalTransition, LaneStand, State, WriteAhead};

use super::clock::{NOW, ticks};

/// The guards that can be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Writes of an attempt count only while it is current.
    Fence,
    /// A clean refusal says nothing about the calls before it.
    StickyEffect,
    /// A recorded outcome belongs to the Finalizer.
    WriteAhead,
    /// A key that the provider forgets soon is not used again.
    KeyTtl,
    /// Nothing waits for a further call once cancel was asked for.
    Cancel,
    /// A probe speaks of the calls begun before it was asked.
    ProbeFence,
    /// "Not found" is final only if asked late enough.
    NotFoundAge,
    /// Only the head of a lane begins.
    LaneHead,
}

/// Applies `event` now, without the guard `removed`.
pub(crate) fn apply(
    removed: Option<Guard>,
    row: &State,
    event: &Event,
    rules: &Rules,
) -> Result<(State, Effects), IllegalTransition> {
    let Some(guard) = removed else {
        return row.apply(event, NOW, rules);
    };
    let mut shown = (row.clone(), event.clone(), rules.clone());
    hide(guard, &mut shown.0, &mut shown.1, &mut shown.2);
    let (mut next, effects) = shown.0.apply(&shown.1, NOW, &shown.2)?;
    if guard == Guard::Cancel && !matches!(event, Event::Cancel | Event::Resolve(_)) {
        next.cancel_requested = row.cancel_requested;
    }
    Ok((next, effects))
}

/// Hides from `apply` what the guard looks at.
fn hide(guard: Guard, row: &mut State, event: &mut Event, rules: &mut Rules) {
    match (guard, event) {
        (
            Guard::Fence,
            Event::Extend { fence, .. }
            | Event::NotCalled { fence, .. }
            | Event::Fail { fence, .. }
            | Event::Retry { fence, .. },
        )
        | (Guard::ProbeFence, Event::Probed { fence, .. }) => *fence = row.fence,
        (
            Guard::StickyEffect,
            Event::Retry {
                effect: Effect::None,
                ..
            },
        ) => row.effect = Effect::None,
        (Guard::WriteAhead, Event::Finalize | Event::Ok { .. } | Event::Cancel) => {}
        (Guard::WriteAhead, _) if matches!(row.write_ahead, WriteAhead::Pending { .. }) => {
            row.write_ahead = WriteAhead::Empty;
            row.failure = None;
        }
        (Guard::KeyTtl, Event::Begin(_)) => {
            if let Safety::Keyed { ttl, .. } = &mut rules.safety {
                *ttl = Duration::MAX;
            }
        }
        (Guard::Cancel, Event::Cancel | Event::Resolve(_)) => {}
        (Guard::Cancel, _) => row.cancel_requested = false,
        (Guard::LaneHead, Event::Begin(begin)) => begin.lane = LaneStand::Ours,
        (Guard::NotFoundAge, Event::Probed { asked_at, .. }) => *asked_at = NOW + ticks(1_000),
        _ => {}
    }
}
