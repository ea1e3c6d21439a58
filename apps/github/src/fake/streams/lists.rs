//! Answers for the lists of the streams.

use serde_json::json;

use super::Entry;
use super::code::{due, is_closed, tag_name};
use super::talk::branch_name;
use crate::ApiAnswer;
use crate::fake::answer::{Ask, descends, not_found, ok, refusal};
use crate::fake::kind::Kind;
use crate::fake::page::{List, Row};
use crate::fake::query::Query;
use crate::fake::world::{DocumentRef, Issue};

impl Ask<'_> {
    pub(in crate::fake) fn streams(
        &self,
        at: usize,
        rest: &[&str],
        query: &Query,
        since: i64,
    ) -> ApiAnswer {
        let path = format!(
            "/repositories/{}/{}",
            self.world.repositories[at].id,
            rest.join("/")
        );
        let newest = |kind| self.entries(at, kind, path.clone(), true, |entry| entry.created);
        let oldest = |kind| self.entries(at, kind, path.clone(), false, |entry| entry.created);
        let list = match rest {
            ["issues", "comments"] => self.comments(at, Kind::IssueComment, path, query, since),
            ["pulls", "comments"] => self.comments(at, Kind::ReviewComment, path, query, since),
            ["issues", "events"] => newest(Kind::IssueEvent),
            ["releases"] => newest(Kind::Release),
            ["deployments"] => newest(Kind::Deployment),
            ["labels"] => self.entries(at, Kind::Label, path, false, |_| 0),
            ["comments"] => self.entries(at, Kind::CommitComment, path, false, |_| 0),
            ["stargazers"] => oldest(Kind::Stargazer),
            ["milestones"] => self.milestones(at, path, query),
            ["tags"] => self.tags(at, path),
            ["branches"] => self.branches(at, path),
            ["contributors"] => return self.contributors(at, path, query),
            ["languages"] => return ok(&self.world.render(DocumentRef::Languages(at))),
            ["issues", number, "reactions"] => match self.issue(at, number) {
                Ok((n, _)) => self.below(at, Kind::Reaction, path, n as u64),
                Err(refused) => return refused,
            },
            ["issues", number, "timeline"] => match self.issue(at, number) {
                Ok((n, _)) => self.timeline(at, path, n),
                Err(refused) => return refused,
            },
            ["pulls", number, below @ ..] => return self.pull(at, number, below, path, query),
            ["commits", sha] => return self.commit(at, sha, &path, query),
            ["actions", ..] => return self.actions(at, rest, path, query),
            _ => return not_found(),
        };
        self.list(self.cut(list), query)
    }

    /// The entries of a kind by this value, and by serial where it is equal.
    fn entries(
        &self,
        at: usize,
        kind: Kind,
        path: String,
        is_descending: bool,
        value: impl Fn(&Entry) -> i64,
    ) -> List {
        let rows = self.rows(at, kind, |_| true, value);
        List::new(path, rows, is_descending)
    }

    fn rows(
        &self,
        at: usize,
        kind: Kind,
        keep: impl Fn(&Entry) -> bool,
        value: impl Fn(&Entry) -> i64,
    ) -> Vec<Row> {
        let entries = self.world.repositories[at].streams.of(kind);
        let kept = entries.iter().enumerate().filter(|(_, entry)| keep(entry));
        kept.map(|(n, entry)| Row {
            key: (value(entry), entry.serial),
            place: DocumentRef::Entry(at, kind, n),
        })
        .collect()
    }

    /// Without `sort` by id, and then `direction` is ignored.
    fn comments(&self, at: usize, kind: Kind, path: String, query: &Query, since: i64) -> List {
        let sort = query.get("sort");
        let value = |entry: &Entry| match sort {
            Some("updated") => entry.updated,
            Some("created") => entry.created,
            _ => 0,
        };
        let rows = self.rows(at, kind, |entry| entry.updated >= since, value);
        List::new(path, rows, sort.is_some() && descends(query, true))
    }

    fn milestones(&self, at: usize, path: String, query: &Query) -> List {
        let keep = |entry: &Entry| match query.get("state") {
            Some("all") => true,
            Some("closed") => is_closed(entry),
            _ => !is_closed(entry),
        };
        let rows = self.rows(at, Kind::Milestone, keep, due);
        List::new(path, rows, descends(query, false))
    }

    /// Latest name first.
    fn tags(&self, at: usize, path: String) -> List {
        let entries = self.world.repositories[at].streams.of(Kind::Tag).iter();
        let names = entries.map(tag_name).enumerate();
        let names = names.map(|(n, name)| (name, DocumentRef::Entry(at, Kind::Tag, n)));
        List::new(path, by_name(names.collect()), true)
    }

    fn branches(&self, at: usize, path: String) -> List {
        let repository = &self.world.repositories[at];
        let entries = repository.streams.of(Kind::Branch).iter().enumerate();
        let names = entries.map(|(n, entry)| {
            let place = DocumentRef::Entry(at, Kind::Branch, n);
            (branch_name(entry), place)
        });
        let has_main = self.world.has_streams && !repository.history.is_empty();
        let main = has_main.then(|| ("main".to_owned(), DocumentRef::MainBranch(at)));
        List::new(path, by_name(names.chain(main).collect()), false)
    }

    /// 204 if the repository is empty, as at GitHub.
    fn contributors(&self, at: usize, path: String, query: &Query) -> ApiAnswer {
        if self.world.repositories[at].history.is_empty() {
            return ApiAnswer {
                status: 204,
                ..ApiAnswer::default()
            };
        }
        let list = in_order(path, self.world.contributors(at));
        self.list(list, query)
    }

    /// What belongs to one issue, pull request or run; oldest first.
    fn below(&self, at: usize, kind: Kind, path: String, parent: u64) -> List {
        let rows = self.rows(
            at,
            kind,
            |entry| entry.parent == parent,
            |entry| entry.created,
        );
        List::new(path, rows, false)
    }

    fn issue(&self, at: usize, number: &str) -> Result<(usize, &Issue), ApiAnswer> {
        let number: usize = number.parse().map_err(|_| not_found())?;
        let n = number.checked_sub(1).ok_or_else(not_found)?;
        match self.world.repositories[at].issues.get(n) {
            Some(issue) if issue.is_deleted => Err(refusal(410, "This issue was deleted")),
            Some(issue) => Ok((n, issue)),
            None => Err(not_found()),
        }
    }

    fn pull(
        &self,
        at: usize,
        number: &str,
        below: &[&str],
        path: String,
        query: &Query,
    ) -> ApiAnswer {
        let found = self.issue(at, number).ok();
        let Some((n, _)) = found.filter(|(_, issue)| issue.is_pull) else {
            return not_found();
        };
        match below {
            [] => ok(&self.world.render(DocumentRef::PullDetail(at, n))),
            ["reviews"] => self.list(self.below(at, Kind::Review, path, n as u64), query),
            _ => not_found(),
        }
    }

    fn actions(&self, at: usize, rest: &[&str], path: String, query: &Query) -> ApiAnswer {
        let (list, name) = match rest {
            [_, "workflows"] => {
                let list = self.entries(at, Kind::Workflow, path, false, |_| 0);
                (list, "workflows")
            }
            [_, "runs"] => {
                let list = self.entries(at, Kind::WorkflowRun, path, true, |run| run.created);
                (list, "workflow_runs")
            }
            [_, "runs", id, "jobs"] => {
                let runs = self.world.repositories[at].streams.of(Kind::WorkflowRun);
                let is_it = |run: &&Entry| self.world.entry_id(at, run).to_string() == *id;
                let Some(run) = runs.iter().find(is_it) else {
                    return not_found();
                };
                (self.below(at, Kind::WorkflowJob, path, run.serial), "jobs")
            }
            _ => return not_found(),
        };
        let total = list.rows.len();
        self.list_in(&list, query, self.paging, |rows| {
            let mut body = json!({ "total_count": total });
            body[name] = json!(rows);
            body
        })
    }

    pub(in crate::fake) fn organizations(&self, user: usize, path: String) -> List {
        in_order(path, self.world.organizations_of(user))
    }

    /// A list of an organisation; other users have none.
    pub(in crate::fake) fn of_organization(
        &self,
        user: Option<usize>,
        list: &str,
        query: &Query,
    ) -> ApiAnswer {
        let organization = self.world.organization.as_ref();
        let Some(organization) = organization.filter(|one| Some(one.user) == user) else {
            return not_found();
        };
        let id = self.world.users[organization.user].id;
        let path = format!("/organizations/{id}/{list}");
        if list == "repos" {
            let sees = |at: usize| self.sees(at);
            let repositories = self.repositories(organization.user, path, query, sees);
            return self.list(repositories, query);
        }
        let places = match list {
            "members" => {
                let members = organization.members.iter();
                members.map(|user| DocumentRef::Member(*user)).collect()
            }
            "teams" => (0..organization.teams.len())
                .map(DocumentRef::Team)
                .collect(),
            _ => return not_found(),
        };
        self.list(in_order(path, places), query)
    }
}

fn in_order(path: String, places: Vec<DocumentRef>) -> List {
    let rows = places.into_iter().enumerate().map(|(n, place)| Row {
        key: (0, n as u64),
        place,
    });
    List::new(path, rows.collect(), false)
}

fn by_name(mut named: Vec<(String, DocumentRef)>) -> Vec<Row> {
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    let rows = named.into_iter().enumerate().map(|(n, (_, place))| Row {
        key: (0, n as u64),
        place,
    });
    rows.collect()
}
