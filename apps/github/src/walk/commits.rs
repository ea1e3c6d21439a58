//! The way through commits: from the head of the default branch to the known head.

use std::collections::BTreeSet;

use clinch::Fail;

use super::{Next, Page, Traversal};
use crate::items::Row;
use crate::model::{History, PageJob};

impl Traversal<'_> {
    pub(super) fn commits(&self, page: &Page<'_>) -> Result<Next, Fail> {
        match &self.job.history {
            None if self.job.page == 1 && self.job.bounds.is_all() => self.newest_commits(page),
            None | Some(History::Of(_)) => match page.link {
                Some(link) => Ok(Next::Job(Box::new(self.following(link)?))),
                None => Ok(Next::End),
            },
            Some(History::Between { base, head, read }) => {
                let read = read + page.count as u64;
                let told = page.comparison;
                let is_rewritten = told.is_some_and(|told| {
                    !matches!(told.status.as_str(), "ahead" | "identical")
                        || (page.link.is_none() && read < told.total_commits)
                });
                if is_rewritten {
                    return Ok(self.all_commits(head));
                }
                let Some(link) = page.link else {
                    return Ok(Next::End);
                };
                let mut next = self.following(link)?;
                next.history = Some(History::Between {
                    base: base.clone(),
                    head: head.clone(),
                    read,
                });
                Ok(Next::Job(Box::new(next)))
            }
        }
    }

    fn newest_commits(&self, page: &Page<'_>) -> Result<Next, Fail> {
        let (Some(link), Some(head)) = (page.link, &self.seen.newest) else {
            return Ok(Next::End);
        };
        let base = self.cursor.and_then(|cursor| cursor.last_cursor.as_ref());
        match base {
            Some(base) if base == head => Ok(Next::End),
            None => {
                // The branch may move while it is read; the commit does not.
                let mut next = self.following(&with_sha(link, head))?;
                next.history = Some(History::Of(head.clone()));
                Ok(Next::Job(Box::new(next)))
            }
            Some(base) if new_commits(page.rows, base).is_some() => Ok(Next::End),
            Some(base) => Ok(Next::Job(Box::new(PageJob {
                seen: self.seen.clone(),
                history: Some(History::Between {
                    base: base.clone(),
                    head: head.clone(),
                    read: 0,
                }),
                ..self.restarted()
            }))),
        }
    }

    /// Reads the whole history of a commit.
    pub(crate) fn all_commits(&self, head: &str) -> Next {
        Next::Job(Box::new(PageJob {
            seen: self.seen.clone(),
            history: Some(History::Of(head.to_owned())),
            ..self.restarted()
        }))
    }
}

/// The commits of a page that `base` is not made of, if the page shows all of them: every way from
/// the first commit leads to `base`, or to a commit that `base` is made of, on this page.
pub(super) fn new_commits<'a>(rows: &'a [Row], base: &str) -> Option<BTreeSet<&'a str>> {
    let find = |hash: &str| rows.iter().find(|row| row.id == hash);
    let reach = |start: &'a Row, known: &BTreeSet<&'a str>| {
        let (mut found, mut open, mut is_complete) = (BTreeSet::new(), vec![start], true);
        while let Some(row) = open.pop() {
            if known.contains(&*row.id) || !found.insert(&*row.id) {
                continue;
            }
            for parent in &row.parents {
                match find(parent) {
                    Some(parent) => open.push(parent),
                    None => is_complete = false,
                }
            }
        }
        (found, is_complete)
    };
    let (known, _) = reach(find(base)?, &BTreeSet::new());
    let (new, is_complete) = reach(rows.first()?, &known);
    is_complete.then_some(new)
}

/// The address, with the commit that the list begins at.
fn with_sha(link: &str, head: &str) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let others = query.split('&').filter(|one| !one.starts_with("sha="));
    let others: Vec<&str> = others.filter(|one| !one.is_empty()).collect();
    format!("{path}?{}&sha={head}", others.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, parents: &[&str]) -> Row {
        Row {
            id: id.to_owned(),
            parents: parents.iter().map(|one| (*one).to_owned()).collect(),
            ..Row::default()
        }
    }

    fn new<'a>(rows: &'a [Row], base: &str) -> Option<Vec<&'a str>> {
        new_commits(rows, base).map(|new| new.into_iter().collect())
    }

    #[test]
    fn col_4_new_commits_are_told_by_their_parents() {
        let line = [row("d", &["c"]), row("c", &["b"]), row("b", &["a"])];
        assert_eq!(new(&line, "b"), Some(vec!["c", "d"]));
        assert_eq!(new(&line, "d"), Some(vec![]));
        assert_eq!(new(&line, "x"), None, "the known head is not on the page");
        // A branch that left before the known head, merged after it: all of it is on the page.
        let merge = [
            row("m", &["c", "y"]),
            row("c", &["b"]),
            row("y", &["x"]),
            row("x", &["b"]),
            row("b", &["a"]),
        ];
        assert_eq!(new(&merge, "c"), Some(vec!["m", "x", "y"]));
        // Some of its commits are older than the page reaches.
        let deep = [row("m", &["c", "y"]), row("c", &["b"]), row("y", &["x"])];
        assert_eq!(new(&deep, "c"), None);
    }

    #[test]
    fn addresses_are_changed_in_one_place_only() {
        let link = "https://api.example/repositories/1/commits?per_page=2&page=2";
        assert_eq!(
            with_sha(link, "abc"),
            "https://api.example/repositories/1/commits?per_page=2&page=2&sha=abc"
        );
    }
}
