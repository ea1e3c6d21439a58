//! Renders comments, reviews, reactions and the events of issues, and the details of pull requests.

use serde_json::{Value, json};

use super::Entry;
use super::code::path;
use crate::fake::kind::Kind;
use crate::fake::render::{API, HTML, date};
use crate::fake::world::World;

const ASSOCIATIONS: [&str; 4] = ["OWNER", "MEMBER", "CONTRIBUTOR", "NONE"];
const REACTIONS: [&str; 8] = [
    "+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes",
];
const EVENTS: [&str; 4] = ["closed", "reopened", "labeled", "assigned"];
const REVIEWS: [&str; 3] = ["APPROVED", "COMMENTED", "CHANGES_REQUESTED"];

impl World {
    pub(in crate::fake) fn render_entry(&self, at: usize, kind: Kind, n: usize) -> Value {
        let entry = &self.repositories[at].streams.of(kind)[n];
        match kind {
            Kind::IssueComment => self.render_issue_comment(at, entry),
            Kind::ReviewComment => self.render_review_comment(at, entry),
            Kind::Review => self.render_review(at, entry),
            Kind::IssueEvent => self.render_issue_event(at, entry),
            Kind::Reaction => self.render_reaction(at, entry),
            Kind::Release => self.render_release(at, entry),
            Kind::Tag => self.render_tag(at, entry),
            Kind::Branch => self.render_branch(at, &branch_name(entry), entry.parent as usize),
            Kind::Label => self.render_label(at, entry),
            Kind::Milestone => self.render_milestone(at, entry),
            Kind::Stargazer => self.render_stargazer(at, entry),
            Kind::Workflow => self.render_workflow(at, entry),
            Kind::WorkflowRun => self.render_run(at, entry),
            Kind::WorkflowJob => self.render_job(at, entry),
            Kind::Deployment => self.render_deployment(at, entry),
            Kind::CommitComment => self.render_commit_comment(at, entry),
            // The others have no entries.
            _ => Value::Null,
        }
    }

    /// The id of an entry: unique among those of its kind.
    pub(super) fn entry_id(&self, at: usize, entry: &Entry) -> u64 {
        self.repositories[at].id * 10_000_000 + entry.serial
    }

    /// The API's address of a repository.
    pub(super) fn root(&self, at: usize) -> String {
        format!("{API}/repositories/{}", self.repositories[at].id)
    }

    /// The address of a repository for people.
    pub(super) fn html_root(&self, at: usize) -> String {
        format!("{HTML}/repositories/{}", self.repositories[at].id)
    }

    /// The text of an entry; another one after each change.
    pub(super) fn words(&self, purpose: u64, at: usize, entry: &Entry, count: usize) -> String {
        let purpose = purpose + (u64::from(entry.revision) << 8);
        self.text(purpose, self.entry_id(at, entry), count)
    }

    fn render_issue_comment(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let url = format!("{}/issues/comments/{id}", self.root(at));
        let number = entry.parent + 1;
        json!({
            "id": id,
            "node_id": format!("IC_{id}"),
            "url": url,
            "html_url": format!("{}/issues/{number}#issuecomment-{id}", self.html_root(at)),
            "issue_url": self.url(at, "issues", entry.parent as usize),
            "body": self.words(32, at, entry, 40),
            "user": self.actor_account(id),
            "created_at": date(entry.created),
            "updated_at": date(entry.updated),
            "author_association": association(entry),
            "performed_via_github_app": null,
            "reactions": no_reactions(&url),
        })
    }

    fn render_review_comment(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let url = format!("{}/pulls/comments/{id}", self.root(at));
        let pull = self.url(at, "pulls", entry.parent as usize);
        let number = entry.parent + 1;
        let html = format!("{}/pull/{number}#discussion_r{id}", self.html_root(at));
        let sha = self.pull_sha(at, entry.parent as usize);
        let line = 1 + id % 200;
        let mut body = json!({
            "id": id,
            "node_id": format!("PRRC_{id}"),
            "url": url,
            "html_url": html,
            "pull_request_url": pull,
            "pull_request_review_id": null,
            "diff_hunk": format!("@@ -{line},3 +{line},4 @@ {}", self.text(33, id, 8)),
            "path": path(id),
            "commit_id": sha,
            "original_commit_id": sha,
            "body": self.words(34, at, entry, 30),
            "user": self.actor_account(id),
            "created_at": date(entry.created),
            "updated_at": date(entry.updated),
            "author_association": association(entry),
            "reactions": no_reactions(&url),
        });
        body["_links"] = json!({
            "self": { "href": url },
            "html": { "href": html },
            "pull_request": { "href": pull },
        });
        for name in ["position", "original_position", "line", "original_line"] {
            body[name] = json!(line);
        }
        for name in ["start_line", "original_start_line", "start_side"] {
            body[name] = Value::Null;
        }
        body["side"] = json!("RIGHT");
        body["subject_type"] = json!("line");
        body
    }

