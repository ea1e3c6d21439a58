//! `sim`: plays seeds, or replays one with its trace.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clinch_sim::{EDGES, Report, run};

const USAGE: &str = "usage: sim --seeds N [--from S] | --seed S | --mutants [--seeds N]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    if args.iter().any(|arg| arg == "--mutants") {
        return mutants(number("--seeds").unwrap_or(5_000));
    }
    match (number("--seed"), number("--seeds")) {
        (Some(seed), _) => replay(seed),
        (None, Some(count)) => play(number("--from").unwrap_or(0), count),
        (None, None) => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn replay(seed: u64) -> ExitCode {
    let report = run(seed, true);
    for line in &report.lines {
        println!("{line}");
    }
    println!(
        "trace hash {:016x}, {} events",
        report.trace_hash, report.events
    );
    verdict(&[report])
}

fn play(from: u64, count: u64) -> ExitCode {
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
                    let report = run(seed, false);
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

/// Plants every bug in turn and says by which seed it was found.
#[cfg(feature = "mutants")]
fn mutants(seeds: u64) -> ExitCode {
    use clinch_engine::{Mutant, plant};
    let next = AtomicU64::new(0);
    let survivors = AtomicU64::new(0);
    let slowest = Mutex::new((0, None));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutant) = {
                    let at = next.fetch_add(1, Ordering::SeqCst) as usize;
                    Mutant::ALL.get(at).copied()
                } {
                    plant(Some(mutant));
                    let found = (0..seeds).map(|seed| run(seed, false));
                    let found = found.into_iter().find(|report| !report.broken.is_empty());
                    plant(None);
                    let Some(report) = found else {
                        survivors.fetch_add(1, Ordering::SeqCst);
                        println!("SURVIVES  {mutant:?}");
                        continue;
                    };
                    let tried = report.seed + 1;
                    println!("{tried:>6} seeds  {mutant:?}: {}", report.broken[0]);
                    let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
                    if tried > slowest.0 {
                        *slowest = (tried, Some(mutant));
                    }
                }
            });
        }
    });
    let survivors = survivors.into_inner();
    let found = Mutant::ALL.len() as u64 - survivors;
    let (tried, mutant) = slowest.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{found} of {} planted bugs found; the slowest, {mutant:?}, after {tried} seeds",
        Mutant::ALL.len()
    );
    if survivors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(not(feature = "mutants"))]
fn mutants(_seeds: u64) -> ExitCode {
    eprintln!("built without planted bugs; run cargo xtask mutants");
    ExitCode::from(2)
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
