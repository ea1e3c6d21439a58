//! The same calls on two adapters give the same answers.
//!
//! A seed determines a sequence: calls of every port of a store, mostly calls that fit the existing
//! rows, with few keys so that calls meet. Each call goes to both subjects, and the answers are
//! compared in every field. A commit mixes writes of every kind; the reference commits them one by
//! one. Both subjects must show the same time, and must move it only by
//! [`Control::advance`](crate::Control::advance).

mod draw;
mod step;

use std::thread::{self, JoinHandle};

use clinch_core::policy::SplitMix;

use crate::Factory;
use crate::case::Verdict;
use crate::samples::on_a_runtime;
use draw::Drawn;
use step::Side;

/// How much to compare.
#[derive(Debug, Clone, Copy)]
pub struct Sequences {
    /// The first seed.
    pub from: u64,
    /// How many seeds.
    pub count: u64,
    /// Calls of one sequence.
    pub calls: usize,
    /// Sequences on one pair of subjects: rows of the earlier sequences are part of the test.
    pub each: u64,
}

/// Compares the two subjects. `Err` names the seed, the call and both answers.
pub async fn differ(reference: &Factory, other: &Factory, plan: Sequences) -> Result<(), String> {
    let seeds: Vec<u64> = (plan.from..plan.from + plan.count).collect();
    let each = usize::try_from(plan.each.max(1)).unwrap_or(usize::MAX);
    for seeds in seeds.chunks(each) {
        let sides = (reference().await?, other().await?);
        let sides = Side::of(sides.0, true).and_then(|one| Ok((one, Side::of(sides.1, false)?)));
        let (one, two) = sides.map_err(|failure| failure.to_string())?;
        let mut drawn = Drawn::new().map_err(|failure| failure.to_string())?;
        for seed in seeds {
            let played = play(&one, &two, &mut drawn, *seed, plan.calls).await;
            played.map_err(|failure| format!("seed {seed}: {failure}"))?;
        }
    }
    Ok(())
}

/// The comparison of a test run: `CLINCH_SEQUENCES` sequences of 60 calls (1,000 by default),
/// from the seed `CLINCH_SEED` (1), `each` of them on one pair of subjects.
pub fn differ_nowhere(reference: &Factory, other: &Factory, each: u64) -> Result<(), String> {
    const THREADS: u64 = 4;
    let (count, first) = (number("CLINCH_SEQUENCES", 1_000), number("CLINCH_SEED", 1));
    let play = |thread: u64| {
        let plan = Sequences {
            from: first + thread * count / THREADS,
            count: count.div_ceil(THREADS),
            calls: 60,
            each,
        };
        let (reference, other) = (reference.clone(), other.clone());
        thread::spawn(move || on_a_runtime(differ(&reference, &other, plan)))
    };
    let threads: Vec<_> = (0..THREADS).map(play).collect();
    let join = |thread: JoinHandle<_>| thread.join().unwrap_or_else(|_| Err("panicked".into()));
    threads.into_iter().try_for_each(join)
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn play(one: &Side, two: &Side, drawn: &mut Drawn, seed: u64, calls: usize) -> Verdict {
    let mut rng = SplitMix::new(seed);
    drawn.begin(seed);
    for number in 0..calls {
        let step = drawn.step(one, &mut rng).await?;
        let (expected, got) = (one.perform(&step).await, two.perform(&step).await);
        ensure_eq!(got, expected, "call {number}, {step:?}");
    }
    for step in drawn.looks() {
        let (expected, got) = (one.perform(&step).await, two.perform(&step).await);
        ensure_eq!(got, expected, "at the end, {step:?}");
    }
    Ok(())
}
