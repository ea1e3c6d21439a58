//! The simulation finds bugs: those of a port in every test run, those inside of the engine
//! by `cargo xtask mutants`.
#![forbid(unsafe_code)]

use clinch_sim::{PortBug, first_broken};

/// The slowest of them is found after 10 seeds.
const SEEDS: u64 = 200;

#[test]
fn every_bug_of_a_port_breaks_a_promise() {
    let survive = |bug: &PortBug| first_broken(Some(*bug), SEEDS).is_none();
    let survivors: Vec<PortBug> = PortBug::ALL.into_iter().filter(survive).collect();
    assert!(survivors.is_empty(), "not found: {survivors:?}");
}

#[test]
fn bugs_are_known_by_their_names() {
    for bug in PortBug::ALL {
        assert_eq!(PortBug::named(&format!("{bug:?}")), Some(bug));
    }
    assert_eq!(PortBug::named("NoSuchBug"), None);
}
