//! A document that the API gives in pages.
//!
//! GitHub pages the files of a commit: each page is the commit with some of its files. The pages are
//! put together to one document, as if GitHub had sent it whole. Members keep their order and their
//! text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Longest document: every sink takes one of this size, and refuses longer ones.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a page cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotJoined {
    /// The document would be longer than a store takes.
    TooLong,
    /// One of them is no object with this list.
    NoList,
}

/// The members of an object, in their order.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Members {
    fn read(document: &str) -> Option<Self> {
        serde_json::from_str(document).ok()
    }

    fn list(&self, name: &str) -> Option<Vec<Box<RawValue>>> {
        let (_, list) = self.0.iter().find(|(key, _)| key == name)?;
        serde_json::from_str(list.get()).ok()
    }

    /// The object with another list.
    fn with(&self, name: &str, list: &[Box<RawValue>]) -> String {
        let member = |(key, value): &(String, Box<RawValue>)| {
            let value = match key == name {
                true => {
                    let items: Vec<&str> = list.iter().map(|one| one.get()).collect();
                    format!("[{}]", items.join(","))
                }
                false => value.get().to_owned(),
            };
            format!("{}:{value}", serde_json::Value::from(key.as_str()))
        };
        let members: Vec<String> = self.0.iter().map(member).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// Number of items in the list of a document.
pub(crate) fn length(document: &str, list: &str) -> Option<usize> {
    Some(Members::read(document)?.list(list)?.len())
}

/// The document with the first `before` items of its list, followed by those of `page`. What the
/// document had beyond, an earlier execution of the same job has added.
pub(crate) fn joined(
    document: &str,
    page: &str,
    list: &str,
    before: usize,
) -> Result<String, NotJoined> {
    let read = |text: &str| {
        let members = Members::read(text).ok_or(NotJoined::NoList)?;
        let items = members.list(list).ok_or(NotJoined::NoList)?;
        Ok((members, items))
    };
    let (members, mut items) = read(document)?;
    let (_, more) = read(page)?;
    items.truncate(before);
    items.extend(more);
    let joined = members.with(list, &items);
    match joined.len() <= DOCUMENT_BYTES_MAX {
        true => Ok(joined),
        false => Err(NotJoined::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_put_together_in_their_order_and_text() {
        let first = r#"{"sha":"a","files":[{"n":1.50},{"n":2}],"z":{"b":1,"a":2}}"#;
        let second = r#"{"sha":"a","files":[{"n":3}],"z":0}"#;
        let both = r#"{"sha":"a","files":[{"n":1.50},{"n":2},{"n":3}],"z":{"b":1,"a":2}}"#;
        assert_eq!(joined(first, second, "files", 2).as_deref(), Ok(both));
        // The same page again changes nothing.
        assert_eq!(joined(both, second, "files", 2).as_deref(), Ok(both));
        assert_eq!(length(both, "files"), Some(3));
        for (document, page) in [("[]", second), (first, "{}"), (first, r#"{"files":7}"#)] {
            assert_eq!(joined(document, page, "files", 2), Err(NotJoined::NoList));
        }
    }

    #[test]
    fn a_document_is_as_long_as_a_store_takes() {
        let file = format!(r#"{{"patch":"{}"}}"#, "x".repeat(DOCUMENT_BYTES_MAX / 2));
        let page = format!(r#"{{"files":[{file}]}}"#);
        let two = joined(&page, &page, "files", 1);
        assert_eq!(two, Err(NotJoined::TooLong));
    }
}
