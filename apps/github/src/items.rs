//! Converts the items of a page to documents.

pub(crate) mod parts;

use clinch::ports::Document;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::model::{History, PageJob, Repository};
use crate::streams::{JobKind, Key, Shape, Walk};

/// Longest id of a document, in bytes: shorter than any store takes.
const DOCUMENT_ID_BYTES_MAX: usize = 200;

/// The content of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Items {
    pub(crate) documents: Vec<Document>,
    pub(crate) rows: Vec<Row>,
    /// Repositories, if the page lists them.
    pub(crate) repositories: Vec<Repository>,
    /// Whether the user is an organization.
    pub(crate) is_organization: bool,
    /// Number of entries in the list of a document that the API gives in parts.
    pub(crate) part: Option<usize>,
    /// Time of the oldest item in the order of the list.
    pub(crate) oldest: Option<String>,
    /// How many repositories a search found, if the page says so.
    pub(crate) found: Option<Found>,
    /// How two commits compare, if the page says so.
    pub(crate) comparison: Option<Comparison>,
}

impl Items {
    /// The newest commits of the branches, if the page lists branches.
    pub(crate) fn heads(&self, kind: JobKind) -> Vec<String> {
        let rows = self.rows.iter().filter(|_| kind.document() == "branch");
        rows.filter_map(|row| row.head.clone()).collect()
    }
}

/// What the walk through the pages needs to know of an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its id, or a commit's hash.
    pub(crate) id: String,
    /// Its number in the repository, if it has one.
    pub(crate) number: Option<u64>,
    /// A pull request in a list of issues.
    pub(crate) is_pull: bool,
    pub(crate) changed_at: Option<String>,
    /// The time that decides its place in the list.
    pub(crate) listed_at: Option<String>,
    /// It is not of the time that the list is bounded to.
    pub(crate) is_outside: bool,
    /// The hashes of a commit's parents.
    pub(crate) parents: Vec<String>,
    /// The newest commit of a branch.
    pub(crate) head: Option<String>,
}

impl Row {
    /// Whether a branch's newest commit is this one.
    pub(crate) fn is_at(&self, commit: &str) -> bool {
        self.head.as_deref() == Some(commit)
    }
}

/// How the head of a branch compares with an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Comparison {
    /// `ahead`, `identical`, `behind` or `diverged`.
    pub(crate) status: String,
    pub(crate) total_commits: u64,
}

/// What a page of search results says of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Found {
    pub(crate) total_count: u64,
    /// The search ran out of time.
    pub(crate) incomplete_results: bool,
}

/// The few fields that matter here; everything else is stored as it was sent.
#[derive(Default, Deserialize)]
struct Item {
    id: Option<Value>,
    number: Option<u64>,
    sha: Option<String>,
    name: Option<String>,
    user: Option<User>,
    node_id: Option<String>,
    event: Option<String>,
    source: Option<Source>,
    full_name: Option<String>,
    default_branch: Option<String>,
    #[serde(rename = "type")]
    account_type: Option<String>,
    updated_at: Option<String>,
    created_at: Option<String>,
    pull_request: Option<Value>,
    commit: Option<Commit>,
    parents: Option<Vec<Parent>>,
}

#[derive(Deserialize)]
struct User {
    id: Option<Value>,
}

/// What refers to an issue.
#[derive(Deserialize)]
struct Source {
    issue: Option<User>,
}

#[derive(Deserialize)]
struct Commit {
    sha: Option<String>,
    committer: Option<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    date: Option<String>,
}

#[derive(Deserialize)]
struct Parent {
    sha: String,
}

impl Item {
    /// Old servers give every issue a `pull_request` whose members are null.
    fn is_pull(&self) -> bool {
        match &self.pull_request {
            Some(Value::Object(members)) => members.values().any(|value| !value.is_null()),
            Some(other) => !other.is_null(),
            None => false,
        }
    }

