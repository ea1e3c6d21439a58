//! Rows as comma-separated values (RFC 4180), in lines that end with a line feed.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clinch_github::schema::{Cell, Column};

use super::part_file::{PartFile, wrong};
use crate::commands::github::documents::cell_text;
use crate::error::CliError;

/// The names of the columns.
pub(super) fn heading(columns: impl Iterator<Item = Column>) -> String {
    let names: Vec<&str> = columns.map(|column| column.name).collect();
    names.join(",")
}

/// The line of a row. Null is an empty cell and empty text is `""`, so that they differ.
pub(super) fn line(row: &[Cell]) -> String {
    let cells = row.iter().map(|cell| match cell_text(cell) {
        None => String::new(),
        Some(text) => quoted(&text),
    });
    cells.collect::<Vec<String>>().join(",")
}

fn quoted(cell: &str) -> String {
    match cell.is_empty() || cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

/// A file with a heading.
pub(super) struct CsvFile {
    file: PartFile,
    path: PathBuf,
}

impl CsvFile {
    pub(super) fn create(
        path: &Path,
        columns: impl Iterator<Item = Column>,
    ) -> Result<Self, CliError> {
        let file = PartFile::create(path)?;
        let path = path.to_owned();
        let mut table = Self { file, path };
        table.write(&heading(columns))?;
        Ok(table)
    }

    pub(super) fn push(&mut self, row: &[Cell]) -> Result<(), CliError> {
        self.write(&line(row))
    }

    fn write(&mut self, line: &str) -> Result<(), CliError> {
        let written = writeln!(self.file, "{line}");
        written.map_err(|error| wrong(&self.path, &error))
    }

    pub(super) fn finish(self) -> Result<PathBuf, CliError> {
        self.file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("{\"a\":1,\"b\":2}"), "\"{\"\"a\"\":1,\"\"b\"\":2}\"");
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
        assert_eq!(quoted("a\rb"), "\"a\rb\"");
    }

    #[test]
    fn a_line_tells_null_from_empty_text_and_keeps_every_character() {
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let row = [
            Cell::Null,
            Cell::Text(String::new()),
            Cell::Text("=1+1".to_owned()),
            Cell::Integer(-7),
            Cell::Number(0.5),
            Cell::Boolean(true),
            Cell::Time(at),
            Cell::Json("[ 1,\n 2 ]".to_owned()),
        ];
        let expected = ",\"\",=1+1,-7,0.5,true,2026-01-02T03:04:05Z,\"[1,2]\"";
        assert_eq!(line(&row), expected);
    }
}
