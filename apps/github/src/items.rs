//! Converts the items of a page to documents.

use clinch::ports::Document;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::{JobKind, PageJob, Repository};

/// The content of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Items {
    pub(crate) documents: Vec<Document>,
    /// Repositories, if the page lists them.
    pub(crate) repositories: Vec<Repository>,
    /// Time of the latest change.
    pub(crate) latest: Option<String>,
    /// Time of the oldest change.
    pub(crate) oldest: Option<String>,
    /// The id of the first item.
    pub(crate) newest: Option<String>,
    /// Ids of all items.
    pub(crate) ids: Vec<String>,
}

/// The few fields that matter here; everything else is stored as it was sent.
#[derive(Deserialize)]
struct Item {
    id: Option<Value>,
    sha: Option<String>,
    full_name: Option<String>,
    updated_at: Option<String>,
    created_at: Option<String>,
    pull_request: Option<Value>,
    commit: Option<Commit>,
}

#[derive(Deserialize)]
struct Commit {
    committer: Option<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    date: Option<String>,
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

    fn id(&self) -> Option<String> {
        match self.id.as_ref()? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn changed_at(&self) -> Option<&str> {
        let committed = || self.commit.as_ref()?.committer.as_ref()?.date.as_deref();
        self.updated_at
            .as_deref()
            .or(self.created_at.as_deref())
            .or_else(committed)
    }
}

/// Reads the body of a page; `Err` says what is wrong with it.
pub(crate) fn read(job: &PageJob, body: &[u8]) -> Result<Items, String> {
    let no_page = |_| "the answer is not a page of this kind".to_owned();
    let raw: Vec<Box<RawValue>> = match job.kind {
        JobKind::UserBasic => vec![serde_json::from_slice(body).map_err(no_page)?],
        _ => serde_json::from_slice(body).map_err(no_page)?,
    };
    let mut items = Items::default();
    let resource = job.resource();
    for raw in raw {
        let item: Item = serde_json::from_str(raw.get()).map_err(no_page)?;
        let id = match job.kind {
            JobKind::RepoCommits => item.sha.clone(),
            _ => item.id(),
        };
        let id = id.ok_or("an item has no id")?;
        if let Some(at) = item.changed_at() {
            let at = at.to_owned();
            items.latest = items.latest.max(Some(at.clone()));
            items.oldest = Some(items.oldest.map_or(at.clone(), |oldest| oldest.min(at)));
        }
        items.newest.get_or_insert_with(|| id.clone());
        items.ids.push(id.clone());
        if job.kind == JobKind::UserRepos {
            items.repositories.push(repository(&item)?);
        }
        // GitHub lists pull requests as issues too; they are collected as pull requests only.
        if job.kind == JobKind::RepoIssues && item.is_pull() {
            continue;
        }
        items.documents.push(Document {
            id: document_id(job, &id),
            kind: job.kind.document().to_owned(),
            user: job.run_id.login.clone(),
            resource: resource.clone(),
            body: raw.get().to_owned(),
        });
    }
    Ok(items)
}

/// The same thing always has the same id, even if its repository is renamed. Commits of forks have
/// the same hashes, so a commit's id begins with the repository's id.
fn document_id(job: &PageJob, id: &str) -> String {
    let kind = job.kind.document();
    match (&job.repository, job.kind) {
        (Some(repository), JobKind::RepoCommits) => format!("{kind}:{}:{id}", repository.id),
        _ => format!("{kind}:{id}"),
    }
}

fn repository(item: &Item) -> Result<Repository, String> {
    let id = item.id.as_ref().and_then(Value::as_u64);
    let (Some(id), Some(full_name)) = (id, item.full_name.clone()) else {
        return Err("a repository has no id or no name".to_owned());
    };
    let repository = Repository { id, full_name };
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
        };
        PageJob::first(&"octocat.1".parse().expect("a run"), kind, Some(repository))
    }

    #[test]
    fn col_9_documents_are_kept_as_they_were_sent() {
        let body = br#"[{"id": 1.0e0, "number":2,"updated_at":"2026-01-02T00:00:00Z","z":1, "a":2},
            {"id":3,"updated_at":"2026-01-01T00:00:00Z","pull_request":{"url":"x"}},
            {"id":4,"updated_at":"2026-01-01T00:00:00Z","pull_request":{"url":null,"html_url":null}}]"#;
        let items = read(&job(JobKind::RepoIssues), body).expect("a page");
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
        assert_eq!(items.latest.as_deref(), Some("2026-01-02T00:00:00Z"));
        assert_eq!(items.oldest.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(items.documents[0].resource, "repo:octocat/hello");
    }

    #[test]
    fn ids_outlive_a_rename_and_tell_forks_apart() {
        let body = br#"[{"sha":"abc","commit":{"committer":{"date":"2026-01-02T00:00:00Z"}}}]"#;
        let items = read(&job(JobKind::RepoCommits), body).expect("a page");
        assert_eq!(items.documents[0].id, "commit:7:abc");
        assert_eq!(items.latest.as_deref(), Some("2026-01-02T00:00:00Z"));
    }

    #[test]
    fn what_is_no_page_is_said_to_be_none() {
        for body in ["", "[{", "{}", "[1]", r#"[{"no":"id"}]"#] {
            assert!(
                read(&job(JobKind::RepoIssues), body.as_bytes()).is_err(),
                "{body}"
            );
        }
        assert!(read(&job(JobKind::UserRepos), br#"[{"id":1}]"#).is_err());
    }
}
