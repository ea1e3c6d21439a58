//! Floors and goals, and the bytes written to disk.

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
