//! Further streams: comments, reviews, releases, workflow runs and so on.

use std::collections::{BTreeMap, BTreeSet};

use clinch_github::fake::{Item, Kind, Paging, Setup, World};
use serde_json::Value;

use crate::support::{Test, json, link, message, size, small, start};

const ALL: [Kind; 24] = [
    Kind::IssueComment,
    Kind::ReviewComment,
    Kind::Review,
    Kind::IssueEvent,
    Kind::Timeline,
    Kind::Reaction,
    Kind::Release,
    Kind::Tag,
    Kind::Branch,
    Kind::Label,
    Kind::Milestone,
    Kind::Stargazer,
    Kind::Contributor,
    Kind::Workflow,
    Kind::WorkflowRun,
    Kind::WorkflowJob,
    Kind::Deployment,
    Kind::CommitComment,
    Kind::Languages,
    Kind::Organization,
    Kind::Member,
    Kind::Team,
    Kind::PullRequestDetail,
    Kind::CommitDetail,
];

/// The lists of a repository that have documents as items.
const LISTS: [(Kind, &str); 13] = [
    (Kind::IssueComment, "issues/comments"),
    (Kind::ReviewComment, "pulls/comments"),
    (Kind::IssueEvent, "issues/events"),
    (Kind::Release, "releases"),
    (Kind::Tag, "tags"),
    (Kind::Branch, "branches"),
    (Kind::Label, "labels"),
    (Kind::Milestone, "milestones?state=all"),
    (Kind::Stargazer, "stargazers"),
    (Kind::Deployment, "deployments"),
    (Kind::CommitComment, "comments"),
    (Kind::Workflow, "actions/workflows"),
    (Kind::WorkflowRun, "actions/runs"),
];

pub(crate) fn world(seed: u64) -> World {
    World::generate(seed, &size(3, 12, 400)).with_streams()
}

pub(crate) fn of(world: &World, kind: Kind) -> Vec<Item> {
    world.items().filter(|item| item.kind == kind).collect()
}

/// All items of a list, whether its pages are arrays or objects with a count.
async fn walk(test: &Test, target: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut next = Some(target.to_owned());
    let mut total = None;
    while let Some(target) = next {
        let answer = test.get(&target).await;
        assert!(matches!(answer.status, 200 | 204), "{target}");
        if answer.status == 204 {
            assert!(answer.body.is_empty());
            return all;
        }
        next = link(&answer, "next");
        match json(&answer) {
            Value::Array(page) => all.extend(page),
            Value::Object(page) => {
                assert_eq!(page.len(), 2, "{target}");
                total = page["total_count"].as_u64();
                let lists = page.values().filter_map(Value::as_array);
                all.extend(lists.flatten().cloned());
            }
            other => panic!("not a list: {other}"),
        }
    }
    assert!(total.is_none_or(|total| total == all.len() as u64));
    all
}

