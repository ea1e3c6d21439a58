//! The catalog: which streams there are, and which of them are sent.

use clinch_github::schema::{Column, DOCUMENT, STREAMS, Stream};
use serde_json::{Value, json};

use super::messages::{DELETED_AT, json_schema};

/// A stream that is sent, with these columns.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) stream: &'static Stream,
    pub(super) columns: Vec<Column>,
}

impl Selection {
    /// A stream with all columns, and the whole document if it is wanted.
    pub(super) fn whole(stream: &'static Stream, with_document: bool) -> Self {
        let columns = stream.columns(with_document).collect();
        Self { stream, columns }
    }

    pub(super) fn has(&self, column: &Column) -> bool {
        self.columns.contains(column)
    }

    pub(super) fn has_document(&self) -> bool {
        self.has(&DOCUMENT)
    }
}

/// The catalog of these streams.
pub(super) fn of(selections: &[Selection]) -> Value {
    let streams = selections.iter().map(|selection| entry(selection.stream));
    json!({ "streams": streams.collect::<Vec<Value>>() })
}

fn entry(stream: &Stream) -> Value {
    let columns: Vec<Column> = stream.columns(true).collect();
    let table = json!({
        "breadcrumb": [],
        "metadata": {
            "inclusion": "available",
            "selected-by-default": true,
            "table-key-properties": stream.key,
        },
    });
    let of_column = |column: &Column| {
        let metadata = match stream.key.contains(&column.name) {
            true => json!({ "inclusion": "automatic" }),
            // The document repeats every other column.
            false => {
                json!({ "inclusion": "available", "selected-by-default": *column != DOCUMENT })
            }
        };
        json!({ "breadcrumb": ["properties", column.name], "metadata": metadata })
    };
    let deleted_at = json!({
        "breadcrumb": ["properties", DELETED_AT],
        "metadata": { "inclusion": "automatic" },
    });
    let metadata: Vec<Value> = std::iter::once(table)
        .chain(columns.iter().map(of_column))
        .chain([deleted_at])
        .collect();
    json!({
        "tap_stream_id": stream.kind,
        "stream": stream.kind,
        "schema": json_schema(&columns, stream.key),
        "key_properties": stream.key,
        "metadata": metadata,
    })
}

/// The streams and columns that a catalog selects, in the order of [`STREAMS`]. `None`: the value is
/// no catalog. A stream or column counts as selected by default where the catalog does not say; a
/// stream that the catalog does not list is not selected.
pub(super) fn selected(catalog: &Value, with_document: bool) -> Option<Vec<Selection>> {
    let entries = catalog.get("streams")?.as_array()?;
    let of_stream = |stream: &'static Stream| {
        let name = |entry: &&Value| {
            let id = entry.get("tap_stream_id").or_else(|| entry.get("stream"));
            id.and_then(Value::as_str) == Some(stream.kind)
        };
        let entry = entries.iter().find(name)?;
        let is_selected = said(entry, &[])
            .or_else(|| entry.get("selected")?.as_bool())
            .or_else(|| entry.get("schema")?.get("selected")?.as_bool())
            .unwrap_or(true);
        let columns = stream.columns(true).filter(|column| {
            let is_default = *column != DOCUMENT || with_document;
            let breadcrumb = ["properties", column.name];
            let said = said(entry, &breadcrumb).unwrap_or(is_default);
            said || stream.key.contains(&column.name) || (*column == DOCUMENT && with_document)
        });
        let columns = columns.collect();
        is_selected.then_some(Selection { stream, columns })
    };
    Some(STREAMS.iter().filter_map(of_stream).collect())
}

/// What the metadata of an entry says about a stream or a column.
fn said(entry: &Value, breadcrumb: &[&str]) -> Option<bool> {
    let metadata = entry.get("metadata")?.as_array()?;
    let here = |one: &&Value| {
        one.get("breadcrumb")
            .is_some_and(|at| *at == json!(breadcrumb))
    };
    let metadata = metadata.iter().find(here)?.get("metadata")?;
    match metadata.get("inclusion").and_then(Value::as_str) {
        Some("unsupported") => Some(false),
        _ => metadata.get("selected").and_then(Value::as_bool),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Value {
        let all = STREAMS.iter().map(|stream| Selection::whole(stream, false));
        of(&all.collect::<Vec<_>>())
    }

    fn names(selections: &[Selection]) -> Vec<&str> {
        selections.iter().map(|one| one.stream.kind).collect()
    }

    #[test]
    fn the_catalog_as_it_is_discovered_selects_everything_but_documents() {
        let selections = selected(&whole(), false).unwrap();
        assert_eq!(selections.len(), STREAMS.len());
        for selection in &selections {
            let columns: Vec<Column> = selection.stream.columns(false).collect();
            assert_eq!(selection.columns, columns);
        }
        let with_documents = selected(&whole(), true).unwrap();
        assert!(with_documents.iter().all(Selection::has_document));
    }

    #[test]
    fn streams_and_columns_are_selected() {
        let mut catalog = whole();
        let streams = catalog["streams"].as_array_mut().unwrap();
        streams.retain(|entry| {
            ["issue", "commit", "user"].contains(&entry["stream"].as_str().unwrap())
        });
        for entry in streams {
            let is_user = entry["stream"] == "user";
            for metadata in entry["metadata"].as_array_mut().unwrap() {
                let is_wanted = match metadata["breadcrumb"][1].as_str() {
                    None => !is_user,
                    Some(name) => ["number", "_document"].contains(&name),
                };
                metadata["metadata"]["selected"] = json!(is_wanted);
            }
        }
        let selections = selected(&catalog, false).unwrap();
        assert_eq!(names(&selections), ["issue", "commit"]);
        let columns: Vec<&str> = selections[0].columns.iter().map(|one| one.name).collect();
        assert_eq!(
            columns,
            ["_id", "number", "_document"],
            "the key is always sent"
        );
    }

    #[test]
    fn the_old_form_of_selection_is_understood() {
        let catalog = json!({"streams": [
            {"stream": "issue", "selected": false},
            {"tap_stream_id": "commit", "schema": {"selected": true}},
            {"stream": "user", "schema": {"selected": false}},
            {"stream": "nobody"},
        ]});
        assert_eq!(names(&selected(&catalog, false).unwrap()), ["commit"]);
        assert!(selected(&json!({}), false).is_none());
        assert!(selected(&json!([]), false).is_none());
    }
}
