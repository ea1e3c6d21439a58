//! Answers a request by its path.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::links::Links;
use super::page::{List, Paging, Row};
use super::query::{Query, Target};
use super::world::{DocumentRef, Found, Issue, World};
use crate::ApiAnswer;

/// The API shows only this many of a user's newest events.
const EVENTS_SHOWN: usize = 300;

/// The message of a 409.
pub(super) const EMPTY: &str = "Git Repository is empty.";

const DOCUMENTATION: &str = "https://docs.github.com/rest";

/// One request, without its limits and faults.
pub(super) struct Ask<'a> {
    pub(super) world: &'a World,
    /// Origin of the links.
    pub(super) base: &'a str,
    pub(super) paging: Paging,
    pub(super) links: Links,
    /// The account of the token.
    pub(super) account: Option<&'a str>,
    /// Results that a search counts and does not show.
    pub(super) unlisted: usize,
    /// The login where the app is installed whose token is used.
    pub(super) installed_at: Option<&'a str>,
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
            ["user", "repos"] => self.own_repositories(&query),
            ["installation", "repositories"] => self.installed_repositories(&query),
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
            ["orgs", login, list] => self.of_organization(self.world.user(login), list, &query),
            ["organizations", id, list] => self.of_organization(self.user_by_id(id), list, &query),
            ["repos", owner, name, rest @ ..] => {
                match self.world.find(&format!("{owner}/{name}")) {
                    Some(Found::Here(at)) => self.of_repository(at, rest, &query),
                    Some(Found::Moved(at)) if self.sees(at) => self.moved(at, rest, raw_query),
                    _ => not_found(),
                }
            }
            ["repositories", id, rest @ ..] => match self.repository_by_id(id) {
                Some(at) => self.of_repository(at, rest, &query),
                None => not_found(),
            },
            ["search", "repositories"] => self.search(&query),
            _ => not_found(),
        }
    }

    fn own_account(&self) -> ApiAnswer {
        let Some(login) = self.account else {
            return refusal(401, "Requires authentication");
        };
        if self.installed_at.is_some() {
            return refusal(403, "Resource not accessible by integration");
        }
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
        let mut existing = self.world.existing();
        let found = existing.find(|(_, repository)| repository.id == id);
        found.map(|(at, _)| at)
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
            "repos" => {
                let public = |at: usize| !self.world.repositories[at].is_private;
                self.list(self.repositories(user, path, query, public), query)
            }
            "events" => {
                let mut answer = self.list(self.events(user, path), query);
                answer.headers.insert("x-poll-interval".into(), "60".into());
                answer
            }
            "orgs" => self.list(self.organizations(user, path), query),
            _ => not_found(),
        }
    }

    fn of_repository(&self, at: usize, rest: &[&str], query: &Query) -> ApiAnswer {
        if !self.sees(at) {
            return not_found();
        }
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
            ["commits"] => self.commits(at, path("commits"), query, since),
            ["compare", range] => self.compare(at, range, query),
            _ => self.streams(at, rest, query, since),
        }
    }

    pub(super) fn repositories(
        &self,
        user: usize,
        path: String,
        query: &Query,
        is_shown: impl Fn(usize) -> bool,
    ) -> List {
        let sort = query.get("sort").unwrap_or("full_name");
        let mut owned: Vec<usize> = self
            .world
            .existing()
            .filter(|(_, repository)| repository.owner == user)
            .map(|(at, _)| at)
            .filter(|at| is_shown(*at))
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
            .filter(|(_, issue)| issue.updated >= since && shows(state, issue))
            .map(|(n, issue)| Row {
                key: match query.get("sort") {
                    Some("updated") => (issue.updated, n as u64),
                    Some("comments") => (i64::from(issue.comments), n as u64),
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
            .filter(|(_, issue)| issue.is_pull && shows(state, issue))
            .map(|(n, issue)| Row {
                key: match sort {
                    "updated" => (issue.updated, n as u64),
                    "popularity" => (i64::from(issue.comments), n as u64),
                    _ => (issue.created, n as u64),
                },
                place: DocumentRef::Pull(at, n),
            });
        List::new(path, rows.collect(), descends(query, sort == "created"))
    }

    pub(super) fn list(&self, list: List, query: &Query) -> ApiAnswer {
        self.list_in(&list, query, self.paging, Value::Array)
    }

    /// One page of a list, inside a body.
    pub(super) fn list_in(
        &self,
        list: &List,
        query: &Query,
        paging: Paging,
        body: impl FnOnce(Vec<Value>) -> Value,
    ) -> ApiAnswer {
        let page = match list.page(&self.links.origin(self.base), query, paging) {
            Ok(page) => page,
            Err(refused) => return refused,
        };
        let rows = page.rows.iter().map(|row| self.world.render(row.place));
        let mut answer = ok(&body(rows.collect()));
        if let Some(link) = page.link {
            answer.headers.insert("link".into(), link);
        }
        answer
    }
}

pub(super) fn descends(query: &Query, by_default: bool) -> bool {
    match query.get("direction") {
        Some("asc") => false,
        Some("desc") => true,
        _ => by_default,
    }
}

fn shows(state: &str, issue: &Issue) -> bool {
    let has_state = match state {
        "all" => true,
        "closed" => issue.closed.is_some(),
        _ => issue.closed.is_none(),
    };
    has_state && !issue.is_deleted
}

fn reason(status: u16) -> &'static str {
    match status {
        403 | 451 => "Repository access blocked",
        409 => EMPTY,
        410 => "Gone",
        500.. => "Server Error",
        _ => "Not Found",
    }
}

pub(super) fn ok(body: &Value) -> ApiAnswer {
    answer(200, body)
}

pub(super) fn not_found() -> ApiAnswer {
    refusal(404, "Not Found")
}

pub(super) fn created(body: &Value) -> ApiAnswer {
    answer(201, body)
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
