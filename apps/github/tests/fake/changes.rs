//! Changes of the world: by name, by chance, and while it is read.

use std::collections::BTreeSet;

use clinch_github::fake::{Item, Kind, Restless, Setup, World};

use crate::support::{json, link, size, small, start};

fn items(world: &World) -> Vec<Item> {
    world.items().collect()
}

#[tokio::test]
async fn a_deleted_issue_is_in_no_list_and_its_number_is_not_used_again() {
    let test = start(small(), Setup::default());
    let name = test.fake.with_world(|world| world.full_names()[0].clone());
    let target = format!("/repos/{name}/issues?state=all&per_page=100");
    let before = test.walk(&target).await.0;
    for is_pull in [true, false] {
        let has_kind = |body: &&serde_json::Value| body.get("pull_request").is_some() == is_pull;
        let number = before.iter().find(has_kind).expect("one")["number"].clone();
        let number = number.as_u64().expect("a number");
        let delete = |world: &mut World| world.delete_issue(&name, number);
        let count = test.fake.with_world(|world| world.documents());
        assert!(test.fake.with_world(delete));
        assert!(!test.fake.with_world(delete), "it is gone");
        assert_eq!(test.fake.with_world(|world| world.documents()), count - 1);
        for list in ["issues", "pulls"] {
            let target = format!("/repos/{name}/{list}?state=all&per_page=100");
            let all = test.walk(&target).await.0;
            assert!(!all.is_empty());
            assert!(all.iter().all(|body| body["number"] != number));
        }
    }
    assert_eq!(test.walk(&target).await.0.len(), before.len() - 2);
    let largest = before.len() as u64;
    let refused = [0, largest + 1, u64::MAX];
    for number in refused {
        let delete = |world: &mut World| world.delete_issue(&name, number);
        assert!(!test.fake.with_world(delete));
    }
}

#[tokio::test]
async fn a_deleted_repository_is_nowhere() {
    let test = start(small(), Setup::default());
    let name = test.fake.with_world(|world| world.full_names()[0].clone());
    let id = json(&test.get(&format!("/repos/{name}")).await)["id"].clone();
    assert!(test.fake.with_world(|world| world.rename(&name, "other")));
    assert!(!test.fake.with_world(|world| world.delete_repository(&name)));
    let new = "octocat/other";
    assert!(test.fake.with_world(|world| world.delete_repository(new)));
    assert!(!test.fake.with_world(|world| world.delete_repository(new)));
    for target in [
        format!("/repos/{name}"),
        format!("/repos/{new}"),
        format!("/repositories/{id}/issues"),
    ] {
        assert_eq!(test.get(&target).await.status, 404, "{target}");
    }
    let listed = test.walk("/users/octocat/repos").await.0;
    assert_eq!(listed.len(), 11);
    assert_eq!(json(&test.get("/users/octocat").await)["public_repos"], 11);
    test.fake.with_world(|world| {
        assert!(!world.full_names().contains(&new.to_owned()));
        assert!(
            items(world)
                .iter()
                .all(|item| !item.resource.ends_with(new))
        );
        assert!(!world.push(new, &[1]) && !world.delete_issue(new, 1));
    });
}

#[tokio::test]
async fn a_transferred_repository_has_another_owner_and_its_old_name_redirects() {
    let test = start(World::generate(7, &size(2, 4, 400)), Setup::default());
    let old = test.fake.with_world(|world| world.full_names()[0].clone());
    let (_, short) = old.split_once('/').expect("a full name");
    let events = test.walk("/users/octocat/events?per_page=100").await.0;
    let before = json(&test.get(&format!("/repos/{old}/commits")).await);
    let transfer = |owner: &str| test.fake.with_world(|world| world.transfer(&old, owner));
    assert!(!transfer("nobody") && !transfer("octocat"));
    assert!(transfer("hubot"));
    assert!(!transfer("hubot"), "the old name is a redirect");

    let new = format!("hubot/{short}");
    let body = json(&test.get(&format!("/repos/{new}")).await);
    assert_eq!(body["owner"]["login"], "hubot");
    let moved = test.get(&format!("/repos/{old}/commits")).await;
    assert_eq!(moved.status, 301);
    let location = moved.header("location").expect("a location").to_owned();
    assert_eq!(
        location,
        format!("http://fake.invalid/repositories/{}/commits", body["id"])
    );
    assert_eq!(json(&test.get(&location).await), before);
    let owned = async |login: &str| test.walk(&format!("/users/{login}/repos")).await.0.len();
    assert_eq!((owned("octocat").await, owned("hubot").await), (1, 3));
    let after = test.walk("/users/octocat/events?per_page=100").await.0;
    assert_eq!(after, events, "events keep the names of their time");
    test.fake.with_world(|world| {
        let resource = format!("repo:{new}");
        for item in items(world) {
            assert!(item.resource != resource || item.user == "hubot");
            assert!(!item.resource.ends_with(&old));
        }
        assert!(world.transfer(&new, "octocat"), "and back");
    });
    assert_eq!(test.get(&format!("/repos/{old}")).await.status, 200);
    assert_eq!(test.get(&format!("/repos/{new}")).await.status, 301);
}

