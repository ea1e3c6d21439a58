//! Which items the passes through a list in the order of change have seen.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Items that are compared. A job carries their hashes in its payload, which must not grow without
/// bound; of a list with more, only a pass in which nothing has changed is enough.
const ITEMS_MAX: usize = 5_000;

/// Tells whether a list that is read newest change first was read exactly, although items changed
/// meanwhile.
///
/// An item that changes goes to the head of the list, and may be missed there; it pushes others to
/// later pages, where they are seen twice. Only when an item is deleted do others slide to pages that
/// were read already. So:
///
/// - A second pass through the whole list tells whether the first one missed an item that has not
///   changed since.
/// - Each pass after it reads the head of the list: what has changed since the pass before began. When
///   that fits one page, every item that changed in between has been seen.
/// - An item of the first pass that neither the second one nor the head has shown is gone. When it
///   went, others may have slid: everything is read again, and compared with what was seen so far.
///
/// Items are named by the hashes of their documents' ids.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// The latest change when the pass before began.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    /// The latest change when this pass began.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// Items that were seen before the list was begun again, and not since.
    expected: BTreeSet<String>,
    /// Items that were seen since the list was begun again.
    seen: BTreeSet<String>,
    /// This pass saw an item that an earlier one should have seen.
    has_missed: bool,
    /// This pass reads the head of the list.
    is_head: bool,
    /// There were more items than are compared.
    is_too_long: bool,
}

impl Changes {
    /// After a page with these items: hashes, and the times of their latest changes as far as known.
    pub(crate) fn after(&self, page: u32, items: &[(&str, Option<&str>)]) -> Self {
        let mut after = self.clone();
        if page == 1 {
            let latest = items.iter().filter_map(|(_, at)| *at).max();
            // A page that has not changed tells no times.
            after.first = latest.map(str::to_owned).or_else(|| self.head.clone());
        }
        for (item, at) in items {
            if !after.seen.insert((*item).to_owned()) {
                continue;
            }
            let is_expected = after.expected.remove(*item);
            let is_newer = self.head.as_deref().zip(*at);
            let is_newer = is_newer.is_some_and(|(head, at)| at >= head);
            after.has_missed |= !is_expected && !is_newer;
        }
        match after.seen.len() + after.expected.len() > ITEMS_MAX {
            // Begins anew, and never settles.
            true => Self {
                has_missed: true,
                is_too_long: true,
                ..Self::default()
            },
            false => after,
        }
    }

    /// Whether this pass reads the head of the list only.
    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    /// Whether a pass through the head of the list ends with a page whose oldest change is this one.
    pub(crate) fn is_past_head(&self, oldest: Option<&str>) -> bool {
        let ends = oldest.zip(self.head.as_deref());
        self.is_head && ends.is_some_and(|(oldest, head)| oldest < head)
    }

    /// Whether there are more items than are compared: each pass reads the whole list.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Whether every item that was seen before has been seen again, and none had been missed.
    pub(crate) fn is_settled(&self) -> bool {
        !self.has_missed && self.expected.is_empty()
    }

    /// The beginning of the next pass. `is_one_page`: this one has read a single page.
    pub(crate) fn again(&self, is_one_page: bool) -> Self {
        let is_begun_again = self.has_missed || (self.is_head && is_one_page);
        let (expected, seen) = match is_begun_again {
            true => (self.seen.clone(), BTreeSet::new()),
            false => (self.expected.clone(), self.seen.clone()),
        };
        Self {
            head: self.first.clone(),
            first: None,
            expected,
            seen,
            has_missed: false,
            is_head: !is_begun_again,
            is_too_long: self.is_too_long,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes through pages of items with one letter and the digit of their time.
    fn pass(from: &Changes, pages: &[&str]) -> Changes {
        let mut changes = from.clone();
        for (at, page) in (1..).zip(pages) {
            let items: Vec<(&str, Option<&str>)> = page
                .split(' ')
                .map(|item| (&item[..1], Some(&item[1..])))
                .collect();
            changes = changes.after(at, &items);
        }
        changes
    }

    #[test]
    fn col_4_what_changed_meanwhile_is_looked_for_at_the_head() {
        let first = pass(&Changes::default(), &["a9 b8", "c7 d6", "e5"]);
        assert!(!first.is_settled(), "one pass proves nothing");
        let second = first.again(false);
        assert!(!second.is_head());
        // An item changed, another one is new: that is no reason to read everything again.
        let second = pass(&second, &["f9 d9", "a9 b8", "c7 e5"]);
        assert!(second.is_settled());
        let head = second.again(false);
        assert!(head.is_head() && !head.is_past_head(Some("9")) && head.is_past_head(Some("8")));
        // One that changed before the second pass came to it is at the head.
        let second = pass(&first.again(false), &["a9 b8", "c7 d6"]);
        assert!(!second.is_settled());
        let head = pass(&second.again(false), &["e9 a9"]);
        assert!(head.is_head() && head.is_settled());
    }

    #[test]
    fn col_4_what_is_gone_or_was_missed_begins_the_list_again() {
        let first = pass(&Changes::default(), &["a9 b8", "c7 d6"]);
        // The first pass has missed an item.
        let second = pass(&first.again(false), &["a9 b8", "x7 c7", "d6"]);
        assert!(!second.is_settled());
        let third = second.again(false);
        assert!(!third.is_head());
        assert!(pass(&third, &["a9 b8", "x7 c7", "d6"]).is_settled());
        // One is gone: neither the second pass nor the head has it.
        let second = pass(&first.again(false), &["a9 c7", "d6"]);
        let head = pass(&second.again(false), &["a9 c7"]);
        assert!(head.is_head() && !head.is_settled());
        assert!(head.again(false).is_head(), "it may have changed again");
        let again = head.again(true);
        assert!(!again.is_head());
        assert!(pass(&again, &["a9 c7", "d6"]).is_settled());
    }

    #[test]
    fn col_4_a_list_that_is_too_long_to_compare_never_settles() {
        let names: Vec<String> = (0..=ITEMS_MAX).map(|n| n.to_string()).collect();
        let items: Vec<(&str, Option<&str>)> =
            names.iter().map(|name| (name.as_str(), None)).collect();
        let mut changes = Changes::default();
        for _ in 0..3 {
            changes = changes.after(1, &items);
            assert!(changes.seen.is_empty() && !changes.is_settled());
            changes = changes.again(false);
            assert!(!changes.is_head() && changes.is_too_long());
        }
    }
}
