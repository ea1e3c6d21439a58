//! The canonical form of RFC 8785.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The value as RFC 8785 text: no white space, members sorted by UTF-16 code units, numbers
/// as ECMAScript prints them, only `"`, `\` and control characters escaped.
///
/// - Equal JSON values give equal texts, whatever their spelling and member order were.
/// - Total: gives a text for every value, not only for those of [`parse`](super::parse).
/// - An integer beyond ±2^53 is written as the nearest double, as the RFC requires. `parse` never
///   returns such a value; two different values of this kind may give equal texts.
/// - A number that is not finite (only possible with serde_json's `arbitrary_precision`) is written
///   as `null`, as ECMAScript does.
/// - Recurses once per level. `parse` bounds the levels; code that builds values otherwise must do
///   so too.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                write_value(out, member);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &Number) {
    match number.as_f64().filter(|double| double.is_finite()) {
        Some(double) => out.push_str(ryu_js::Buffer::new().format_finite(double)),
        None => out.push_str("null"),
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{0}'..='\u{1f}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
