//! What must always hold of model A, and what must be reachable for that to mean anything.

use clinch_core::policy::Safety;
use clinch_core::protocol::{Phase, Verdict};
use clinch_core::{Effect, Status};
use stateright::Property;

use super::operation::Operation;
use super::world::{Broken, World};

/// FAILED with effect none means that nothing happened, then and later.
pub(crate) const NONE_IS_NONE: &str = "FAILED with effect none: nothing was applied";
/// The promise of the whole thing.
pub(crate) const ONE_EFFECT: &str = "at most one effect where repeating does harm";
/// Providers tell the truth and so do we.
pub(crate) const YES_IS_YES: &str = "COMPLETED: it was applied";
/// Exactly one end.
pub(crate) const ONE_END: &str = "an operation ends once";
/// A recorded yes is not lost.
pub(crate) const RECORD_KEPT: &str = "a recorded yes does not end FAILED";
/// Cancel is heeded.
pub(crate) const NO_CALL_AFTER_CANCEL: &str = "no call is begun after cancel";
/// A recorded outcome is the last word.
pub(crate) const NO_CALL_AFTER_RECORD: &str = "no call is begun after an outcome was recorded";
/// A probe speaks of what it was asked about.
pub(crate) const NO_STALE_PROBE: &str = "no probe asked before the last begin decides";
/// Unsafe calls are not repeated.
pub(crate) const NO_SECOND_CALL: &str = "no second call after a doubtful unsafe one";

/// All properties of model A.
pub(crate) fn all() -> Vec<Property<Operation>> {
    let mut all = steps();
    all.extend(truths());
    all.extend(reached());
    all
}

/// No forbidden step was made.
fn steps() -> Vec<Property<Operation>> {
    fn not(world: &World, broken: Broken) -> bool {
        world.history.broken != Some(broken)
    }
    vec![
        Property::always("a terminal row never changes", |_, w: &World| {
            not(w, Broken::TerminalChanged)
        }),
        Property::always("nothing goes back to PENDING", |_, w: &World| {
            not(w, Broken::BackToPending)
        }),
        Property::always("the fence rises by one with each begin", |_, w: &World| {
            not(w, Broken::Fence)
        }),
        Property::always("a change raises the version by one", |_, w: &World| {
            not(w, Broken::Version)
        }),
        Property::always("a doubt stays until it is settled", |_, w: &World| {
            not(w, Broken::DoubtForgotten)
        }),
        Property::always("a yes is never turned away", |_, w: &World| {
            not(w, Broken::YesDropped)
        }),
        Property::always(NO_SECOND_CALL, |_, w: &World| not(w, Broken::SecondCall)),
        Property::always(NO_CALL_AFTER_CANCEL, |_, w: &World| {
            not(w, Broken::CallAfterCancel)
        }),
        Property::always(NO_CALL_AFTER_RECORD, |_, w: &World| {
            not(w, Broken::CallAfterRecord)
        }),
        Property::always(NO_STALE_PROBE, |_, w: &World| not(w, Broken::StaleProbe)),
    ]
}

/// One of the races that the guarantees name has happened.
fn is_excused(model: &Operation, world: &World) -> bool {
    model.excuses_named_races && world.history.residual
}

/// What the row says is so.
fn truths() -> Vec<Property<Operation>> {
    vec![
        Property::always("the row is well formed", |_, w: &World| {
            w.row.check().is_ok()
        }),
        Property::always(ONE_END, |_, w: &World| {
            let now = (w.row.status, w.row.effect);
            w.history.end.is_none_or(|end| end == now)
        }),
        Property::always(NONE_IS_NONE, |model: &Operation, w: &World| {
            let none = w.row.status == Status::Failed && w.row.effect == Effect::None;
            !none || w.provider.effects == 0 || is_excused(model, w)
        }),
        Property::always(YES_IS_YES, |_, w: &World| {
            w.row.status != Status::Completed || w.provider.effects > 0
        }),
        Property::always(ONE_EFFECT, |model: &Operation, w: &World| {
            w.provider.effects <= 1
                || model.rules.safety == Safety::Natural
                || w.history.person_allowed_repeat
                || is_excused(model, w)
        }),
        Property::always(RECORD_KEPT, |_, w: &World| {
            w.row.status != Status::Failed || w.history.recorded != Some(Verdict::Ok)
        }),
    ]
}

/// A model that cannot reach these proves nothing.
fn reached() -> Vec<Property<Operation>> {
    fn failed(world: &World, effect: Effect) -> bool {
        world.row.status == Status::Failed && world.row.effect == effect
    }
    vec![
        Property::sometimes("COMPLETED", |_, w: &World| {
            w.row.status == Status::Completed
        }),
        Property::sometimes("FAILED, effect none", |_, w: &World| {
            failed(w, Effect::None)
        }),
        Property::sometimes("FAILED, effect unknown", |_, w: &World| {
            failed(w, Effect::Unknown)
        }),
        Property::sometimes("held", |_, w: &World| w.row.phase == Some(Phase::Held)),
        Property::sometimes("two attempts at once", |_, w: &World| w.attempts.len() == 2),
        Property::sometimes("a late yes to FAILED", |_, w: &World| w.history.late_yes),
    ]
}
