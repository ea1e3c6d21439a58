//! The streams: what can be collected, one row each.
//!
//! A row says where a stream is read, how its items are named, and how a run finds what changed
//! since the last one. One more stream is one more row here and one schema in `schema`.

#[cfg(test)]
mod reference;
mod table;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::InvalidText;
use table::{COUNT, STREAMS};

/// What a job of a stream belongs to, and so what creates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The run: its first jobs.
    Run,
    /// The user, when the user has been read.
    User,
    /// The user, if it is an organization.
    Organization,
    /// A run whose repositories are found by a search.
    Search,
    /// Each repository of the user.
    Repository,
    /// Each item of these streams that is new or has changed.
    Item(&'static [&'static str]),
}

/// The budget that a request is counted in. GitHub counts searches apart: 30 a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bucket {
    /// Plain requests.
    Core,
    /// Searches.
    Search,
}

impl Bucket {
    /// GitHub's name of it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Search => "search",
        }
    }
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One document.
    One,
    /// A list.
    List,
    /// An object whose member of this name is the list.
    ListIn(&'static str),
}

/// What names an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// GitHub's id, which no other item of this kind has.
    Id,
    /// The value at this JSON pointer, which is unique within a repository or a user only.
    Within(&'static str),
    /// An entry of an issue's timeline. Not every sort of entry has an id.
    Entry,
    /// The repository has one item.
    OnlyOne,
}

/// How a run finds what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    /// Every page is asked for, with its ETag.
    Whole,
    /// From the latest known change on: oldest change first, with `since`.
    Updated,
    /// Newest first, until known items appear. The duration is how long an item can change after
    /// its place in the order was fixed.
    Newest(Duration),
    /// Events: newest first until the newest known one. The API forgets old ones; they are kept.
    Events,
    /// From the head of the default branch to the known head.
    Commits,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The event type of its operations.
    pub(crate) name: &'static str,
    /// The kind of its documents.
    pub(crate) document: &'static str,
    pub(crate) owner: Owner,
    /// With `{login}`, `{repo}` (owner and name) and `{item}`.
    pub(crate) path: &'static str,
    pub(crate) query: &'static str,
    pub(crate) shape: Shape,
    pub(crate) key: Key,
    pub(crate) walk: Walk,
    /// The form of the answer, if it is not the usual one.
    pub(crate) accept: Option<&'static str>,
    /// The API gives a part of the list: what it does not hold need not be gone.
    pub(crate) is_part: bool,
    /// The most entries of the list that the API gives.
    pub(crate) cap: Option<u64>,
    /// The member of a document whose entries the API pages.
    pub(crate) parts: Option<&'static str>,
    /// The query of a list that is read whole although it is not read so otherwise: in the order in
    /// which its items were created.
    pub(crate) by_creation: Option<&'static str>,
    /// The list is in the order in which its items were created, and begins with the newest.
    pub(crate) is_newest_first: bool,
    /// Statuses that mean an empty list.
    pub(crate) nothing: &'static [u16],
    /// Collected unless the settings say otherwise.
    pub(crate) is_default: bool,
}

/// A stream, named like its operations: `repo_issues`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKind(u8);

impl JobKind {
    /// The user.
    pub const USER_BASIC: Self = Self(0);
    /// The user's events.
    pub const USER_EVENTS: Self = Self(1);
    /// The repositories that the user owns.
    pub const USER_REPOS: Self = Self(2);
    /// Issues of a repository.
    pub const REPO_ISSUES: Self = Self(3);
    /// Pull requests of a repository.
    pub const REPO_PRS: Self = Self(4);
    /// Commits of a repository.
    pub const REPO_COMMITS: Self = Self(5);

    /// The search for repositories, whose results are read and not stored.
    pub(crate) const SEARCH: Self = Self(6);

