//! Everything that was measured, and how it is shown.

use std::fmt::Write;

use clinch_peers_load::{Failure, Result};
use serde_json::json;

use crate::contender::{Contender, Figures};
use crate::peer::Peer;
use crate::rows::Row;

/// Figures of one contender, a round each.
pub(crate) type Rounds = Vec<Figures>;

/// A peer, its program and its figures.
pub(crate) type Measured = (Peer, Contender, Rounds);

/// Lowest, middle and highest value of the rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let lower = *values.get(middle - usize::from(values.len() % 2 == 0))?;
        Some(Self {
            median: f64::midpoint(lower, upper),
            low,
            high,
        })
    }

    fn text(self, unit: &str) -> String {
        let Self { median, low, high } = self;
        let (median, low, high) = (number(median), number(low), number(high));
        format!("{median} {unit} ({low}–{high})")
    }
}

/// One comparison with its figures.
pub(crate) struct Compared {
    pub(crate) part: &'static str,
    pub(crate) row: Row,
    pub(crate) ours: Spread,
    pub(crate) theirs: Spread,
}

impl Compared {
    pub(crate) fn ratio(&self) -> f64 {
        self.ours.median / self.theirs.median
    }

    /// The peer, and its figure where that is another one.
    pub(crate) fn against(&self) -> String {
        let (name, row) = (self.row.peer.name(), self.row);
        match row.peer {
            Peer::Disk => format!("fdatasync, {}", row.theirs),
            _ if row.ours != row.theirs => format!("{name}, queued"),
            _ => name.to_owned(),
        }
    }
}

/// All comparisons of a run.
pub(crate) struct Report {
    rounds: usize,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) compared: Vec<Compared>,
    pub(crate) missing: Vec<String>,
}

impl Report {
    pub(crate) fn new(rounds: usize) -> Self {
        Self {
            rounds,
            settings: Vec::new(),
            compared: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Adds a setting of the machine or of a contender.
    pub(crate) fn setting(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        eprintln!("{name}: {value}");
        self.settings.push((name, value));
    }

    /// Reports a peer without figures.
    pub(crate) fn not_measured(&mut self, peer: Peer, why: impl std::fmt::Display) {
        let why = why.to_string().replace('\n', " ");
        let line = format!("{}: not measured: {why}", peer.name());
        eprintln!("{line}");
        self.missing.push(line);
    }

    /// Reports peers that failed in a round, and takes them out of the following rounds.
    pub(crate) fn leave_out(
        &mut self,
        measured: &mut Vec<Measured>,
        failed: &mut Vec<(Peer, Failure)>,
    ) {
        for (peer, why) in failed.drain(..) {
            measured.retain(|(one, ..)| *one != peer);
            self.not_measured(peer, why);
        }
    }

    /// Compares Clinch with one peer in the rows of a part.
    pub(crate) fn compare(
        &mut self,
        part: &'static str,
        rows: &[Row],
        clinch: &Rounds,
        peer: Peer,
        rounds: &Rounds,
    ) -> Result<()> {
        for row in rows.iter().filter(|row| row.peer == peer) {
            let ours = Spread::of(values(clinch, row.ours));
            let theirs = Spread::of(values(rounds, row.theirs));
            let missing = || format!("{part}: {} has no figure `{}`", peer.name(), row.title);
            self.compared.push(Compared {
                part,
                row: *row,
                ours: ours.ok_or_else(missing)?,
                theirs: theirs.ok_or_else(missing)?,
            });
        }
        Ok(())
    }

    /// The table, as Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from(
            "| measure | Clinch | peer | peer's figure | ratio | goal | reached |\n\
             | --- | --- | --- | --- | --- | --- | --- |",
        );
        for one in &self.compared {
            let (row, ratio) = (one.row, one.ratio());
            let reached = match row.goal.is_reached(ratio) {
                Some(true) => "yes",
                Some(false) => "no",
                None => "–",
            };
            let _ = write!(
                text,
                "\n| {}: {} | {} | {} | {} | {} | {} | {reached} |",
                one.part,
                row.title,
                one.ours.text(row.unit),
                one.against(),
                one.theirs.text(row.unit),
                number(ratio),
                row.goal.text(),
            );
        }
        for line in &self.missing {
            let _ = write!(text, "\n\n{line}");
        }
        text
    }

    /// The settings, as a Markdown list.
    pub(crate) fn settings(&self) -> String {
        let line = |(name, value): &(String, String)| format!("- {name}: {value}");
        let mut lines: Vec<String> = self.settings.iter().map(line).collect();
        let rounds = self.rounds;
        lines.push(format!(
            "- rounds: {rounds}; median and range of the rounds"
        ));
        lines.join("\n")
    }

    pub(crate) fn text(&self) -> String {
        format!("{}\n\n{}", self.settings(), self.table())
    }

    pub(crate) fn json(&self) -> String {
        let row = |one: &Compared| {
            let ratio = one.ratio();
            let spread = |of: Spread| json!({"median": of.median, "low": of.low, "high": of.high});
            json!({
                "part": one.part, "name": one.row.title, "unit": one.row.unit,
                "clinch": spread(one.ours), "peer": one.against(), "peer_figure": spread(one.theirs),
                "ratio": ratio, "goal": one.row.goal.text(), "reached": one.row.goal.is_reached(ratio),
            })
        };
        let rows: Vec<_> = self.compared.iter().map(row).collect();
        let settings: serde_json::Map<_, _> = self
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        json!({
            "bench": "peers", "rounds": self.rounds, "settings": settings, "rows": rows,
            "not_measured": self.missing,
        })
        .to_string()
    }
}

fn values(rounds: &Rounds, name: &str) -> Vec<f64> {
    let value = |figures: &Figures| figures.get(name).copied();
    rounds.iter().filter_map(value).collect()
}

/// Three digits at least, thousands apart.
pub(crate) fn number(value: f64) -> String {
    if value < 100.0 {
        let digits = if value < 10.0 { 2 } else { 1 };
        return format!("{value:.digits$}");
    }
    let plain = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
