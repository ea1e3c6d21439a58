//! Floors and goals, the bytes written to disk, and the processor time.

use clinch_bench::Bounds;

/// Floor and goal of the figures that have them.
pub(crate) const BOUNDS: [Bounds; 6] = [
    ("accept, 16 callers", 20_000.0, 40_000.0),
    ("accept, 64 callers", 35_000.0, 80_000.0),
    ("accept in bulk, 4 callers", 80_000.0, 200_000.0),
    ("drain", 50_000.0, 100_000.0),
    ("inline p50", 0.8, 0.4),
    ("queued p50", 1.5, 0.8),
];

/// Bytes that this process has written to disk so far.
pub(crate) fn bytes_written() -> f64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"));
    bytes
        .and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0.0)
}

/// Processor time that all threads of this process have used so far, in microseconds. Unlike a
/// rate, it hardly depends on what else the machine does.
pub(crate) fn cpu_micros() -> f64 {
    /// Linux counts in hundredths of a second, on every architecture.
    const MICROS_A_TICK: f64 = 10_000.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name is in parentheses and may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks * MICROS_A_TICK
}
