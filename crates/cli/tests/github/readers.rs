//! Reads exported tables and messages, for comparison with the JSON lines.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use clinch_github::schema::{Column, DOCUMENT, OWN, Stream, Type};
use clinch_testbed::{readers_environment, readers_missing};
use serde_json::{Value, json};

/// False: the programs are not installed, and `CI` is not set.
pub(crate) fn are_there() -> bool {
    let missing = readers_missing();
    if let Some(why) = &missing {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("ignored: {why}");
    }
    missing.is_none()
}

/// A row: column and value.
pub(crate) type Row = BTreeMap<String, Value>;

/// Rows by kind and id.
pub(crate) type Rows = BTreeMap<(String, String), Row>;

/// What the tables must hold, computed from JSON lines by serde_json.
pub(crate) fn expected(lines: &str, with_document: bool) -> Rows {
    let mut rows = Rows::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("a JSON line");
        let kind = line["kind"].as_str().expect("a kind");
        let stream = Stream::of(kind).expect("a stream");
        let mut row = Row::new();
        for column in stream.columns(with_document) {
            row.insert(column.name.to_owned(), value(&line, &column));
        }
        let id = line["id"].as_str().expect("an id");
        rows.insert((kind.to_owned(), id.to_owned()), row);
    }
    rows
}

fn value(line: &Value, column: &Column) -> Value {
    if OWN.contains(column) {
        return line[column.name.trim_start_matches('_')].clone();
    }
    if *column == DOCUMENT {
        return line["document"].clone();
    }
    let value = line["document"].pointer(column.pointer);
    let fits = |value: &&Value| match column.of {
        Type::Integer => value.is_i64(),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
        Type::String | Type::Timestamp => value.is_string(),
        Type::Array => value.is_array(),
        Type::Object => value.is_object(),
    };
    value.filter(fits).cloned().unwrap_or_default()
}

/// The cell of a table as the value that it stands for.
fn typed(kind: &str, name: &str, text: Option<&str>) -> Value {
    let Some(text) = text else {
        return Value::Null;
    };
    let stream = Stream::of(kind).expect("a stream");
    let column = stream.columns(true).find(|column| column.name == name);
    match column.expect("a column").of {
        Type::String | Type::Timestamp => json!(text),
        _ => serde_json::from_str(text).expect("JSON"),
    }
}

/// The records of a CSV file: quoted cells may hold anything, an empty cell without quotes is null.
pub(crate) fn csv(text: &str) -> Vec<Vec<Option<String>>> {
    let (mut records, mut record) = (Vec::new(), Vec::new());
    let (mut cell, mut was_quoted, mut is_inside) = (String::new(), false, false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if is_inside && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => {
                is_inside = !is_inside;
                was_quoted = true;
            }
            ',' | '\n' if !is_inside => {
                let text = std::mem::take(&mut cell);
                record.push((was_quoted || !text.is_empty()).then_some(text));
                was_quoted = false;
                if c == '\n' {
                    records.push(std::mem::take(&mut record));
                }
            }
            c => cell.push(c),
        }
    }
    assert!(!is_inside && record.is_empty(), "the last line has an end");
    records
}

/// The rows of a CSV file.
pub(crate) fn csv_rows(path: &Path, kind: &str) -> Rows {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut records = csv(&text).into_iter();
    let heading: Vec<String> = records
        .next()
        .expect("a heading")
        .into_iter()
        .flatten()
        .collect();
    let rows = records.map(|record| {
        assert_eq!(record.len(), heading.len());
        let cells = heading.iter().zip(&record);
        let row: Row = cells
            .map(|(name, cell)| (name.clone(), typed(kind, name, cell.as_deref())))
            .collect();
        named(kind, row)
    });
    rows.collect()
}

/// Names the first row that differs.
pub(crate) fn assert_equal(read: &Rows, rows: &Rows) {
    for (name, row) in rows {
        assert_eq!(read.get(name), Some(row), "{name:?}");
    }
    assert_eq!(read.len(), rows.len());
}

fn named(kind: &str, row: Row) -> ((String, String), Row) {
    let id = row["_id"].as_str().expect("an id").to_owned();
    ((kind.to_owned(), id), row)
}

/// Prints the types of a Parquet file, then its rows.
const PARQUET: &str = r#"
import datetime, json, sys
import pyarrow.parquet as pq
file = pq.ParquetFile(sys.argv[1])
print(json.dumps({field.name: str(field.type) for field in file.schema_arrow}))
def plain(value):
    if isinstance(value, datetime.datetime):
        assert value.utcoffset() == datetime.timedelta(0)
        text = value.replace(tzinfo=None).isoformat()
        return (text.rstrip("0") if "." in text else text) + "Z"
    return value
for batch in file.iter_batches():
    for row in batch.to_pylist():
        print(json.dumps({name: plain(value) for name, value in row.items()}))
"#;

/// The rows of a Parquet file by pyarrow; its types are checked.
pub(crate) fn parquet_rows(path: &Path, kind: &str) -> Rows {
    let output = Command::new(readers_environment().join("bin/python"))
        .args(["-c", PARQUET])
        .arg(path)
        .output()
        .expect("python runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let types = lines.next().expect("types");
    let stream = Stream::of(kind).expect("a stream");
    let columns: BTreeMap<&str, Type> = stream
        .columns(true)
        .map(|column| (column.name, column.of))
        .collect();
    for (name, of) in types.as_object().expect("types") {
        let expected = match columns[name.as_str()] {
            Type::Integer => "int64",
            Type::Number => "double",
            Type::Boolean => "bool",
            Type::Timestamp => "timestamp[us, tz=UTC]",
            Type::String | Type::Array | Type::Object => "string",
        };
        assert_eq!(of, expected, "{kind}.{name}");
    }
    let rows = lines.map(|row| {
        let row = row.as_object().expect("a row").iter().map(|(name, value)| {
            let is_json = matches!(columns[name.as_str()], Type::Array | Type::Object);
            let value = match value.as_str().filter(|_| is_json) {
                Some(text) => serde_json::from_str(text).expect("JSON"),
                None => value.clone(),
            };
            (name.clone(), value)
        });
        named(kind, row.collect())
    });
    rows.collect()
}
