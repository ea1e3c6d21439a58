//! The data of the fake: small records, from which documents are rendered on demand.

use std::collections::BTreeMap;

use serde_json::Value;

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
    pub(super) events: u64,
    /// Earlier names of renamed repositories, in lower case.
    moved: BTreeMap<String, usize>,
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
    /// Its first name: events keep it after a rename.
    pub(super) first_name: String,
    pub(super) has_issues: bool,
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) pushed: i64,
    /// Issues and pull requests; the number is the index plus one.
    pub(super) issues: Vec<Issue>,
    /// Time of each commit, oldest first.
    pub(super) commits: Vec<i64>,
}

#[derive(Debug, Clone)]
pub(super) struct Issue {
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) closed: Option<i64>,
    pub(super) revision: u32,
    pub(super) is_pull: bool,
}

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An account.
    User,
    /// An action of a user.
    Event,
    /// A repository.
    Repository,
    /// An issue that is not a pull request.
    Issue,
    /// A pull request.
    PullRequest,
    /// A commit.
    Commit,
}

impl Kind {
    /// Its name: `pull_request`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Event => "event",
            Self::Repository => "repository",
            Self::Issue => "issue",
            Self::PullRequest => "pull_request",
            Self::Commit => "commit",
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
            events: 0,
            moved: BTreeMap::new(),
        }
    }

    /// All documents.
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
        let all = 0..self.repositories.len();
        all.map(|index| self.full_name(index)).collect()
    }

    /// Renames a repository, `OWNER/OLD`. The old name then redirects to the new one.
    ///
    /// False: there is no such repository, or the owner already has one of the new name.
    pub fn rename(&mut self, old: &str, new: &str) -> bool {
        let Some(Found::Here(index)) = self.find(old) else {
            return false;
        };
        let owner = self.users[self.repositories[index].owner].login.clone();
        let wanted = format!("{owner}/{new}");
        if let Some(Found::Here(_)) = self.find(&wanted) {
            return false;
        }
        self.moved.remove(&wanted.to_lowercase());
        self.moved.insert(old.to_lowercase(), index);
        self.latest += 1;
        let repository = &mut self.repositories[index];
        repository.name = new.to_owned();
        repository.updated = self.latest;
        true
    }

    /// Adds commits of these dates (seconds since 1970) to a repository, as a merge of a branch
    /// does: a date may be long past, or in the future.
    ///
    /// False: there is no such repository.
    pub fn merge(&mut self, full_name: &str, dates: &[i64]) -> bool {
        let Some(Found::Here(index)) = self.find(full_name) else {
            return false;
        };
        self.latest += 1;
        let repository = &mut self.repositories[index];
        repository.commits.extend(dates);
        repository.pushed = self.latest;
        repository.updated = self.latest;
        true
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
        if let Some(index) = self.repositories.iter().position(is_it) {
            return Some(Found::Here(index));
        }
        let moved = self.moved.get(&full_name.to_lowercase());
        moved.copied().map(Found::Moved)
    }

    pub(super) fn user(&self, login: &str) -> Option<usize> {
        let mut users = self.users.iter();
        users.position(|user| user.login.eq_ignore_ascii_case(login))
    }

    fn places(&self) -> impl Iterator<Item = DocumentRef> + '_ {
        let users = self.users.iter().enumerate().flat_map(|(at, user)| {
            let events = (0..user.events.len()).map(move |n| DocumentRef::Event(at, n));
            std::iter::once(DocumentRef::User(at)).chain(events)
        });
        let repositories = self.repositories.iter().enumerate();
        users.chain(repositories.flat_map(|(at, repository)| {
            let issues = repository.issues.iter().enumerate();
            let issues = issues.map(move |(n, issue)| match issue.is_pull {
                true => DocumentRef::Pull(at, n),
                false => DocumentRef::Issue(at, n),
            });
            let commits = (0..repository.commits.len()).map(move |n| DocumentRef::Commit(at, n));
            let itself = std::iter::once(DocumentRef::Repository(at));
            itself.chain(issues).chain(commits)
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
        let (kind, user, resource) = match place {
            DocumentRef::User(user) => of_user(Kind::User, user),
            DocumentRef::Event(user, _) => of_user(Kind::Event, user),
            DocumentRef::Repository(at) => of_user(Kind::Repository, self.repositories[at].owner),
            DocumentRef::Issue(at, _) => of_repository(Kind::Issue, at),
            DocumentRef::Pull(at, _) => of_repository(Kind::PullRequest, at),
            DocumentRef::Commit(at, _) => of_repository(Kind::Commit, at),
        };
        Item {
            kind,
            user,
            resource,
            body: self.render(place),
        }
    }
}
