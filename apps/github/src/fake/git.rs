//! Answers about commits: a list from the head or another commit, and comparisons.

use serde_json::json;

use super::answer::{Ask, EMPTY, not_found, refusal};
use super::page::{List, Paging, Row, read_cursor};
use super::query::Query;
use super::render::API;
use super::world::DocumentRef;
use crate::ApiAnswer;

impl Ask<'_> {
    /// What the head, or the commit in `sha`, reaches. A cursor names the commit that its list
    /// began with, so that a list does not change while it is read by cursors.
    pub(super) fn commits(&self, at: usize, path: String, query: &Query, since: i64) -> ApiAnswer {
        let history = &self.world.repositories[at].history;
        let Some(head) = history.head() else {
            return refusal(409, EMPTY);
        };
        let start = match query.get("sha") {
            None | Some("main") => head,
            Some(sha) => match self.world.commit_by_sha(at, sha) {
                Some(start) => start,
                None => return refusal(404, &format!("No commit found for SHA: {sha}")),
            },
        };
        let cursor = query.get("after").and_then(read_cursor);
        let start = cursor
            .and_then(|(start, _)| usize::try_from(start).ok())
            .filter(|start| self.paging == Paging::Cursors && history.known(*start).is_some())
            .unwrap_or(start);
        let order = history.order(start);
        let listed = order.iter().copied();
        let until = query.get("until").and_then(|until| until.parse().ok());
        let until = until.map_or(i64::MAX, |until: jiff::Timestamp| until.as_second());
        let listed = listed.filter(|n| (since..=until).contains(&history.commit(*n).date));
        self.list(in_order(at, path, start as i64, listed), query)
    }

    /// `BASE...HEAD`, both by hash.
    pub(super) fn compare(&self, at: usize, range: &str, query: &Query) -> ApiAnswer {
        let Some((base, head)) = range.split_once("...") else {
            return not_found();
        };
        let head_of_main = || self.world.repositories[at].history.head();
        let find = |name: &str| match name {
            "main" | "HEAD" => head_of_main(),
            sha => self.world.commit_by_sha(at, sha),
        };
        let (Some(from), Some(to)) = (find(base), find(head)) else {
            return not_found();
        };
        let repository = &self.world.repositories[at];
        let Some(comparison) = repository.history.compare(from, to) else {
            let message = format!("No common ancestor between {base} and {head}.");
            return refusal(404, &message);
        };
        let (ahead, behind) = (comparison.ahead.len(), comparison.behind);
        let status = match (ahead, behind) {
            (0, 0) => "identical",
            (_, 0) => "ahead",
            (0, _) => "behind",
            _ => "diverged",
        };
        let path = format!("/repositories/{}/compare/{range}", repository.id);
        let commit = |n: usize| self.world.render(DocumentRef::Commit(at, n));
        let mut body = json!({
            "url": format!("{API}{path}"),
            "base_commit": commit(from),
            "merge_base_commit": commit(comparison.merge_base),
            "status": status,
            "ahead_by": ahead,
            "behind_by": behind,
            "total_commits": ahead,
            "files": [],
        });
        let list = in_order(at, path, 0, comparison.ahead.into_iter());
        self.list_in(&list, query, Paging::Numbers, |commits| {
            body["commits"] = json!(commits);
            body
        })
    }
}

/// A list in this order; `start` goes into its cursors.
fn in_order(at: usize, path: String, start: i64, commits: impl Iterator<Item = usize>) -> List {
    let rows = commits.enumerate().map(|(position, n)| Row {
        key: (start, position as u64),
        place: DocumentRef::Commit(at, n),
    });
    List::new(path, rows.collect(), false)
}