/// What the API shows of a repository's streams.
async fn read_repository(test: &Test, name: &str) -> Vec<(Kind, Value)> {
    let mut found = Vec::new();
    let root = format!("/repos/{name}");
    for (kind, list) in LISTS {
        let mark = if list.contains('?') { '&' } else { '?' };
        let bodies = walk(test, &format!("{root}/{list}{mark}per_page=9")).await;
        found.extend(bodies.into_iter().map(|body| (kind, body)));
    }
    let contributors = walk(test, &format!("{root}/contributors")).await;
    let contributors = contributors.into_iter();
    found.extend(contributors.map(|body| (Kind::Contributor, body)));
    let languages = json(&test.get(&format!("{root}/languages")).await);
    found.push((Kind::Languages, languages));
    let runs: Vec<Value> = found
        .iter()
        .filter(|(kind, _)| *kind == Kind::WorkflowRun)
        .map(|(_, run)| run["id"].clone())
        .collect();
    for id in runs {
        let jobs = walk(test, &format!("{root}/actions/runs/{id}/jobs?per_page=2")).await;
        found.extend(jobs.into_iter().map(|body| (Kind::WorkflowJob, body)));
    }
    for issue in issues(test, name).await {
        let number = &issue["number"];
        let reactions = walk(test, &format!("{root}/issues/{number}/reactions")).await;
        found.extend(reactions.into_iter().map(|body| (Kind::Reaction, body)));
        let timeline = format!("{root}/issues/{number}/timeline?per_page=2");
        let entries = walk(test, &timeline).await.into_iter();
        found.extend(entries.map(|body| (Kind::Timeline, body)));
        if issue.get("pull_request").is_none() && issue.get("head").is_none() {
            continue;
        }
        let reviews = walk(test, &format!("{root}/pulls/{number}/reviews?per_page=1")).await;
        found.extend(reviews.into_iter().map(|body| (Kind::Review, body)));
        let detail = test.get(&format!("{root}/pulls/{number}")).await;
        found.push((Kind::PullRequestDetail, json(&detail)));
    }
    let commits = format!("{root}/commits?per_page=100");
    if test.get(&commits).await.status == 200 {
        for commit in walk(test, &commits).await {
            let sha = commit["sha"].as_str().expect("a sha");
            let detail = json(&test.get(&format!("{root}/commits/{sha}")).await);
            assert_eq!(detail["parents"], commit["parents"]);
            found.push((Kind::CommitDetail, detail));
        }
    }
    found
}

/// The issues and pull requests of a repository.
async fn issues(test: &Test, name: &str) -> Vec<Value> {
    let target = format!("/repos/{name}/issues?state=all&per_page=100");
    match test.get(&target).await.status {
        200 => walk(test, &target).await,
        _ => walk(test, &format!("/repos/{name}/pulls?state=all&per_page=100")).await,
    }
}

async fn read_all(world: World, paging: Paging) -> BTreeMap<(Kind, String), Vec<String>> {
    let (logins, names) = (world.logins(), world.full_names());
    let mut setup = Setup {
        paging,
        ..Setup::default()
    };
    (setup.limits.primary, setup.limits.per_minute) = (1_000_000, 1_000_000);
    let test = start(world, setup);
    let mut found = Vec::new();
    for name in names {
        let read = read_repository(&test, &name).await.into_iter();
        found.extend(read.map(|(kind, body)| (kind, format!("repo:{name}"), body)));
    }
    for login in logins {
        for (kind, target) in [
            (Kind::Organization, format!("/users/{login}/orgs")),
            (Kind::Member, format!("/orgs/{login}/members?per_page=1")),
            (Kind::Team, format!("/orgs/{login}/teams?per_page=1")),
        ] {
            if test.get(&target).await.status != 404 {
                let bodies = walk(&test, &target).await.into_iter();
                found.extend(bodies.map(|body| (kind, format!("user:{login}"), body)));
            }
        }
    }
    sorted(found.into_iter())
}

fn sorted(
    items: impl Iterator<Item = (Kind, String, Value)>,
) -> BTreeMap<(Kind, String), Vec<String>> {
    let mut all: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (kind, resource, body) in items.filter(|(kind, ..)| ALL.contains(kind)) {
        let bodies = all.entry((kind, resource)).or_default();
        bodies.push(body.to_string());
    }
    all.values_mut().for_each(|bodies| bodies.sort());
    all
}

#[tokio::test]
async fn the_api_shows_exactly_the_items_of_every_stream_whatever_happens() {
    let mut world = world(5);
    for (round, paging) in [Paging::Numbers, Paging::Cursors, Paging::Numbers]
        .into_iter()
        .enumerate()
    {
        let found = read_all(world.clone(), paging).await;
        let items = world
            .items()
            .map(|item| (item.kind, item.resource, item.body));
        let items = sorted(items);
        for (key, bodies) in &items {
            assert_eq!(found.get(key), Some(bodies), "round {round}: {key:?}");
        }
        assert_eq!(found.len(), items.len());
        let kinds: BTreeSet<Kind> = items.keys().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ALL.into());
        world.upset(round as u64, 150);
        world.change(round as u64, 50);
    }
}

