//! The real engine under one seed.
//!
//! Everything that the engine touches is simulated here: time, tasks, ids, files, the network to
//! the store and to the bus, the providers behind the executors, and the operators who look at held
//! operations. Nodes crash at any await, are paused for longer than their lease, have a wall clock
//! that is wrong by an hour, and lose the store before or after a commit. The engine itself is the
//! real one, and so are the protocol and the in-memory reference store under it.
//!
//! [`run`] plays one history to its end and compares three accounts of it: what clients were told,
//! the store's ledger, and the providers' books. The same seed gives the same history, down to the
//! hash of its trace.
#![forbid(unsafe_code)]

mod bugs;
mod chaos;
mod checker;
mod clients;
mod edges;
mod guards;
mod machine;
mod network;
mod provider;
#[cfg(test)]
mod scenarios;
mod scene;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clients::Log;
use network::NetworkFaults;
use scene::Scene;
use world::World;

pub use bugs::PortBug;
pub use edges::{EDGES, Edge};

/// The result of one seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Hash of everything that happened: the same for the same seed.
    pub trace_hash: u64,
    /// Events in the trace.
    pub events: u64,
    /// Operations accepted.
    pub operations: usize,
    /// Calls that left a machine.
    pub calls: usize,
    /// How often each edge of the protocol table was taken.
    pub edges: BTreeMap<Edge, usize>,
    /// Broken promises. Empty if all were kept.
    pub broken: Vec<String>,
    /// The lines of the trace, if requested.
    pub lines: Vec<String>,
}

/// How long faults are injected.
const CHAOS: Duration = Duration::from_secs(300);
/// A history that has not ended by then never will: correct histories end within a quarter of an
/// hour.
const END: Duration = Duration::from_secs(4 * 3_600);
/// Time after the last end in which messages in flight arrive.
const AFTERMATH: Duration = Duration::from_secs(120);

/// Plays the history of one seed.
pub fn run(seed: u64, keep_lines: bool) -> Report {
    run_with(None, seed, keep_lines)
}

/// The first history that breaks a promise, among the seeds from 0 to `seeds`.
pub fn first_broken(bug: Option<PortBug>, seeds: u64) -> Option<Report> {
    let next = AtomicU64::new(0);
    let found: Mutex<Option<Report>> = Mutex::default();
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // A seed that was started is played to its end, because a lower seed may break too.
                while lock().is_none() {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds {
                        return;
                    }
                    let report = run_with(bug, seed, false);
                    let mut found = lock();
                    let is_first = found.as_ref().is_none_or(|found| seed < found.seed);
                    if !report.broken.is_empty() && is_first {
                        *found = Some(report);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Plays the history of one seed, on nodes with a planted bug.
pub fn run_with(bug: Option<PortBug>, seed: u64, keep_lines: bool) -> Report {
    let world = World::new(seed, keep_lines);
    let network_faults = NetworkFaults {
        latency_ms: 1 + world.below(40),
        ..NetworkFaults::fair()
    };
    let hints = world.chance(500);
    let nodes = 2 + world.below(3) as usize;
    let scene = Scene::new(world.clone(), network_faults, hints, nodes, bug);
    let log = Arc::new(Log::default());
    let mut broken = Vec::new();
    for index in 0..nodes {
        if let Err(error) = scene.start(index) {
            broken.push(format!("node {index} does not start: {error}"));
        }
    }
    scene
        .providers
        .set_trouble(chaos::draw_provider_faults(&scene));
    for client in 0..3 {
        clients::start(&scene, &log, client, 8);
    }
    clients::start_calm(&scene, &log);
    if world.chance(300) {
        clients::start_batch(&scene, &log);
    }
    chaos::start(&scene, CHAOS);
    chaos::start_operators(&scene);
    let ended = |scene: &Scene, log: &Log| {
        let quiet = log.unfinished.load(Ordering::SeqCst) == 0;
        quiet && scene.world.now() > CHAOS && scene.is_settled()
    };
    // Checking the rows costs more than a step, so check only now and then.
    let mut until = CHAOS;
    while until < END && !ended(&scene, &log) {
        until += Duration::from_secs(30);
        world.run(until, || false);
    }
    let end = world.now() + AFTERMATH;
    world.run(end, || false);
    broken.extend(checker::check(&scene, &log));
    let calls = scene
        .providers
        .records()
        .values()
        .map(|r| r.sent.len())
        .sum();
    let edges = edges::taken(&scene.memory);
    let operations = scene.memory.edit(|tables| tables.rows.len());
    let (trace_hash, events, lines) = world.trace();
    for index in 0..nodes {
        scene.crash(index);
    }
    world.crash(world::OUTSIDE);
    Report {
        seed,
        trace_hash,
        events,
        operations,
        calls,
        edges,
        broken,
        lines,
    }
}

impl Scene {
    /// Every operation is terminal, and no answer waits in a file.
    fn is_settled(&self) -> bool {
        let spilled = (0..self.node_count()).any(|i| self.machine(i, |m| m.spill.len() > 0));
        !spilled
            && self.memory.edit(|tables| {
                let mut rows = tables.rows.iter();
                rows.all(|(_, row)| row.operation.state.is_terminal())
            })
    }
}
