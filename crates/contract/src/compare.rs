//! Compares states without assuming that two clocks agree.

use clinch_core::Timestamp;
use clinch_core::ports::{Changed, Operation, Refused};
use clinch_core::protocol::{Effects, IllegalTransition, State};

use crate::case::{Failure, Verdict};

/// The result of [`State::apply`].
pub(crate) type Applied = Result<(State, Effects), IllegalTransition>;

fn moments(state: &State) -> [Option<Timestamp>; 8] {
    [
        state.first_call_at,
        state.call_deadline,
        state.lease_until,
        state.next_attempt_at,
        state.deadline,
        state.refund.and_then(|refund| refund.first_call_at),
        state.hold.as_ref().and_then(|hold| hold.probe_at),
        state.last_error.as_ref().map(|error| error.at),
    ]
}

/// The state with every timestamp replaced by the same one.
fn timeless(state: &State) -> State {
    let blur = |moment: Option<Timestamp>| moment.map(|_| Timestamp::default());
    let mut state = state.clone();
    state.first_call_at = blur(state.first_call_at);
    state.call_deadline = blur(state.call_deadline);
    state.lease_until = blur(state.lease_until);
    state.next_attempt_at = blur(state.next_attempt_at);
    state.deadline = blur(state.deadline);
    if let Some(refund) = state.refund.as_mut() {
        refund.first_call_at = blur(refund.first_call_at);
    }
    if let Some(hold) = state.hold.as_mut() {
        hold.probe_at = blur(hold.probe_at);
    }
    if let Some(error) = state.last_error.as_mut() {
        error.at = Timestamp::default();
    }
    state
}

/// Checks that `actual` agrees with `early` and `late`: the same transition, computed at times
/// before and after the store computed it.
pub(crate) fn same_state(actual: &State, early: &State, late: &State) -> Verdict {
    ensure_eq!(timeless(actual), timeless(early), "the state (times aside)");
    let bounds = moments(early).into_iter().zip(moments(late));
    for (moment, (low, high)) in moments(actual).into_iter().zip(bounds) {
        ensure!(
            low <= moment && moment <= high,
            "a moment of the state is {moment:?}, expected between {low:?} and {high:?}: \
             got {actual:?}, expected {early:?}"
        );
    }
    Ok(())
}

/// Checks that two rows had the same transitions, perhaps at slightly different times.
pub(crate) fn same_but_for_time(left: &State, right: &State) -> Verdict {
    let anonymous = |state: &State| State {
        attempt_id: None,
        ..timeless(state)
    };
    ensure_eq!(
        anonymous(left),
        anonymous(right),
        "two states that should agree"
    );
    Ok(())
}

/// Checks that a port's answer to a change is what `apply` returns.
pub(crate) fn same_answer(
    answer: &Result<Changed, Refused>,
    early: &Applied,
    late: &Applied,
) -> Verdict {
    match (answer, early, late) {
        (Ok(changed), Ok((low, effects)), Ok((high, _))) => {
            ensure_eq!(changed.effects, *effects, "the effects of the change");
            same_state(&changed.state, low, high)
        }
        (Err(Refused::Illegal(refused)), Err(expected), _) => {
            ensure_eq!(refused, expected, "the refusal");
            Ok(())
        }
        _ => Err(Failure::new(format!(
            "the protocol says {early:?}, the store says {answer:?}"
        ))),
    }
}

/// Checks that the row has not changed in any field.
pub(crate) fn unchanged(before: &Operation, after: &Operation) -> Verdict {
    ensure_eq!(after, before, "a row that must not have changed");
    Ok(())
}
