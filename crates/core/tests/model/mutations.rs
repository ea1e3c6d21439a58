//! One guard off: a property breaks. A guard whose loss nothing notices is either not
//! needed or not checked.

use clinch_core::policy::Rules;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::guards::Guard;
use super::lane::{IN_ORDER, LaneModel};
use super::operation::{Bounds, Operation};
use super::properties::{
    NO_CALL_AFTER_CANCEL, NO_CALL_AFTER_RECORD, NO_STALE_PROBE, NONE_IS_NONE, ONE_EFFECT,
    RECORD_KEPT,
};
use super::routes::{BASE, blind_route, endless, keyed_route, natural_route, twice, unsafe_route};

/// Explores until each of the named properties is broken, or to the end.
fn breaks<M>(name: &str, model: M, expected: &[&'static str])
where
    M: Model + Send + Sync + 'static,
    M::State: std::hash::Hash + Clone + PartialEq + Send + Sync,
    M::Action: std::fmt::Debug + Clone + PartialEq,
{
    let found_all = HasDiscoveries::AllOf(expected.iter().copied().collect());
    let checker = model.checker().finish_when(found_all).spawn_bfs().join();
    let mut broken: Vec<_> = checker.discoveries().into_iter().collect();
    broken.retain(|(name, _)| checker.model().property(name).expectation == Expectation::Always);
    for (property, path) in &broken {
        let path = path.clone().into_actions();
        println!("without {name}: breaks {property:?} by {path:?}");
    }
    println!("without {name}: {} states", checker.unique_state_count());
    for property in expected {
        let found = broken.iter().any(|(name, _)| name == property);
        assert!(found, "without {name}: {property:?} still holds");
    }
}

fn operation_breaks(guard: Guard, rules: Rules, bounds: Bounds, expected: &[&'static str]) {
    let model = Operation::new(rules, bounds).without(guard);
    breaks(&format!("{guard:?}"), model, expected);
}

#[test]
fn fence() {
    let rules = twice(unsafe_route());
    let bounds = BASE.refund();
    operation_breaks(Guard::Fence, rules, bounds, &[ONE_EFFECT, NONE_IS_NONE]);
}

#[test]
fn sticky_effect() {
    let rules = natural_route();
    operation_breaks(Guard::StickyEffect, rules, BASE, &[NONE_IS_NONE]);
}

#[test]
fn write_ahead() {
    let expected = [NO_CALL_AFTER_RECORD, RECORD_KEPT];
    operation_breaks(Guard::WriteAhead, natural_route(), BASE, &expected);
}

#[test]
fn key_ttl_at_begin() {
    let rules = endless(keyed_route(false));
    operation_breaks(Guard::KeyTtl, rules, BASE, &[ONE_EFFECT]);
}

#[test]
fn cancel_before_waiting() {
    let rules = twice(natural_route());
    operation_breaks(Guard::Cancel, rules, BASE, &[NO_CALL_AFTER_CANCEL]);
}

#[test]
fn fence_of_a_probe() {
    let rules = twice(unsafe_route());
    let bounds = BASE.person();
    operation_breaks(Guard::ProbeFence, rules, bounds, &[NO_STALE_PROBE]);
}

#[test]
fn age_of_a_not_found() {
    let expected = [ONE_EFFECT, NONE_IS_NONE];
    operation_breaks(Guard::NotFoundAge, twice(unsafe_route()), BASE, &expected);
}

#[test]
fn head_of_a_lane() {
    let model = LaneModel::new(twice(blind_route())).without(Guard::LaneHead);
    breaks("LaneHead", model, &[IN_ORDER]);
}
