//! Free space of the file systems that hold the store and the files of the safety net.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::Config;

/// Bytes that this process may still write.
const FREE: &str = "orchestrator.disk.free.bytes";
/// Bytes of the file system.
const SIZE: &str = "orchestrator.disk.size.bytes";

/// The folders to measure, by their use: `store`, `spill`, `dead_letters`.
pub(crate) struct Disks {
    folders: Arc<BTreeMap<&'static str, PathBuf>>,
    /// One measurement at a time: a file system that hangs holds one thread, not one a request.
    one: Arc<Mutex<()>>,
}

impl Disks {
    pub(crate) fn new(config: &Config) -> Self {
        let mut folders = BTreeMap::new();
        let url = config.store.url.as_str();
        let file = url.strip_prefix("sqlite://");
        if let Some(file) = file.map(|file| file.split('?').next().unwrap_or(file)) {
            folders.insert("store", folder(Path::new(file)));
        }
        if !url.starts_with("memory:") {
            folders.insert("spill", folder(Path::new(&config.worker.spill_file)));
            folders.insert("dead_letters", folder(Path::new(&config.dead_letter.file)));
        }
        Self {
            folders: Arc::new(folders),
            one: Arc::default(),
        }
    }

    /// Sets the gauges. Costs one system call a folder, whatever the folder holds.
    pub(crate) async fn measure(&self) {
        let Ok(one) = self.one.clone().try_lock_owned() else {
            // Another request measures now.
            return;
        };
        let folders = self.folders.clone();
        let measured = tokio::task::spawn_blocking(move || {
            for (of, folder) in folders.iter() {
                if let Ok(space) = rustix::fs::statvfs(folder) {
                    let bytes = |blocks: u64| (blocks as f64) * (space.f_frsize as f64);
                    metrics::gauge!(FREE, "of" => *of).set(bytes(space.f_bavail));
                    metrics::gauge!(SIZE, "of" => *of).set(bytes(space.f_blocks));
                }
            }
            drop(one);
        });
        // A file system that cannot be measured keeps its last value.
        let _ = measured.await;
    }
}

fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_file_without_one_is_the_working_folder() {
        assert_eq!(folder(Path::new("clinch.db")), Path::new("."));
        assert_eq!(folder(Path::new("/data/clinch.db")), Path::new("/data"));
    }
}
