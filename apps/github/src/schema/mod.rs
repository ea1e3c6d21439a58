//! Columns of the collector's documents, for tables: CSV, Parquet and Singer.
//!
//! [`STREAMS`] has one row for each kind of document. One more kind is a row there and a list of
//! columns in one of the files of this module. A column names a place in the document as GitHub
//! sends it, and a type. A value that is missing or does not fit the type is null; the whole
//! document is available as the column [`DOCUMENT`].

mod cell;
mod code;
mod discussion;
mod people;
mod workflows;

pub use cell::{Cell, Envelope};

/// Name of the column that holds the whole document, and of its type [`Type::Object`].
pub const DOCUMENT: Column = object("_document", "");

/// The columns that every stream begins with: they come from the collector, not from GitHub.
pub const OWN: [Column; 3] = [
    string("_id", ""),
    string("_user", ""),
    string("_resource", ""),
];

/// The documents of one kind, as a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// The kind of its documents.
    pub kind: &'static str,
    /// The columns that identify a row.
    pub key: &'static [&'static str],
    /// The columns after [`OWN`].
    pub columns: &'static [Column],
}

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name in every format.
    pub name: &'static str,
    /// JSON pointer into the document, through members of objects only. Empty: the whole document.
    pub pointer: &'static str,
    /// The type of its values. Every value may be null.
    pub of: Type,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// A whole number of 64 bits.
    Integer,
    /// A number with 64 bits of floating point.
    Number,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// A point in time, in UTC.
    Timestamp,
    /// A JSON array, as text where the format has no such type.
    Array,
    /// A JSON object, as text where the format has no such type.
    Object,
}

const fn column(name: &'static str, pointer: &'static str, of: Type) -> Column {
    Column { name, pointer, of }
}

const fn integer(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Type::Integer)
}

const fn boolean(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Type::Boolean)
}

const fn string(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Type::String)
}

const fn timestamp(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Type::Timestamp)
}

const fn array(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Type::Array)
}

const fn object(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Type::Object)
}

/// A row of [`STREAMS`]. The collector's id of a document is unique among all users and kinds;
/// GitHub's own ids are not.
const fn stream(kind: &'static str, columns: &'static [Column]) -> Stream {
    Stream {
        kind,
        key: &["_id"],
        columns,
    }
}

/// Every kind of document.
pub const STREAMS: &[Stream] = &[
    stream("user", people::USER),
    stream("event", people::EVENT),
    stream("repository", code::REPOSITORY),
    stream("issue", discussion::ISSUE),
    stream("pull_request", discussion::PULL_REQUEST),
    stream("commit", code::COMMIT),
    stream("branch_commit", code::COMMIT),
    stream("issue_comment", discussion::ISSUE_COMMENT),
    stream("review_comment", discussion::REVIEW_COMMENT),
    stream("review", discussion::REVIEW),
    stream("issue_event", discussion::ISSUE_EVENT),
    stream("timeline", discussion::TIMELINE),
    stream("reaction", discussion::REACTION),
    stream("release", code::RELEASE),
    stream("tag", code::TAG),
    stream("branch", code::BRANCH),
    stream("label", discussion::LABEL),
    stream("milestone", discussion::MILESTONE),
    stream("stargazer", people::STARGAZER),
    stream("contributor", people::CONTRIBUTOR),
    stream("workflow", workflows::WORKFLOW),
    stream("workflow_run", workflows::WORKFLOW_RUN),
    stream("workflow_job", workflows::WORKFLOW_JOB),
    stream("deployment", workflows::DEPLOYMENT),
    stream("commit_comment", code::COMMIT_COMMENT),
    stream("languages", code::LANGUAGES),
    stream("organization", people::ORGANIZATION),
    stream("member", people::MEMBER),
    stream("team", people::TEAM),
    stream("pull_request_detail", discussion::PULL_REQUEST_DETAIL),
    stream("commit_detail", code::COMMIT_DETAIL),
];

impl Stream {
    /// The stream of a kind of documents.
    pub fn of(kind: &str) -> Option<&'static Self> {
        STREAMS.iter().find(|stream| stream.kind == kind)
    }

    /// All columns in their order, with the whole document last if it is wanted.
    pub fn columns(&self, with_document: bool) -> impl Iterator<Item = Column> + use<> {
        let document = with_document.then_some(DOCUMENT);
        OWN.into_iter()
            .chain(self.columns.iter().copied())
            .chain(document)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::streams::JobKind;

    #[test]
    fn every_kind_that_is_collected_has_columns() {
        for kind in JobKind::all() {
            assert!(Stream::of(kind.document()).is_some(), "{kind}");
        }
    }

    #[test]
    fn names_are_unique_and_pointers_lead_through_members() {
        let kinds: BTreeSet<&str> = STREAMS.iter().map(|stream| stream.kind).collect();
        assert_eq!(kinds.len(), STREAMS.len());
        for stream in STREAMS {
            let columns: Vec<Column> = stream.columns(true).collect();
            let names: BTreeSet<&str> = columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), columns.len(), "{}", stream.kind);
            assert!(stream.key.iter().all(|key| names.contains(key)));
            for column in stream.columns {
                let (name, pointer) = (column.name, column.pointer);
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(name.chars().all(plain) && !name.starts_with('_'), "{name}");
                let is_whole = pointer.is_empty() && column.of == Type::Object;
                let segments = pointer.split('/').skip(1);
                let is_path = segments.clone().count() > 0
                    && pointer.starts_with('/')
                    && segments.clone().all(|one| !one.is_empty());
                assert!(is_whole || is_path, "{name}: {pointer}");
                assert!(!pointer.contains('~'), "{name}: {pointer}");
            }
        }
    }
}
