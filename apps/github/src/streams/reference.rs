//! The table of streams in the guide, and the page with their columns, written from the code:
//! `UPDATE_DOCS=1 cargo test -p clinch-github --lib reference`.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{JobKind, Owner, Shape, Walk};
use crate::schema::{Column, STREAMS, Stream, Type};

const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p clinch-github --lib reference";

/// The line before the table in the guide, and the one after it.
const BEGIN: &str = "<!-- streams: written by the test `reference` of clinch-github -->\n";
const END: &str = "<!-- end of streams -->\n";

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/guide/{name}"))
}

/// In the order of the exports.
fn streams() -> impl Iterator<Item = (JobKind, &'static Stream)> {
    let kind = |stream: &'static Stream| {
        let kind = JobKind::named(stream.kind).expect("a stream");
        (kind, stream)
    };
    STREAMS.iter().map(kind)
}

/// How a later run finds what changed.
fn later(kind: JobKind) -> &'static str {
    let stream = kind.stream();
    match (stream.owner, stream.walk, stream.shape) {
        (Owner::Item(_), _, _) if kind.document() == "branch_commit" => "when its branch moved",
        (Owner::Item(_), _, _) => "when its item changed",
        (_, Walk::Whole, Shape::One) => "by ETag",
        (_, Walk::Whole, _) => "whole, by ETag",
        (_, Walk::Updated, _) => "changes since the last",
        (_, Walk::Newest(_) | Walk::Events, _) => "newest until known",
        (_, Walk::Commits, _) => "head to known head",
    }
}

/// Requests of a list that has changed. The text below the table says that several pages are read twice.
fn cost(kind: JobKind) -> String {
    let stream = kind.stream();
    let parents: Vec<String> = kind
        .parents()
        .map(|parent| parent.document().replace('_', " "))
        .collect();
    let parents = parents.join(" or ");
    match (stream.owner, stream.walk, stream.cap) {
        (Owner::Item(_), _, None) if kind.document() == "branch_commit" => {
            "pages for each branch that moved".to_owned()
        }
        (Owner::Item(_), _, None) => format!("1 for each changed {parents}"),
        (Owner::Item(_), _, Some(_)) => {
            format!("1 for each changed {parents}, 1 more for each 300 files")
        }
        (_, Walk::Whole, _) if stream.shape == Shape::One => "1".to_owned(),
        (_, Walk::Whole, None) => "pages".to_owned(),
        (_, Walk::Whole, Some(cap)) => format!("pages; GitHub shows {cap} entries"),
        (_, Walk::Updated | Walk::Newest(_), _) => "pages of changes".to_owned(),
        (_, Walk::Events, _) => "pages of changes, at most 3".to_owned(),
        (_, Walk::Commits, _) => "1, and 1 to compare".to_owned(),
    }
}

/// The time that `--since` and `--until` are about.
fn bounded_by(kind: JobKind) -> &'static str {
    let stream = kind.stream();
    match (stream.owner, stream.walk) {
        (Owner::Item(_), _) => "its item",
        (_, Walk::Updated) => "change",
        (_, Walk::Newest(_)) if !stream.is_newest_first => "change",
        (_, Walk::Newest(_) | Walk::Events) => "creation",
        (_, Walk::Commits) => "commit date",
        (_, Walk::Whole) => "–",
    }
}

fn table() -> String {
    let mut text =
        "\n| kind | read at | what a later run reads | requests of a changed list | `--since`, \
                    `--until` by | columns |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for (kind, stream) in streams() {
        let name = kind.document();
        let mark = if kind.is_default() { " ✓" } else { "" };
        let (path, later, cost) = (kind.stream().path, later(kind), cost(kind));
        let (bounds, columns) = (bounded_by(kind), stream.columns(false).count());
        let row = format!(
            "| `{name}`{mark} | `{path}` | {later} | {cost} | {bounds} | \
             [{columns}](github-streams.md#{name}) |"
        );
        writeln!(text, "{row}").expect("text");
    }
    text.push('\n');
    text
}

fn type_name(of: Type) -> &'static str {
    match of {
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::String => "text",
        Type::Timestamp => "time",
        Type::Array => "JSON array",
        Type::Object => "JSON object",
    }
}

fn columns() -> String {
    let mut text = "# Columns of the collector's streams\n\n\
        The tables of [`clinch github export`](github.md#export) and the records of\n\
        [`clinch github tap`](github.md#singer-and-meltano) have these columns, after `_id`, `_user` and `_resource`. Each is a place in the\n\
        document as GitHub sends it, by its JSON pointer, and may be null. This page is written from the code.\n"
        .to_owned();
    for (kind, stream) in streams() {
        write!(text, "\n## {}\n\n", kind.document()).expect("text");
        text.push_str("| column | type | from |\n| --- | --- | --- |\n");
        for Column { name, pointer, of } in stream.columns {
            let pointer = if pointer.is_empty() {
                "the whole document"
            } else {
                pointer
            };
            writeln!(text, "| `{name}` | {} | `{pointer}` |", type_name(*of)).expect("text");
        }
    }
    text
}

/// The guide with this table.
fn with_table(guide: &str) -> Option<String> {
    let (before, rest) = guide.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", table()))
}

#[test]
fn col_3_the_guide_has_every_stream_as_the_code_reads_it() {
    let guide = std::fs::read_to_string(page("github.md")).expect("the guide");
    let known = std::fs::read_to_string(page("github-streams.md")).unwrap_or_default();
    let wanted = with_table(&guide).expect("the guide has the table's place");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page("github.md"), wanted).expect("written");
        std::fs::write(page("github-streams.md"), columns()).expect("written");
        return;
    }
    assert!(
        guide == wanted,
        "docs/guide/github.md is not as the code is; {UPDATE}"
    );
    assert!(
        known == columns(),
        "docs/guide/github-streams.md is not as the code is; {UPDATE}"
    );
}
