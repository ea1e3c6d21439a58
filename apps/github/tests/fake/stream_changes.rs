//! Changes of further streams.

use std::collections::{BTreeMap, BTreeSet};

use clinch_github::fake::{Item, Kind, World};
use serde_json::Value;

use crate::support::size;

const DAY: i64 = 86_400;

fn world() -> World {
    World::generate(3, &size(3, 3, 90)).with_streams()
}

/// The documents of a world, by kind and then by resource and id, or name.
type Documents = BTreeMap<Kind, BTreeMap<(String, String), Value>>;

fn documents(world: &World) -> Documents {
    let mut all = Documents::new();
    for item in world.items() {
        let body = item.body;
        let id = match item.kind {
            Kind::Tag | Kind::Branch => &body["name"],
            Kind::Stargazer => &body["user"]["id"],
            _ => &body["id"],
        };
        let key = (item.resource, id.to_string());
        all.entry(item.kind).or_default().insert(key, body);
    }
    all
}

static NONE: BTreeMap<(String, String), Value> = BTreeMap::new();

/// The documents of a kind.
fn of(all: &Documents, kind: Kind) -> &BTreeMap<(String, String), Value> {
    all.get(&kind).unwrap_or(&NONE)
}

/// Which documents of a kind are new, changed and gone after single changes.
struct Seen {
    added: usize,
    changed: usize,
    gone: usize,
}

/// Changes a world one step at a time, and shows every step.
fn steps(mut show: impl FnMut(&Documents, &Documents)) {
    let mut world = world();
    let mut before = documents(&world);
    for seed in 0..400 {
        world.change(seed, 1);
        let after = documents(&world);
        show(&before, &after);
        before = after;
    }
}

#[test]
fn every_stream_changes_as_it_can() {
    let kinds = [
        (Kind::IssueComment, true, true, false),
        (Kind::ReviewComment, true, true, false),
        (Kind::Review, true, false, false),
        (Kind::IssueEvent, true, false, false),
        (Kind::Reaction, true, false, false),
        (Kind::Release, true, true, true),
        (Kind::Tag, true, false, false),
        (Kind::Branch, true, true, true),
        (Kind::Label, true, true, true),
        (Kind::Milestone, true, true, false),
        (Kind::Stargazer, true, false, true),
        (Kind::WorkflowRun, true, true, false),
        (Kind::WorkflowJob, true, false, true),
        (Kind::Deployment, true, false, false),
        (Kind::CommitComment, true, false, false),
        (Kind::Member, true, false, true),
        (Kind::Team, true, false, false),
    ];
    let mut seen: BTreeMap<Kind, Seen> = BTreeMap::new();
    steps(|before, after| {
        for (kind, ..) in kinds {
            let (before, after) = (of(before, kind), of(after, kind));
            let seen = seen.entry(kind).or_insert(Seen {
                added: 0,
                changed: 0,
                gone: 0,
            });
            let is_new = |(key, _): &(&(String, String), &Value)| !before.contains_key(*key);
            seen.added += after.iter().filter(is_new).count();
            for (key, body) in before {
                seen.gone += usize::from(!after.contains_key(key));
                seen.changed += usize::from(after.get(key).is_some_and(|now| now != body));
            }
        }
    });
    for (kind, adds, changes, goes) in kinds {
        let seen = &seen[&kind];
        let is = (seen.added > 0, seen.changed > 0, seen.gone > 0);
        assert_eq!(is, (adds, changes, goes), "{}", kind.as_str());
    }
}

/// The number in the address of an issue or pull request.
fn number(url: &Value) -> u64 {
    let (_, number) = url
        .as_str()
        .and_then(|url| url.rsplit_once('/'))
        .expect("a url");
    number.parse().expect("a number")
}

#[test]
fn a_new_comment_updates_its_issue_and_is_counted() {
    let mut found = 0;
    steps(|before, after| {
        let known = of(before, Kind::IssueComment);
        let comments = of(after, Kind::IssueComment);
        for ((resource, id), body) in comments {
            if known.contains_key(&(resource.clone(), id.clone())) {
                continue;
            }
            found += 1;
            let number = number(&body["issue_url"]);
            let kinds = [Kind::Issue, Kind::PullRequestDetail];
            let issues = kinds.map(|kind| of(after, kind));
            let is_it = |((other, _), one): &(&(String, String), &Value)| {
                other == resource && one["number"] == number
            };
            let issue = issues.into_iter().flatten().find(is_it);
            let (_, issue) = issue.expect("its issue");
            assert_eq!(issue["updated_at"], body["created_at"]);
            let of_it = comments.iter().filter(|((other, _), one)| {
                other == resource && one["issue_url"] == body["issue_url"]
            });
            assert_eq!(issue["comments"], of_it.count());
        }
    });
    assert!(found > 20, "{found}");
}

#[test]
fn only_recent_runs_are_run_again_and_then_have_new_jobs() {
    let second = |body: &Value, field: &str| -> i64 {
        let text = body[field].as_str().expect("a date");
        text.parse::<jiff::Timestamp>().expect("a date").as_second()
    };
    let mut found = 0;
    steps(|before, after| {
        let known = of(before, Kind::WorkflowRun);
        let jobs = |world: &Documents, run: &Value| -> BTreeSet<String> {
            let jobs = of(world, Kind::WorkflowJob);
            let of_it = jobs.iter().filter(|(_, job)| job["run_id"] == run["id"]);
            of_it.map(|((_, id), _)| id.clone()).collect()
        };
        for (key, run) in of(after, Kind::WorkflowRun) {
            let Some(old) = known.get(key).filter(|old| *old != run) else {
                continue;
            };
            found += 1;
            assert_eq!(
                run["run_attempt"],
                old["run_attempt"].as_u64().map_or(0, |n| n + 1)
            );
            let age = second(run, "updated_at") - second(run, "created_at");
            assert!(age <= 30 * DAY, "{age}");
            assert!(jobs(before, old).is_disjoint(&jobs(after, run)));
            assert!(!jobs(after, run).is_empty());
        }
    });
    assert!(found > 2, "{found}");
}

#[test]
fn a_deleted_issue_takes_what_belongs_to_it_along() {
    let mut world = world();
    let all = documents(&world);
    let comments = of(&all, Kind::ReviewComment);
    let ((resource, _), comment) = comments.first_key_value().expect("a comment");
    let number = number(&comment["pull_request_url"]);
    let name = resource.strip_prefix("repo:").expect("a repository");
    let belongs = |item: &Item| {
        let ends = |field: &str, list: &str| {
            let end = format!("/{list}/{number}");
            item.body[field]
                .as_str()
                .is_some_and(|url| url.ends_with(&end))
        };
        item.resource == resource.as_str()
            && (ends("issue_url", "issues")
                || ends("pull_request_url", "pulls")
                || item.body["issue"]["number"] == number)
    };
    assert!(world.items().any(|item| belongs(&item)));
    assert!(world.delete_issue(name, number));
    assert!(!world.items().any(|item| belongs(&item)));
}
