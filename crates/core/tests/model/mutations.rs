//! One guard off: a property breaks. A guard whose loss nothing notices is either not
//! needed or not checked. Each is taken away on a route and within bounds of `safety`, where
//! nothing breaks with all guards on.

use clinch_core::policy::Rules;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::guards::Guard;
use super::lane::{IN_ORDER, LaneModel};
use super::operation::Operation;
use super::properties::{
    NO_CALL_AFTER_CANCEL, NO_CALL_AFTER_RECORD, NO_STALE_PROBE, NONE_IS_NONE, ONE_EFFECT,
    RECORD_KEPT,
};
use super::routes::{BASE, blind_route, keyed_route, natural_route, twice, unsafe_route};

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

fn operation_breaks(guard: Guard, rules: Rules, expected: &[&'static str]) {
    let model = Operation::new(rules, BASE.refund()).without(guard);
    breaks(&format!("{guard:?}"), model, expected);
}

#[test]
fn fence() {
    let expected = [ONE_EFFECT, NONE_IS_NONE];
    operation_breaks(Guard::Fence, twice(unsafe_route()), &expected);
}

#[test]
fn sticky_effect() {
    operation_breaks(Guard::StickyEffect, twice(natural_route()), &[NONE_IS_NONE]);
}

#[test]
fn write_ahead() {
    let expected = [NO_CALL_AFTER_RECORD, RECORD_KEPT];
    operation_breaks(Guard::WriteAhead, twice(natural_route()), &expected);
}

#[test]
fn key_ttl_at_begin() {
    operation_breaks(Guard::KeyTtl, twice(keyed_route(true)), &[ONE_EFFECT]);
}

#[test]
fn cancel_before_waiting() {
    let expected = [NO_CALL_AFTER_CANCEL];
    operation_breaks(Guard::Cancel, twice(natural_route()), &expected);
}

/// A person has the call repeated, and an answer about the first one comes in.
#[test]
fn fence_of_a_probe() {
    let bounds = BASE.person().uncanceled();
    let model = Operation::new(twice(unsafe_route()), bounds).without(Guard::ProbeFence);
    breaks("ProbeFence", model, &[NO_STALE_PROBE]);
}

#[test]
fn age_of_a_not_found() {
    let expected = [ONE_EFFECT, NONE_IS_NONE];
    operation_breaks(Guard::NotFoundAge, twice(unsafe_route()), &expected);
}

/// The races are there: without their excuse the same properties break.
#[test]
fn named_races_are_real() {
    for rules in [unsafe_route(), keyed_route(true)] {
        let model = Operation::new(twice(rules), BASE.refund()).without_excuse();
        breaks("excuse", model, &[ONE_EFFECT, NONE_IS_NONE]);
    }
}

#[test]
fn head_of_a_lane() {
    let model = LaneModel::new(twice(blind_route())).without(Guard::LaneHead);
    breaks("LaneHead", model, &[IN_ORDER]);
}