    fn key(&self, key: Key) -> Option<String> {
        let user_id = || self.user.as_ref()?.id.as_ref();
        match key {
            Key::Id | Key::Within("/id") => text(self.id.as_ref()?),
            Key::Within("/sha") => self.sha.clone(),
            Key::Within("/name") => self.name.clone(),
            // Without its time, a star is the user itself.
            Key::Within(_) => text(user_id().or(self.id.as_ref())?),
            Key::OnlyOne => Some(String::new()),
            Key::Entry => self.entry_key(),
        }
    }

    /// The sort of a timeline's entry, and what tells it from others of its sort: ids of comments,
    /// reviews and events are counted apart, commits have a hash, and references name an issue.
    fn entry_key(&self) -> Option<String> {
        let source = || {
            let issue = self.source.as_ref()?.issue.as_ref()?.id.as_ref()?;
            let at = self.created_at.as_deref().unwrap_or_default();
            Some(format!("{}@{at}", text(issue)?))
        };
        let own = self.id.as_ref().and_then(text).or_else(source);
        let own = own.or_else(|| self.node_id.clone());
        let own = own.or_else(|| self.sha.clone())?;
        Some(format!(
            "{}-{own}",
            self.event.as_deref().unwrap_or("entry")
        ))
    }

    fn changed_at(&self) -> Option<&str> {
        let committed = || self.commit.as_ref()?.committer.as_ref()?.date.as_deref();
        let updated = self.updated_at.as_deref().or(self.created_at.as_deref());
        updated.or_else(committed)
    }