#[test]
fn every_kind_of_change_is_drawn_and_the_seed_decides() {
    let (mut lost, mut redirected, mut deleted, mut dropped, mut future) = (0, 0, 0, 0, 0);
    for seed in 0..40 {
        let mut world = World::generate(1, &size(2, 6, 300));
        let before = items(&world);
        let names: BTreeSet<String> = world.full_names().into_iter().collect();
        world.upset(seed, 30);
        let mut again = World::generate(1, &size(2, 6, 300));
        again.upset(seed, 30);
        let after = items(&world);
        assert!(items(&again) == after, "{seed}");
        let now: BTreeSet<String> = world.full_names().into_iter().collect();
        redirected += names.difference(&now).count();
        let ids = |items: &[Item], kind: Kind, key: &str| -> BTreeSet<String> {
            let of_kind = items.iter().filter(|item| item.kind == kind);
            of_kind.map(|item| item.body[key].to_string()).collect()
        };
        let missing = |kind, key: &str| {
            let (before, after) = (ids(&before, kind, key), ids(&after, kind, key));
            before.difference(&after).count()
        };
        lost += missing(Kind::Repository, "id");
        deleted += missing(Kind::Issue, "id") + missing(Kind::PullRequest, "id");
        dropped += missing(Kind::Commit, "sha");
        let dated = |item: &&Item| item.body["commit"].to_string().contains("\"2099-");
        future += after.iter().filter(dated).count();
    }
    for (count, what) in [
        (lost, "repositories are deleted"),
        (redirected, "repositories are renamed"),
        (deleted, "issues are deleted"),
        (dropped, "commits are dropped"),
        (future, "commits are dated wrongly"),
    ] {
        assert!(count > 5, "{what}: {count}");
    }
}

/// The ids of a list that is read page by page, and whether the world changed meanwhile.
async fn read_slowly(restless: Option<Restless>) -> (Vec<String>, bool) {
    let setup = Setup {
        restless,
        ..Setup::default()
    };
    let test = start(small(), setup);
    let mut next = Some("/users/octocat/events?per_page=5".to_owned());
    let mut found = Vec::new();
    while let Some(target) = next {
        let answer = test.get(&target).await;
        let page = json(&answer);
        let page = page.as_array().expect("a list").iter();
        found.extend(page.map(|body| body["id"].to_string()));
        next = link(&answer, "next");
    }
    let is_changed = test
        .fake
        .with_world(|world| items(world) != items(&small()));
    test.fake.set_restless(None);
    let before = test.fake.with_world(|world| items(world));
    test.get("/users/octocat").await;
    assert!(test.fake.with_world(|world| items(world) == before));
    (found, is_changed)
}

#[tokio::test]
async fn a_restless_world_changes_while_it_is_read() {
    let restless = |seed, share| Some(Restless { seed, share });
    let calm = read_slowly(None).await;
    assert!(!calm.1);
    assert_eq!(read_slowly(restless(1, 0.0)).await, calm);
    let one = read_slowly(restless(1, 1.0)).await;
    assert!(one.1);
    assert_eq!(read_slowly(restless(1, 1.0)).await, one);
    assert_ne!(read_slowly(restless(2, 1.0)).await, one);
    let distinct: BTreeSet<&String> = one.0.iter().collect();
    assert!(distinct.len() < one.0.len(), "the list moved on");
}
