//! Commits: the graph, the order of lists, and comparisons.

use std::collections::{BTreeMap, BTreeSet};

use clinch_github::fake::{Item, Kind, Paging, Setup, World};
use serde_json::Value;

use crate::support::{Test, json, link, message, size, small, start};

const FAR_FUTURE: i64 = 4_070_908_800;

fn sha(body: &Value) -> String {
    body["sha"].as_str().expect("a sha").to_owned()
}

fn parents(body: &Value) -> Vec<String> {
    let parents = body["parents"].as_array().expect("parents");
    parents.iter().map(sha).collect()
}

fn committed(body: &Value) -> &str {
    let date = body["commit"]["committer"]["date"].as_str();
    date.expect("a date")
}

/// A world of one repository with commits, and its name.
fn one() -> (World, String) {
    let world = World::generate(4, &size(1, 1, 90));
    let name = world.full_names()[0].clone();
    (world, name)
}

async fn list(test: &Test, name: &str, query: &str) -> Vec<Value> {
    let target = format!("/repos/{name}/commits?per_page=7{query}");
    test.walk(&target).await.0
}

fn shas(commits: &[Value]) -> Vec<String> {
    commits.iter().map(sha).collect()
}

/// The commits reachable from one, by their parents.
fn reach(all: &BTreeMap<String, Value>, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(sha) = open.pop() {
        open.extend(parents(&all[&sha]));
        found.insert(sha);
        open.retain(|sha| !found.contains(sha));
    }
    found
}

#[tokio::test]
async fn commits_are_a_graph_and_the_head_is_listed_first() {
    let (mut world, name) = one();
    assert!(world.push(&name, &[FAR_FUTURE, 1_000]));
    let count = world.items().filter(|item| item.kind == Kind::Commit);
    let count = count.count();
    let test = start(world, Setup::default());
    let commits = list(&test, &name, "").await;
    assert_eq!(commits.len(), count);
    assert_eq!(committed(&commits[0]), "1970-01-01T00:16:40Z");
    assert_eq!(committed(&commits[1]), "2099-01-01T00:00:00Z");
    let mut counts = BTreeMap::new();
    let mut listed = BTreeSet::from([sha(&commits[0])]);
    for commit in &commits {
        assert!(listed.contains(&sha(commit)), "a child comes before it");
        listed.extend(parents(commit));
        *counts.entry(parents(commit).len()).or_insert(0) += 1;
    }
    assert_eq!(listed, shas(&commits).into_iter().collect());
    assert_eq!(counts[&0], 1);
    assert!(counts[&1] > 10 && counts[&2] > 1, "{counts:?}");
    let parent = &commits[0]["parents"][0];
    assert_eq!(parent["url"], commits[1]["url"]);
    assert_eq!(parent["html_url"], commits[1]["html_url"]);
}

/// The order that `git log` defines, from the parents and dates of all commits.
fn log_order(all: &BTreeMap<String, Value>, head: &str) -> Vec<String> {
    let mut queue = vec![head.to_owned()];
    let mut order = Vec::new();
    while !queue.is_empty() {
        let dates = queue.iter().map(|sha| committed(&all[sha]));
        let latest = dates.max().expect("one").to_owned();
        let next = queue.iter().position(|sha| committed(&all[sha]) == latest);
        let next = queue.remove(next.expect("it is there"));
        for parent in parents(&all[&next]) {
            if !queue.contains(&parent) && !order.contains(&parent) {
                queue.push(parent);
            }
        }
        order.push(next);
    }
    order
}

#[tokio::test]
async fn lists_have_the_order_of_git_log_whatever_the_dates() {
    for seed in 0..20 {
        let mut world = World::generate(seed, &size(1, 1, 60));
        world.upset(seed, 60);
        for name in world.full_names() {
            let commits = world.items().filter(|item| item.kind == Kind::Commit);
            let resource = format!("repo:{name}");
            let commits = commits.filter(|item| item.resource == resource);
            let all: BTreeMap<String, Value> = commits
                .map(|item: Item| (sha(&item.body), item.body))
                .collect();
            let test = start(world.clone(), Setup::default());
            if test.get(&format!("/repos/{name}/commits")).await.status == 409 {
                assert!(all.is_empty());
                continue;
            }
            let listed = shas(&list(&test, &name, "").await);
            assert_eq!(listed, log_order(&all, &listed[0]), "{seed} {name}");
        }
    }
}

