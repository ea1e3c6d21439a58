//! The further streams of a world: comments, reviews, releases, workflow runs and so on.
//!
//! - Every document is rendered from an [`Entry`], or from what the world has anyway: contributors,
//!   languages and details of pull requests and commits.
//! - A plain world has no entries: its lists are empty.
//! - As elsewhere, a document does not depend on the repository's present name.

mod actions;
mod changes;
mod code;
mod generate;
mod lists;
mod people;
mod places;
mod talk;
mod timeline;

use std::collections::BTreeMap;

use super::kind::Kind;

/// The entries of a repository.
#[derive(Debug, Clone, Default)]
pub(super) struct Streams {
    entries: BTreeMap<Kind, Vec<Entry>>,
    last_serial: u64,
}

/// One document of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Entry {
    /// Identifies it among all entries of the repository. Only a release and its tag share one.
    pub(super) serial: u64,
    /// What it belongs to: an issue or pull request by its index, a commit by its position, a
    /// workflow or workflow run by its serial.
    pub(super) parent: u64,
    /// The commit that a workflow run was started for.
    pub(super) commit: usize,
    pub(super) created: i64,
    pub(super) updated: i64,
    /// How often it was changed.
    pub(super) revision: u32,
}

impl Entry {
    pub(in crate::fake) fn new(parent: u64, created: i64) -> Self {
        Self {
            parent,
            created,
            updated: created,
            ..Self::default()
        }
    }
}

/// The organisation of a world: one of its users.
#[derive(Debug, Clone)]
pub(super) struct Organization {
    pub(super) user: usize,
    /// Users, in the order in which they joined.
    pub(super) members: Vec<usize>,
    pub(super) teams: Vec<Entry>,
}

impl Streams {
    pub(in crate::fake) fn of(&self, kind: Kind) -> &[Entry] {
        self.entries.get(&kind).map_or(&[], Vec::as_slice)
    }

    pub(in crate::fake) fn of_mut(&mut self, kind: Kind) -> &mut Vec<Entry> {
        self.entries.entry(kind).or_default()
    }

    /// Adds an entry under the next serial, which is returned.
    pub(in crate::fake) fn add(&mut self, kind: Kind, entry: Entry) -> u64 {
        self.last_serial += 1;
        let serial = self.last_serial;
        self.of_mut(kind).push(Entry { serial, ..entry });
        serial
    }

    /// Adds a release and its tag.
    pub(in crate::fake) fn release(&mut self, commit: u64, created: i64) {
        let serial = self.add(Kind::Release, Entry::new(commit, created));
        let tag = Entry {
            serial,
            ..Entry::new(commit, created)
        };
        self.of_mut(Kind::Tag).push(tag);
    }

    /// Removes what belongs to a deleted issue or pull request.
    pub(in crate::fake) fn delete_issue(&mut self, n: usize) {
        for kind in [
            Kind::IssueComment,
            Kind::IssueEvent,
            Kind::Reaction,
            Kind::Review,
            Kind::ReviewComment,
        ] {
            self.of_mut(kind).retain(|entry| entry.parent != n as u64);
        }
    }
}
