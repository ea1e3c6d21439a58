//! Prints a list of documents page by page.

use serde_json::Value;
use serde_json::value::RawValue;

use super::table::{Column, Table};
use super::{Format, Output, json};
use crate::error::CliError;

/// A list that is being printed. [`Listing::end`] closes it.
#[derive(Debug)]
pub(crate) struct Listing {
    member: &'static str,
    table: Table,
    printed: usize,
}

impl Listing {
    /// A list whose JSON member is `member`.
    pub(crate) fn new(member: &'static str, columns: &'static [Column]) -> Self {
        Self {
            member,
            table: Table::new(columns),
            printed: 0,
        }
    }

    /// Prints more documents.
    pub(crate) fn push(
        &mut self,
        documents: &[Box<RawValue>],
        out: &mut Output,
    ) -> Result<(), CliError> {
        match out.format {
            Format::Table if documents.is_empty() => {}
            Format::Table => {
                let parsed = documents.iter().map(|one| serde_json::from_str(one.get()));
                let parsed: Vec<Value> = parsed.map(Result::unwrap_or_default).collect();
                self.table.print(&parsed, out)?;
            }
            Format::Jsonl => {
                let mut lines = documents.iter().map(|one| json::compact(one.get()));
                lines.try_for_each(|line| out.line(&line))?;
            }
            Format::Json => {
                for (i, document) in documents.iter().enumerate() {
                    let lead = match self.printed + i {
                        0 => format!("{{\n  \"{}\": [\n    ", self.member),
                        _ => ",\n    ".to_owned(),
                    };
                    out.raw(lead.as_bytes())?;
                    out.raw(json::indented(document.get(), 2).as_bytes())?;
                }
            }
        }
        self.printed += documents.len();
        Ok(())
    }

    /// Closes the list. `cursor` is the start of the next page.
    pub(crate) fn end(self, cursor: Option<&str>, out: &mut Output) -> Result<(), CliError> {
        if out.format == Format::Json {
            let cursor = cursor.map_or_else(|| "null".to_owned(), json::quoted);
            let end = match self.printed {
                0 => format!("{{\n  \"{}\": [],", self.member),
                _ => "\n  ],".to_owned(),
            };
            out.line(&format!("{end}\n  \"next_cursor\": {cursor}\n}}"))?;
        }
        out.flush()
    }

    /// Number of printed documents.
    pub(crate) fn len(&self) -> usize {
        self.printed
    }
}
