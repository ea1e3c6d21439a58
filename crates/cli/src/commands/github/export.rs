//! `clinch github export`.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "export/no_parquet.rs"]
mod parquet;
mod part_file;
mod tables;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clinch_github::schema::{STREAMS, Stream};

use super::collector_client::CollectorClient;
use super::documents::Documents;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::json::compact;
use crate::output::text::plain;

use part_file::PartFile;
use tables::{Place, Tables};

const EXAMPLES: &str = "\
Examples:
  clinch github export --login octocat --kind issue
  clinch github export --kind issue --format csv --out issues.csv
  clinch github export --format parquet --out octocat/

jsonl: one line for each document, {\"id\",\"kind\",\"user\",\"resource\",\"document\"}, with the
document as GitHub sent it.

csv: one kind as a table with a heading, quoted by RFC 4180, in UTF-8. An empty cell is null, \"\" is
empty text. Cells are exact: a program that takes a cell with a leading = as a formula must be told
not to.

parquet: one kind as a table with typed columns; times are UTC.

csv and parquet without --kind write one file for each kind, KIND.csv or KIND.parquet, into the
folder that --out names. Every table begins with _id, _user and _resource. A value that does not
fit its column is null; --document adds the whole document as the last column, _document. A file
appears only when it is complete.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only documents of this user
    #[arg(long, value_name = "LOGIN")]
    login: Option<String>,
    /// Only documents of this kind
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: Option<String>,
    /// JSON lines, comma-separated values or Parquet
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    format: Form,
    /// Write to this file, or to files in this folder, instead of standard output
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Add the whole document to each row of a table
    #[arg(long)]
    document: bool,
    /// Export the documents of shadow runs
    #[arg(long)]
    shadow: bool,
    /// Export the documents that are gone at GitHub, as they were last seen
    #[arg(long)]
    removed: bool,
}

/// Every kind of document.
pub(super) fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(STREAMS.iter().map(|stream| stream.kind))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Jsonl,
    Csv,
    Parquet,
}

impl Form {
    /// What the names of its files end with.
    fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }
}

impl Args {
    /// Refuses arguments that contradict each other, before anything is opened.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let name = self.format.extension();
        match (self.format, &self.kind, &self.out) {
            (Form::Jsonl, _, _) if self.document => Err(CliError::usage(
                "--document is for csv and parquet; a JSON line always has the document",
            )),
            (Form::Jsonl, _, _) => Ok(()),
            (Form::Csv, None, None) => Err(CliError::usage(
                "--format csv needs --kind KIND, or --out DIR for one file of each kind",
            )),
            (Form::Parquet, _, None) => Err(CliError::usage(
                "--format parquet needs --out: a file with --kind KIND, a folder without",
            )),
            (_, None, Some(out)) if !out.is_dir() && is_file_name(out, name) => {
                let message = format!(
                    "--out {} is not a folder: without --kind there is one file of each kind",
                    out.display()
                );
                Err(CliError::usage(message))
            }
            (Form::Parquet, _, _) => parquet::check(),
            (Form::Csv, _, _) => Ok(()),
        }
    }

    fn documents(&self) -> Documents {
        let documents = Documents::new(self.login.as_deref(), self.kind.as_deref(), self.shadow);
        match self.removed {
            true => documents.removed(),
            false => documents,
        }
    }
}

/// Whether a path is meant as a file.
fn is_file_name(path: &Path, extension: &str) -> bool {
    path.exists()
        || path
            .extension()
            .is_some_and(|given| given.eq_ignore_ascii_case(extension))
}

/// Exports the documents in order of their ids.
pub(crate) async fn run(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let stream = args.kind.as_deref().and_then(Stream::of);
    match (args.format, &args.out, stream) {
        (Form::Jsonl, None, _) => json_to_stdout(args, client).await,
        (Form::Jsonl, Some(out), _) => json_to_file(args, out, client).await,
        (_, None, Some(stream)) => csv_to_stdout(args, stream, client).await,
        (_, None, None) => Err(CliError::usage("--out is missing")),
        (form, Some(out), Some(stream)) => {
            let path = match out.is_dir() {
                true => out.join(format!("{}.{}", stream.kind, form.extension())),
                false => out.clone(),
            };
            tables(args, Place::File { path, stream }, client).await
        }
        (_, Some(out), None) => tables(args, Place::Folder(out.clone()), client).await,
    }
}

async fn json_to_stdout(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let mut documents = args.documents();
    while let Some(items) = documents.page(client).await? {
        for item in &items {
            client.context.out.line(&compact(item.get()))?;
        }
    }
    Ok(Exit::Ok)
}

async fn json_to_file(
    args: &Args,
    path: &Path,
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    let mut file = PartFile::create(path)?;
    let (mut documents, mut written) = (args.documents(), 0_u64);
    while let Some(items) = documents.page(client).await? {
        for item in &items {
            let line = writeln!(file, "{}", compact(item.get()));
            line.map_err(|error| part_file::wrong(path, &error))?;
            written += 1;
        }
    }
    file.finish()?;
    client.note(&format!("{written} documents in {}", path.display()));
    Ok(Exit::Ok)
}

async fn csv_to_stdout(
    args: &Args,
    stream: &Stream,
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    let mut documents = args.documents();
    let mut has_heading = false;
    while let Some(lines) = documents.lines(client).await? {
        let out = &mut client.context.out;
        // Only after the first answer: if the user does not exist, no heading is printed.
        if !has_heading {
            out.line(&csv::heading(stream.columns(args.document)))?;
            has_heading = true;
        }
        for line in &lines {
            let row = csv::line(&stream.row(&line.envelope(), args.document));
            match out.is_terminal() {
                // Texts of other people may control a terminal.
                true => out.line(&plain(&row))?,
                false => out.line(&row)?,
            }
        }
    }
    Ok(Exit::Ok)
}

async fn tables(args: &Args, place: Place, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let mut tables = Tables::open(args.format, args.document, place)?;
    let mut documents = args.documents();
    while let Some(lines) = documents.lines(client).await? {
        for line in &lines {
            tables.push(line)?;
        }
    }
    let written = tables.finish()?;
    for (path, rows) in &written.files {
        client.note(&format!("{rows} documents in {}", path.display()));
    }
    if written.files.is_empty() {
        client.note("none found");
    }
    if written.unknown.is_empty() {
        return Ok(Exit::Ok);
    }
    for (kind, number) in &written.unknown {
        client.note(&format!(
            "{number} documents of kind {kind:?} were left out: this program does not know their \
             columns; use --format jsonl"
        ));
    }
    Ok(Exit::Failed)
}
