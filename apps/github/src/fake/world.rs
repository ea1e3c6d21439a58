//! The data of the fake: small records, from which documents are rendered on demand.

use std::collections::BTreeMap;

use serde_json::Value;

use super::history::History;
use super::kind::Kind;
use super::streams::{Organization, Streams};

/// The size of a generated world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// Number of users, at least one.
    pub users: usize,
    /// Number of repositories; the users own them in turn.
    pub repositories: usize,
    /// Number of users, repositories, issues, pull requests, commits and events together.
    pub documents: usize,
}

impl Size {
    /// Three users, forty repositories, twenty thousand documents.
    pub fn demo() -> Self {
        Self {
            users: 3,
            repositories: 40,
            documents: 20_000,
        }
    }
}

/// Users, their repositories and everything in them.
///
/// - The same seed, size and changes give the same world.
/// - Only times, states and counters are stored; texts are generated from the seed on demand.
#[derive(Debug, Clone)]
pub struct World {
    pub(super) seed: u64,
    pub(super) users: Vec<User>,
    pub(super) repositories: Vec<Repository>,
    /// The time of the latest change, in seconds.
    pub(super) latest: i64,
    /// A fake moves `latest` to the present of its clock.
    pub(super) follows_clock: bool,
    pub(super) events: u64,
    /// It was generated with further streams.
    pub(super) has_streams: bool,
    pub(super) organization: Option<Organization>,
    /// Numbers of files of commits, by repository and position, that have more than a few.
    pub(super) files: BTreeMap<(usize, usize), usize>,
    /// The most that lists show, by the last segment of their path.
    pub(super) shown: BTreeMap<String, usize>,
    /// A repository in which something happens with each request.
    pub(super) busy: Option<String>,
    /// Earlier names of renamed and transferred repositories, in lower case.
    pub(super) moved: BTreeMap<String, usize>,
}

#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) login: String,
    pub(super) id: u64,
    pub(super) created: i64,
    pub(super) updated: i64,
    /// Oldest first.
    pub(super) events: Vec<Event>,
}

#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) serial: u64,
    pub(super) at: i64,
    pub(super) repository: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Repository {
    pub(super) id: u64,
    pub(super) owner: usize,
    pub(super) name: String,
    /// Its first full name: events keep it after a rename or transfer.
    pub(super) first_name: String,
    pub(super) has_issues: bool,
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) pushed: i64,
    /// Issues and pull requests; the number is the index plus one.
    pub(super) issues: Vec<Issue>,
    pub(super) history: History,
    pub(super) streams: Streams,
    pub(super) is_deleted: bool,
    pub(super) is_private: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Issue {
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) closed: Option<i64>,
    pub(super) revision: u32,
    pub(super) comments: u32,
    pub(super) review_comments: u32,
    pub(super) is_pull: bool,
    pub(super) is_deleted: bool,
}

impl Issue {
    pub(super) fn open(created: i64, is_pull: bool) -> Self {
        Self {
            created,
            updated: created,
            closed: None,
            revision: 0,
            comments: (created.unsigned_abs() % 17) as u32,
            review_comments: 0,
            is_pull,
            is_deleted: false,
        }
    }
}

/// A document that a complete collection contains.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its kind.
    pub kind: Kind,
    /// The login of its user.
    pub user: String,
    /// `user:LOGIN`, or `repo:OWNER/NAME` with the current name.
    pub resource: String,
    /// The document as the API sends it.
    pub body: Value,
}

/// Identifies a document in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentRef {
    User(usize),
    Event(usize, usize),
    Repository(usize),
    Issue(usize, usize),
    Pull(usize, usize),
    Commit(usize, usize),
    PullDetail(usize, usize),
    CommitDetail(usize, usize),
    BranchCommit(usize, usize),
    /// An entry of a stream, by repository, kind and position.
    Entry(usize, Kind, usize),
    /// What an entry of another kind is in the timeline of its issue.
    Timeline(usize, Kind, usize),
    /// The commit of a pull request, in its timeline.
    PullCommit(usize, usize),
    /// The branch that the head belongs to.
    MainBranch(usize),
    /// A user with this many commits.
    Contributor(usize, usize, usize),
    Languages(usize),
    /// The organisation of a user.
    Organization(usize),
    Member(usize),
    /// A team of the organisation, by position.
    Team(usize),
}

/// The repository that a name leads to.
pub(super) enum Found {
    Here(usize),
    /// The repository has another name now.
    Moved(usize),
}

impl World {
    pub(super) fn empty(seed: u64, start: i64) -> Self {
        Self {
            seed,
            users: Vec::new(),
            repositories: Vec::new(),
            latest: start,
            follows_clock: false,
            events: 0,
            has_streams: false,
            organization: None,
            files: BTreeMap::new(),
            shown: BTreeMap::new(),
            busy: None,
            moved: BTreeMap::new(),
        }
    }

