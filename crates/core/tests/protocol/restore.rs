//! What a backup must not bring back.

use clinch_core::policy::Safety;
use clinch_core::protocol::{Action, Begin, Event, Phase, ProbeAnswer, Resolution};
use clinch_core::{Effect, Fail};

use crate::history::{DEAD, History, begin, not_called, probed, retry, rules};
use crate::rows::{NOW, secs};

const RESTORED: Event = Event::Restored { earliest_call: NOW };

#[test]
fn a_providers_refusal_called_canceled_is_a_dead_letter() {
    let mut op = History::begun(rules(Safety::Unsafe));
    let fail = Fail::new("canceled", "the bank canceled it");
    op.does(&Event::Fail { fence: 1, fail });
    assert_eq!(op.does(&Event::Finalize), DEAD);
}

#[test]
fn a_persons_permit_does_not_come_back_from_a_backup() {
    let mut op = History::held(rules(Safety::Unsafe));
    op.does(&Event::Resolve(Resolution::Retry));
    let mut live = op.clone();
    op.does(&RESTORED);
    assert_eq!(op.does(&begin(2)), [Action::Hold], "it may have been used");
    live.begins_again();
    live.does(&RESTORED);
    live.does(&not_called(live.state.fence, None));
    assert_eq!(live.state.phase, Some(Phase::Held));
}

#[test]
fn a_restored_first_begin_keeps_the_start_of_the_providers_memory() {
    let mut op = History::begun(rules(Safety::Natural));
    op.does(&RESTORED);
    op.does(&not_called(op.state.fence, None));
    assert_eq!(op.state.first_call_at, Some(NOW));
}

#[test]
fn a_shorter_lease_does_not_move_the_end_of_the_last_call_back() {
    let mut op = History::held(rules(Safety::Unsafe));
    op.after(secs(100)).does(&RESTORED);
    let until = op.now + secs(30);
    assert_eq!(op.state.call_deadline, Some(until));
    op.does(&Event::Resolve(Resolution::Retry));
    if let Event::Begin(begin) = begin(3) {
        let lease = secs(5);
        op.does(&Event::Begin(Begin { lease, ..begin }));
    }
    op.does(&retry(op.state.fence, Effect::Unknown));
    op.now = until;
    op.does(&probed(op.state.fence, until, ProbeAnswer::NotFound));
    assert_eq!(op.state.effect, Effect::Unknown, "a worker may still send");
}
