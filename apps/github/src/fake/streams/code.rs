//! Renders releases, tags, branches, labels, milestones, deployments, comments on commits,
//! languages and the details of commits.

use serde_json::{Value, json};

use super::Entry;
use super::talk::{association, no_reactions};
use crate::fake::render::date;
use crate::fake::world::World;

const COLORS: [&str; 6] = ["d73a4a", "0075ca", "cfd3d7", "a2eeef", "7057ff", "008672"];
const LANGUAGES: [&str; 4] = ["Rust", "Shell", "TypeScript", "HTML"];
const DAY: i64 = 86_400;

impl World {
    pub(super) fn render_release(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let (root, html, tag) = (self.root(at), self.html_root(at), tag_name(entry));
        let url = format!("{root}/releases/{id}");
        let asset = format!("{tag}.tar.gz");
        let published = date(entry.created);
        let author = self.actor_account(id);
        json!({
            "id": id,
            "node_id": format!("RE_{id}"),
            "url": url,
            "html_url": format!("{html}/releases/tag/{tag}"),
            "assets_url": format!("{url}/assets"),
            "upload_url": format!("{url}/assets{{?name,label}}"),
            "tarball_url": format!("{root}/tarball/{tag}"),
            "zipball_url": format!("{root}/zipball/{tag}"),
            "tag_name": tag,
            "target_commitish": "main",
            "name": format!("Release {tag}"),
            "body": self.words(40, at, entry, 60),
            "draft": false,
            "prerelease": entry.serial.is_multiple_of(4),
            "immutable": false,
            "created_at": published,
            "updated_at": date(entry.updated),
            "published_at": published,
            "author": author,
            "assets": [{
                "id": id,
                "node_id": format!("RA_{id}"),
                "url": format!("{root}/releases/assets/{id}"),
                "browser_download_url": format!("{html}/releases/download/{tag}/{asset}"),
                "name": asset,
                "label": "",
                "state": "uploaded",
                "content_type": "application/gzip",
                "size": 1_000 + id % 100_000,
                "download_count": entry.revision,
                "created_at": published,
                "updated_at": published,
                "uploader": author,
            }],
        })
    }

    pub(super) fn render_tag(&self, at: usize, entry: &Entry) -> Value {
        let (root, name) = (self.root(at), tag_name(entry));
        json!({
            "name": name,
            "node_id": format!("REF_{}", self.entry_id(at, entry)),
            "commit": self.commit_link(at, entry.parent as usize),
            "zipball_url": format!("{root}/zipball/refs/tags/{name}"),
            "tarball_url": format!("{root}/tarball/refs/tags/{name}"),
        })
    }

    pub(in crate::fake) fn render_main_branch(&self, at: usize) -> Value {
        let head = self.repositories[at].history.head();
        head.map_or(Value::Null, |head| self.render_branch(at, "main", head))
    }

    pub(super) fn render_branch(&self, at: usize, name: &str, commit: usize) -> Value {
        let is_protected = name == "main";
        let level = if is_protected { "non_admins" } else { "off" };
        json!({
            "name": name,
            "commit": self.commit_link(at, commit),
            "protected": is_protected,
            "protection": {
                "enabled": is_protected,
                "required_status_checks": {
                    "enforcement_level": level,
                    "contexts": [],
                    "checks": [],
                },
            },
            "protection_url": format!("{}/branches/{name}/protection", self.root(at)),
        })
    }

    fn commit_link(&self, at: usize, n: usize) -> Value {
        let sha = self.sha(at, n);
        json!({ "sha": sha, "url": format!("{}/commits/{sha}", self.root(at)) })
    }

    pub(super) fn render_label(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let name = format!("area-{}", entry.serial);
        json!({
            "id": id,
            "node_id": format!("LA_{id}"),
            "url": format!("{}/labels/{name}", self.root(at)),
            "name": name,
            "description": self.words(41, at, entry, 5),
            "color": COLORS[(entry.serial % 6) as usize],
            "default": false,
        })
    }

    /// An odd number of changes closes it.
    pub(super) fn render_milestone(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let url = format!("{}/milestones/{}", self.root(at), entry.serial);
        json!({
            "id": id,
            "node_id": format!("MI_{id}"),
            "url": url,
            "html_url": format!("{}/milestone/{}", self.html_root(at), entry.serial),
            "labels_url": format!("{url}/labels"),
            "number": entry.serial,
            "state": if is_closed(entry) { "closed" } else { "open" },
            "title": format!("Milestone {}", entry.serial),
            "description": self.words(42, at, entry, 12),
            "creator": self.actor_account(id),
            "open_issues": id % 9,
            "closed_issues": id % 31,
            "created_at": date(entry.created),
            "updated_at": date(entry.updated),
            "closed_at": is_closed(entry).then(|| date(entry.updated)),
            "due_on": date(due(entry)),
        })
    }

