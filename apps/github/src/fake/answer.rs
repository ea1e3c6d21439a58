//! Answers a request by its path.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::page::{List, Paging, Row};
use super::query::{Query, Target};
use super::world::{DocumentRef, Found, World};
use crate::ApiAnswer;

/// The API shows only this many of a user's newest events.
const EVENTS_SHOWN: usize = 300;

const DOCUMENTATION: &str = "https://docs.github.com/rest";

/// One request, without its limits and faults.
pub(super) struct Ask<'a> {
    pub(super) world: &'a World,
    /// Origin of the links.
    pub(super) base: &'a str,
    pub(super) paging: Paging,
    /// The account of the token.
    pub(super) account: Option<&'a str>,
    /// Repositories that answer with an error status, by lower-case name.
    pub(super) refused: &'a BTreeMap<String, u16>,
}

impl Ask<'_> {
    pub(super) fn answer(&self, target: &str) -> ApiAnswer {
        let raw_query = target.split_once('?').map_or("", |(_, query)| query);
        let Target { segments, query } = Target::parse(target);
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["user"] => self.own_account(),
            ["users", login] => match self.world.user(login) {
                Some(user) => ok(&self.world.render(DocumentRef::User(user))),
                None => not_found(),
            },
            ["users", login, list] => match self.world.user(login) {
                Some(user) => self.of_user(user, list, &query),
                None => not_found(),
            },
            // The form of GitHub's own links.
            ["user", id, list] => match self.user_by_id(id) {
                Some(user) => self.of_user(user, list, &query),
                None => not_found(),
            },
            ["repos", owner, name, rest @ ..] => {
                match self.world.find(&format!("{owner}/{name}")) {
                    Some(Found::Here(at)) => self.of_repository(at, rest, &query),
                    Some(Found::Moved(at)) => self.moved(at, rest, raw_query),
                    None => not_found(),
                }
            }
            ["repositories", id, rest @ ..] => match self.repository_by_id(id) {
                Some(at) => self.of_repository(at, rest, &query),
                None => not_found(),
            },
            _ => not_found(),
        }
    }

    fn own_account(&self) -> ApiAnswer {
        let Some(login) = self.account else {
            return refusal(401, "Requires authentication");
        };
        match self.world.user(login) {
            Some(user) => ok(&self.world.render(DocumentRef::User(user))),
            // A token's account need not be one of the collected users.
            None => ok(&json!({ "login": login, "id": 1, "node_id": "U_1", "type": "User" })),
        }
    }

    fn user_by_id(&self, id: &str) -> Option<usize> {
        let id: u64 = id.parse().ok()?;
        self.world.users.iter().position(|user| user.id == id)
    }

    fn repository_by_id(&self, id: &str) -> Option<usize> {
        let id: u64 = id.parse().ok()?;
        let mut repositories = self.world.repositories.iter();
        repositories.position(|repository| repository.id == id)
    }

    fn moved(&self, at: usize, rest: &[&str], query: &str) -> ApiAnswer {
        let mut url = format!(
            "{}/repositories/{}",
            self.base, self.world.repositories[at].id
        );
        for segment in rest {
            url.push('/');
            url.push_str(segment);
        }
        if !query.is_empty() {
            url.push('?');
            url.push_str(query);
        }
        let body = json!({
            "message": "Moved Permanently",
            "url": url,
            "documentation_url": DOCUMENTATION,
        });
        let mut answer = answer(301, &body);
        answer.headers.insert("location".into(), url);
        answer
    }

    fn of_user(&self, user: usize, list: &str, query: &Query) -> ApiAnswer {
        let path = format!("/user/{}/{list}", self.world.users[user].id);
        match list {
            "repos" => self.list(self.repositories(user, path, query), query),
            "events" => {
                let mut answer = self.list(self.events(user, path), query);
                answer.headers.insert("x-poll-interval".into(), "60".into());
                answer
            }
            _ => not_found(),
        }
    }

    fn of_repository(&self, at: usize, rest: &[&str], query: &Query) -> ApiAnswer {
        let name = self.world.full_name(at).to_lowercase();
        if let Some(status) = self.refused.get(&name) {
            return refusal(*status, reason(*status));
        }
        let repository = &self.world.repositories[at];
        let path = |list: &str| format!("/repositories/{}/{list}", repository.id);
        let since = match query.get("since").map(str::parse::<jiff::Timestamp>) {
            None => i64::MIN,
            Some(Ok(since)) => since.as_second(),
            Some(Err(_)) => {
                return refusal(422, "Invalid since: give a time as 2020-01-01T00:00:00Z.");
            }
        };
        match rest {
            [] => ok(&self.world.render(DocumentRef::Repository(at))),
            ["issues"] if !repository.has_issues => {
                refusal(410, "Issues has been disabled in this repository.")
            }
            ["issues"] => self.list(self.issues(at, path("issues"), query, since), query),
            ["pulls"] => self.list(self.pulls(at, path("pulls"), query), query),
            ["commits"] if repository.commits.is_empty() => {
                refusal(409, "Git Repository is empty.")
            }
            ["commits"] => self.list(self.commits(at, path("commits"), since), query),
            _ => not_found(),
        }
    }

    fn repositories(&self, user: usize, path: String, query: &Query) -> List {
        let sort = query.get("sort").unwrap_or("full_name");
        let all = self.world.repositories.iter().enumerate();
        let mut owned: Vec<usize> = all
            .filter(|(_, repository)| repository.owner == user)
            .map(|(at, _)| at)
            .collect();
        owned.sort_by_key(|at| self.world.repositories[*at].name.to_lowercase());
        let rows = owned.into_iter().enumerate().map(|(rank, at)| {
            let repository = &self.world.repositories[at];
            let value = match sort {
                "created" => repository.created,
                "updated" => repository.updated,
                "pushed" => repository.pushed,
                _ => rank as i64,
            };
            Row {
                key: (value, repository.id),
                place: DocumentRef::Repository(at),
            }
        });
        let is_dated = matches!(sort, "created" | "updated" | "pushed");
        List::new(path, rows.collect(), descends(query, is_dated))
    }

    fn events(&self, user: usize, path: String) -> List {
        let events = &self.world.users[user].events;
        let shown = events.len().saturating_sub(EVENTS_SHOWN)..events.len();
        let rows = shown.map(|n| Row {
            key: (events[n].at, events[n].serial),
            place: DocumentRef::Event(user, n),
        });
        List {
            end: Some(EVENTS_SHOWN),
            ..List::new(path, rows.collect(), true)
        }
    }

    fn issues(&self, at: usize, path: String, query: &Query, since: i64) -> List {
        let state = query.get("state").unwrap_or("open");
        let issues = self.world.repositories[at].issues.iter().enumerate();
        let rows = issues
            .filter(|(_, issue)| issue.updated >= since && shows(state, issue.closed))
            .map(|(n, issue)| Row {
                key: match query.get("sort") {
                    Some("updated") => (issue.updated, n as u64),
                    Some("comments") => (issue.comments().cast_signed(), n as u64),
                    _ => (issue.created, n as u64),
                },
                place: DocumentRef::Issue(at, n),
            });
        List::new(path, rows.collect(), descends(query, true))
    }

    /// Ignores `since`; ascending unless it is sorted by creation.
    fn pulls(&self, at: usize, path: String, query: &Query) -> List {
        let state = query.get("state").unwrap_or("open");
        let sort = query.get("sort").unwrap_or("created");
        let issues = self.world.repositories[at].issues.iter().enumerate();
        let rows = issues
            .filter(|(_, issue)| issue.is_pull && shows(state, issue.closed))
            .map(|(n, issue)| Row {
                key: match sort {
                    "updated" => (issue.updated, n as u64),
                    "popularity" => (issue.comments().cast_signed(), n as u64),
                    _ => (issue.created, n as u64),
                },
                place: DocumentRef::Pull(at, n),
            });
        List::new(path, rows.collect(), descends(query, sort == "created"))
    }

    fn commits(&self, at: usize, path: String, since: i64) -> List {
        let commits = self.world.repositories[at].commits.iter().enumerate();
        let rows = commits
            .filter(|(_, committed)| **committed >= since)
            .map(|(n, committed)| Row {
                key: (*committed, n as u64),
                place: DocumentRef::Commit(at, n),
            });
        List::new(path, rows.collect(), true)
    }

    fn list(&self, list: List, query: &Query) -> ApiAnswer {
        let page = match list.page(self.base, query, self.paging) {
            Ok(page) => page,
            Err(refused) => return refused,
        };
        let bodies = page.rows.iter().map(|row| self.world.render(row.place));
        let mut answer = ok(&Value::Array(bodies.collect()));
        if let Some(link) = page.link {
            answer.headers.insert("link".into(), link);
        }
        answer
    }
}

fn descends(query: &Query, by_default: bool) -> bool {
    match query.get("direction") {
        Some("asc") => false,
        Some("desc") => true,
        _ => by_default,
    }
}

fn shows(state: &str, closed: Option<i64>) -> bool {
    match state {
        "all" => true,
        "closed" => closed.is_some(),
        _ => closed.is_none(),
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        403 | 451 => "Repository access blocked",
        410 => "Gone",
        _ => "Not Found",
    }
}

pub(super) fn ok(body: &Value) -> ApiAnswer {
    answer(200, body)
}

fn not_found() -> ApiAnswer {
    refusal(404, "Not Found")
}

/// An error in GitHub's format.
pub(super) fn refusal(status: u16, message: &str) -> ApiAnswer {
    let body = json!({
        "message": message,
        "documentation_url": DOCUMENTATION,
        "status": status.to_string(),
    });
    answer(status, &body)
}

fn answer(status: u16, body: &Value) -> ApiAnswer {
    let kind = "application/json; charset=utf-8";
    ApiAnswer {
        status,
        headers: BTreeMap::from([("content-type".to_owned(), kind.to_owned())]),
        body: body.to_string().into_bytes(),
    }
}
