//! Reformats JSON without parsing it: the order of members and the notation of numbers stay as the
//! server sent them.

use std::fmt::Write as _;

use super::text::is_active;

/// As one line. The text must be JSON.
pub(crate) fn compact(json: &str) -> String {
    lay_out(json, None)
}

/// Indented by two spaces per level; all lines but the first are moved right by `levels`. The text
/// must be JSON.
pub(crate) fn indented(json: &str, levels: usize) -> String {
    lay_out(json, Some(levels))
}

/// A string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    lay_out(&serde_json::Value::from(text).to_string(), None)
}

fn lay_out(json: &str, levels: Option<usize>) -> String {
    let mut laid = String::with_capacity(json.len());
    let mut level = levels.unwrap_or(0);
    let mut characters = json.chars().peekable();
    let break_line = |laid: &mut String, level: usize| {
        if levels.is_some() {
            laid.push('\n');
            laid.extend(std::iter::repeat_n("  ", level));
        }
    };
    while let Some(c) = characters.next() {
        match c {
            '"' => string(&mut characters, &mut laid),
            '{' | '[' => {
                laid.push(c);
                while characters.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                if let Some(end) = characters.next_if(|c| matches!(c, '}' | ']')) {
                    laid.push(end);
                } else {
                    level += 1;
                    break_line(&mut laid, level);
                }
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                break_line(&mut laid, level);
                laid.push(c);
            }
            ',' => {
                laid.push(c);
                break_line(&mut laid, level);
            }
            ':' => laid.push_str(if levels.is_some() { ": " } else { ":" }),
            c if c.is_ascii_whitespace() => {}
            c => laid.push(c),
        }
    }
    laid
}

/// Copies the rest of a string after its opening quote. Control characters are escaped, which does
/// not change the value.
fn string(characters: &mut impl Iterator<Item = char>, laid: &mut String) {
    laid.push('"');
    let mut is_escaped = false;
    for c in characters {
        if is_active(c) {
            let _ = write!(laid, "\\u{:04x}", u32::from(c));
        } else {
            laid.push(c);
        }
        match c {
            '"' if !is_escaped => return,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str =
        " {\"z\" : [ 1.0,{ \"a\":1e3 } ], \"e\":{ }, \"l\":[\n], \"s\":\"a\\\"{:, \\\\\"} ";

    #[test]
    fn layout_changes_and_nothing_else() {
        assert_eq!(
            compact(DOCUMENT),
            r#"{"z":[1.0,{"a":1e3}],"e":{},"l":[],"s":"a\"{:, \\"}"#
        );
        let expected = "{\n    \"z\": [\n      1.0,\n      {\n        \"a\": 1e3\n      }\n    ],\n    \
                        \"e\": {},\n    \"l\": [],\n    \"s\": \"a\\\"{:, \\\\\"\n  }";
        assert_eq!(indented(DOCUMENT, 1), expected);
    }

    #[test]
    fn control_characters_come_out_escaped() {
        assert_eq!(compact("\"a\u{9b}b\u{202e}\""), "\"a\\u009bb\\u202e\"");
        assert_eq!(quoted("a\u{7f}\""), "\"a\\u007f\\\"\"");
        let same: String = serde_json::from_str(&quoted("a\u{7f}\"")).unwrap();
        assert_eq!(same, "a\u{7f}\"");
    }
}