#[tokio::test]
async fn a_merge_brings_old_commits_below_a_new_head() {
    let (world, name) = one();
    let test = start(world, Setup::default());
    let before = shas(&list(&test, &name, "").await);
    let merged = test
        .fake
        .with_world(|world| world.merge(&name, &[1_500_000_000, 1_500_000_100]));
    assert!(merged);
    let after = list(&test, &name, "").await;
    assert_eq!(after.len(), before.len() + 3);
    let heads = parents(&after[0]);
    assert_eq!((heads.len(), &heads[0]), (2, &before[0]));
    let tip = after.iter().position(|commit| sha(commit) == heads[1]);
    let tip = &after[tip.expect("the side branch")];
    assert_eq!(committed(tip), "2017-07-14T02:41:40Z");
    let first = after
        .iter()
        .find(|commit| sha(commit) == parents(tip)[0])
        .expect("the first of the branch");
    assert!(before.contains(&parents(first)[0]), "it forks off");
    assert!(!test.fake.with_world(|world| world.merge(&name, &[])));
    assert!(!test.fake.with_world(|world| world.merge("octocat/x", &[1])));
}

#[tokio::test]
async fn an_empty_repository_begins_with_what_is_pushed_or_merged() {
    for is_merge in [false, true] {
        let mut world = small();
        let name = world.full_names()[1].clone();
        let changed = match is_merge {
            true => world.merge(&name, &[5, 6]),
            false => world.push(&name, &[5, 6]),
        };
        assert!(changed);
        let test = start(world, Setup::default());
        let commits = list(&test, &name, "").await;
        assert_eq!(commits.len(), 2);
        assert_eq!(parents(&commits[0]), [sha(&commits[1])]);
        assert!(parents(&commits[1]).is_empty());
    }
}

#[tokio::test]
async fn a_list_can_begin_with_any_commit_and_at_any_date() {
    let (world, name) = one();
    let test = start(world, Setup::default());
    let commits = list(&test, &name, "").await;
    let all: BTreeMap<String, Value> = commits.iter().map(|one| (sha(one), one.clone())).collect();
    for n in [0, 3, 11, commits.len() - 1] {
        let from = sha(&commits[n]);
        let listed = shas(&list(&test, &name, &format!("&sha={from}")).await);
        assert_eq!(listed[0], from);
        assert_eq!(
            listed.iter().cloned().collect::<BTreeSet<_>>(),
            reach(&all, &from)
        );
        let since = committed(&commits[5]);
        let query = format!("&sha={from}&since={since}");
        let later = list(&test, &name, &query).await;
        let expected = listed.iter().filter(|sha| committed(&all[*sha]) >= since);
        assert!(later.iter().map(sha).eq(expected.cloned()));
    }
    for unknown in ["0".repeat(40), "x".to_owned(), "é".repeat(20)] {
        let target = format!("/repos/{name}/commits?sha={unknown}");
        let refused = test.get(&target).await;
        assert_eq!(refused.status, 404);
        assert!(message(&refused).starts_with("No commit found for SHA"));
    }
}

#[tokio::test]
async fn dropped_commits_can_be_asked_for_until_they_are_collected() {
    let (world, name) = one();
    let test = start(world, Setup::default());
    let before = list(&test, &name, "").await;
    let old = sha(&before[0]);
    let change = |act: &dyn Fn(&mut World) -> bool| test.fake.with_world(|world| act(world));
    assert!(!change(&|world| world.force_push(&name, 0, &[])));
    assert!(!change(&|world| world.force_push(&name, 10_000, &[])));
    assert!(!change(&|world| world.collect_garbage(&name)));
    assert!(change(&|world| world.force_push(&name, 2, &[7, 8])));
    let after = list(&test, &name, "").await;
    assert_eq!(committed(&after[0]), "1970-01-01T00:00:08Z");
    assert!(!shas(&after).contains(&old));
    let items = test.fake.with_world(|world| {
        let commits = world.items().filter(|item| item.kind == Kind::Commit);
        commits.map(|item| sha(&item.body)).collect::<BTreeSet<_>>()
    });
    assert_eq!(items, shas(&after).into_iter().collect());

    let from_old = format!("&sha={old}");
    assert_eq!(list(&test, &name, &from_old).await, before);
    assert!(change(&|world| world.collect_garbage(&name)));
    assert!(!change(&|world| world.collect_garbage(&name)));
    let gone = test.get(&format!("/repos/{name}/commits?sha={old}")).await;
    assert_eq!(gone.status, 404);
    let range = format!("{old}...{}", sha(&after[0]));
    let gone = test.get(&format!("/repos/{name}/compare/{range}")).await;
    assert_eq!(gone.status, 404);
    assert_eq!(list(&test, &name, "").await, after);
}

async fn compare(test: &Test, name: &str, base: &str, head: &str) -> Value {
    let target = format!("/repos/{name}/compare/{base}...{head}?per_page=100");
    let answer = test.get(&target).await;
    assert_eq!(answer.status, 200, "{target}");
    json(&answer)
}

