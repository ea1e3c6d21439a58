//! The machine: what it is, and how fast its disk syncs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use clinch_peers_load::{Result, percentile};

use crate::contender::Figures;
use crate::folder::Folder;
use crate::report::Report;

const SYNCS: u64 = 2_000;
const BLOCK: [u8; 4_096] = [7; 4_096];

/// Adds cores, memory, kernel and the file system of this folder. Refuses one in memory.
pub(crate) fn describe(folder: &Folder, report: &mut Report) -> Result<()> {
    let cores = std::thread::available_parallelism()?;
    let memory = field("/proc/meminfo", "MemTotal:").unwrap_or_default() / 1_048_576.0;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    report.setting(
        "machine",
        format!("{cores} cores, {memory:.0} GiB of memory, Linux {kernel}"),
    );
    let kind = file_system(folder.path())?;
    if kind == "tmpfs" {
        return Err("the folder is in memory: name one on a disk with --folder".into());
    }
    report.setting("file system", kind);
    load(report);
    Ok(())
}

/// Processor time so far, in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    /// Of all processes, on all cores.
    busy: f64,
    idle: f64,
    /// Of this process and of those that it has started and awaited.
    own: f64,
}

impl Ticks {
    pub(crate) fn now() -> Result<Self> {
        let all = std::fs::read_to_string("/proc/stat")?;
        let all = all.lines().next().unwrap_or_default();
        let all: Vec<f64> = all
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let idle: f64 = all.iter().skip(3).take(2).sum();
        let own = std::fs::read_to_string("/proc/self/stat")?;
        // The name before may hold blanks; user and system time, then those of children.
        let own = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let own = own.split_whitespace().skip(11).take(4);
        Ok(Self {
            busy: all.iter().take(8).sum::<f64>() - idle,
            idle,
            own: own.filter_map(|word| word.parse::<f64>().ok()).sum(),
        })
    }

    /// The share of all processor time since then that other processes took.
    fn taken_by_others(self) -> Result<f64> {
        let now = Self::now()?;
        let busy = now.busy - self.busy;
        let others = (busy - (now.own - self.own)).max(0.0);
        Ok(others / (busy + now.idle - self.idle).max(1.0))
    }
}

/// Adds how busy other processes kept the machine since then.
pub(crate) fn others(part: &str, since: Ticks, report: &mut Report) -> Result<()> {
    let percent = since.taken_by_others()? * 100.0;
    report.setting(
        format!("other processes, {part}"),
        format!("took {percent:.0} % of all processor time"),
    );
    Ok(())
}

/// Adds the load average of the last minute, which includes this program.
pub(crate) fn load(report: &mut Report) {
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = loads.split_whitespace().next().unwrap_or_default();
    let when = match report
        .settings
        .iter()
        .any(|(name, _)| name.contains("load"))
    {
        true => "load average at the end",
        false => "load average at the start",
    };
    report.setting(when, minute);
}

fn file_system(folder: &Path) -> Result<String> {
    let output = Command::new("stat")
        .args(["--file-system", "--format=%T"])
        .arg(folder)
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The number behind a name in a file of `/proc`.
pub(crate) fn field(file: &str, name: &str) -> Option<f64> {
    let text = std::fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Median milliseconds of a write of 4 KiB and its fdatasync: into existing blocks, and at the
/// end of a growing file.
pub(crate) fn syncs(folder: &Path) -> Result<Figures> {
    let file = File::create(folder.join("syncs"))?;
    for number in 0..SYNCS {
        file.write_all_at(&BLOCK, number * 4_096)?;
    }
    file.sync_all()?;
    let overwrite = median(&file)?;
    let file = File::create(folder.join("appends"))?;
    let append = median(&file)?;
    Ok([("overwrite", overwrite), ("append", append)]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
}

fn median(file: &File) -> io::Result<f64> {
    let mut millis = Vec::new();
    for number in 0..SYNCS {
        let from = Instant::now();
        file.write_all_at(&BLOCK, number * 4_096)?;
        file.sync_data()?;
        millis.push(from.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(percentile(&mut millis, 50))
}