    fn row(&self, id: String) -> Row {
        let parents = self.parents.iter().flatten();
        Row {
            id,
            number: self.number,
            is_pull: self.is_pull(),
            changed_at: self.changed_at().map(str::to_owned),
            listed_at: None,
            is_outside: false,
            parents: parents.map(|parent| parent.sha.clone()).collect(),
            head: self.commit.as_ref().and_then(|commit| commit.sha.clone()),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Reads the body of a page; `Err` says what is wrong with it.
pub(crate) fn read(job: &PageJob, body: &[u8]) -> Result<Items, String> {
    let no_page = |_| "the answer is not a page of this kind".to_owned();
    let mut items = Items::default();
    let raw = match (&job.history, job.kind.stream().shape) {
        (Some(History::Between { .. }), _) => {
            items.comparison = Some(serde_json::from_slice(body).map_err(no_page)?);
            member(body, "commits")?
        }
        // Not a comparison: the whole history of a branch.
        (Some(History::Of(_)), _) => serde_json::from_slice(body).map_err(no_page)?,
        (_, Shape::One) => vec![serde_json::from_slice(body).map_err(no_page)?],
        // An installation's repositories come in an object.
        (_, Shape::List) if job.kind == JobKind::USER_REPOS && body.starts_with(b"{") => {
            member(body, "repositories")?
        }
        (_, Shape::List) => serde_json::from_slice(body).map_err(no_page)?,
        (_, Shape::ListIn(name)) => member(body, name)?,
    };
    if job.kind == JobKind::SEARCH {
        items.found = Some(serde_json::from_slice(body).map_err(no_page)?);
    }
    if let (Some(list), [raw]) = (job.kind.stream().parts, raw.as_slice()) {
        items.part = parts::length(raw.get(), list);
    }
    for raw in raw {
        let item: Item = match job.kind.stream().key {
            // Its members are data, not fields: a language may be called anything.
            Key::OnlyOne => Item::default(),
            _ => serde_json::from_str(raw.get()).map_err(no_page)?,
        };
        add(&mut items, job, &item, &raw)?;
    }
    Ok(items)
}

/// The list in a member of an object.
fn member(body: &[u8], name: &str) -> Result<Vec<Box<RawValue>>, String> {
    let no_page = || "the answer is not a page of this kind".to_owned();
    let members: std::collections::BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(body).map_err(|_| no_page())?;
    let list = members.get(name).ok_or_else(no_page)?;
    serde_json::from_str(list.get()).map_err(|_| no_page())
}

fn add(items: &mut Items, job: &PageJob, item: &Item, raw: &RawValue) -> Result<(), String> {
    let stream = job.kind.stream();
    let id = match (item.key(stream.key), stream.key) {
        (None, Key::Entry) => Some(id_hash(raw.get())),
        (id, _) => id,
    };
    let id = id.ok_or("an item has no id")?;
    let place = match stream.walk {
        // In the order of their beginning, although they change later.
        Walk::Newest(later) if !later.is_zero() => item.created_at.as_deref(),
        _ => item.changed_at(),
    };
    let is_outside = !job.bounds.hold(place);
    if let Some(at) = place.map(str::to_owned) {
        items.oldest = Some(
            items
                .oldest
                .take()
                .map_or(at.clone(), |oldest| oldest.min(at)),
        );
    }
    if matches!(job.kind, JobKind::USER_REPOS | JobKind::SEARCH) {
        items.repositories.push(repository(item)?);
    }
    let is_organization = item.account_type.as_deref() == Some("Organization");
    items.is_organization |= job.kind == JobKind::USER_BASIC && is_organization;
    items.rows.push(Row {
        listed_at: place.map(str::to_owned),
        is_outside,
        ..item.row(id.clone())
    });
    // GitHub lists pull requests as issues too; they are collected as pull requests only. Found
    // repositories are collected by the user's list of them.
    let is_other = job.kind == JobKind::REPO_ISSUES && item.is_pull();
    if is_outside || is_other || job.kind == JobKind::SEARCH {
        return Ok(());
    }
    items.documents.push(Document {
        id: document_id(job, &id),
        kind: stream.document.to_owned(),
        user: job.run_id.login.clone(),
        resource: job.place(),
        body: raw.get().to_owned(),
    });
    Ok(())
}

/// The same thing always has the same id, even if its repository is renamed. What is unique only
/// within a repository or a user has that one's id before its own: forks share commits.
fn document_id(job: &PageJob, id: &str) -> String {
    let stream = job.kind.stream();
    let kind = stream.document;
    let place = match &job.repository {
        Some(repository) => repository.id.to_string(),
        None => job.run_id.login.clone(),
    };
    let id = match stream.key {
        Key::Id => format!("{kind}:{id}"),
        Key::Within(_) => format!("{kind}:{place}:{id}"),
        Key::OnlyOne => format!("{kind}:{place}"),
        // Two pull requests may hold one commit.
        Key::Entry => format!("{kind}:{place}:{}:{id}", job.item.as_deref().unwrap_or("")),
    };
    match id.len() <= DOCUMENT_ID_BYTES_MAX {
        true => id,
        false => format!("{kind}:{place}:{}", hex(&Sha256::digest(id.as_bytes()))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A short name of a document's id: 16 hex digits.
pub(crate) fn id_hash(id: &str) -> String {
    let digest = Sha256::digest(id.as_bytes());
    hex(digest.get(..8).unwrap_or_default())
}

fn repository(item: &Item) -> Result<Repository, String> {
    let id = item.id.as_ref().and_then(Value::as_u64);
    let (Some(id), Some(full_name)) = (id, item.full_name.clone()) else {
        return Err("a repository has no id or no name".to_owned());
    };
    let repository = Repository {
        id,
        full_name,
        default_branch: item.default_branch.clone(),
    };
    repository.names().map_err(|unknown| unknown.to_string())?;
    Ok(repository)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(kind: JobKind) -> PageJob {
        let repository = Repository {
            id: 7,
            full_name: "octocat/hello".to_owned(),
            default_branch: None,
        };
        PageJob::first(&"octocat.1".parse().expect("a run"), kind, Some(repository))
    }

    fn named(name: &str) -> PageJob {
        job(JobKind::named(name).expect("a stream"))
    }

    #[test]
    fn col_9_documents_are_kept_as_they_were_sent() {
        let body = br#"[{"id": 1.0e0, "number":2,"updated_at":"2026-01-02T00:00:00Z","z":1, "a":2},
            {"id":3,"updated_at":"2026-01-01T00:00:00Z","pull_request":{"url":"x"}},
            {"id":4,"updated_at":"2026-01-01T00:00:00Z","pull_request":{"url":null,"html_url":null}}]"#;
        let items = read(&job(JobKind::REPO_ISSUES), body).expect("a page");
        assert_eq!(items.documents.len(), 2, "a pull request is no issue");
        assert_eq!(
            items.documents[1].id, "issue:4",
            "nor is it one without an address"
        );
        assert!(
            items.documents[0]
                .body
                .starts_with(r#"{"id": 1.0e0, "number":2"#)
        );
        let changed_at = |at: usize| items.rows[at].changed_at.as_deref();
        assert_eq!(changed_at(0), Some("2026-01-02T00:00:00Z"));
        assert_eq!(items.oldest.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(items.documents[0].resource, "repo:octocat/hello");
    }

    #[test]
    fn ids_outlive_a_rename_and_tell_forks_apart() {
        let body = br#"[{"sha":"abc","commit":{"committer":{"date":"2026-01-02T00:00:00Z"}},
            "parents":[{"sha":"ab"},{"sha":"b"}]}]"#;
        let items = read(&job(JobKind::REPO_COMMITS), body).expect("a page");
        assert_eq!(items.documents[0].id, "commit:7:abc");
        assert_eq!(items.rows[0].parents, ["ab", "b"]);
        let changed_at = items.rows[0].changed_at.as_deref();
        assert_eq!(changed_at, Some("2026-01-02T00:00:00Z"));
    }

    #[test]
    fn every_shape_of_an_answer_is_read() {
        let runs = br#"{"total_count":1,"workflow_runs":[{"id":5,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-09T00:00:00Z"}]}"#;
        let items = read(&named("workflow_run"), runs).expect("a page");
        assert_eq!(items.documents[0].id, "workflow_run:5");
        let changed_at = items.rows[0].changed_at.as_deref();
        assert_eq!(changed_at, Some("2026-01-09T00:00:00Z"));
        assert_eq!(items.oldest.as_deref(), Some("2026-01-01T00:00:00Z"));
        let languages = read(&named("languages"), br#"{"Rust":10,"name":3,"id":1}"#);
        assert_eq!(languages.expect("one").documents[0].id, "languages:7");
        let star = read(
            &named("stargazer"),
            br#"[{"starred_at":"x","user":{"id":3}},{"id":4}]"#,
        );
        let star = star.expect("a page");
        assert_eq!(star.documents[0].id, "stargazer:7:3");
        assert_eq!(star.documents[1].id, "stargazer:7:4");
        let long = format!(r#"[{{"name":"{}"}}]"#, "x".repeat(300));
        let tag = read(&named("tag"), long.as_bytes()).expect("a page");
        assert!(tag.documents[0].id.len() < 100, "a hash stands for it");
        let compared = PageJob {
            history: Some(History::Between {
                base: "a".to_owned(),
                head: "b".to_owned(),
                read: 0,
            }),
            ..job(JobKind::REPO_COMMITS)
        };
        let body = br#"{"status":"ahead","total_commits":1,"commits":[{"sha":"b"}],"files":[]}"#;
        let items = read(&compared, body).expect("a page");
        assert_eq!(items.documents[0].id, "commit:7:b");
        assert_eq!(items.comparison.expect("told").total_commits, 1);
    }

    #[test]
    fn what_is_no_page_is_said_to_be_none() {
        for body in ["", "[{", "{}", "[1]", r#"[{"no":"id"}]"#] {
            assert!(
                read(&job(JobKind::REPO_ISSUES), body.as_bytes()).is_err(),
                "{body}"
            );
        }
        assert!(read(&job(JobKind::USER_REPOS), br#"[{"id":1}]"#).is_err());
    }
}
