//! The state of a tap: a bookmark for each stream.

use serde_json::{Map, Value, json};

use super::fingerprint::Bookmark;

/// The state of a tap. Bookmarks of streams that are not sent stay as they were given.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    bookmarks: Map<String, Value>,
}

impl State {
    /// Reads a state, or the STATE message with it; of several lines the last one counts. `None`:
    /// the text is none of these. An empty text is a state without bookmarks.
    pub(super) fn read(text: &str) -> Option<Self> {
        let last = || text.lines().rev().find(|line| !line.trim().is_empty());
        let Some(last) = last() else {
            return Some(Self::default());
        };
        let parsed = serde_json::from_str(text).or_else(|_| serde_json::from_str(last));
        let Value::Object(mut members) = parsed.ok()? else {
            return None;
        };
        if members.get("type").is_some_and(|kind| kind == "STATE") {
            members = match members.remove("value")? {
                Value::Object(value) => value,
                Value::Null => Map::new(),
                _ => return None,
            };
        }
        match members.remove("bookmarks") {
            Some(Value::Object(bookmarks)) => Some(Self { bookmarks }),
            Some(Value::Null) | None => Some(Self::default()),
            Some(_) => None,
        }
    }

    pub(super) fn bookmark(&self, kind: &str) -> Option<Bookmark> {
        self.bookmarks.get(kind).and_then(Bookmark::read)
    }

    pub(super) fn set_bookmark(&mut self, kind: &str, bookmark: Bookmark) {
        self.bookmarks.insert(kind.to_owned(), bookmark.to_json());
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "bookmarks": self.bookmarks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_in_every_form_that_targets_give() {
        let value = json!({"bookmarks": {"issue": {"digests": "0".repeat(16)}}});
        let message = json!({"type": "STATE", "value": value});
        let forms = [
            value.to_string(),
            format!("{value:#}"),
            message.to_string(),
            format!("{{}}\n{value}\n\n"),
        ];
        for form in forms {
            let state = State::read(&form).expect("a state");
            assert!(state.bookmark("issue").is_some(), "{form}");
            assert!(state.bookmark("commit").is_none());
            assert_eq!(state.to_json(), value);
        }
    }

    #[test]
    fn nothing_yet_is_a_state_and_anything_else_is_none() {
        for empty in [
            "",
            "\n",
            "{}",
            "{\"bookmarks\":null}",
            "{\"type\":\"STATE\",\"value\":null}",
        ] {
            let state = State::read(empty).expect(empty);
            assert_eq!(state.to_json(), json!({"bookmarks": {}}));
        }
        for wrong in [
            "[]",
            "7",
            "{",
            "{\"bookmarks\":7}",
            "{\"type\":\"STATE\",\"value\":7}",
        ] {
            assert!(State::read(wrong).is_none(), "{wrong}");
        }
    }
}
