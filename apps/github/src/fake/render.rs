//! Renders documents in the API's format.
//!
//! Addresses inside a document lead to `api.github.com` and name a repository by its id, so that a
//! document does not depend on the fake's address or the repository's name.

use clinch::testing::SplitMix;
use serde_json::{Value, json};

use super::world::{DocumentRef, Event, World};

pub(super) const API: &str = "https://api.github.com";
pub(super) const HTML: &str = "https://github.com";
const WORDS: [&str; 32] = [
    "the",
    "request",
    "timeout",
    "after",
    "retry",
    "when",
    "server",
    "answers",
    "with",
    "a",
    "page",
    "of",
    "results",
    "and",
    "client",
    "should",
    "wait",
    "until",
    "reset",
    "because",
    "token",
    "budget",
    "is",
    "shared",
    "between",
    "processes",
    "which",
    "read",
    "same",
    "cursor",
    "twice",
    "once",
];
const EVENT_TYPES: [&str; 4] = ["PushEvent", "IssuesEvent", "WatchEvent", "CreateEvent"];

impl World {
    pub(super) fn render(&self, place: DocumentRef) -> Value {
        match place {
            DocumentRef::User(user) => self.render_user(user),
            DocumentRef::Event(user, n) => self.render_event(user, &self.users[user].events[n]),
            DocumentRef::Repository(at) => self.render_repository(at),
            DocumentRef::Issue(at, n) => self.render_issue(at, n),
            DocumentRef::Pull(at, n) => self.render_pull(at, n),
            DocumentRef::Commit(at, n) | DocumentRef::BranchCommit(at, n) => {
                self.render_commit(at, n)
            }
            DocumentRef::PullDetail(at, n) => self.render_pull_detail(at, n),
            DocumentRef::CommitDetail(at, n) => self.render_commit_detail(at, n),
            DocumentRef::Entry(at, kind, n) => self.render_entry(at, kind, n),
            DocumentRef::Timeline(at, kind, n) => self.render_timeline(at, kind, n),
            DocumentRef::PullCommit(at, n) => self.render_pull_commit(at, n),
            DocumentRef::MainBranch(at) => self.render_main_branch(at),
            DocumentRef::Contributor(_, user, count) => self.render_contributor(user, count),
            DocumentRef::Languages(at) => self.render_languages(at),
            DocumentRef::Organization(_) => self.render_organization(),
            DocumentRef::Member(user) => self.account(user),
            DocumentRef::Team(n) => self.render_team(n),
        }
    }

    fn render_user(&self, user: usize) -> Value {
        let owned = self.existing();
        let owned = owned.filter(|(_, repository)| repository.owner == user);
        let owned = owned.count();
        let kind = self.account_type(user);
        let user = &self.users[user];
        json!({
            "login": user.login,
            "id": user.id,
            "node_id": format!("U_{}", user.id),
            "url": format!("{API}/users/{}", user.login),
            "type": kind,
            "site_admin": false,
            "public_repos": owned,
            "created_at": date(user.created),
            "updated_at": date(user.updated),
        })
    }

    fn render_event(&self, user: usize, event: &Event) -> Value {
        let actor = &self.users[user];
        let repo = event.repository.map(|at| {
            let repository = &self.repositories[at];
            json!({ "id": repository.id, "name": repository.first_name })
        });
        let kind = EVENT_TYPES[event.serial as usize % EVENT_TYPES.len()];
        json!({
            "id": (40_000_000_000 + event.serial).to_string(),
            "type": kind,
            "actor": { "id": actor.id, "login": actor.login },
            "repo": repo,
            "payload": { "action": "started", "note": self.text(3, event.serial, 20) },
            "public": true,
            "created_at": date(event.at),
        })
    }

    fn render_repository(&self, at: usize) -> Value {
        let repository = &self.repositories[at];
        json!({
            "id": repository.id,
            "node_id": format!("R_{}", repository.id),
            "name": repository.name,
            "full_name": self.full_name(at),
            "owner": self.person(repository.owner),
            "private": repository.is_private,
            "fork": repository.id.is_multiple_of(7),
            "url": format!("{API}/repositories/{}", repository.id),
            "description": self.text(4, repository.id, 10),
            "has_issues": repository.has_issues,
            "default_branch": "main",
            "created_at": date(repository.created),
            "updated_at": date(repository.updated),
            "pushed_at": date(repository.pushed),
        })
    }

    fn render_issue(&self, at: usize, n: usize) -> Value {
        let issue = &self.repositories[at].issues[n];
        let mut body = self.render_shared(at, n);
        let id = self.issue_id(at, n);
        body["id"] = json!(id);
        body["node_id"] = json!(format!("I_{id}"));
        body["url"] = json!(self.url(at, "issues", n));
        body["labels"] = json!([{ "id": 1 + id % 5, "name": WORDS[(id % 32) as usize] }]);
        body["comments"] = json!(issue.comments);
        if issue.is_pull {
            body["pull_request"] = json!({ "url": self.url(at, "pulls", n) });
        }
        body
    }

    pub(super) fn render_pull(&self, at: usize, n: usize) -> Value {
        let issue = &self.repositories[at].issues[n];
        let mut body = self.render_shared(at, n);
        // A pull request and its issue are two things with two ids.
        let id = self.issue_id(at, n) + 1;
        body["id"] = json!(id);
        body["node_id"] = json!(format!("PR_{id}"));
        body["url"] = json!(self.url(at, "pulls", n));
        body["head"] = json!({ "ref": format!("patch-{}", n + 1), "sha": self.pull_sha(at, n) });
        body["base"] = json!({ "ref": "main", "sha": self.sha(at, 0) });
        body["draft"] = json!(false);
        let merged = issue.closed.filter(|_| !n.is_multiple_of(4));
        body["merged_at"] = json!(merged.map(date));
        body
    }

