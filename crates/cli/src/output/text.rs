//! Makes text from outside safe for a terminal and fits it to a width.

use std::borrow::Cow;

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A value and its style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The text, without control characters.
    pub(crate) text: String,
    /// Its colour.
    pub(crate) style: Style,
}

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// No colour.
    Plain,
    /// A heading.
    Bold,
    /// A good end.
    Good,
    /// A bad end.
    Bad,
    /// Needs attention.
    Warn,
}

impl Style {
    /// Its ANSI code.
    pub(crate) fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Warn => Some("33"),
        }
    }
}

impl Cell {
    /// A cell with text of any origin.
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: plain(text).into_owned(),
            style: Style::Plain,
        }
    }

    /// The cell with this style.
    pub(crate) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// Text unchanged, nothing for null, JSON for nested values.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::new(""),
            Value::String(text) => Self::new(text),
            other => Self::new(&other.to_string()),
        }
    }
}

/// Columns that the text takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Removes everything that controls a terminal or breaks a line: names, labels and messages come
/// from other people.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_active) {
        return Cow::Borrowed(text);
    }
    let tame = |c| match c {
        '\n' | '\r' | '\t' => ' ',
        c if is_active(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    Cow::Owned(text.chars().map(tame).collect())
}

/// Control characters, and marks that change the writing direction.
pub(crate) fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cuts the text to this width; `…` shows the cut.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if width(text) <= most {
        return Cow::Borrowed(text);
    }
    let room = most.saturating_sub(1);
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= room
    });
    let mut short: String = kept.collect();
    if most > 0 {
        short.push('…');
    }
    Cow::Owned(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_never_told_to_do_anything() {
        assert_eq!(
            plain("a\x1b[2Jb\u{9b}c\nd\u{202e}e"),
            "a\u{fffd}[2Jb\u{fffd}c d\u{fffd}e"
        );
        assert_eq!(plain("Zoë 支払い"), "Zoë 支払い");
    }

    #[test]
    fn cutting_counts_columns_not_letters() {
        assert_eq!(cut("order-123", 9), "order-123");
        assert_eq!(cut("order-123", 6), "order…");
        assert_eq!(cut("支払い", 5), "支払…");
        assert_eq!(cut("支払い", 4), "支…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
    }
}
