//! Writes answers, in the requested format.

pub(crate) mod json;
pub(crate) mod listing;
pub(crate) mod record;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod times;

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

use serde_json::value::RawValue;

use crate::error::CliError;

/// Columns of a terminal that does not tell its size.
const WIDTH: usize = 80;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    // Plain comments: the parser would show documentation as a list of three lines in every help.
    // For people: cells are cut to the terminal's width.
    Table,
    // One document, indented.
    Json,
    // One document per line.
    Jsonl,
}

/// Writes text to standard output unchanged.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A stream to write to: standard output, or standard error for a question.
pub(crate) struct Output {
    sink: BufWriter<Box<dyn Write + Send>>,
    /// The output format.
    pub(crate) format: Format,
    has_color: bool,
    is_terminal: bool,
    width: Option<usize>,
}

impl Output {
    /// Standard output, for the answer.
    pub(crate) fn stdout(format: Format, color: bool) -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let width = is_terminal
            .then(|| terminal_size::terminal_size_of(&stdout))
            .flatten();
        let color = color && is_terminal;
        Self::new(Box::new(stdout), format, color, is_terminal, width)
    }

    /// Standard error, for what a person must see before answering a question. Always a table.
    pub(crate) fn question(&self) -> Self {
        let stderr = io::stderr();
        let is_terminal = stderr.is_terminal();
        let width = is_terminal
            .then(|| terminal_size::terminal_size_of(&stderr))
            .flatten();
        let color = self.has_color;
        Self::new(Box::new(stderr), Format::Table, color, is_terminal, width)
    }

    fn new(
        sink: Box<dyn Write + Send>,
        format: Format,
        color: bool,
        is_terminal: bool,
        size: Option<(terminal_size::Width, terminal_size::Height)>,
    ) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_dumb = set("TERM").is_some_and(|term| term == "dumb");
        let size = size.map(|(width, _)| usize::from(width.0));
        let columns = set("COLUMNS").and_then(|columns| columns.parse().ok());
        Self {
            sink: BufWriter::new(sink),
            format,
            has_color: color && !is_dumb && set("NO_COLOR").is_none(),
            is_terminal,
            // A file or a pipe gets every value uncut, for `grep` and `awk`.
            width: columns.or(size).or(is_terminal.then_some(WIDTH)),
        }
    }

    /// Whether the output goes to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Columns of the terminal; `None`: no limit.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), CliError> {
        Ok(writeln!(self.sink, "{line}")?)
    }

    /// Writes text unchanged.
    pub(crate) fn raw(&mut self, text: &[u8]) -> Result<(), CliError> {
        Ok(self.sink.write_all(text)?)
    }

    /// Flushes the output, so that a reader sees it now.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.sink.flush()?)
    }

    /// Writes one document: as a record with these members first, or as the server sent it.
    pub(crate) fn document(&mut self, document: &RawValue, first: &[&str]) -> Result<(), CliError> {
        match self.format {
            Format::Json => self.line(&json::indented(document.get(), 0)),
            Format::Jsonl => self.line(&json::compact(document.get())),
            Format::Table => {
                let value = serde_json::from_str(document.get()).unwrap_or_default();
                let lines = record::lines(&value, first);
                let widest = lines.iter().map(|(name, _)| text::width(name) + 2).max();
                // A minimum width makes most documents look alike.
                let width = widest.unwrap_or(0).max(18);
                lines.iter().try_for_each(|(name, cell)| {
                    let pad = " ".repeat(width.saturating_sub(text::width(name)));
                    let value = self.painted(&cell.text, cell.style);
                    self.line(&format!("{name}{pad}{value}"))
                })
            }
        }
    }

    /// Writes a document that the command line itself created; people see these lines.
    pub(crate) fn answer(
        &mut self,
        document: &serde_json::Value,
        lines: &[String],
    ) -> Result<(), CliError> {
        let text = document.to_string();
        match self.format {
            Format::Json => self.line(&json::indented(&text, 0))?,
            Format::Jsonl => self.line(&json::compact(&text))?,
            Format::Table => lines.iter().try_for_each(|line| self.line(line))?,
        }
        self.flush()
    }

    /// The text with its colour, if colours are on.
    pub(crate) fn painted(&self, text: &str, style: text::Style) -> String {
        match style.code().filter(|_| self.has_color && !text.is_empty()) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("format", &self.format)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}
