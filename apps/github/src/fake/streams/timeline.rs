//! The timelines of issues and pull requests. They are made of what the issues have anyway: events,
//! comments, reviews, and the commit of a pull request. A reaction stands for a reference by another
//! issue, which has no id of its own, as at GitHub.

use serde_json::{Value, json};

use super::code::extend;
use crate::fake::answer::Ask;
use crate::fake::kind::Kind;
use crate::fake::page::{List, Row};
use crate::fake::render::date;
use crate::fake::world::{DocumentRef, World};

/// Kinds whose entries are in timelines.
const KINDS: [Kind; 4] = [
    Kind::IssueEvent,
    Kind::IssueComment,
    Kind::Review,
    Kind::Reaction,
];

impl World {
    /// The entries of all timelines of a repository.
    pub(super) fn timelines(&self, at: usize) -> Vec<DocumentRef> {
        let repository = &self.repositories[at];
        let entries = KINDS.into_iter().flat_map(|kind| {
            let count = repository.streams.of(kind).len();
            (0..count).map(move |n| DocumentRef::Timeline(at, kind, n))
        });
        let issues = repository.issues.iter().enumerate();
        let pulls = issues.filter(|(_, issue)| issue.is_pull && !issue.is_deleted);
        let commits = pulls.map(|(n, _)| DocumentRef::PullCommit(at, n));
        entries.chain(commits).collect()
    }

    /// An entry as its issue's timeline shows it. Nothing of it ever changes.
    pub(in crate::fake) fn render_timeline(&self, at: usize, kind: Kind, n: usize) -> Value {
        let entry = &self.repositories[at].streams.of(kind)[n];
        let id = self.entry_id(at, entry);
        let created = date(entry.created);
        let mut body = match kind {
            Kind::IssueEvent | Kind::Review => self.render_entry(at, kind, n),
            Kind::IssueComment => json!({
                "id": id,
                "node_id": format!("IC_{id}"),
                "created_at": created,
                "user": self.actor_account(id),
            }),
            _ => json!({
                "created_at": created,
                "updated_at": created,
                "source": { "type": "issue", "issue": { "id": id, "number": entry.serial } },
            }),
        };
        if let Value::Object(body) = &mut body {
            body.remove("issue");
        }
        let event = match kind {
            Kind::IssueEvent => return body,
            Kind::IssueComment => "commented",
            Kind::Review => "reviewed",
            _ => "cross-referenced",
        };
        let actor = self.actor_account(id);
        extend(&mut body, json!({ "event": event, "actor": actor }));
        body
    }

    /// A commit has a hash and no id.
    pub(in crate::fake) fn render_pull_commit(&self, at: usize, n: usize) -> Value {
        let sha = self.pull_sha(at, n);
        let signature = json!({
            "name": "Mona Lisa",
            "email": "mona@example.org",
            "date": date(self.repositories[at].issues[n].created),
        });
        json!({
            "event": "committed",
            "sha": sha,
            "node_id": format!("C_{sha}"),
            "url": format!("{}/git/commits/{sha}", self.root(at)),
            "author": signature,
            "committer": signature,
            "message": self.text(48, n as u64, 8),
            "parents": [],
        })
    }
}

impl Ask<'_> {
    /// The timeline of an issue, by its index; oldest first.
    pub(super) fn timeline(&self, at: usize, path: String, n: usize) -> List {
        let repository = &self.world.repositories[at];
        let rows = self.world.timelines(at).into_iter();
        let rows = rows.filter_map(|place| {
            let key = match place {
                DocumentRef::Timeline(_, kind, entry) => {
                    let entry = repository.streams.of(kind)[entry];
                    (entry.parent == n as u64).then_some((entry.created, entry.serial))
                }
                DocumentRef::PullCommit(_, pull) => {
                    (pull == n).then_some((repository.issues[n].created, 0))
                }
                _ => None,
            };
            key.map(|key| Row { key, place })
        });
        List::new(path, rows.collect(), false)
    }
}
