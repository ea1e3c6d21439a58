//! Every open operation can still end, and without luck or a person wherever its route
//! does not ask for one.

use clinch_core::policy::Rules;

use super::clock::NOW;
use super::explore::{Claim, every_state_can_end};
use super::lane::{LaneAct, LaneModel, Street, What};
use super::operation::{Act, Bounds, Operation};
use super::routes::{BASE, blind_route, keyed_route, natural_route, twice, unsafe_route, urgent};
use super::world::{Known, World, needs_person};

/// What goes on when every worker dies and every provider is mute: clocks, hints, the
/// Reaper, the sweeper, the Finalizer, and probes when they are due.
fn is_machinery(world: &World, act: &Act) -> bool {
    match act {
        Act::Tick | Act::Begin | Act::Lost | Act::Deadline | Act::Finalize | Act::Die(_) => true,
        Act::Ask(Known::Unknown) => {
            let hold = world.row.hold.as_ref();
            hold.and_then(|hold| hold.probe_at)
                .is_some_and(|at| at <= NOW)
        }
        Act::ProbeBack(_) => true,
        _ => false,
    }
}

fn operation_can_end(name: &str, rules: Rules, bounds: Bounds, states_min: usize) {
    let claims = [
        Claim {
            name: "every operation can still end",
            goal: |world: &World| world.row.is_terminal(),
            usable: |_, _| true,
        },
        Claim {
            name: "without luck it ends or needs a person",
            goal: |world: &World| world.row.is_terminal() || needs_person(&world.row),
            usable: is_machinery,
        },
    ];
    let states = every_state_can_end(&Operation::new(rules, bounds), &claims);
    println!("{name}: {states} states can end");
    assert!(states >= states_min, "{name}: only {states} states");
}

#[test]
fn unsafe_operations_can_end() {
    operation_can_end("unsafe", twice(unsafe_route()), BASE.refund(), 200_000);
}

#[test]
fn blind_operations_can_end() {
    operation_can_end("blind", blind_route(), BASE.person(), 50_000);
}

#[test]
fn natural_operations_can_end() {
    operation_can_end("natural", urgent(natural_route()), BASE.refund(), 100_000);
}

#[test]
fn keyed_operations_can_end() {
    let rules = twice(keyed_route(false));
    operation_can_end("keyed", rules, BASE.refund(), 150_000);
}

/// As for one operation.
fn is_lane_machinery(_: &Street, act: &LaneAct) -> bool {
    match act {
        LaneAct::Tick => true,
        LaneAct::Join(_) => false,
        LaneAct::To(_, what) => matches!(
            what,
            What::Begin | What::Lost | What::Deadline | What::Finalize | What::CannotSay
        ),
    }
}

#[test]
fn lanes_can_clear() {
    let claims = [
        Claim {
            name: "every lane can clear",
            goal: Street::is_clear,
            usable: |_, _| true,
        },
        Claim {
            name: "without luck it clears or its head needs a person",
            goal: |street: &Street| street.is_clear() || street.needs_person(),
            usable: is_lane_machinery,
        },
    ];
    let states = every_state_can_end(&LaneModel::new(twice(blind_route())), &claims);
    println!("lane: {states} states can clear");
    assert!(states >= 40_000, "only {states} states");
}