    fn render_review(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let number = entry.parent + 1;
        let pull = self.url(at, "pulls", entry.parent as usize);
        let html = format!(
            "{}/pull/{number}#pullrequestreview-{id}",
            self.html_root(at)
        );
        json!({
            "id": id,
            "node_id": format!("PRR_{id}"),
            "user": self.actor_account(id),
            "body": self.words(35, at, entry, 20),
            "state": REVIEWS[(entry.serial % 3) as usize],
            "html_url": html,
            "pull_request_url": pull,
            "author_association": association(entry),
            "_links": { "html": { "href": html }, "pull_request": { "href": pull } },
            "submitted_at": date(entry.created),
            "commit_id": self.pull_sha(at, entry.parent as usize),
        })
    }

    /// Of the issue only what never changes is included, so that an event never does either.
    fn render_issue_event(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let n = entry.parent as usize;
        let issue_id = self.issue_id(at, n);
        let event = EVENTS[(entry.serial % 4) as usize];
        let mut body = json!({
            "id": id,
            "node_id": format!("IE_{id}"),
            "url": format!("{}/issues/events/{id}", self.root(at)),
            "actor": self.actor_account(id),
            "event": event,
            "commit_id": null,
            "commit_url": null,
            "created_at": date(entry.created),
            "issue": {
                "id": issue_id,
                "node_id": format!("I_{issue_id}"),
                "number": entry.parent + 1,
                "url": self.url(at, "issues", n),
                "html_url": format!("{}/issues/{}", self.html_root(at), entry.parent + 1),
            },
            "performed_via_github_app": null,
        });
        match event {
            "labeled" => body["label"] = json!({ "name": "bug", "color": "d73a4a" }),
            "assigned" => {
                body["assignee"] = self.actor_account(id + 1);
                body["assigner"] = self.actor_account(id);
            }
            "closed" => body["state_reason"] = json!("completed"),
            _ => {}
        }
        body
    }

    fn render_reaction(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        json!({
            "id": id,
            "node_id": format!("REA_{id}"),
            "user": self.actor_account(id),
            "content": REACTIONS[(entry.serial % 8) as usize],
            "created_at": date(entry.created),
        })
    }

    pub(in crate::fake) fn render_pull_detail(&self, at: usize, n: usize) -> Value {
        let mut body = self.render_pull(at, n);
        let issue = &self.repositories[at].issues[n];
        let key = self.issue_id(at, n) + (u64::from(issue.revision) << 48);
        let is_merged = !body["merged_at"].is_null();
        let is_open = issue.closed.is_none();
        let merged_by = is_merged.then(|| self.actor_account(key + 1));
        let mut rng = self.rng(36, key);
        let mut upto = |most: u64| 1 + rng.next_u64() % most;
        let (commits, additions, deletions, files) = (upto(9), upto(400), upto(200), upto(12));
        let more = json!({
            "merged": is_merged,
            "mergeable": is_open.then_some(true),
            "rebaseable": is_open.then_some(true),
            "mergeable_state": if is_open { "clean" } else { "unknown" },
            "merged_by": merged_by,
            "comments": issue.comments,
            "review_comments": issue.review_comments,
            "maintainer_can_modify": false,
            "commits": commits,
            "additions": additions,
            "deletions": deletions,
            "changed_files": files,
        });
        super::code::extend(&mut body, more);
        body
    }
}

pub(super) fn branch_name(entry: &Entry) -> String {
    format!("feature-{}", entry.serial)
}

pub(super) fn association(entry: &Entry) -> &'static str {
    ASSOCIATIONS[(entry.serial % 4) as usize]
}

/// The summary of reactions to a comment: nobody reacts to comments here.
pub(super) fn no_reactions(url: &str) -> Value {
    let mut body = json!({ "url": format!("{url}/reactions"), "total_count": 0 });
    for content in REACTIONS {
        body[content] = json!(0);
    }
    body
}
