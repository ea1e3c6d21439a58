//! The messages of the Singer specification, one line each.

use clinch_github::schema::{Cell, Column, Envelope, Type};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::catalog::Selection;
use super::state::State;
use crate::commands::github::documents::cell_json;
use crate::output::json::quoted;

/// The column that marks a row whose document is gone, as Singer targets know it.
pub(super) const DELETED_AT: &str = "_sdc_deleted_at";

pub(super) fn schema(selection: &Selection) -> String {
    let stream = selection.stream;
    let message = json!({
        "type": "SCHEMA",
        "stream": stream.kind,
        "schema": json_schema(&selection.columns, stream.key),
        "key_properties": stream.key,
    });
    message.to_string()
}

pub(super) fn record(
    selection: &Selection,
    envelope: &Envelope<'_>,
    is_gone: bool,
    at: Timestamp,
) -> String {
    let stream = selection.stream;
    let row = stream.row(envelope, selection.has_document());
    let all = stream.columns(selection.has_document());
    let chosen = all.zip(&row).filter(|(column, _)| selection.has(column));
    let mut members: Vec<String> = chosen.map(|(column, cell)| member(column, cell)).collect();
    let deleted_at = match is_gone {
        true => quoted(&at.to_string()),
        false => "null".to_owned(),
    };
    members.push(format!("{}:{deleted_at}", quoted(DELETED_AT)));
    format!(
        "{{\"type\":\"RECORD\",\"stream\":{},\"record\":{{{}}},\"time_extracted\":{}}}",
        quoted(stream.kind),
        members.join(","),
        quoted(&at.to_string())
    )
}

fn member(column: Column, cell: &Cell) -> String {
    format!("{}:{}", quoted(column.name), cell_json(cell))
}

pub(super) fn state(state: &State) -> String {
    json!({ "type": "STATE", "value": state.to_json() }).to_string()
}

/// The JSON Schema of a record. Every column but a key may be null.
pub(super) fn json_schema(columns: &[Column], key: &[&str]) -> Value {
    let mut properties = Map::new();
    for column in columns {
        let name = match column.of {
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::String | Type::Timestamp => "string",
            Type::Array => "array",
            Type::Object => "object",
        };
        let mut property = match key.contains(&column.name) {
            true => json!({ "type": [name] }),
            false => json!({ "type": ["null", name] }),
        };
        match column.of {
            Type::Timestamp => property["format"] = json!("date-time"),
            Type::Array => property["items"] = json!({}),
            _ => {}
        }
        properties.insert(column.name.to_owned(), property);
    }
    let deleted_at = json!({ "type": ["null", "string"], "format": "date-time" });
    properties.insert(DELETED_AT.to_owned(), deleted_at);
    json!({ "type": "object", "properties": properties })
}

#[cfg(test)]
mod tests {
    use clinch_github::schema::Stream;

    use super::*;

    #[test]
    fn a_record_is_one_line_of_json_with_values_of_its_types() {
        let stream = Stream::of("issue").unwrap();
        let selection = Selection::whole(stream, true);
        let document = "{\"id\": 7,\n\"title\": \"a\\u001b[0m\\nb\", \"labels\": [ 1.50 ],\n\
                        \"created_at\": \"2026-01-02T03:04:05Z\", \"locked\": false}";
        let envelope = Envelope {
            id: "issue:7",
            user: "ann",
            resource: "repo:ann/x",
            document,
        };
        let at = "2026-02-03T04:05:06.789Z".parse().unwrap();
        let line = record(&selection, &envelope, false, at);
        assert!(!line.contains('\n') && line.contains("[1.50]"), "{line}");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["type"], "RECORD");
        assert_eq!(message["stream"], "issue");
        assert_eq!(message["time_extracted"], "2026-02-03T04:05:06.789Z");
        let record = &message["record"];
        assert_eq!(record["_sdc_deleted_at"], Value::Null);
        assert_eq!(record["_id"], "issue:7");
        assert_eq!(record["id"], 7);
        assert_eq!(record["title"], "a\u{1b}[0m\nb");
        assert_eq!(record["locked"], false);
        assert_eq!(record["created_at"], "2026-01-02T03:04:05Z");
        assert_eq!(record["body"], Value::Null);
        let whole: Value = serde_json::from_str(document).unwrap();
        assert_eq!(record["_document"], whole);
        let names = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        let schema: Value = serde_json::from_str(&schema(&selection)).unwrap();
        assert_eq!(names(&schema["schema"]["properties"]), names(record));
        assert_eq!(
            schema["schema"]["properties"]["created_at"],
            json!({"type": ["null", "string"], "format": "date-time"})
        );
        assert_eq!(schema["key_properties"], json!(["_id"]));
    }
}
