//! In place of the Parquet writer, in a program that was built without it.

use std::path::{Path, PathBuf};

use clinch_github::schema::{Cell, Column};

use crate::error::CliError;

/// Says what is missing.
pub(super) fn check() -> Result<(), CliError> {
    let message = "this program was built without Parquet: build it with --features parquet";
    Err(CliError::usage(message))
}

/// There is none.
pub(super) enum ParquetFile {}

impl ParquetFile {
    pub(super) fn create(
        _path: &Path,
        _kind: &str,
        _columns: impl Iterator<Item = Column>,
    ) -> Result<Self, CliError> {
        check()?;
        Err(CliError::failed("there is no Parquet writer"))
    }

    pub(super) fn push(&mut self, _row: Vec<Cell>) -> Result<(), CliError> {
        match *self {}
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        match *self {}
    }

    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        match *self {}
    }

    pub(super) fn finish(self) -> Result<PathBuf, CliError> {
        match self {}
    }
}
