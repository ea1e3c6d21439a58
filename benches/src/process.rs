//! What the system tells of a process.

use std::time::Duration;

/// User and system time of a process, all of its threads, in hundredths of a second. `process` is an
/// id or `self`. `None`: it is gone, or the system tells nothing.
#[must_use]
pub fn processor_time(process: &str) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program stands in brackets, and may hold spaces.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((field()? + field()?) * 10))
}

/// The most memory that a process has had, in KiB. `process` is an id or `self`.
#[must_use]
pub fn peak_memory(process: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak?.split_whitespace().next()?.parse().ok()
}