    pub(super) fn render_deployment(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let url = format!("{}/deployments/{id}", self.root(at));
        let environment = ["production", "staging"][(entry.serial % 2) as usize];
        json!({
            "id": id,
            "node_id": format!("DE_{id}"),
            "url": url,
            "sha": self.sha(at, entry.parent as usize),
            "ref": "main",
            "task": "deploy",
            "payload": {},
            "original_environment": environment,
            "environment": environment,
            "description": self.words(43, at, entry, 6),
            "creator": self.actor_account(id),
            "created_at": date(entry.created),
            "updated_at": date(entry.updated),
            "statuses_url": format!("{url}/statuses"),
            "repository_url": self.root(at),
            "transient_environment": false,
            "production_environment": environment == "production",
            "performed_via_github_app": null,
        })
    }

    pub(super) fn render_commit_comment(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let sha = self.sha(at, entry.parent as usize);
        let url = format!("{}/comments/{id}", self.root(at));
        json!({
            "id": id,
            "node_id": format!("CC_{id}"),
            "url": url,
            "html_url": format!("{}/commit/{sha}#commitcomment-{id}", self.html_root(at)),
            "body": self.words(44, at, entry, 25),
            "path": path(id),
            "position": 1 + id % 40,
            "line": 1 + id % 90,
            "commit_id": sha,
            "user": self.actor_account(id),
            "created_at": date(entry.created),
            "updated_at": date(entry.updated),
            "author_association": association(entry),
            "reactions": no_reactions(&url),
        })
    }

    /// Every commit adds to the first language.
    pub(in crate::fake) fn render_languages(&self, at: usize) -> Value {
        let repository = &self.repositories[at];
        let commits = repository.history.listed().len();
        let mut body = json!({});
        if commits == 0 || !self.has_streams {
            return body;
        }
        for n in 0..1 + repository.id as usize % LANGUAGES.len() {
            let bytes = 10_000 / (n + 1) + if n == 0 { commits * 40 } else { 0 };
            body[LANGUAGES[n]] = json!(bytes);
        }
        body
    }

    pub(in crate::fake) fn render_commit_detail(&self, at: usize, n: usize) -> Value {
        let mut body = self.render_commit(at, n);
        let sha = self.sha(at, n);
        let key = (at as u64) << 32 | n as u64;
        let mut rng = self.rng(45, key);
        let (mut additions, mut deletions) = (0, 0);
        let few = 1 + rng.next_u64() % 3;
        let many = self.files.get(&(at, n));
        let files = many.map_or(few, |many| *many as u64);
        let files = (0..files).map(|file| {
            let (added, deleted) = (rng.next_u64() % 90, rng.next_u64() % 30);
            additions += added;
            deletions += deleted;
            let name = match many {
                Some(_) => format!("src/part_{file:04}.rs"),
                None => path(key + file),
            };
            json!({
                "sha": self.digits(46, key * 4 + file),
                "filename": name,
                "status": "modified",
                "additions": added,
                "deletions": deleted,
                "changes": added + deleted,
                "blob_url": format!("{}/blob/{sha}/{name}", self.html_root(at)),
                "raw_url": format!("{}/raw/{sha}/{name}", self.html_root(at)),
                "contents_url": format!("{}/contents/{name}?ref={sha}", self.root(at)),
                "patch": format!("@@ -1,{deleted} +1,{added} @@ {}", self.text(47, key + file, 12)),
            })
        });
        let files: Vec<Value> = files.collect();
        body["files"] = json!(files);
        body["stats"] = json!({
            "total": additions + deletions,
            "additions": additions,
            "deletions": deletions,
        });
        body
    }
}

pub(super) fn tag_name(entry: &Entry) -> String {
    format!("v1.{}.0", entry.serial)
}

pub(super) fn is_closed(milestone: &Entry) -> bool {
    !milestone.revision.is_multiple_of(2)
}

pub(super) fn due(milestone: &Entry) -> i64 {
    milestone.created + 90 * DAY
}

/// The path of some file.
pub(super) fn path(key: u64) -> String {
    format!("src/part_{}.rs", key % 40)
}

/// Adds all fields of `more`.
pub(super) fn extend(body: &mut Value, more: Value) {
    if let (Value::Object(body), Value::Object(more)) = (body, more) {
        body.extend(more);
    }
}