#[tokio::test]
async fn a_comparison_has_the_commits_of_the_head_that_the_base_lacks() {
    let (mut world, name) = one();
    assert!(world.merge(&name, &[1_600_000_000, 1_600_000_100]));
    let test = start(world, Setup::default());
    let commits = list(&test, &name, "").await;
    let all: BTreeMap<String, Value> = commits.iter().map(|one| (sha(one), one.clone())).collect();
    let order = shas(&commits);
    let side = &parents(&commits[0])[1];
    let pairs = [
        (&order[4], &order[0]),
        (&order[0], &order[4]),
        (&order[1], side),
        (side, &order[1]),
        (&order[3], &order[3]),
    ];
    let mut statuses = BTreeSet::new();
    for (base, head) in pairs {
        let body = compare(&test, &name, base, head).await;
        let (of_base, of_head) = (reach(&all, base), reach(&all, head));
        let ahead: Vec<String> = order
            .iter()
            .rev()
            .filter(|sha| of_head.contains(*sha) && !of_base.contains(*sha))
            .cloned()
            .collect();
        let listed = body["commits"].as_array().expect("commits");
        assert_eq!(
            shas(listed).into_iter().collect::<BTreeSet<_>>(),
            ahead.iter().cloned().collect()
        );
        assert!(listed.iter().all(|one| all[&sha(one)] == *one));
        assert_eq!(body["ahead_by"], ahead.len());
        assert_eq!(body["total_commits"], ahead.len());
        assert_eq!(body["behind_by"], of_base.difference(&of_head).count());
        assert_eq!(body["base_commit"], all[base]);
        let merge_base = sha(&body["merge_base_commit"]);
        let common: BTreeSet<_> = of_base.intersection(&of_head).cloned().collect();
        assert_eq!(reach(&all, &merge_base), common, "the latest common one");
        statuses.insert(body["status"].as_str().expect("a status").to_owned());
    }
    let expected = ["ahead", "behind", "diverged", "identical"];
    assert_eq!(statuses, expected.map(str::to_owned).into());
}

#[tokio::test]
async fn comparisons_have_numbered_pages_even_where_lists_have_cursors() {
    let (world, name) = one();
    let setup = Setup {
        paging: Paging::Cursors,
        ..Setup::default()
    };
    let test = start(world, setup);
    let order = shas(&list(&test, &name, "").await);
    let (base, head) = (order.last().expect("a root"), &order[0]);
    let mut next = Some(format!("/repos/{name}/compare/{base}...{head}?per_page=9"));
    let mut found = Vec::new();
    while let Some(target) = next {
        let answer = test.get(&target).await;
        let body = json(&answer);
        assert_eq!(body["total_commits"], order.len() - 1);
        found.extend(shas(body["commits"].as_array().expect("commits")));
        next = link(&answer, "next");
        let is_numbered = |next: &String| {
            next.contains("/repositories/100000/compare/") && next.contains("&page=")
        };
        assert!(next.as_ref().is_none_or(is_numbered), "{next:?}");
    }
    found.reverse();
    assert_eq!(found, order[..order.len() - 1]);
}

#[tokio::test]
async fn what_cannot_be_compared_is_not_found() {
    let (world, name) = one();
    let test = start(world, Setup::default());
    let old = sha(&list(&test, &name, "").await[0]);
    let replaced = |world: &mut World| world.force_push(&name, 10_000, &[9]);
    assert!(test.fake.with_world(replaced));
    let new = sha(&list(&test, &name, "").await[0]);
    let unknown = "1".repeat(40);
    for (range, expected) in [
        (format!("{old}...{new}"), "No common ancestor"),
        (format!("{old}...{unknown}"), "Not Found"),
        (format!("{unknown}...{new}"), "Not Found"),
        (old.clone(), "Not Found"),
    ] {
        let refused = test.get(&format!("/repos/{name}/compare/{range}")).await;
        assert_eq!(refused.status, 404);
        assert!(message(&refused).starts_with(expected), "{range}");
    }
}

#[tokio::test]
async fn cursors_keep_a_list_of_commits_as_it_was_when_it_began() {
    let (world, name) = one();
    let setup = Setup {
        paging: Paging::Cursors,
        ..Setup::default()
    };
    let test = start(world, setup);
    let target = format!("/repos/{name}/commits?per_page=7");
    let next = link(&test.get(&target).await, "next").expect("a next page");
    let before = test.walk(&next).await.0;
    assert!(
        test.fake
            .with_world(|world| world.push(&name, &[10, FAR_FUTURE]))
    );
    assert_eq!(test.walk(&next).await.0, before);
    let head = &list(&test, &name, "").await[0];
    assert_eq!(committed(head), "2099-01-01T00:00:00Z");
}