#[test]
fn streams_are_added_only_if_asked_for_and_the_seed_decides_them() {
    let plain = World::generate(5, &size(3, 12, 400));
    assert_eq!(plain.documents(), 400);
    assert!(plain.items().all(|item| !ALL.contains(&item.kind)));
    let rich = plain.with_streams();
    assert_eq!(rich.documents(), rich.items().count());
    assert!(rich.items().eq(world(5).items()));
    let labels = |world: &World| of(world, Kind::Label);
    assert_ne!(labels(&rich), labels(&world(6)));
    let plain: Vec<Item> = rich
        .items()
        .filter(|item| !ALL.contains(&item.kind))
        .collect();
    assert_eq!(plain.len(), 400);
}

#[tokio::test]
async fn the_lists_of_a_plain_world_are_empty() {
    let test = start(small(), Setup::default());
    let name = test.fake.with_world(|world| world.full_names()[0].clone());
    for (_, list) in LISTS {
        assert!(
            walk(&test, &format!("/repos/{name}/{list}"))
                .await
                .is_empty()
        );
    }
    assert!(walk(&test, "/users/octocat/orgs").await.is_empty());
    let languages = test.get(&format!("/repos/{name}/languages")).await;
    assert_eq!(languages.body, b"{}");
}

/// The name of the repository with most documents of a kind.
fn richest(world: &World, kind: Kind) -> String {
    let names = world.full_names().into_iter();
    let count = |name: &String| {
        let resource = format!("repo:{name}");
        let items = of(world, kind).into_iter();
        items.filter(|item| item.resource == resource).count()
    };
    names.max_by_key(count).expect("a repository")
}

#[tokio::test]
async fn lists_have_the_order_of_the_api() {
    let test = start(world(5), Setup::default());
    let dates = async |kind: Kind, list: &str, field: &str| -> Vec<String> {
        let name = test.fake.with_world(|world| richest(world, kind));
        let all = walk(&test, &format!("/repos/{name}/{list}")).await;
        assert!(all.len() > 1, "{list}");
        let dates = all.iter().filter_map(|body| body[field].as_str());
        dates.map(str::to_owned).collect()
    };
    for (kind, list, field) in [
        (Kind::IssueEvent, "issues/events", "created_at"),
        (Kind::Release, "releases", "created_at"),
        (Kind::WorkflowRun, "actions/runs", "created_at"),
        (Kind::Deployment, "deployments", "created_at"),
        (Kind::Tag, "tags", "name"),
    ] {
        let dates = dates(kind, list, field).await;
        assert!(dates.is_sorted_by(|a, b| a >= b), "{list}: {dates:?}");
    }
    for (kind, list, field) in [
        (Kind::Branch, "branches", "name"),
        (Kind::Stargazer, "stargazers", "starred_at"),
        (Kind::Milestone, "milestones?state=all", "due_on"),
    ] {
        let dates = dates(kind, list, field).await;
        assert!(dates.is_sorted(), "{list}: {dates:?}");
    }
    for (kind, list) in [
        (Kind::IssueComment, "issues/comments"),
        (Kind::ReviewComment, "pulls/comments"),
    ] {
        let query = "sort=updated&direction=asc&per_page=4";
        let all = dates(kind, &format!("{list}?{query}"), "updated_at").await;
        assert!(all.is_sorted());
        let since = &all[all.len() / 2];
        let target = format!("{list}?{query}&since={since}");
        let later = dates(kind, &target, "updated_at").await;
        let expected: Vec<&String> = all.iter().filter(|at| *at >= since).collect();
        assert!(later.iter().eq(expected) && later.len() < all.len());
        let newest = dates(kind, &format!("{list}?sort=updated"), "updated_at").await;
        assert!(newest.is_sorted_by(|a, b| a >= b));
    }
}

