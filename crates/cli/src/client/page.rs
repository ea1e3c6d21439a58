//! One page of a list.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Documents as the server sent them, and the cursor of the next page.
#[derive(Debug)]
pub(crate) struct Page {
    /// In the server's order.
    pub(crate) items: Vec<Box<RawValue>>,
    /// `None` on the last page.
    pub(crate) next_cursor: Option<String>,
}

impl Page {
    /// Reads the list in the document's member `member`; `None` if there is no such list.
    pub(crate) fn read(document: &RawValue, member: &str) -> Option<Self> {
        let mut members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(document.get()).ok()?;
        let items = serde_json::from_str(members.remove(member)?.get()).ok()?;
        let next_cursor = match members.get("next_cursor") {
            Some(cursor) => serde_json::from_str(cursor.get()).ok()?,
            None => None,
        };
        Some(Self { items, next_cursor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_or_refused() {
        let read = |json: &str| {
            let document = RawValue::from_string(json.to_owned()).unwrap();
            Page::read(&document, "operations").map(|page| (page.items.len(), page.next_cursor))
        };
        let page = read(r#"{"operations":[{},{}],"next_cursor":"c"}"#);
        assert_eq!(page, Some((2, Some("c".to_owned()))));
        assert_eq!(
            read(r#"{"operations":[],"next_cursor":null}"#),
            Some((0, None))
        );
        assert_eq!(read(r#"{"operations":[]}"#), Some((0, None)));
        for wrong in [
            "[]",
            "{}",
            r#"{"operations":{}}"#,
            r#"{"operations":[],"next_cursor":5}"#,
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
