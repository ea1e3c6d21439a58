//! All guards on: no property breaks, in any of the explorations.

use clinch_core::policy::{ReaperStrategy, Rules};
use stateright::{Checker, Model};

use super::lane::LaneModel;
use super::operation::{Bounds, Operation};
use super::routes::{
    BASE, blind_route, endless, keyed_final_route, keyed_route, natural_route, reaped_route, twice,
    unsafe_route,
};

/// Explores to the end. `states_min`: so that a model that explores nothing fails.
fn holds<M>(name: &str, model: M, states_min: usize)
where
    M: Model + Send + Sync + 'static,
    M::State: std::hash::Hash + std::fmt::Debug + Clone + PartialEq + Send + Sync,
    M::Action: std::fmt::Debug + Clone + PartialEq,
{
    let checker = model.checker().spawn_bfs().join();
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
    unsafe_with_refund: unsafe_route(), BASE.refund(), 1;
    unsafe_with_person: unsafe_route(), BASE.person(), 1;
    unsafe_talkative: twice(unsafe_route()), BASE.talkative(), 1;
    unsafe_two_probes: twice(unsafe_route()), BASE.two_probes(), 1;
    unsafe_blind: blind_route(), BASE.refund().person(), 1;
    natural: natural_route(), BASE.refund(), 1;
    natural_with_person: twice(natural_route()), BASE.person().uncanceled(), 1;
    natural_reaper_fails: reaped_route(ReaperStrategy::Fail), BASE.refund(), 1;
    natural_reaper_probes: reaped_route(ReaperStrategy::Probe), BASE.refund(), 1;
    keyed_remembering: endless(keyed_route(true)), BASE, 1;
    keyed_forgetting: endless(keyed_route(false)), BASE, 1;
    keyed_with_refund: twice(keyed_route(true)), BASE.refund(), 1;
    keyed_with_deadline: keyed_route(true), BASE.uncanceled(), 1;
    keyed_with_person: twice(endless(keyed_route(true))), BASE.person().uncanceled(), 1;
    keyed_with_final_not_found: twice(keyed_final_route()), BASE, 1;
}

#[test]
fn lane_unsafe() {
    let model = LaneModel::new(twice(blind_route()));
    holds("lane_unsafe", model, 1);
}

#[test]
fn lane_natural() {
    let model = LaneModel::new(twice(natural_route()));
    holds("lane_natural", model, 1);
}

#[test]
fn lane_deadline() {
    let model = LaneModel::new(twice(reaped_route(ReaperStrategy::Fail)));
    holds("lane_deadline", model, 1);
}
