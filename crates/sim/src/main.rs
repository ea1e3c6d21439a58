//! `sim`: plays seeds, or replays one with its trace.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clinch_sim::{EDGES, PortBug, Report, first_broken, run_with};

const USAGE: &str = "\
usage: sim --seeds N [--from S]   plays seeds
       sim --seed S               replays one with its trace
       sim --find N               plays up to N seeds until one breaks a promise
       sim --bugs                 names the planted bugs of ports
Each of the first three takes --bug NAME: one of those is planted.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)
    };
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    if args.iter().any(|arg| arg == "--bugs") {
        PortBug::ALL.iter().for_each(|bug| println!("{bug:?}"));
        return ExitCode::SUCCESS;
    }
    let bug = value("--bug").and_then(|name| PortBug::named(name));
    if bug.is_none() && args.iter().any(|arg| arg == "--bug") {
        return usage();
    }
    if let Some(seed) = number("--seed") {
        return replay(bug, seed);
    }
    if let Some(count) = number("--seeds") {
        return play(bug, number("--from").unwrap_or(0), count);
    }
    match number("--find") {
        Some(seeds) => find(bug, seeds),
        None => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Succeeds if a promise breaks.
fn find(bug: Option<PortBug>, seeds: u64) -> ExitCode {
    let Some(report) = first_broken(bug, seeds) else {
        println!("no promise breaks in {seeds} seeds");
        return ExitCode::FAILURE;
    };
    println!("seed {}: {}", report.seed, report.broken[0]);
    ExitCode::SUCCESS
}

fn replay(bug: Option<PortBug>, seed: u64) -> ExitCode {
    let report = run_with(bug, seed, true);
    for line in &report.lines {
        println!("{line}");
    }
    println!(
        "trace hash {:016x}, {} events",
        report.trace_hash, report.events
    );
    verdict(&[report])
}

fn play(bug: Option<PortBug>, from: u64, count: u64) -> ExitCode {
    // tidy: allow(banned-calls) real time, for the summary line only
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(from);
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= from + count {
                        return;
                    }
                    let report = run_with(bug, seed, false);
                    total
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .add(report);
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{count} seeds in {:.1} s: {} operations, {} calls, {} events",
        started.elapsed().as_secs_f64(),
        total.operations,
        total.calls,
        total.events,
    );
    for edge in EDGES {
        let (from, event, to) = edge;
        let taken = total.edges.get(edge).copied().unwrap_or(0);
        println!("{taken:>9}  {from} --{event}--> {to}");
    }
    let missing = EDGES
        .iter()
        .filter(|edge| !total.edges.contains_key(*edge))
        .count();
    println!("{} of {} edges taken", EDGES.len() - missing, EDGES.len());
    verdict(&total.broken)
}

#[derive(Default)]
struct Total {
    operations: usize,
    calls: usize,
    events: u64,
    edges: BTreeMap<clinch_sim::Edge, usize>,
    broken: Vec<Report>,
}

impl Total {
    fn add(&mut self, report: Report) {
        self.operations += report.operations;
        self.calls += report.calls;
        self.events += report.events;
        for (edge, taken) in &report.edges {
            *self.edges.entry(*edge).or_default() += taken;
        }
        if !report.broken.is_empty() {
            self.broken.push(report);
        }
    }
}

fn verdict(reports: &[Report]) -> ExitCode {
    let broken: Vec<&Report> = reports.iter().filter(|r| !r.broken.is_empty()).collect();
    for report in broken.iter().take(10) {
        println!(
            "seed {}: replay with cargo xtask sim --seed {}",
            report.seed, report.seed
        );
        for line in report.broken.iter().take(8) {
            println!("  {line}");
        }
    }
    println!("{} seeds broken", broken.len());
    if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
