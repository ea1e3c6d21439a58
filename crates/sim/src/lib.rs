//! The real engine under one seed.
//!
//! Everything the engine touches is simulated here: time, tasks, ids, files, the way to the
//! store and to the bus, the providers behind the executors, and the people who look at what
//! is left. Nodes crash at any await, are paused for longer than their lease, lose their
//! clock by an hour, and lose the store before or after a commit. The engine itself is the
//! real one, and so are the protocol and the in-memory reference under it.
//!
//! [`run`] plays one history to its end and joins three accounts of it: what clients were
//! told, what the store's ledger says, and what the providers' books say. The same seed gives
//! the same history, down to the hash of its trace.
#![forbid(unsafe_code)]

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
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clients::Log;
use network::Weather;
use scene::Scene;
use world::World;

pub use edges::{EDGES, Edge};

/// What one seed showed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Of everything that happened: the same for the same seed.
    pub trace_hash: u64,
    /// Events in the trace.
    pub events: u64,
    /// Operations accepted.
    pub operations: usize,
    /// Calls that left a machine.
    pub calls: usize,
    /// How often each edge of the protocol table was taken.
    pub edges: BTreeMap<Edge, usize>,
    /// Broken promises; empty is good.
    pub broken: Vec<String>,
    /// The trace, if it was asked for.
    pub lines: Vec<String>,
}

/// How long things go wrong.
const CHAOS: Duration = Duration::from_secs(300);
/// Everything has ended by then, or never will.
const END: Duration = Duration::from_secs(24 * 3_600);
/// After the last end: what is on its way arrives.
const AFTERMATH: Duration = Duration::from_secs(120);

/// Plays the history of one seed.
pub fn run(seed: u64, keep_lines: bool) -> Report {
    let world = World::new(seed, keep_lines);
    let weather = Weather {
        latency_ms: 1 + world.below(40),
        ..Weather::fair()
    };
    let hints = world.chance(500);
    let nodes = 2 + world.below(3) as usize;
    let scene = Scene::new(world.clone(), weather, hints, nodes);
    let log = Arc::new(Log::default());
    let mut broken = Vec::new();
    for index in 0..nodes {
        if let Err(error) = scene.start(index) {
            broken.push(format!("node {index} does not start: {error}"));
        }
    }
    scene.providers.set_trouble(chaos::draw_trouble(&scene));
    for client in 0..3 {
        clients::start(&scene, &log, client, 8);
    }
    clients::start_calm(&scene, &log);
    if world.chance(300) {
        clients::start_batch(&scene, &log);
    }
    chaos::start(&scene, CHAOS);
    chaos::start_people(&scene);
    let ended = |scene: &Scene, log: &Log| {
        let quiet = log.unfinished.load(Ordering::SeqCst) == 0;
        quiet && scene.world.now() > CHAOS && scene.is_settled()
    };
    // The look at the rows costs more than a step: look now and then.
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
