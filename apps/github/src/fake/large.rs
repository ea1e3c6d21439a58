//! Long lists and large documents, and how far the API shows them.

use clinch::types::Timestamp;
use serde_json::Value;

use super::answer::{Ask, EMPTY, not_found, ok, refusal};
use super::generate::below;
use super::kind::Kind;
use super::page::List;
use super::query::Query;
use super::streams::Entry;
use super::world::{DocumentRef, Found, Issue, World};
use crate::ApiAnswer;

/// Files of one page of a commit, unless the request says less.
const FILES_PER_PAGE: usize = 300;
/// Files of a commit that the API shows.
const FILES_MAX: usize = 3_000;

impl World {
    /// Gives the newest commit of the default branch so many files.
    ///
    /// False: there is no such repository, or it has no commit.
    pub fn set_files(&mut self, full_name: &str, files: usize) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        let Some(head) = self.repositories[at].history.head() else {
            return false;
        };
        self.files.insert((at, head), files);
        true
    }

    /// Lists whose path ends so show this many entries and no more, as GitHub shows 10,000 of
    /// `releases`.
    pub fn show_at_most(&mut self, list: &str, entries: usize) {
        self.shown.insert(list.to_owned(), entries);
    }

    /// Adds releases, stars or deployments, now.
    ///
    /// False: there is no such repository, or it has no commit to release.
    pub fn add(&mut self, full_name: &str, kind: Kind, count: usize) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        let latest = self.latest;
        let repository = &mut self.repositories[at];
        let Some(head) = repository.history.head() else {
            return false;
        };
        for _ in 0..count {
            match kind {
                Kind::Release => repository.streams.release(head as u64, latest),
                _ => repository.streams.append(kind, head as u64, latest),
            }
        }
        true
    }

    /// Opens pull requests, now.
    ///
    /// False: there is no such repository.
    pub fn open_pulls(&mut self, full_name: &str, count: usize) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        let latest = self.latest;
        let opened = (0..count).map(|_| Issue::open(latest, true));
        self.repositories[at].issues.extend(opened);
        true
    }

    /// With each request from now on, something happens in this repository: pull requests and
    /// issues change, and stars, deployments and events are added. `None`: no more.
    pub fn keep_busy(&mut self, full_name: Option<&str>) {
        self.busy = full_name.map(str::to_owned);
    }

    pub(super) fn bustle(&mut self, request: u64, now: Timestamp) {
        let Some(name) = self.busy.clone() else {
            return;
        };
        self.follow(now);
        let Some(Found::Here(at)) = self.find(&name) else {
            return;
        };
        let mut rng = self.rng(60, request);
        let drawn = 1 + below(&mut rng, self.repositories[at].issues.len().max(1) as u64);
        let drawn = usize::try_from(drawn).unwrap_or(1);
        self.touch(&name, drawn);
        if request.is_multiple_of(7) {
            self.open_pulls(&name, 1);
        }
        for kind in [Kind::Stargazer, Kind::Deployment, Kind::IssueEvent] {
            let parent = match kind {
                Kind::IssueEvent => drawn as u64 - 1,
                _ => self.repositories[at].history.head().unwrap_or(0) as u64,
            };
            let latest = self.latest;
            self.repositories[at].streams.append(kind, parent, latest);
        }
    }

    /// Changes an issue or a pull request, now.
    ///
    /// False: there is no such repository or number.
    pub fn touch(&mut self, full_name: &str, number: usize) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        self.latest += 1;
        let latest = self.latest;
        let n = number.wrapping_sub(1);
        match self.repositories[at].issues.get_mut(n) {
            Some(issue) if !issue.is_deleted => {
                issue.updated = latest;
                issue.revision += 1;
                true
            }
            _ => false,
        }
    }
}

impl Ask<'_> {
    /// Cuts a list that the API does not show to its end.
    pub(super) fn cut(&self, mut list: List) -> List {
        let name = list.path.rsplit('/').next().unwrap_or_default();
        if let Some(shown) = self.world.shown.get(name) {
            list.cut(*shown);
        }
        list
    }

    /// A commit with its files: of many, one page.
    pub(super) fn commit(&self, at: usize, sha: &str, path: &str, query: &Query) -> ApiAnswer {
        if self.world.repositories[at].history.is_empty() {
            return refusal(409, EMPTY);
        }
        let Some(n) = self.world.commit_by_sha(at, sha) else {
            return refusal(422, &format!("No commit found for SHA: {sha}"));
        };
        let mut body = self.world.render(DocumentRef::CommitDetail(at, n));
        let Some(files) = body.get_mut("files").and_then(Value::as_array_mut) else {
            return not_found();
        };
        let number = |name: &str| query.get(name).and_then(|text| text.parse().ok());
        let size = number("per_page").unwrap_or(FILES_PER_PAGE);
        let size = size.clamp(1, FILES_PER_PAGE);
        let (page, count) = (
            number("page").unwrap_or(1).max(1),
            files.len().min(FILES_MAX),
        );
        let start = ((page - 1) * size).min(count);
        let end = (start + size).min(count);
        *files = files[start..end].to_vec();
        let mut answer = ok(&body);
        if end < count {
            let origin = self.links.origin(self.base);
            let (next, last) = (page + 1, count.div_ceil(size));
            let link = |page: usize| {
                let query = query.with("page", &page.to_string());
                format!("<{origin}{path}{query}>")
            };
            let links = format!("{}; rel=\"next\", {}; rel=\"last\"", link(next), link(last));
            answer.headers.insert("link".into(), links);
        }
        answer
    }
}

impl super::streams::Streams {
    fn append(&mut self, kind: Kind, parent: u64, created: i64) {
        self.add(kind, Entry::new(parent, created));
    }
}
