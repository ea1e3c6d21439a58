//! Values as SQL text. Bytes are hexadecimal, so that nothing has to be quoted and no server
//! setting can change the meaning.

use std::fmt::Write;

use clinch_core::Timestamp;

/// A parenthesized list of values.
pub(crate) struct Tuple(String);

impl Tuple {
    pub(crate) fn new() -> Self {
        Self(String::with_capacity(256))
    }

    fn comma(&mut self) {
        self.0.push(if self.0.is_empty() { '(' } else { ',' });
    }

    /// Appends an SQL expression.
    pub(crate) fn raw(mut self, sql: &str) -> Self {
        self.comma();
        self.0.push_str(sql);
        self
    }

    pub(crate) fn int(mut self, value: impl Into<i128>) -> Self {
        self.comma();
        // Writing to a string does not fail.
        let _ = write!(self.0, "{}", value.into());
        self
    }

    pub(crate) fn maybe_int(self, value: Option<impl Into<i128>>) -> Self {
        match value {
            Some(value) => self.int(value),
            None => self.raw("NULL"),
        }
    }

    pub(crate) fn at(self, at: Timestamp) -> Self {
        self.int(at.as_millis())
    }

    pub(crate) fn maybe_at(self, at: Option<Timestamp>) -> Self {
        self.maybe_int(at.map(Timestamp::as_millis))
    }

    pub(crate) fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.comma();
        push_bytes(&mut self.0, bytes.as_ref());
        self
    }

    pub(crate) fn maybe_bytes(self, bytes: Option<impl AsRef<[u8]>>) -> Self {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.raw("NULL"),
        }
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push(')');
        self.0
    }
}

/// One value.
pub(crate) fn literal(bytes: impl AsRef<[u8]>) -> String {
    let mut text = String::new();
    push_bytes(&mut text, bytes.as_ref());
    text
}

/// Values separated by commas; `NULL`, which matches nothing, if there are none.
pub(crate) fn list(items: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut text = String::new();
    for item in items {
        if !text.is_empty() {
            text.push(',');
        }
        push_bytes(&mut text, item.as_ref());
    }
    if text.is_empty() { "NULL".into() } else { text }
}

/// Numbers separated by commas; `NULL` if there are none.
pub(crate) fn numbers(items: impl IntoIterator<Item = u64>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() {
        "NULL".into()
    } else {
        items.join(",")
    }
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.reserve(bytes.len() * 2 + 3);
    text.push_str("X'");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_value_can_end_it() {
        let tuple = Tuple::new().bytes("a'); --").int(-5).maybe_int(None::<i64>);
        assert_eq!(tuple.end(), "(X'6127293B202D2D',-5,NULL)");
        assert_eq!(list(Vec::<String>::new()), "NULL");
        assert_eq!(list(["a", "b"]), "X'61',X'62'");
        assert_eq!(numbers([1, u64::MAX]), "1,18446744073709551615");
    }
}
