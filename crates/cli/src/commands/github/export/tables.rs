//! Writes tables: one file, or one for each kind in a folder.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clinch_github::schema::{Cell, Stream};

use super::Form;
use super::csv::CsvFile;
use super::parquet::ParquetFile;
use super::part_file::wrong;
use crate::commands::github::documents::Line;
use crate::error::CliError;

/// Rows of all open files that wait in memory for their row group to be written.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where the tables go.
pub(super) enum Place {
    /// One kind to one file.
    File {
        path: PathBuf,
        stream: &'static Stream,
    },
    /// Each kind to a file of its own.
    Folder(PathBuf),
}

/// The open files.
pub(super) struct Tables {
    form: Form,
    with_document: bool,
    place: Place,
    open: BTreeMap<&'static str, Table>,
    unknown: BTreeMap<String, u64>,
}

/// What was written.
pub(super) struct Written {
    /// Files with the number of their rows.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// Documents that were left out, by kind: a newer server may know more kinds.
    pub(super) unknown: BTreeMap<String, u64>,
}

struct Table {
    file: TableFile,
    rows: u64,
}

enum TableFile {
    Csv(CsvFile),
    Parquet(Box<ParquetFile>),
}

impl Tables {
    pub(super) fn open(form: Form, with_document: bool, place: Place) -> Result<Self, CliError> {
        let mut tables = Self {
            form,
            with_document,
            place,
            open: BTreeMap::new(),
            unknown: BTreeMap::new(),
        };
        match &tables.place {
            // A kind without documents is a table without rows.
            Place::File { stream, .. } => {
                let stream = *stream;
                tables.table(stream)?;
            }
            Place::Folder(folder) => create_folder(folder)?,
        }
        Ok(tables)
    }

    /// Adds a document to the table of its kind.
    pub(super) fn push(&mut self, line: &Line) -> Result<(), CliError> {
        let Some(stream) = Stream::of(&line.kind) else {
            *self.unknown.entry(line.kind.clone()).or_default() += 1;
            return Ok(());
        };
        let row = stream.row(&line.envelope(), self.with_document);
        let table = self.table(stream)?;
        table.rows += 1;
        table.file.push(row)?;
        self.bound()
    }

    fn table(&mut self, stream: &'static Stream) -> Result<&mut Table, CliError> {
        if !self.open.contains_key(stream.kind) {
            let path = match &self.place {
                Place::File { path, .. } => path.clone(),
                Place::Folder(folder) => {
                    folder.join(format!("{}.{}", stream.kind, self.form.extension()))
                }
            };
            let columns = stream.columns(self.with_document);
            let file = match self.form {
                Form::Parquet => {
                    let file = ParquetFile::create(&path, stream.kind, columns)?;
                    TableFile::Parquet(Box::new(file))
                }
                Form::Csv | Form::Jsonl => TableFile::Csv(CsvFile::create(&path, columns)?),
            };
            self.open.insert(stream.kind, Table { file, rows: 0 });
        }
        let missing = || CliError::failed("a table is missing");
        self.open.get_mut(stream.kind).ok_or_else(missing)
    }

    /// Writes the largest part in memory if all of them together are too large.
    fn bound(&mut self) -> Result<(), CliError> {
        let files = || self.open.values().map(|table| &table.file);
        let bytes: usize = files().map(TableFile::buffered_bytes).sum();
        if bytes < BUFFERED_BYTES_MAX {
            return Ok(());
        }
        let files = self.open.values_mut().map(|table| &mut table.file);
        match files.max_by_key(|file| file.buffered_bytes()) {
            Some(file) => file.flush(),
            None => Ok(()),
        }
    }

    /// Completes every file.
    pub(super) fn finish(self) -> Result<Written, CliError> {
        let mut files = Vec::with_capacity(self.open.len());
        for table in self.open.into_values() {
            files.push((table.file.finish()?, table.rows));
        }
        let unknown = self.unknown;
        Ok(Written { files, unknown })
    }
}

impl TableFile {
    fn push(&mut self, row: Vec<Cell>) -> Result<(), CliError> {
        match self {
            Self::Csv(file) => file.push(&row),
            Self::Parquet(file) => file.push(row),
        }
    }

    fn buffered_bytes(&self) -> usize {
        match self {
            Self::Csv(_) => 0,
            Self::Parquet(file) => file.buffered_bytes(),
        }
    }

    fn flush(&mut self) -> Result<(), CliError> {
        match self {
            Self::Csv(_) => Ok(()),
            Self::Parquet(file) => file.flush(),
        }
    }

    fn finish(self) -> Result<PathBuf, CliError> {
        match self {
            Self::Csv(file) => file.finish(),
            Self::Parquet(file) => file.finish(),
        }
    }
}

/// Creates the folder if it is missing, for its owner only.
fn create_folder(folder: &Path) -> Result<(), CliError> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|error| wrong(folder, &error))
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn what_waits_in_memory_is_bounded_over_all_files() {
        let folder = std::env::temp_dir().join(format!("clinch-{}", uuid::Uuid::now_v7()));
        let place = Place::Folder(folder.clone());
        let mut tables = Tables::open(Form::Parquet, true, place).unwrap();
        let document = format!("{{\"body\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
        for n in 0..40 {
            let kind = ["issue", "issue_comment"][n % 2];
            let line = Line {
                id: format!("{kind}:{n}"),
                kind: kind.to_owned(),
                user: "ann".to_owned(),
                resource: "repo:ann/x".to_owned(),
                document: RawValue::from_string(document.clone()).unwrap(),
            };
            tables.push(&line).unwrap();
            let files = tables.open.values().map(|table| &table.file);
            let bytes: usize = files.map(TableFile::buffered_bytes).sum();
            assert!(bytes < BUFFERED_BYTES_MAX, "{bytes} after {n}");
        }
        let written = tables.finish().unwrap();
        assert_eq!(written.files.len(), 2);
        assert!(
            written
                .files
                .iter()
                .all(|(path, rows)| path.is_file() && *rows == 20)
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_kind_without_columns_is_counted_and_names_no_file() {
        let folder = std::env::temp_dir().join(format!("clinch-{}", uuid::Uuid::now_v7()));
        let mut tables = Tables::open(Form::Csv, false, Place::Folder(folder.clone())).unwrap();
        let line = Line {
            id: "x:1".to_owned(),
            kind: "../x".to_owned(),
            user: "ann".to_owned(),
            resource: "repo:ann/x".to_owned(),
            document: RawValue::from_string("{}".to_owned()).unwrap(),
        };
        tables.push(&line).unwrap();
        let written = tables.finish().unwrap();
        assert_eq!((written.files.len(), written.unknown["../x"]), (0, 1));
        std::fs::remove_dir(&folder).unwrap();
    }
}
