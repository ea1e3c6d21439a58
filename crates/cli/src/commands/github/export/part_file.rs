//! A file that gets its name when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Written as `PATH.part`; removed if it is dropped before its end.
pub(super) struct PartFile {
    part: BufWriter<File>,
    part_path: PathBuf,
    path: PathBuf,
    is_finished: bool,
}

impl PartFile {
    pub(super) fn create(path: &Path) -> Result<Self, CliError> {
        let mut part_path = path.as_os_str().to_owned();
        part_path.push(".part");
        let part_path = PathBuf::from(part_path);
        // Data that was collected with a token may be private: only the owner may read the file.
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let part = options.open(&part_path);
        let part = part.map_err(|error| wrong(path, &error))?;
        Ok(Self {
            part: BufWriter::new(part),
            part_path,
            path: path.to_owned(),
            is_finished: false,
        })
    }

    /// Gives the file its name, which it returns.
    pub(super) fn finish(mut self) -> Result<PathBuf, CliError> {
        let written = self
            .part
            .flush()
            .and_then(|()| self.part.get_ref().sync_all())
            .and_then(|()| std::fs::rename(&self.part_path, &self.path));
        written.map_err(|error| wrong(&self.path, &error))?;
        self.is_finished = true;
        Ok(self.path.clone())
    }
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.part.flush()
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = std::fs::remove_file(&self.part_path);
        }
    }
}

/// A file that cannot be written.
pub(super) fn wrong(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}