    /// All documents that exist now; of the commits, those that the head reaches.
    ///
    /// The API shows only a user's 300 newest events. Older ones are included here, for a collector
    /// that read them in time.
    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        self.places().map(|place| self.item(place))
    }

    /// Number of documents.
    pub fn documents(&self) -> usize {
        self.places().count()
    }

    /// The users' logins.
    pub fn logins(&self) -> Vec<String> {
        self.users.iter().map(|user| user.login.clone()).collect()
    }

    /// The current full names of the repositories.
    pub fn full_names(&self) -> Vec<String> {
        self.existing().map(|(at, _)| self.full_name(at)).collect()
    }

    pub(super) fn full_name(&self, index: usize) -> String {
        let repository = &self.repositories[index];
        format!("{}/{}", self.users[repository.owner].login, repository.name)
    }

    /// The case of names is ignored, as at GitHub.
    pub(super) fn find(&self, full_name: &str) -> Option<Found> {
        let (owner, name) = full_name.split_once('/')?;
        let owner = self.user(owner)?;
        let is_it = |repository: &Repository| {
            repository.owner == owner && repository.name.eq_ignore_ascii_case(name)
        };
        let mut existing = self.existing();
        if let Some((at, _)) = existing.find(|(_, repository)| is_it(repository)) {
            return Some(Found::Here(at));
        }
        let moved = self.moved.get(&full_name.to_lowercase());
        moved.copied().map(Found::Moved)
    }

    /// The repositories that are not deleted.
    pub(super) fn existing(&self) -> impl Iterator<Item = (usize, &Repository)> {
        let all = self.repositories.iter().enumerate();
        all.filter(|(_, repository)| !repository.is_deleted)
    }

    pub(super) fn user(&self, login: &str) -> Option<usize> {
        let mut users = self.users.iter();
        users.position(|user| user.login.eq_ignore_ascii_case(login))
    }

    fn places(&self) -> impl Iterator<Item = DocumentRef> + '_ {
        let users = self.users.iter().enumerate().flat_map(|(at, user)| {
            let events = (0..user.events.len()).map(move |n| DocumentRef::Event(at, n));
            let itself = std::iter::once(DocumentRef::User(at));
            itself.chain(events).chain(self.places_of_user(at))
        });
        users.chain(self.existing().flat_map(|(at, repository)| {
            let issues = repository.issues.iter().enumerate();
            let issues = issues.filter(|(_, issue)| !issue.is_deleted);
            let issues = issues.map(move |(n, issue)| match issue.is_pull {
                true => DocumentRef::Pull(at, n),
                false => DocumentRef::Issue(at, n),
            });
            let listed = repository.history.listed();
            let commits = (0..listed.len()).map(move |n| DocumentRef::Commit(at, listed[n]));
            let itself = std::iter::once(DocumentRef::Repository(at));
            let streams = self.places_of_streams(at);
            itself.chain(issues).chain(commits).chain(streams)
        }))
    }

    fn item(&self, place: DocumentRef) -> Item {
        let of_user = |kind, user: usize| {
            let login = &self.users[user].login;
            (kind, login.clone(), format!("user:{login}"))
        };
        let of_repository = |kind, at: usize| {
            let login = self.users[self.repositories[at].owner].login.clone();
            (kind, login, format!("repo:{}", self.full_name(at)))
        };
        let of_organization = |kind| {
            let organization = self.organization.as_ref();
            of_user(kind, organization.map_or(0, |one| one.user))
        };
        let (kind, user, resource) = match place {
            DocumentRef::User(user) => of_user(Kind::User, user),
            DocumentRef::Event(user, _) => of_user(Kind::Event, user),
            DocumentRef::Repository(at) => of_user(Kind::Repository, self.repositories[at].owner),
            DocumentRef::Issue(at, _) => of_repository(Kind::Issue, at),
            DocumentRef::Pull(at, _) => of_repository(Kind::PullRequest, at),
            DocumentRef::Commit(at, _) => of_repository(Kind::Commit, at),
            DocumentRef::BranchCommit(at, _) => of_repository(Kind::BranchCommit, at),
            DocumentRef::PullDetail(at, _) => of_repository(Kind::PullRequestDetail, at),
            DocumentRef::CommitDetail(at, _) => of_repository(Kind::CommitDetail, at),
            DocumentRef::Entry(at, kind, _) => of_repository(kind, at),
            DocumentRef::Timeline(at, ..) | DocumentRef::PullCommit(at, _) => {
                of_repository(Kind::Timeline, at)
            }
            DocumentRef::MainBranch(at) => of_repository(Kind::Branch, at),
            DocumentRef::Contributor(at, ..) => of_repository(Kind::Contributor, at),
            DocumentRef::Languages(at) => of_repository(Kind::Languages, at),
            DocumentRef::Organization(user) => of_user(Kind::Organization, user),
            DocumentRef::Member(_) => of_organization(Kind::Member),
            DocumentRef::Team(_) => of_organization(Kind::Team),
        };
        Item {
            kind,
            user,
            resource,
            body: self.render(place),
        }
    }
}