    /// The head of a pull request, which is no commit of the repository.
    pub(super) fn pull_sha(&self, at: usize, n: usize) -> String {
        self.digits(7, self.issue_id(at, n) + 1)
    }

    fn render_shared(&self, at: usize, n: usize) -> Value {
        let issue = &self.repositories[at].issues[n];
        let key = self.issue_id(at, n);
        // An issue's text is one or two kilobytes.
        let words = 180 + (key % 180) as usize;
        json!({
            "number": n + 1,
            "title": self.text(1, key, 6),
            "state": if issue.closed.is_some() { "closed" } else { "open" },
            "locked": false,
            "user": self.person(self.actor(n as u64)),
            "created_at": date(issue.created),
            "updated_at": date(issue.updated),
            "closed_at": issue.closed.map(date),
            "body": self.text(2 + (u64::from(issue.revision) << 8), key, words),
        })
    }

    pub(super) fn render_commit(&self, at: usize, n: usize) -> Value {
        let author = &self.users[self.actor(n as u64)];
        let commit = self.repositories[at].history.commit(n);
        let committed = date(commit.date);
        let sha = self.sha(at, n);
        let parents = commit.parents().map(|parent| {
            let sha = self.sha(at, parent);
            json!({
                "sha": sha,
                "url": self.commit_url(API, "commits", at, &sha),
                "html_url": self.commit_url(HTML, "commit", at, &sha),
            })
        });
        let parents: Vec<Value> = parents.collect();
        let email = format!("{}@example.com", author.login);
        let person = json!({ "name": author.login, "email": email, "date": committed });
        json!({
            "sha": sha,
            "node_id": format!("C_{sha}"),
            "url": self.commit_url(API, "commits", at, &sha),
            "html_url": self.commit_url(HTML, "commit", at, &sha),
            "commit": {
                "message": self.text(5, n as u64 ^ ((at as u64) << 32), 30),
                "author": person,
                "committer": person,
            },
            "author": { "login": author.login, "id": author.id },
            "parents": parents,
        })
    }

    pub(super) fn commit_url(&self, origin: &str, list: &str, at: usize, sha: &str) -> String {
        let id = self.repositories[at].id;
        format!("{origin}/repositories/{id}/{list}/{sha}")
    }

    pub(super) fn issue_id(&self, at: usize, n: usize) -> u64 {
        self.repositories[at].id * 10_000_000 + (n as u64 + 1) * 2
    }

    pub(super) fn url(&self, at: usize, list: &str, n: usize) -> String {
        let id = self.repositories[at].id;
        format!("{API}/repositories/{id}/{list}/{}", n + 1)
    }

    pub(super) fn person(&self, user: usize) -> Value {
        let kind = self.account_type(user);
        let user = &self.users[user];
        json!({ "login": user.login, "id": user.id, "type": kind })
    }

    /// The hash of a commit. Its last eight digits are the commit's position under a mask that
    /// depends on the other digits, so that a commit is found by its hash without an index.
    pub(super) fn sha(&self, at: usize, n: usize) -> String {
        let mut digits = self.digits(6, (at as u64) << 32 | n as u64);
        digits.truncate(32);
        let masked = n as u32 ^ self.sha_mask(&digits);
        digits.push_str(&format!("{masked:08x}"));
        digits
    }

    /// A commit that can be asked for, by its hash in either case.
    pub(super) fn commit_by_sha(&self, at: usize, sha: &str) -> Option<usize> {
        let sha = sha.to_ascii_lowercase();
        let (digits, masked) = sha.split_at_checked(32)?;
        let masked = u32::from_str_radix(masked, 16).ok()?;
        let n = (masked ^ self.sha_mask(digits)) as usize;
        self.repositories[at].history.known(n)?;
        (self.sha(at, n) == sha).then_some(n)
    }

    fn sha_mask(&self, digits: &str) -> u32 {
        let key = digits.bytes().fold(0_u64, |key, byte| {
            key.rotate_left(5).wrapping_mul(31) ^ u64::from(byte)
        });
        self.rng(9, key).next_u64() as u32
    }

    /// Forty hexadecimal digits.
    pub(super) fn digits(&self, purpose: u64, key: u64) -> String {
        let mut rng = self.rng(purpose, key);
        let mut digits = String::with_capacity(48);
        for _ in 0..3 {
            digits.push_str(&format!("{:016x}", rng.next_u64()));
        }
        digits.truncate(40);
        digits
    }

    pub(super) fn text(&self, purpose: u64, key: u64, words: usize) -> String {
        let mut rng = self.rng(purpose, key);
        let mut text = String::with_capacity(words * 7);
        let mut bits = 0;
        for n in 0..words {
            if n % 12 == 0 {
                bits = rng.next_u64();
            }
            if n > 0 {
                text.push(' ');
            }
            text.push_str(WORDS[(bits & 31) as usize]);
            bits >>= 5;
        }
        text
    }

    pub(super) fn rng(&self, purpose: u64, key: u64) -> SplitMix {
        let mut outer = SplitMix::new(self.seed ^ purpose.rotate_left(48));
        SplitMix::new(outer.next_u64() ^ key.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }
}

pub(super) fn date(second: i64) -> String {
    jiff::Timestamp::from_second(second).map_or_else(|_| String::new(), |at| at.to_string())
}
