//! The figures, for people and for programs.

use std::fmt::Write;

use serde_json::json;

/// Everything that was measured, in order.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    bounds: Option<(f64, f64)>,
}

/// Floor and goal of the figures that have them.
const BOUNDS: [(&str, f64, f64); 6] = [
    ("accept, 16 callers", 20_000.0, 40_000.0),
    ("accept, 64 callers", 35_000.0, 80_000.0),
    ("accept in bulk, 4 callers", 80_000.0, 200_000.0),
    ("drain", 50_000.0, 100_000.0),
    ("inline p50", 0.8, 0.4),
    ("queued p50", 1.5, 0.8),
];

impl Report {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        let name = name.into();
        let bounds = BOUNDS.iter().find(|(known, ..)| *known == name);
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
    pub(crate) fn add_times(&mut self, name: &str, mut millis: Vec<f64>) {
        millis.sort_by(f64::total_cmp);
        for percent in [50, 95, 99] {
            let at = (millis.len() * percent / 100).min(millis.len().saturating_sub(1));
            if let Some(value) = millis.get(at) {
                self.add(format!("{name} p{percent}"), *value, "ms");
            }
        }
    }

    /// Adds the most memory that this process ever had.
    pub(crate) fn memory(&mut self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<f64>().ok());
        if let Some(kib) = kib {
            self.add("peak memory", kib / 1_024.0, "MiB");
        }
    }

    pub(crate) fn text(&self, as_json: bool) -> String {
        if as_json {
            let row = |row: &Row| {
                json!({
                    "name": row.name, "value": row.value, "unit": row.unit,
                    "floor": row.bounds.map(|(floor, _)| floor),
                    "goal": row.bounds.map(|(_, goal)| goal),
                })
            };
            let rows: Vec<_> = self.rows.iter().map(row).collect();
            return json!({ "bench": "embedded", "system": "clinch", "rows": rows }).to_string();
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

/// Bytes that this process has sent to the disk so far.
pub(crate) fn bytes_written() -> f64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"));
    bytes
        .and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0.0)
}
