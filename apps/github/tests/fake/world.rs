//! Worlds: their size, and what the API shows of them.

use std::collections::{BTreeMap, BTreeSet};

use clinch_github::fake::{Item, Kind, Setup, Size, World};
use serde_json::Value;

use crate::support::{json, link, size, small, start};

fn count(world: &World, kind: Kind) -> usize {
    world.items().filter(|item| item.kind == kind).count()
}

#[test]
fn the_demo_has_three_users_forty_repositories_and_twenty_thousand_documents() {
    let world = World::generate(1, &Size::demo());
    assert_eq!(world.items().count(), 20_000);
    assert_eq!(world.documents(), 20_000);
    assert_eq!(world.logins(), ["octocat", "hubot", "monalisa"]);
    assert_eq!(count(&world, Kind::User), 3);
    assert_eq!(count(&world, Kind::Repository), 40);
    assert_eq!(world.full_names().len(), 40);
    for kind in [Kind::Issue, Kind::PullRequest, Kind::Commit, Kind::Event] {
        assert!(count(&world, kind) > 500, "{}", kind.as_str());
    }
}

#[test]
fn worlds_of_any_size_have_as_many_documents_as_asked_for() {
    let sizes = [
        (1, 0, 1),
        (1, 0, 5),
        (1, 1, 2),
        (1, 1, 9),
        (1, 3, 40),
        (4, 2, 100),
        (2, 400, 30_000),
    ];
    for (users, repositories, documents) in sizes {
        let world = World::generate(3, &size(users, repositories, documents));
        assert_eq!(world.documents(), documents);
        assert_eq!(world.logins().len(), users);
        assert_eq!(world.full_names().len(), repositories);
    }
}

#[test]
fn a_seed_decides_everything_and_no_two_documents_are_one() {
    let one: Vec<Item> = small().items().collect();
    let same: Vec<Item> = small().items().collect();
    let other = World::generate(8, &size(1, 12, 2_000));
    assert!(one == same);
    assert!(one != other.items().collect::<Vec<_>>());
    let mut ids = BTreeSet::new();
    for item in &one {
        let id = &item.body[if item.kind == Kind::Commit {
            "sha"
        } else {
            "id"
        }];
        assert!(!id.is_null());
        assert!(ids.insert((item.kind, id.to_string())), "{id} twice");
    }
    let bodies = one.iter().filter(|item| item.kind == Kind::Issue);
    for issue in bodies {
        let bytes = issue.body.to_string().len();
        assert!((900..3_000).contains(&bytes), "{bytes} bytes");
    }
}

/// What a client that follows every list finds, under the world's own names.
async fn collect(world: World) -> Vec<(Kind, String, Value)> {
    let logins = world.logins();
    let test = start(world, Setup::default());
    let mut found = Vec::new();
    for login in logins {
        let user = test.get(&format!("/users/{login}")).await;
        let resource = format!("user:{login}");
        found.push((Kind::User, resource.clone(), json(&user)));
        let (events, _) = test
            .walk(&format!("/users/{login}/events?per_page=100"))
            .await;
        found.extend(
            events
                .into_iter()
                .map(|body| (Kind::Event, resource.clone(), body)),
        );
        let (repositories, _) = test
            .walk(&format!("/users/{login}/repos?per_page=100"))
            .await;
        for repository in repositories {
            let name = repository["full_name"].as_str().expect("a name").to_owned();
            found.push((Kind::Repository, resource.clone(), repository));
            for (kind, list) in [
                (Kind::Issue, "issues?state=all&sort=updated&direction=asc"),
                (Kind::PullRequest, "pulls?state=all"),
                (Kind::Commit, "commits?"),
            ] {
                let target = format!("/repos/{name}/{list}&per_page=100");
                let resource = format!("repo:{name}");
                if matches!(test.get(&target).await.status, 409 | 410) {
                    continue;
                }
                let (bodies, _) = test.walk(&target).await;
                let bodies = bodies
                    .into_iter()
                    .filter(|body| body.get("pull_request").is_none());
                found.extend(bodies.map(|body| (kind, resource.clone(), body)));
            }
        }
    }
    assert_eq!(test.fake.tally().primary_refusals, 0);
    found
}

fn sorted(
    items: impl Iterator<Item = (Kind, String, Value)>,
) -> BTreeMap<(Kind, String), Vec<String>> {
    let mut all: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (kind, resource, body) in items {
        all.entry((kind, resource))
            .or_default()
            .push(body.to_string());
    }
    all.values_mut().for_each(|bodies| bodies.sort());
    all
}

#[tokio::test]
async fn the_api_shows_exactly_the_items_before_and_after_changes_and_renames() {
    let mut world = World::generate(5, &size(2, 12, 3_000));
    for round in 0..3 {
        let found = collect(world.clone()).await;
        let items = world
            .items()
            .map(|item| (item.kind, item.resource, item.body));
        assert!(sorted(items) == sorted(found.into_iter()), "round {round}");
        let before = world.documents();
        world.change(round, 200);
        assert!(world.documents() > before);
        let old = world.full_names()[round as usize].clone();
        assert!(world.rename(&old, &format!("renamed-{round}")));
    }
}

#[tokio::test]
async fn what_changes_is_later_than_all_before_and_since_finds_it() {
    let mut world = small();
    let latest = |world: &World| {
        let dates = world.items().filter(|item| item.kind == Kind::Issue);
        let dates = dates.filter_map(|item| item.body["updated_at"].as_str().map(str::to_owned));
        dates.max().expect("issues")
    };
    let since = latest(&world);
    let known: Vec<Item> = world
        .items()
        .filter(|item| item.kind == Kind::Issue)
        .collect();
    world.change(1, 300);
    let changed: Vec<Item> = world
        .items()
        .filter(|item| item.kind == Kind::Issue && !known.contains(item))
        .collect();
    assert!(changed.len() > 50);
    let names = world.full_names();
    let test = start(world, Setup::default());
    let mut seen = Vec::new();
    for name in names {
        let target = format!("/repos/{name}/issues?state=all&since={since}&per_page=100");
        if test.get(&target).await.status == 200 {
            seen.extend(test.walk(&target).await.0);
        }
    }
    for item in changed {
        assert!(
            seen.contains(&item.body),
            "{} {}",
            item.resource,
            item.body["number"]
        );
    }
}

#[tokio::test]
async fn a_renamed_repository_leads_to_its_id() {
    let test = start(small(), Setup::default());
    let old = test.fake.with_world(|world| world.full_names()[0].clone());
    let body = json(&test.get(&format!("/repos/{old}")).await);
    let id = body["id"].as_u64().expect("an id");
    let target = format!("/repos/{old}/issues?state=all&per_page=2");
    let before = test.get(&target).await;
    assert!(test.fake.with_world(|world| world.rename(&old, "anew")));
    assert!(!test.fake.with_world(|world| world.rename(&old, "again")));

    let moved = test.get(&target).await;
    assert_eq!(moved.status, 301);
    let location = format!("http://fake.invalid/repositories/{id}/issues?state=all&per_page=2");
    assert_eq!(moved.header("location"), Some(location.as_str()));
    assert_eq!(json(&moved)["message"], "Moved Permanently");
    assert_eq!(json(&moved)["url"], location);
    let after = test.get(&location).await;
    assert_eq!(json(&after), json(&before));
    assert_eq!(link(&after, "next"), link(&before, "next"));
    let renamed = test.get("/repos/OCTOCAT/anew").await;
    assert_eq!(json(&renamed)["full_name"], "octocat/anew");
}
