//! The simulation as part of every test run.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clinch_sim::{EDGES, Edge, run};

const SEEDS: u64 = 2_000;

/// CORE-5, CORE-6, CORE-7, CORE-9, RUN-2 … RUN-6, RUN-9, RUN-12, OUT-4: no promise breaks in
/// any history, and together they take every edge of the protocol table.
#[test]
fn no_seed_breaks_a_promise_and_every_edge_is_taken() {
    let next = AtomicU64::new(0);
    let broken = Mutex::new(Vec::new());
    let taken: Mutex<BTreeSet<Edge>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= SEEDS {
                        return;
                    }
                    let report = run(seed, false);
                    taken.lock().unwrap().extend(report.edges.keys());
                    if !report.broken.is_empty() {
                        broken.lock().unwrap().push((seed, report.broken));
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap();
    assert!(
        broken.is_empty(),
        "replay with cargo xtask sim --seed S: {broken:#?}"
    );
    let taken = taken.into_inner().unwrap();
    let missing: Vec<_> = EDGES.iter().filter(|edge| !taken.contains(*edge)).collect();
    assert!(missing.is_empty(), "no history took {missing:?}");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let mut hashes = BTreeSet::new();
    for seed in 0..25 {
        let (first, second) = (run(seed, false), run(seed, true));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.events, second.lines.len() as u64, "seed {seed}");
        hashes.insert(first.trace_hash);
    }
    assert_eq!(hashes.len(), 25, "seeds differ");
}
