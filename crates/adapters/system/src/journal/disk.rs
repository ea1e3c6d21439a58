//! The file of a journal and its errors. Everything here blocks.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clinch_core::ports::JournalRecords;
use clinch_core::{Error, ErrorKind, Result};

use super::format::{self, Contents, RECORD_BYTES_MAX, RECORDS_FROM, SLOT_BYTES};

/// Less unused space than this is not worth moving records for.
const MOVE_BYTES_MIN: u64 = 1024 * 1024;
const FIRST: u64 = RECORDS_FROM as u64;

/// An open journal. Its fields describe what is durable; the file may hold more.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    file: File,
    /// Held until the journal is closed.
    _lock: File,
    /// Records up to and including this one are forgotten.
    forgotten: u64,
    /// The position of the next record.
    next: u64,
    /// Position and end of each intact record that is not forgotten.
    ends: VecDeque<(u64, u64)>,
    /// Offset in the file: every record before it is forgotten.
    live_from: u64,
    /// Offset of the next record.
    end: u64,
    /// The file is longer than `end`, because an earlier call could not truncate it.
    overhangs: bool,
    /// The file is new, or may be, and its folder entry is not durable yet.
    misnamed: bool,
}

impl Disk {
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let lock = lock(&path)?;
        let failed = |error| failed("cannot open the journal", &path, error);
        // Left by a process that crashed while it moved records.
        let _ = fs::remove_file(beside(&path, ".new"));
        let is_there = fs::metadata(&path).map(|there| there.len() > 0);
        let is_there = is_there.or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(false),
            _ => Err(error),
        });
        let mut file = if is_there.map_err(failed)? {
            let open = File::options().read(true).write(true).open(&path);
            open.map_err(failed)?
        } else {
            replace(&path, 0, &mut io::empty()).map_err(failed)?
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let contents = format::scan(&bytes).ok_or_else(|| {
            let message = "this file is not a journal; move it away or configure another path";
            Error::new(ErrorKind::Corrupt, message).with("path", path.display())
        })?;
        let mut disk = Self::found(path.clone(), file, lock, &contents);
        disk.overhangs = disk.end != bytes.len() as u64;
        disk.finish_earlier_calls().map_err(failed)?;
        Ok(disk)
    }

    fn found(path: PathBuf, file: File, lock: File, contents: &Contents) -> Self {
        let records = contents.records.iter();
        let ends = records.map(|record| (record.position, record.bytes.end as u64));
        Self {
            path,
            file,
            _lock: lock,
            forgotten: contents.forgotten,
            next: contents.next,
            ends: ends.collect(),
            live_from: FIRST,
            end: contents.end as u64,
            overhangs: false,
            // The process that created the file may have crashed before it synced the folder.
            misnamed: true,
        }
    }

    pub(super) fn append(&mut self, records: &[Vec<u8>]) -> Result<()> {
        if let Some(long) = records.iter().find(|one| one.len() > RECORD_BYTES_MAX) {
            let message = format!("a record holds at most {RECORD_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid, message).with("bytes", long.len()));
        }
        if records.is_empty() {
            return Ok(());
        }
        let done = self.finish_earlier_calls();
        done.map_err(|error| failed("the journal takes no records", &self.path, error))?;
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(records.len());
        for (position, record) in (self.next..).zip(records) {
            format::encode(position, record, &mut bytes);
            ends.push((position, self.end + bytes.len() as u64));
        }
        if let Err(error) = self.write(self.end, &bytes) {
            return Err(self.take_back(error));
        }
        self.end += bytes.len() as u64;
        self.next += ends.len() as u64;
        self.ends.extend(ends);
        Ok(())
    }

    pub(super) fn read(&mut self) -> Result<JournalRecords> {
        let failed = |error| failed("cannot read the journal", &self.path, error);
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut durable = (&self.file).take(self.end);
        durable.read_to_end(&mut bytes).map_err(failed)?;
        let Some(contents) = format::scan(&bytes) else {
            let message = "the journal's first blocks were overwritten while it was open";
            let error = Error::new(ErrorKind::Corrupt, message);
            return Err(error.with("path", self.path.display()));
        };
        let records = contents.records.into_iter();
        let records = records.map(|record| (record.position, bytes[record.bytes].to_vec()));
        Ok(JournalRecords {
            records: records.collect(),
            damaged: contents.damaged,
        })
    }

    pub(super) fn forget(&mut self, through: u64) -> Result<()> {
        let through = through.min(self.next - 1);
        if through <= self.forgotten {
            return Ok(());
        }
        let slot = format::slot(through);
        let done = self.finish_earlier_calls();
        let written = done.and_then(|()| self.write(0, &slot));
        written.map_err(|error| failed("the journal cannot forget", &self.path, error))?;
        self.forgotten = through;
        // The copy is for the case that the first slot is damaged; it becomes durable with the next
        // call.
        let copied = self.file.seek(SeekFrom::Start(SLOT_BYTES as u64));
        let _ = copied.and_then(|_| self.file.write_all(&slot));
        let gone = self
            .ends
            .partition_point(|(position, _)| *position <= through);
        for (_, end) in self.ends.drain(..gone) {
            self.live_from = end;
        }
        self.give_space_back();
        Ok(())
    }

    /// Frees space. The records are forgotten whether or not this succeeds.
    fn give_space_back(&mut self) {
        if self.forgotten + 1 == self.next {
            self.live_from = FIRST;
            self.end = FIRST;
            self.overhangs = true;
            let _ = self.finish_earlier_calls();
            return;
        }
        let dead = self.live_from - FIRST;
        if dead >= MOVE_BYTES_MIN && dead > self.end - self.live_from {
            let _ = self.move_records(dead);
        }
    }

    fn move_records(&mut self, dead: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.live_from))?;
        let mut live = (&self.file).take(self.end - self.live_from);
        self.file = replace(&self.path, self.forgotten, &mut live)?;
        self.misnamed = true;
        self.overhangs = false;
        self.ends.iter_mut().for_each(|(_, end)| *end -= dead);
        self.live_from -= dead;
        self.end -= dead;
        self.finish_earlier_calls()
    }

    /// Completes what earlier calls left undone, before anything more is promised.
    fn finish_earlier_calls(&mut self) -> io::Result<()> {
        if self.overhangs {
            self.file.set_len(self.end)?;
            self.overhangs = false;
        }
        if self.misnamed {
            sync_folder(&self.path)?;
            self.misnamed = false;
        }
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }

    fn take_back(&mut self, error: io::Error) -> Error {
        self.overhangs = true;
        if self.finish_earlier_calls().is_ok() {
            return failed("the journal takes no records", &self.path, error);
        }
        let message = "the journal takes no records; after a crash it may show these all the same";
        Error::new(ErrorKind::Ambiguous, message)
            .with("path", self.path.display())
            .caused_by(error)
    }
}

