//! The figures, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::scene::{Mode, Variant};

/// Everything that was measured.
pub(crate) struct Report {
    outcomes: usize,
    ratio_min: f64,
    modes: Vec<Measured>,
}

/// Outcomes per second of one mode, a pair for each round.
struct Measured {
    mode: Mode,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy, Default)]
struct Round {
    plain: f64,
    with_retries: f64,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.with_retries / self.plain
    }
}

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        }
    }

    fn ratio(&self) -> f64 {
        self.median(Round::ratio)
    }
}

impl Report {
    pub(crate) fn new(outcomes: usize, ratio_min: f64) -> Self {
        Self {
            outcomes,
            ratio_min,
            modes: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, mode: Mode, round: usize, variant: Variant, rate: f64) {
        if self.modes.last().is_none_or(|last| last.mode != mode) {
            let rounds = Vec::new();
            self.modes.push(Measured { mode, rounds });
        }
        let Some(measured) = self.modes.last_mut() else {
            return;
        };
        if measured.rounds.len() <= round {
            measured.rounds.resize(round + 1, Round::default());
        }
        let pair = &mut measured.rounds[round];
        match variant {
            Variant::Plain => pair.plain = rate,
            Variant::WithRetries => pair.with_retries = rate,
        }
    }

    /// Whether the median ratio of every mode reaches the minimum.
    pub(crate) fn passes(&self) -> bool {
        let mut modes = self.modes.iter();
        modes.all(|measured| measured.ratio() >= self.ratio_min)
    }

    pub(crate) fn text(&self, as_json: bool) -> String {
        if as_json {
            self.json().to_string()
        } else {
            self.table()
        }
    }

    fn table(&self) -> String {
        let mut text = format!(
            "outcomes handled per second, {} outcomes a run\n\n{:<8}{:>8}{:>14}{:>14}{:>8}\n",
            self.outcomes, "mode", "round", "no retries", "half retries", "ratio"
        );
        let mut line = |mode: Mode, round: &str, plain: f64, with_retries: f64, ratio: f64| {
            let mode = mode.name();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{mode:<8}{round:>8}{plain:>14.0}{with_retries:>14.0}{ratio:>8.2}"
            );
        };
        for measured in &self.modes {
            for (number, round) in (1..).zip(&measured.rounds) {
                let number = format!("{number}");
                let (plain, with_retries) = (round.plain, round.with_retries);
                line(measured.mode, &number, plain, with_retries, round.ratio());
            }
            let plain = measured.median(|round| round.plain);
            let with_retries = measured.median(|round| round.with_retries);
            line(
                measured.mode,
                "median",
                plain,
                with_retries,
                measured.ratio(),
            );
        }
        let verdict = if self.passes() { "PASS" } else { "FAIL" };
        let ratios = self.modes.iter();
        let ratios = ratios.map(|one| format!("{} {:.2}", one.mode.name(), one.ratio()));
        let ratios: Vec<_> = ratios.collect();
        let floor = self.ratio_min;
        let _ = write!(
            text,
            "\n{verdict}: ratio {}, at least {floor:.2} is wanted",
            ratios.join(", ")
        );
        text
    }

    fn json(&self) -> Value {
        let round = |round: &Round| {
            json!({
                "no_retries": round.plain,
                "half_retries": round.with_retries,
                "ratio": round.ratio(),
            })
        };
        let mode = |measured: &Measured| {
            json!({
                "mode": measured.mode.name(),
                "rounds": measured.rounds.iter().map(round).collect::<Vec<_>>(),
                "median": {
                    "no_retries": measured.median(|round| round.plain),
                    "half_retries": measured.median(|round| round.with_retries),
                    "ratio": measured.ratio(),
                },
            })
        };
        json!({
            "bench": "retries",
            "unit": "outcomes per second",
            "outcomes_a_run": self.outcomes,
            "ratio_min": self.ratio_min,
            "pass": self.passes(),
            "modes": self.modes.iter().map(mode).collect::<Vec<_>>(),
        })
    }
}
