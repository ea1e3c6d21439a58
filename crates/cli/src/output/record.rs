//! Shows one document as lines of name and value.

use serde_json::Value;

use super::text::{Cell, Style};

/// The members that are not empty: those named in `first`, in that order, then the rest by name.
/// Nested objects are shown member by member, one level deep.
pub(crate) fn lines(document: &Value, first: &[&str]) -> Vec<(String, Cell)> {
    let Value::Object(members) = document else {
        return vec![("value".to_owned(), Cell::of(document))];
    };
    let rest = members
        .keys()
        .filter(|name| !first.contains(&name.as_str()));
    let named = first.iter().copied().chain(rest.map(String::as_str));
    let mut lines = Vec::new();
    for name in named {
        match members.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::Object(inner)) => {
                let inner = inner.iter().filter(|(_, value)| !value.is_null());
                lines.extend(inner.map(|(key, value)| (inner_name(name, key), Cell::of(value))));
            }
            Some(value) => lines.push((name.to_owned(), cell(name, value))),
        }
    }
    lines
}

fn inner_name(outer: &str, inner: &str) -> String {
    Cell::new(&format!("{outer}.{inner}")).text
}

fn cell(name: &str, value: &Value) -> Cell {
    let cell = Cell::of(value);
    match (name, value.as_str()) {
        ("state", Some(state)) => cell.styled(state_style(state)),
        ("phase", Some("held")) | ("effect", Some("unknown")) => cell.styled(Style::Warn),
        _ => cell,
    }
}

/// The colour of a state.
pub(crate) fn state_style(state: &str) -> Style {
    match state {
        "COMPLETED" => Style::Good,
        "FAILED" => Style::Bad,
        _ => Style::Plain,
    }
}
