//! The figures, for people and for programs.

use std::fmt::Write;

use serde_json::json;

use crate::{peak_memory, percentile};

/// A figure's name, its floor and its goal.
pub type Bounds = (&'static str, f64, f64);

/// Everything that was measured, in order.
pub struct Report {
    bench: &'static str,
    bounds: &'static [Bounds],
    rows: Vec<Row>,
}

struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    bounds: Option<(f64, f64)>,
}

impl Report {
    /// An empty report of this benchmark.
    pub fn new(bench: &'static str, bounds: &'static [Bounds]) -> Self {
        Self {
            bench,
            bounds,
            rows: Vec::new(),
        }
    }

    /// Adds a figure, and prints it at once.
    pub fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        let name = name.into();
        let bounds = self.bounds.iter().find(|(known, ..)| *known == name);
        let bounds = bounds.map(|(_, floor, goal)| (*floor, *goal));
        eprintln!("{name}: {value:.2} {unit}");
        self.rows.push(Row {
            name,
            value,
            unit,
            bounds,
        });
    }

    /// Adds the percentiles of these times.
    pub fn add_times(&mut self, name: &str, mut millis: Vec<f64>) {
        millis.sort_by(f64::total_cmp);
        for percent in [50, 95, 99] {
            if let Some(value) = percentile(&millis, percent) {
                self.add(format!("{name} p{percent}"), value, "ms");
            }
        }
    }

    /// Adds the machine's load average of the last minute, which includes this program.
    pub fn load(&mut self, when: &str) {
        let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let minute = loads.split_whitespace().next();
        if let Some(load) = minute.and_then(|load| load.parse().ok()) {
            self.add(format!("load average, {when}"), load, "");
        }
    }

    /// Adds the peak memory of this process.
    pub fn memory(&mut self) {
        if let Some(kib) = peak_memory("self") {
            self.add("peak memory", kib / 1_024.0, "MiB");
        }
    }

    /// The whole report, as a table or as JSON.
    pub fn text(&self, as_json: bool) -> String {
        if as_json {
            let row = |row: &Row| {
                json!({
                    "name": row.name, "value": row.value, "unit": row.unit,
                    "floor": row.bounds.map(|(floor, _)| floor),
                    "goal": row.bounds.map(|(_, goal)| goal),
                })
            };
            let rows: Vec<_> = self.rows.iter().map(row).collect();
            return json!({ "bench": self.bench, "system": "clinch", "rows": rows }).to_string();
        }
        let mut text =
            String::from("| measure | figure | floor | goal |\n| --- | --- | --- | --- |");
        for row in &self.rows {
            let (floor, goal) = row.bounds.map_or((String::new(), String::new()), |(f, g)| {
                (format!("{f} {}", row.unit), format!("{g} {}", row.unit))
            });
            let digits = if row.value < 100.0 { 2 } else { 0 };
            let _ = write!(
                text,
                "\n| {} | {:.digits$} {} | {floor} | {goal} |",
                row.name, row.value, row.unit
            );
        }
        text
    }
}
