//! Reads the values of a row from a document.
//!
//! A document is not parsed as a whole: each value is read by itself, so that one value that no
//! parser takes, such as a number that is too large, leaves the others readable. Arrays and objects
//! keep the notation that GitHub sent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Column, DOCUMENT, Stream, Type};

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing, or a value that does not fit the column.
    Null,
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Text.
    Text(String),
    /// A time from the year 1 to the year 9999.
    Time(Timestamp),
    /// The text of a JSON array or object.
    Json(String),
}

/// A document and what the collector knows about it.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The document's id.
    pub id: &'a str,
    /// The user that it belongs to.
    pub user: &'a str,
    /// The resource that it came from.
    pub resource: &'a str,
    /// The document as GitHub sent it.
    pub document: &'a str,
}

impl Stream {
    /// The values of a row, in the order of [`Stream::columns`].
    pub fn row(&self, envelope: &Envelope<'_>, with_document: bool) -> Vec<Cell> {
        let document = Members::of(envelope.document);
        let own = [envelope.id, envelope.user, envelope.resource];
        let mut row: Vec<Cell> = own.map(|text| Cell::Text(text.to_owned())).into();
        row.extend(self.columns.iter().map(|column| document.cell(column)));
        if with_document {
            row.push(document.cell(&DOCUMENT));
        }
        row
    }
}

/// A document whose values have not been read yet.
struct Members<'a> {
    text: &'a str,
    members: BTreeMap<String, &'a RawValue>,
}

impl<'a> Members<'a> {
    /// Without members if the text is no object.
    fn of(text: &'a str) -> Self {
        let members = parse(text).unwrap_or_default();
        Self { text, members }
    }

    fn cell(&self, column: &Column) -> Cell {
        let found = self.find(column.pointer);
        found
            .and_then(|text| cell(text, column.of))
            .unwrap_or(Cell::Null)
    }

    /// The JSON text at a pointer.
    fn find(&self, pointer: &str) -> Option<&'a str> {
        let mut segments = pointer.split('/').skip(1);
        let Some(first) = segments.next() else {
            return Some(self.text);
        };
        let mut found = self.members.get(first)?.get();
        for segment in segments {
            let members: BTreeMap<String, &'a RawValue> = parse(found)?;
            found = members.get(segment)?.get();
        }
        Some(found)
    }
}

fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

fn owned<T: DeserializeOwned>(text: &str) -> Option<T> {
    parse(text)
}

/// The value of a JSON text, if it fits the type.
fn cell(text: &str, of: Type) -> Option<Cell> {
    match of {
        Type::Integer => owned(text).map(Cell::Integer),
        Type::Number => owned(text).map(Cell::Number),
        Type::Boolean => owned(text).map(Cell::Boolean),
        Type::String => owned(text).map(Cell::Text),
        Type::Timestamp => time(&owned::<String>(text)?).map(Cell::Time),
        Type::Array => json(text, '['),
        Type::Object => json(text, '{'),
    }
}

/// Years that every reader of the outputs can hold.
fn time(text: &str) -> Option<Timestamp> {
    let at: Timestamp = text.parse().ok()?;
    let year = jiff::tz::TimeZone::UTC.to_datetime(at).year();
    (1..=9999).contains(&year).then_some(at)
}

fn json(text: &str, open: char) -> Option<Cell> {
    let text = text.trim();
    text.starts_with(open).then(|| Cell::Json(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, of: Type) -> Cell {
        cell(text, of).unwrap_or(Cell::Null)
    }

    #[test]
    fn a_value_that_does_not_fit_is_null() {
        let time = |text: &str| Cell::Time(text.parse().expect("a time"));
        let cases = [
            ("7", Type::Integer, Cell::Integer(7)),
            ("9223372036854775808", Type::Integer, Cell::Null),
            ("1.5", Type::Integer, Cell::Null),
            ("\"7\"", Type::Integer, Cell::Null),
            ("null", Type::Integer, Cell::Null),
            ("7", Type::Number, Cell::Number(7.0)),
            ("1e999", Type::Number, Cell::Null),
            ("true", Type::Boolean, Cell::Boolean(true)),
            ("0", Type::Boolean, Cell::Null),
            (
                r#""a\n\u00e9""#,
                Type::String,
                Cell::Text("a\né".to_owned()),
            ),
            ("\"\"", Type::String, Cell::Text(String::new())),
            (r#""\ud800""#, Type::String, Cell::Null),
            ("7", Type::String, Cell::Null),
            (
                "\"2026-01-02T03:04:05Z\"",
                Type::Timestamp,
                time("2026-01-02T03:04:05Z"),
            ),
            (
                "\"2026-01-02T03:04:05+02:00\"",
                Type::Timestamp,
                time("2026-01-02T01:04:05Z"),
            ),
            ("\"-000001-01-01T00:00:00Z\"", Type::Timestamp, Cell::Null),
            ("\"yesterday\"", Type::Timestamp, Cell::Null),
            ("1700000000", Type::Timestamp, Cell::Null),
            (" [1.0] ", Type::Array, Cell::Json("[1.0]".to_owned())),
            ("{}", Type::Array, Cell::Null),
            ("{}", Type::Object, Cell::Json("{}".to_owned())),
            ("null", Type::Object, Cell::Null),
        ];
        for (text, kind, expected) in cases {
            assert_eq!(of(text, kind), expected, "{text} as {kind:?}");
        }
    }

    #[test]
    fn one_unreadable_value_leaves_the_others() {
        let document = r#"{"id": 1e999, "number": 5, "title": "\ud800", "user": {"login": "ann"},
            "labels": [{"b": 1, "a": 1.0}], "milestone": [], "updated_at": "2026-01-02T03:04:05Z"}"#;
        let envelope = Envelope {
            id: "issue:1",
            user: "ann",
            resource: "repo:ann/x",
            document,
        };
        let stream = Stream::of("issue").expect("a stream");
        let row = stream.row(&envelope, true);
        let columns: Vec<Column> = stream.columns(true).collect();
        assert_eq!(row.len(), columns.len());
        let at = |name: &str| {
            let place = columns.iter().position(|column| column.name == name);
            row[place.expect("a column")].clone()
        };
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_eq!(at("_id"), text("issue:1"));
        assert_eq!(at("_user"), text("ann"));
        assert_eq!(at("_resource"), text("repo:ann/x"));
        assert_eq!((at("id"), at("title")), (Cell::Null, Cell::Null));
        assert_eq!(at("number"), Cell::Integer(5));
        assert_eq!(at("user_login"), text("ann"));
        assert_eq!(at("milestone_title"), Cell::Null);
        assert_eq!(
            at("labels"),
            Cell::Json(r#"[{"b": 1, "a": 1.0}]"#.to_owned())
        );
        assert_eq!(at("_document"), Cell::Json(document.to_owned()));
    }

    #[test]
    fn the_whole_document_can_be_a_column() {
        let envelope = Envelope {
            id: "languages:7",
            user: "ann",
            resource: "repo:ann/x",
            document: r#"{"Rust":10,"C/C++":2}"#,
        };
        let stream = Stream::of("languages").expect("a stream");
        let row = stream.row(&envelope, false);
        assert_eq!(row[3], Cell::Json(envelope.document.to_owned()));
    }
}
