//! The beginning of an operation's id, as operators type it.

use std::str::FromStr;

use uuid::Uuid;

use crate::{Invalid, OpId};

/// The first digits of an operation's id.
///
/// ```
/// use clinch_core::OpIdPrefix;
///
/// let prefix: OpIdPrefix = "01917F5E-00".parse()?;
/// let [first, last] = prefix.range();
/// assert_eq!(first.to_string(), "01917f5e-0000-0000-0000-000000000000");
/// assert_eq!(last.to_string(), "01917f5e-00ff-ffff-ffff-ffffffffffff");
/// assert!("01917f5".parse::<OpIdPrefix>().is_err());
/// # Ok::<(), clinch_core::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpIdPrefix {
    first: OpId,
    last: OpId,
}

impl OpIdPrefix {
    /// Fewer digits would name hours of work: an id begins with the time of its accept.
    pub const DIGITS_MIN: usize = 8;
    /// The digits of a whole id.
    const DIGITS: usize = 32;

    /// The first and the last id that can begin so.
    pub fn range(&self) -> [OpId; 2] {
        [self.first, self.last]
    }
}

impl FromStr for OpIdPrefix {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = || {
            let problem = "is neither a UUID nor the first 8 or more digits of one";
            Invalid::new("op_id", problem)
        };
        // No spelling of an id is longer: 32 digits and their dashes.
        if text.len() > 2 * Self::DIGITS {
            return Err(invalid());
        }
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || !(Self::DIGITS_MIN..=Self::DIGITS).contains(&digits.len()) {
            return Err(invalid());
        }
        let filled = |with: &str| {
            let rest = with.repeat(Self::DIGITS - digits.len());
            Uuid::parse_str(&format!("{digits}{rest}"))
                .map(OpId)
                .map_err(|_| invalid())
        };
        Ok(Self {
            first: filled("0")?,
            last: filled("f")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_eight_hex_digits_or_more() {
        let whole = "01917f5e-0000-7000-8000-000000000001";
        let [first, last] = whole.parse::<OpIdPrefix>().expect("an id").range();
        assert_eq!((first.to_string(), first), (whole.to_owned(), last));
        for bad in [
            "",
            "0191",
            "0191-7f5",
            "01917f5g",
            "+1917f5e",
            "01917f5e ",
            "é1917f5e",
        ] {
            assert!(bad.parse::<OpIdPrefix>().is_err(), "{bad:?}");
        }
        assert!("0".repeat(33).parse::<OpIdPrefix>().is_err());
        assert!("-".repeat(100_000).parse::<OpIdPrefix>().is_err());
    }
}