#[tokio::test]
async fn closed_milestones_are_listed_if_asked_for() {
    let test = start(world(5), Setup::default());
    let mut counts = [0; 3];
    for name in test.fake.with_world(|world| world.full_names()) {
        for (n, state) in ["all", "open", "closed"].iter().enumerate() {
            let target = format!("/repos/{name}/milestones?state={state}");
            let some = walk(&test, &target).await;
            let has_state = |body: &Value| *state == "all" || body["state"] == *state;
            assert!(some.iter().all(has_state));
            counts[n] += some.len();
        }
    }
    assert_eq!(counts[0], counts[1] + counts[2]);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[tokio::test]
async fn what_a_stream_does_not_have_is_refused_as_at_github() {
    let test = start(world(5), Setup::default());
    let names = test.fake.with_world(|world| world.full_names());
    let (name, empty) = (&names[0], &names[1]);
    let all = issues(&test, name).await;
    let number_of = |is_pull: bool| {
        // Oldest first: the newest one is deleted below.
        let mut all = all.iter().rev();
        let issue = all.find(|issue| issue.get("pull_request").is_some() == is_pull);
        issue.expect("one")["number"].clone()
    };
    let (issue, pull) = (number_of(false), number_of(true));
    let deleted = all.len() as u64;
    assert!(
        test.fake
            .with_world(|world| world.delete_issue(name, deleted))
    );
    assert!(issue != deleted && pull != deleted);
    let unknown = "0".repeat(40);
    for target in [
        format!("/repos/{name}/issues/99999/reactions"),
        format!("/repos/{name}/issues/x/reactions"),
        format!("/repos/{name}/pulls/{issue}/reviews"),
        format!("/repos/{name}/pulls/{issue}"),
        format!("/repos/{name}/pulls/{pull}/nothing"),
        format!("/repos/{name}/actions/runs/1/jobs"),
        format!("/repos/{name}/actions/nothing"),
        "/orgs/octocat/members".to_owned(),
        "/orgs/nobody/teams".to_owned(),
        "/orgs/monalisa/nothing".to_owned(),
    ] {
        let answer = test.get(&target).await;
        let is = (answer.status, message(&answer));
        assert_eq!(is, (404, "Not Found".to_owned()), "{target}");
    }
    for (target, status, expected) in [
        (
            format!("/repos/{name}/issues/{deleted}/reactions"),
            410,
            "This issue was deleted",
        ),
        (
            format!("/repos/{empty}/commits/{unknown}"),
            409,
            "Git Repository is empty.",
        ),
        (
            format!("/repos/{name}/commits/{unknown}"),
            422,
            "No commit found for SHA",
        ),
    ] {
        let answer = test.get(&target).await;
        assert_eq!(answer.status, status, "{target}");
        assert!(message(&answer).starts_with(expected), "{target}");
    }
    let none = test.get(&format!("/repos/{empty}/contributors")).await;
    assert_eq!((none.status, none.body.len()), (204, 0));
    assert_eq!(
        test.get(&format!("/repos/{empty}/branches")).await.body,
        b"[]"
    );
}

#[tokio::test]
async fn the_last_of_three_users_is_an_organisation() {
    let test = start(world(5), Setup::default());
    let user = json(&test.get("/users/monalisa").await);
    assert_eq!(user["type"], "Organization");
    assert_eq!(json(&test.get("/users/octocat").await)["type"], "User");
    let members = walk(&test, "/orgs/monalisa/members?per_page=1").await;
    let logins: Vec<&str> = members
        .iter()
        .filter_map(|one| one["login"].as_str())
        .collect();
    assert_eq!(logins, ["octocat", "hubot"]);
    let orgs = walk(&test, "/users/hubot/orgs").await;
    assert_eq!((orgs.len(), &orgs[0]["id"]), (1, &user["id"]));
    assert!(walk(&test, "/users/monalisa/orgs").await.is_empty());
    let first = test.get("/orgs/monalisa/teams?per_page=1").await;
    let next = link(&first, "next").expect("a second team");
    assert!(next.contains("/organizations/1002/teams?"), "{next}");
    assert_eq!(
        walk(&test, "/orgs/monalisa/teams?per_page=1").await.len(),
        3
    );
    let two = World::generate(5, &size(2, 2, 40)).with_streams();
    assert!(of(&two, Kind::Member).is_empty() && of(&two, Kind::Organization).is_empty());
}
