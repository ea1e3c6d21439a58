//! What lists cost in requests, as far as their lengths are known.

use std::collections::BTreeMap;

use super::StreamCost;
use crate::model::Repository;
use crate::streams::{JobKind, Walk};

/// Requests of one stream, as far as the lengths of its lists are known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Estimate {
    pub(super) at_least: u64,
    /// If everything has changed, of the lists whose length is known.
    at_most: u64,
    /// `None`: it is not known which repositories there are.
    lists: Option<u64>,
    lists_known: u64,
}

impl Estimate {
    /// Of one list whose length is known.
    pub(super) fn known(at_least: u64, at_most: u64) -> Self {
        Self {
            at_least,
            at_most,
            lists: Some(1),
            lists_known: 1,
        }
    }

    /// Of lists whose lengths are not known.
    pub(super) fn unknown(at_least: u64, lists: Option<u64>) -> Self {
        Self {
            at_least,
            lists,
            ..Self::default()
        }
    }

    pub(super) fn of(self, kind: JobKind) -> StreamCost {
        let is_known = self.lists == Some(self.lists_known);
        StreamCost {
            kind,
            at_least: self.at_least,
            at_most: is_known.then_some(self.at_most),
            at_most_known: self.at_most,
            lists: self.lists,
            lists_known: self.lists_known,
        }
    }
}

/// Items of the lists that are known.
#[derive(Debug, Clone, Copy, Default)]
struct ItemCount {
    items: u64,
    lists: u64,
    lists_known: u64,
}

/// How long a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) pages: u64,
    /// Number of items, if it was looked up.
    pub(super) items: Option<u64>,
    /// A run has read it.
    pub(super) is_known: bool,
}

/// What is known of a user's lists.
pub(super) struct Lists {
    /// `None`: no run has read them, and the API does not say.
    pub(super) repositories: Option<Vec<Repository>>,
    pub(super) is_organization: Option<bool>,
    pub(super) by_list: BTreeMap<(JobKind, String), Length>,
    /// Documents by kind, if a run has collected some.
    pub(super) documents: BTreeMap<String, u64>,
}

impl Lists {
    /// A list of the user, as far as it is known.
    pub(super) fn of_user(&self, kind: JobKind) -> Option<Length> {
        let mut lists = self.by_list.iter();
        let known = lists.find(|((of, _), _)| *of == kind);
        known.map(|(_, length)| *length)
    }

    /// One list of the user.
    pub(super) fn cost_of_user(&self, kind: JobKind) -> Estimate {
        match self.of_user(kind) {
            Some(length) => Estimate::known(1, most(Walk::Whole, length.pages)),
            None => Estimate::unknown(1, Some(1)),
        }
    }

    /// One list of each repository.
    pub(super) fn cost_of_lists(&self, kind: JobKind, is_full: bool) -> Estimate {
        let walk = kind.stream().walk;
        let Some(repositories) = &self.repositories else {
            return Estimate::unknown(0, None);
        };
        let mut sum = Estimate::unknown(0, Some(repositories.len() as u64));
        for repository in repositories {
            let Some(length) = self.length(kind, repository) else {
                sum.at_least += 1;
                continue;
            };
            sum.at_least += match length.is_known && !is_full {
                // One request tells that nothing has changed.
                true => 1,
                false => length.pages,
            };
            sum.at_most += most(walk, length.pages);
            sum.lists_known += 1;
        }
        sum
    }

    /// One request for each item of other lists.
    pub(super) fn cost_of_items(&self, kind: JobKind, is_full: bool) -> Estimate {
        let mut sum = Estimate::unknown(0, Some(0));
        for parent in kind.parents() {
            let count = self.items(parent);
            sum.lists = sum.lists.zip(count).map(|(sum, one)| sum + one.lists);
            let count = count.unwrap_or_default();
            sum.at_most += count.items;
            sum.lists_known += count.lists_known;
        }
        // A stream that is added reads something of every item. The default branch has no commits of
        // its own.
        let is_first = !self.documents.contains_key(kind.document());
        if (is_full || is_first) && kind.document() != "branch_commit" {
            sum.at_least = sum.at_most;
        }
        sum
    }

    /// Number of items of the repositories' lists. `None`: it is not known which repositories there are.
    fn items(&self, kind: JobKind) -> Option<ItemCount> {
        let repositories = self.repositories.as_ref()?;
        let mut count = ItemCount {
            lists: repositories.len() as u64,
            ..ItemCount::default()
        };
        let mut is_stored = false;
        for repository in repositories {
            let Some(length) = self.length(kind, repository) else {
                continue;
            };
            // GitHub lists pull requests as issues too.
            let pulls = match kind {
                JobKind::REPO_ISSUES => self.length(JobKind::REPO_PRS, repository),
                _ => None,
            };
            let pulls = pulls.and_then(|length| length.items).unwrap_or(0);
            count.items += length.items.unwrap_or(0).saturating_sub(pulls);
            count.lists_known += 1;
            is_stored |= length.is_known;
        }
        // The store tells the number of all repositories that runs have read.
        let stored = self.documents.get(kind.document()).copied();
        count.items += stored.filter(|_| is_stored).unwrap_or(0);
        Some(count)
    }

    fn length(&self, kind: JobKind, repository: &Repository) -> Option<Length> {
        let key = (kind, format!("repo:{}", repository.id));
        self.by_list.get(&key).copied()
    }
}

/// Pages of a list; a list without items is one page.
pub(super) fn pages(items: u64, size: u32) -> u64 {
    items.div_ceil(u64::from(size.max(1))).max(1)
}

/// Requests of a list if all of its pages have changed.
pub(super) fn most(walk: Walk, pages: u64) -> u64 {
    match walk {
        // A list of several pages that has changed is read again.
        Walk::Whole | Walk::Events if pages > 1 => 2 * pages,
        // The first page tells where the next run begins.
        Walk::Newest(_) if pages > 1 => 2 * pages + 1,
        Walk::Whole | Walk::Newest(_) | Walk::Events => 1,
        // Each request repeats the last item of the one before, and the last one may show that nothing
        // follows.
        Walk::Updated => pages + pages.div_ceil(50),
        // The newest page, and the comparison of two heads.
        Walk::Commits => pages + 2,
    }
}
