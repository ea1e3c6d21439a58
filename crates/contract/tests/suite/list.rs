//! The list of cases itself: what an adapter's author and the requirements page rely on.

use std::collections::BTreeSet;

use clinch_contract::{Capabilities, Need, cases};

const NONE: Capabilities = Capabilities {
    store: false,
    bus: false,
    queue: false,
    locks: false,
    faults: false,
};

/// Each group of requirements counts from 1 to its number.
const GROUPS: [(&str, usize); 4] = [("CORE", 20), ("RUN", 13), ("OUT", 10), ("COL", 18)];

#[test]
fn core_13_every_case_has_a_name_of_its_own() {
    let all = cases(Capabilities::ALL);
    assert!(all.len() > 300, "only {} cases", all.len());
    let mut names = BTreeSet::new();
    for case in &all {
        assert!(names.insert(case.name), "{} is there twice", case.name);
        let (area, behaviour) = case.name.split_once("::").expect("area::behaviour");
        assert!(!area.is_empty() && !behaviour.is_empty(), "{}", case.name);
    }
}

#[test]
fn every_case_proves_requirements_that_exist() {
    let known: BTreeSet<String> = GROUPS
        .into_iter()
        .flat_map(|(group, last)| (1..=last).map(move |number| format!("{group}-{number}")))
        .collect();
    for case in cases(Capabilities::ALL) {
        for id in case.proves {
            assert!(known.contains(*id), "{} proves {id}", case.name);
        }
    }
}

#[test]
fn what_the_requirements_ask_of_adapters_is_proven() {
    let proven: BTreeSet<&str> = cases(Capabilities::ALL)
        .iter()
        .flat_map(|case| case.proves)
        .copied()
        .collect();
    let asked = [
        "CORE-5", "CORE-6", "CORE-7", "CORE-8", "CORE-9", "CORE-11", "CORE-12", "CORE-13", "RUN-5",
        "RUN-6", "RUN-7", "RUN-11", "OUT-2", "OUT-3", "OUT-4", "OUT-5",
    ];
    for id in asked {
        assert!(proven.contains(id), "no case proves {id}");
    }
}

#[test]
fn capabilities_pick_the_cases() {
    assert!(cases(NONE).is_empty());
    let bus_only = Capabilities { bus: true, ..NONE };
    assert!(cases(bus_only).iter().all(|case| case.needs == Need::Bus));
    let no_faults = Capabilities {
        faults: false,
        ..Capabilities::ALL
    };
    let faults = cases(Capabilities::ALL).len() - cases(no_faults).len();
    assert!(faults > 10, "only {faults} cases need faults");
}
