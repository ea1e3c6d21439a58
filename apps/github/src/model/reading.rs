//! How far a list has been read.

use serde::{Deserialize, Serialize};

use super::Changes;

/// How far a list has been read, before this page.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reading {
    /// Items on the pages before this one, in this pass.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items: u64,
    /// The pages are in the order in which the items were created: a change of an item moves none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_creation: bool,
    /// Of a list that is newest first: which items its passes have seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descent: Option<Box<Descent>>,
    /// Of a list that begins with the newest change, and is read back to the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Box<Changes>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Reading {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The beginning of the next pass. `is_one_page`: this one has read a single page.
    pub(crate) fn again(&self, is_one_page: bool) -> Self {
        let descent = self.descent.as_ref();
        let changes = self.changes.as_ref();
        Self {
            items: 0,
            by_creation: self.by_creation,
            descent: descent.map(|one| Box::new(one.again())),
            changes: changes.map(|one| Box::new(one.again(is_one_page))),
        }
    }
}

/// Tells whether two passes through a list saw the same, although items were added before its first
/// one meanwhile.
///
/// New items push the others to later pages, where they are seen twice, but never to pages that were
/// read already. Only a deletion makes an item slide to such a page, and so be missed. Two passes
/// that saw the same items, apart from new ones, missed none.
///
/// Items are named by the hashes of their documents' ids, 16 hexadecimal digits each. Sums are
/// hexadecimal too: JSON has no integers of 64 bits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Descent {
    /// The first item that the pass before saw; empty: there was none.
    head: String,
    /// The sum of all items that the pass before saw.
    expected: String,
    /// The first item of this pass.
    first: String,
    /// The sum of its items.
    all: String,
    /// The sum of its items from `head` on.
    below: String,
    /// It has come to `head`.
    is_below: bool,
    /// The items of its last page: the next one may begin with some of them.
    last: String,
}

/// Digits of the hash of an id.
const DIGITS: usize = 16;

/// The hashes of a page's items.
pub(crate) fn hashes(ids: &str) -> impl Iterator<Item = &str> {
    (0..ids.len())
        .step_by(DIGITS)
        .filter_map(|at| ids.get(at..at + DIGITS))
}

fn add(sum: &str, item: &str) -> String {
    let number = |hex: &str| u64::from_str_radix(hex, 16).unwrap_or(0);
    format!("{:x}", number(sum).wrapping_add(number(item)))
}

impl Descent {
    /// After a page with these items.
    pub(crate) fn after(&self, ids: &str) -> Self {
        let mut after = self.clone();
        for item in hashes(ids).filter(|item| !hashes(&self.last).any(|one| one == *item)) {
            if after.first.is_empty() {
                after.first = item.to_owned();
            }
            after.is_below |= item == after.head;
            after.all = add(&after.all, item);
            if after.is_below {
                after.below = add(&after.below, item);
            }
        }
        after.last = ids.to_owned();
        after
    }

    /// Whether the pass saw what the pass before saw.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_below && self.below == self.expected
    }

    /// The beginning of the next pass.
    pub(crate) fn again(&self) -> Self {
        Self {
            head: self.first.clone(),
            expected: self.all.clone(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of an item that has one letter.
    fn hash(item: char) -> String {
        format!(
            "{:016x}",
            u64::from(item).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        )
    }

    fn pass(from: &Descent, pages: &[&str]) -> Descent {
        let ids = |page: &&str| page.chars().map(hash).collect::<String>();
        let ids: Vec<String> = pages.iter().map(ids).collect();
        ids.iter()
            .fold(from.again(), |so_far, ids| so_far.after(ids))
    }

    #[test]
    fn col_4_new_items_do_not_unsettle_a_list_and_missed_ones_do() {
        let first = pass(&Descent::default(), &["zyx", "wvu", "t"]);
        assert!(!first.is_settled(), "one pass proves nothing");
        // New items push two items to the second page, where they are seen again.
        for pages in [
            ["zyx", "wvu", "t"],
            ["9zy", "yxw", "wvut"],
            ["987", "zyx", "wvut"],
        ] {
            assert!(pass(&first, &pages).is_settled(), "{pages:?}");
        }
        // Another was deleted, or was missed by the first pass.
        for pages in [
            ["zyx", "wvu", ""],
            ["9zy", "xwv", "utsr"],
            ["yxw", "vut", ""],
        ] {
            assert!(!pass(&first, &pages).is_settled(), "{pages:?}");
        }
    }
}
