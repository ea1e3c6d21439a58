//! All guards on: no property breaks, in any of the explorations.

use clinch_core::policy::{ReaperStrategy, Rules};
use stateright::{Checker, HasDiscoveries, Model};

use super::lane::LaneModel;
use super::operation::{Bounds, Operation};
use super::routes::{
    BASE, blind_route, keyed_final_route, keyed_route, natural_route, reaped_route, twice,
    unsafe_route, urgent,
};

/// Explores to the end, or to the first breach. `states_min`: so that a model that explores nothing fails.
fn holds<M>(name: &str, model: M, states_min: usize)
where
    M: Model + Send + Sync + 'static,
    M::State: std::hash::Hash + std::fmt::Debug + Clone + PartialEq + Send + Sync,
    M::Action: std::fmt::Debug + Clone + PartialEq,
{
    let at_first_breach = model.checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = at_first_breach.spawn_bfs().join();
    println!(
        "{name}: {} states, {} steps, depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
    assert!(checker.is_done(), "{name}: not explored to the end");
    let states = checker.unique_state_count();
    assert!(states >= states_min, "{name}: only {states} states");
}

fn operation_holds(name: &str, rules: Rules, bounds: Bounds, states_min: usize) {
    assert_eq!(rules.validate(), Ok(()), "{name}");
    holds(name, Operation::new(rules, bounds), states_min);
}

macro_rules! safety {
    ($($name:ident: $rules:expr, $bounds:expr, $min:expr;)*) => {$(
        #[test]
        fn $name() {
            operation_holds(stringify!($name), $rules, $bounds, $min);
        }
    )*};
}

safety! {
    unsafe_route_holds: unsafe_route(), BASE, 300_000;
    unsafe_with_refund: twice(unsafe_route()), BASE.refund(), 200_000;
    unsafe_with_person: twice(unsafe_route()), BASE.person().uncanceled(), 300_000;
    unsafe_talkative: twice(unsafe_route()), BASE.talkative(), 150_000;
    unsafe_two_probes: twice(unsafe_route()), BASE.two_probes(), 250_000;
    unsafe_with_deadline: urgent(twice(unsafe_route())), BASE.person(), 400_000;
    unsafe_blind: blind_route(), BASE.refund().person(), 150_000;
    natural: natural_route(), BASE.uncanceled(), 200_000;
    natural_with_refund: twice(natural_route()), BASE.refund(), 150_000;
    natural_with_person: twice(natural_route()), BASE.person().uncanceled(), 250_000;
    natural_with_deadline: urgent(natural_route()), BASE.refund(), 100_000;
    natural_reaper_fails: reaped_route(ReaperStrategy::Fail), BASE.refund(), 5_000;
    natural_reaper_probes: reaped_route(ReaperStrategy::Probe), BASE.refund(), 10_000;
    keyed_remembering: keyed_route(true), BASE, 300_000;
    keyed_forgetting: keyed_route(false), BASE, 250_000;
    keyed_with_refund: twice(keyed_route(true)), BASE.refund(), 150_000;
    keyed_with_deadline: urgent(keyed_route(true)), BASE.uncanceled(), 150_000;
    keyed_with_person: twice(keyed_route(true)), BASE.person().uncanceled(), 800_000;
    keyed_with_final_not_found: twice(keyed_final_route()), BASE, 200_000;
}

#[test]
fn lane_unsafe() {
    let model = LaneModel::new(twice(blind_route()));
    holds("lane_unsafe", model, 40_000);
}

#[test]
fn lane_natural() {
    let model = LaneModel::new(twice(reaped_route(ReaperStrategy::Auto)));
    holds("lane_natural", model, 20_000);
}

#[test]
fn lane_deadline() {
    let model = LaneModel::new(urgent(twice(reaped_route(ReaperStrategy::Fail))));
    holds("lane_deadline", model, 200_000);
}
