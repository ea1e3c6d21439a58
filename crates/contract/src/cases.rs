//! Every case, one file per area.

mod accept;
mod ambiguous;
mod amend;
mod atomic;
mod attempt;
mod batch;
mod begin;
mod bus;
mod clock;
mod domains;
mod engine;
mod finalize;
mod finding;
mod inspect;
mod keys;
mod lane;
mod late;
mod letter_lists;
mod letters;
mod locks;
mod notes;
mod notices;
mod operator;
mod outbox;
mod presence;
mod proof;
mod protection;
mod queue;
mod recovery;
mod redrive;
mod remote;
mod retention;
mod scenario;
mod settle;
mod size;
mod spawn;
mod sweep;
mod topics;
mod undeclared;
mod wake;

use crate::{Capabilities, Case};

const AREAS: &[&[Case]] = &[
    accept::CASES,
    keys::CASES,
    begin::CASES,
    attempt::CASES,
    proof::CASES,
    settle::CASES,
    late::CASES,
    redrive::CASES,
    letters::CASES,
    notes::CASES,
    letter_lists::CASES,
    finalize::CASES,
    atomic::CASES,
    ambiguous::CASES,
    lane::CASES,
    batch::CASES,
    spawn::CASES,
    outbox::CASES,
    sweep::CASES,
    sweep::WITH_BUS,
    recovery::CASES,
    presence::CASES,
    retention::CASES,
    clock::CASES,
    domains::CASES,
    amend::CASES,
    operator::CASES,
    finding::CASES,
    inspect::CASES,
    notices::CASES,
    scenario::CASES,
    engine::BY_QUEUE,
    engine::BY_HINTS,
    protection::BY_QUEUE,
    protection::BY_HINTS,
    remote::BY_QUEUE,
    remote::BY_HINTS,
    undeclared::BY_QUEUE,
    undeclared::BY_HINTS,
    size::CASES,
    bus::CASES,
    topics::CASES,
    queue::CASES,
    queue::WITH_FAULTS,
    wake::CASES,
    locks::CASES,
];

/// The cases that an adapter with these capabilities must pass.
pub fn cases(capabilities: Capabilities) -> Vec<Case> {
    let all = AREAS.iter().copied().flatten().copied();
    all.filter(|case| case.needs.is_met_by(capabilities))
        .collect()
}
