//! What was asked for.

use std::time::Duration;

pub(super) const USAGE: &str = "[--json] [--operations N] \
     [--alone | --latencies | --snapshot | --events-per-second N] [--seconds N]";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything that takes as long as it takes.
    All,
    /// What one process does.
    Alone,
    /// Of that, only how long an operation takes.
    Latencies,
    /// Throughput beside a snapshot that stays open.
    Snapshot,
    /// The lag under so many events a second.
    Steady(u32),
}

pub(super) struct Arguments {
    pub(super) json: bool,
    pub(super) operations: usize,
    pub(super) part: Part,
    /// Of the parts that last as long as one wishes.
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