/// Writes a journal with `records` in place of the existing one, if any. Durable once the folder is
/// synced.
fn replace(path: &Path, forgotten: u64, records: &mut dyn Read) -> io::Result<File> {
    let new = beside(path, ".new");
    let written = write_new(&new, forgotten, records);
    let replaced = written.and_then(|file| fs::rename(&new, path).map(|()| file));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

fn write_new(path: &Path, forgotten: u64, records: &mut dyn Read) -> io::Result<File> {
    let mut file = private(File::options().truncate(true), path)?;
    let slot = format::slot(forgotten);
    file.write_all(&slot)?;
    file.write_all(&slot)?;
    io::copy(records, &mut file)?;
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// Another opener, in this process or another, is refused until this file is closed.
fn lock(path: &Path) -> Result<File> {
    let beside = beside(path, ".lock");
    let file = private(&mut File::options(), &beside);
    let file = file.map_err(|error| failed("cannot lock the journal", path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = "another process uses this journal; give each its own file";
            Err(Error::new(ErrorKind::Conflict, message).with("path", path.display()))
        }
        Err(TryLockError::Error(error)) => Err(failed("cannot lock the journal", path, error)),
    }
}

/// Only the owner can read the file: it contains answers and dead letters.
fn private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.read(true).write(true).create(true).open(path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// A new file name is durable once its folder is synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    use io::ErrorKind as Io;
    let kind = match error.kind() {
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::Full,
        Io::NotFound => ErrorKind::NotFound,
        Io::PermissionDenied | Io::IsADirectory => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, what)
        .with("path", path.display())
        .with("because", &error)
        .caused_by(error)
}
