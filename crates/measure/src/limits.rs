//! The best that the machine can do.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Blocks of 4 KiB that the disk writes per second, one after the other, each synced before the
/// next. Overwrites an existing file.
pub fn syncs(folder: &Path, span: Duration) -> io::Result<f64> {
    const BLOCKS: u64 = 4_096;
    let path = folder.join("syncs");
    let file = File::create(&path)?;
    let block = [7; 4_096];
    for number in 0..BLOCKS {
        file.write_all_at(&block, number * 4_096)?;
    }
    file.sync_all()?;
    // tidy: allow(banned-calls) it measures the disk, whatever the clock of an engine says
    let from = Instant::now();
    let mut count = 0;
    while from.elapsed() < span {
        file.write_all_at(&block, count % BLOCKS * 4_096)?;
        file.sync_data()?;
        count += 1;
    }
    let rate = count as f64 / from.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}
