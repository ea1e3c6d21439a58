//! Every name of the code is explained on the page, and no other.

use std::collections::BTreeSet;

use clinch_core::ports::Operation;
use clinch_core::protocol::{Hold, Refund};
use serde_json::Value;

use super::{blocks, read, table};
use crate::cases::Case;
use crate::rows::{Route, Row};

/// The fields of a struct; does not compile when one is missing.
macro_rules! fields {
    ($kind:ident { $($field:ident),+ $(,)? }) => {{
        let _ = |row: &$kind| {
            let $kind { $($field: _,)+ } = row;
        };
        [$(stringify!($field)),+]
    }};
}

fn explained(heading: &str) -> BTreeSet<String> {
    let names = blocks::first_column(&read(), heading);
    let set: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(
        set.len(),
        names.len(),
        "{heading}: a name stands there twice"
    );
    set
}

fn same<'a>(heading: &str, code: impl IntoIterator<Item = &'a str>) {
    let page = explained(heading);
    let code: BTreeSet<String> = code.into_iter().map(str::to_owned).collect();
    let missing: Vec<_> = code.difference(&page).collect();
    let unknown: Vec<_> = page.difference(&code).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "docs/protocol.md, {heading:?}: missing {missing:?}; not in the code {unknown:?}"
    );
}

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

#[test]
fn core_5_every_field_of_the_row_is_explained() {
    let state = Row::Held.state(Route::Natural);
    let value = serde_json::to_value(&state).expect("a state is JSON");
    same("### State", keys(&value));
    let hold: &Hold = state.hold.as_ref().expect("a held row has a hold");
    let value = serde_json::to_value(hold).expect("a hold is JSON");
    same("### Hold", keys(&value));
    let live = Row::LiveNone.state(Route::Natural);
    let refund: Refund = live.refund.expect("a live row has a refund");
    let value = serde_json::to_value(refund).expect("a refund is JSON");
    same("### Refund", keys(&value));
}

#[test]
fn every_field_beside_the_state_is_explained() {
    let fields = fields!(Operation {
        op_id,
        keys,
        payload,
        content_hash,
        outbound_key,
        options,
        seq,
        lane,
        state,
        dispatch_no,
        result,
        checkpoint,
        batch_id,
        redrive_of,
        redriven_by,
        trace,
        accepted_at,
        started_at,
        finished_at,
    });
    same("### Operation", fields);
}

#[test]
fn core_5_every_position_event_action_and_code_is_explained() {
    let (mut events, mut actions, mut codes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut positions = BTreeSet::new();
    for case in Case::ALL {
        for row in Row::ALL {
            for route in Route::ALL {
                let (scene, event) = case.scene(*row, *route);
                events.insert(event.name());
                positions.insert(table::position(&scene.state));
                let Ok((next, done)) = scene.state.apply(&event, scene.now, &scene.rules) else {
                    continue;
                };
                actions.extend(done.iter().map(|action| format!("{action:?}")));
                let failure = next.failure.or(next.hold.map(|hold| hold.failure));
                codes.extend(failure.map(|failure| failure.code));
            }
        }
    }
    codes.remove(&crate::rows::refusal().code);
    same("## States", positions);
    same("## Events", events);
    same("## Actions", actions.iter().map(String::as_str));
    same("## Failure codes", codes.iter().map(String::as_str));
}
