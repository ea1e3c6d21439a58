//! Outcomes per second with and without retries.
//!
//! The real engine on the in-memory store handles the same number of outcomes twice: once every
//! outcome is an Ok, once every second one is a Retry. Only the handling is timed, not the accepts
//! before it. The two variants take turns, so that a slower machine slows both.
#![forbid(unsafe_code)]

mod report;
mod scene;

use std::process::ExitCode;

use clinch_core::{Error, ErrorKind, Result};

use report::Report;
use scene::{Mode, Scene, Variant};

/// Minimum ratio of the rate with retries to the rate without them.
const RATIO_MIN: f64 = 0.70;

const USAGE: &str = "usage: retries [--json] [--outcomes N] [--rounds N] [--mode queue|hints]";

/// The command line.
struct Arguments {
    json: bool,
    outcomes: usize,
    rounds: usize,
    modes: Vec<Mode>,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match measure(&arguments) {
        Ok(report) => {
            println!("{}", report.text(arguments.json));
            ExitCode::from(u8::from(!report.passes()))
        }
        Err(error) => {
            eprintln!("retries: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        json: false,
        outcomes: 20_000,
        rounds: 5,
        modes: vec![Mode::Queue, Mode::Hints],
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => arguments.json = true,
            "--outcomes" => arguments.outcomes = words.next()?.parse().ok()?,
            "--rounds" => arguments.rounds = words.next()?.parse().ok()?,
            "--mode" => arguments.modes = vec![Mode::named(&words.next()?)?],
            _ => return None,
        }
    }
    (arguments.outcomes >= 2 && arguments.rounds >= 1).then_some(arguments)
}

fn measure(arguments: &Arguments) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build();
    let no_runtime = |error| Error::new(ErrorKind::Internal, "no runtime").caused_by(error);
    let scene = Scene::new(runtime.map_err(no_runtime)?)?;
    let mut report = Report::new(arguments.outcomes, RATIO_MIN);
    for mode in &arguments.modes {
        // The first run only warms up.
        scene.play(*mode, Variant::WithRetries, arguments.outcomes)?;
        for round in 0..arguments.rounds {
            let mut order = [Variant::Plain, Variant::WithRetries];
            if round % 2 == 1 {
                order.reverse();
            }
            for variant in order {
                let rate = scene.play(*mode, variant, arguments.outcomes)?;
                report.add(*mode, round, variant, rate);
            }
        }
    }
    Ok(report)
}
