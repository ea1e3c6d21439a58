//! The command line.

use std::time::Duration;

pub(super) const USAGE: &str = "[--json] [--operations N] \
     [--alone | --latencies | --snapshot | --events-per-second N] [--seconds N]";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Every part with a fixed amount of work.
    All,
    /// The parts with a single process.
    Alone,
    /// Of these, only the time per operation.
    Latencies,
    /// Throughput while a snapshot stays open.
    Snapshot,
    /// The lag at this number of events per second.
    Steady(u32),
}

pub(super) struct Arguments {
    pub(super) json: bool,
    pub(super) operations: usize,
    pub(super) part: Part,
    /// Duration of the parts that run for a given time.
    pub(super) span: Duration,
}

impl Arguments {
    pub(super) fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut arguments = Self {
            json: false,
            operations: 100_000,
            part: Part::All,
            span: Duration::from_secs(60),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => arguments.json = true,
                "--operations" => arguments.operations = words.next()?.parse().ok()?,
                "--alone" => arguments.part = Part::Alone,
                "--latencies" => arguments.part = Part::Latencies,
                "--snapshot" => arguments.part = Part::Snapshot,
                "--events-per-second" => {
                    let rate = words.next()?.parse().ok().filter(|rate| *rate > 0)?;
                    arguments.part = Part::Steady(rate);
                }
                "--seconds" => arguments.span = Duration::from_secs(words.next()?.parse().ok()?),
                _ => return None,
            }
        }
        (arguments.operations >= 4_000 && !arguments.span.is_zero()).then_some(arguments)
    }
}
