//! `clinch github export`.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::collector_client::CollectorClient;
use crate::commands::pages::List;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::json::compact;

/// Documents per request: they can be large.
const PAGE: usize = 200;

const EXAMPLES: &str = "\
Examples:
  clinch github export --login octocat --kind issue
  clinch github export --format csv --out documents.csv

A line is {\"id\",\"kind\",\"user\",\"resource\",\"document\"} with the document as GitHub sent it;
kinds are user, event, repository, issue, pull_request and commit. The file
appears only when it is complete.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only documents of this user
    #[arg(long, value_name = "LOGIN")]
    login: Option<String>,
    /// Only documents of this kind
    #[arg(long, value_name = "KIND", value_parser = KINDS)]
    kind: Option<String>,
    /// JSON lines, or comma-separated values with a heading
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    format: Form,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Export the documents of shadow runs
    #[arg(long)]
    shadow: bool,
}

const KINDS: [&str; 6] = [
    "user",
    "event",
    "repository",
    "issue",
    "pull_request",
    "commit",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Jsonl,
    Csv,
}

/// One exported document.
#[derive(Deserialize)]
struct Line {
    id: String,
    kind: String,
    user: String,
    resource: String,
    document: Box<RawValue>,
}

/// Exports the documents in order of their ids.
pub(crate) async fn run(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let mut target = Target::open(args.out.as_deref())?;
    let written = match write(args, &mut target, client).await {
        Ok(written) => written,
        Err(error) => {
            target.discard();
            return Err(error);
        }
    };
    if let Some(path) = target.finish()? {
        client.note(&format!("{written} documents in {}", path.display()));
    }
    Ok(Exit::Ok)
}

/// Writes the documents; returns their number.
async fn write(
    args: &Args,
    target: &mut Target,
    client: &mut CollectorClient,
) -> Result<u64, CliError> {
    let mut pairs = vec![("shadow", args.shadow.to_string())];
    pairs.extend(args.login.iter().map(|login| ("login", login.clone())));
    pairs.extend(args.kind.iter().map(|kind| ("kind", kind.clone())));
    let list = List {
        path: "/v1/github/documents",
        member: "documents",
        pairs,
    };
    let (mut cursor, mut written) = (None, 0_u64);
    loop {
        let page = list
            .page(PAGE, cursor.as_deref(), &mut client.context)
            .await?;
        // Only after the first answer: if the user does not exist, no heading is printed.
        if cursor.is_none() && args.format == Form::Csv {
            target.write("id,kind,user,resource,document", client)?;
        }
        for item in &page.items {
            let line = match args.format {
                Form::Jsonl => compact(item.get()),
                Form::Csv => csv(item, client)?,
            };
            target.write(&line, client)?;
            written += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(written);
        }
    }
}

fn csv(item: &RawValue, client: &CollectorClient) -> Result<String, CliError> {
    let line: Line = serde_json::from_str(item.get())
        .map_err(|_| client.context.client.not_clinch("a document has no id"))?;
    let document = compact(line.document.get());
    let cells = [line.id, line.kind, line.user, line.resource, document];
    Ok(cells.map(|cell| quoted(&cell)).join(","))
}

/// Quotes a cell by RFC 4180.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

/// Standard output, or a file that gets its name when it is complete.
enum Target {
    Stdout,
    File {
        part: BufWriter<File>,
        part_path: PathBuf,
        path: PathBuf,
    },
}

impl Target {
    fn open(path: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = path else {
            return Ok(Self::Stdout);
        };
        let mut part_path = path.as_os_str().to_owned();
        part_path.push(".part");
        let part_path = PathBuf::from(part_path);
        // Data that was collected with a token may be private: only the owner may read the file.
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let part = options.open(&part_path);
        let part = part.map_err(|error| wrong(path, &error))?;
        Ok(Self::File {
            part: BufWriter::new(part),
            part_path,
            path: path.to_owned(),
        })
    }

    fn write(&mut self, line: &str, client: &mut CollectorClient) -> Result<(), CliError> {
        match self {
            Self::Stdout => client.context.out.line(line),
            Self::File { part, path, .. } => {
                writeln!(part, "{line}").map_err(|error| wrong(path, &error))
            }
        }
    }

    /// Removes an incomplete file.
    fn discard(self) {
        if let Self::File { part_path, .. } = self {
            let _ = std::fs::remove_file(part_path);
        }
    }

    /// Completes the output; returns the file's path, if it is one.
    fn finish(self) -> Result<Option<PathBuf>, CliError> {
        let Self::File {
            mut part,
            part_path,
            path,
        } = self
        else {
            return Ok(None);
        };
        let written = part
            .flush()
            .and_then(|()| part.get_ref().sync_all())
            .and_then(|()| std::fs::rename(&part_path, &path));
        written.map_err(|error| wrong(&path, &error))?;
        Ok(Some(path))
    }
}

fn wrong(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("{\"a\":1,\"b\":2}"), "\"{\"\"a\"\":1,\"\"b\"\":2}\"");
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
    }
}