    /// Every stream.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COUNT).filter_map(|at| u8::try_from(at).ok()).map(Self)
    }

    /// The streams that are collected unless the settings say otherwise.
    pub fn defaults() -> impl Iterator<Item = Self> {
        Self::all().filter(|kind| kind.is_default())
    }

    /// Whether it is collected unless the settings say otherwise.
    pub fn is_default(self) -> bool {
        self.stream().is_default
    }

    pub(crate) fn stream(self) -> &'static Stream {
        &STREAMS[usize::from(self.0)]
    }

    /// The event type of its operations.
    pub fn as_str(self) -> &'static str {
        self.stream().name
    }

    /// The kind of its documents.
    pub fn document(self) -> &'static str {
        self.stream().document
    }

    /// Finds a stream by the name of its operations or of its documents.
    pub fn named(text: &str) -> Result<Self, InvalidText> {
        let is_it = |kind: &Self| kind.as_str() == text || kind.document() == text;
        let names = || {
            let all = Self::all().filter(|kind| kind.is_selectable());
            all.map(Self::document).collect::<Vec<_>>()
        };
        let wrong = || {
            let names = names().join(", ");
            InvalidText(format!("there is no stream {text:?}; use some of {names}"))
        };
        Self::all().find(is_it).ok_or_else(wrong)
    }

    /// The streams whose items it belongs to.
    pub(crate) fn parents(self) -> impl Iterator<Item = Self> {
        let names = match self.stream().owner {
            Owner::Item(names) => names,
            _ => &[],
        };
        Self::all().filter(|kind| names.contains(&kind.as_str()))
    }

    /// The budget of its requests.
    pub(crate) fn bucket(self) -> Bucket {
        match self.stream().owner {
            Owner::Search => Bucket::Search,
            _ => Bucket::Core,
        }
    }

    /// Whether it can be selected: a search is no stream of documents.
    pub fn is_selectable(self) -> bool {
        self.stream().owner != Owner::Search
    }

    /// Whether its jobs name a repository.
    pub(crate) fn is_of_repository(self) -> bool {
        matches!(self.stream().owner, Owner::Repository | Owner::Item(_))
    }

    /// Whether its list can be bounded by the time of its items.
    pub(crate) fn is_dated(self) -> bool {
        self.stream().walk != Walk::Whole
    }

    /// Whether the next run continues where this one ended.
    pub(crate) fn has_cursor(self) -> bool {
        self.stream().walk != Walk::Whole
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JobKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for JobKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::named(&text).map_err(serde::de::Error::custom)
    }
}

/// The streams of these names; `all` stands for every stream, and no name for the usual ones.
pub fn selected(names: &[String]) -> Result<Vec<JobKind>, InvalidText> {
    if names.is_empty() {
        return Ok(JobKind::defaults().collect());
    }
    let mut all = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => all.extend(JobKind::all().filter(|kind| kind.is_selectable())),
            name => all.push(JobKind::named(name)?),
        }
    }
    all.retain(|kind| kind.is_selectable());
    all.sort();
    all.dedup();
    Ok(all)
}

/// The selected streams, and those that they need: a repository's streams need the list of
/// repositories, and a stream of items needs the items.
pub fn with_needed(selected: &[JobKind]) -> Vec<JobKind> {
    let mut all = selected.to_vec();
    all.extend(selected.iter().flat_map(|kind| kind.parents()));
    if all.iter().any(|kind| kind.is_of_repository()) {
        all.push(JobKind::USER_REPOS);
    }
    // Tells whether the user exists, and whether it is an organization.
    all.push(JobKind::USER_BASIC);
    all.retain(|kind| kind.is_selectable());
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_has_its_own_names_and_a_place() {
        for kind in JobKind::all() {
            let (stream, name) = (kind.stream(), kind.as_str());
            assert_eq!(JobKind::named(name).ok(), Some(kind));
            let of_document = JobKind::named(kind.document()).ok();
            assert_eq!(of_document == Some(kind), kind.is_selectable(), "{name}");
            assert_eq!(
                stream.path.contains("{repo}"),
                kind.is_of_repository(),
                "{name}"
            );
            let is_of_item = matches!(stream.owner, Owner::Item(_));
            assert_eq!(stream.path.contains("{item}"), is_of_item, "{name}");
            assert_eq!(kind.parents().count() > 0, is_of_item, "{name}");
            assert!(!is_of_item || stream.walk == Walk::Whole, "{name}");
        }
        let names = [
            (JobKind::USER_BASIC, "user_basic"),
            (JobKind::USER_EVENTS, "user_events"),
            (JobKind::USER_REPOS, "user_repos"),
            (JobKind::REPO_ISSUES, "repo_issues"),
            (JobKind::REPO_PRS, "repo_prs"),
            (JobKind::REPO_COMMITS, "repo_commits"),
        ];
        assert_eq!(JobKind::SEARCH.as_str(), "repo_search");
        for (kind, name) in names {
            assert_eq!(kind.as_str(), name);
        }
        assert!(JobKind::defaults().eq(names.map(|(kind, _)| kind)));
    }

    #[test]
    fn a_stream_brings_what_it_needs() {
        let review = JobKind::named("review").expect("a stream");
        let all = with_needed(&[review]);
        for needed in [JobKind::USER_BASIC, JobKind::USER_REPOS, JobKind::REPO_PRS] {
            assert!(all.contains(&needed), "{needed}");
        }
        assert_eq!(with_needed(&[]), [JobKind::USER_BASIC]);
        let names =
            |names: &[&str]| selected(&names.iter().map(|one| (*one).into()).collect::<Vec<_>>());
        assert!(
            names(&[])
                .expect("the usual")
                .into_iter()
                .eq(JobKind::defaults())
        );
        assert!(
            names(&["review", "all"])
                .expect("all")
                .into_iter()
                .eq(JobKind::all().filter(|kind| kind.is_selectable()))
        );
        let wrong = names(&["reviews"]).expect_err("no such stream").to_string();
        assert!(
            wrong.contains("\"reviews\"; use some of user, event"),
            "{wrong}"
        );
    }
}
