//! Paths, pages and ETags.

use clinch_github::fake::{Paging, Setup, World};

use crate::support::{TOKEN, json, link, message, number, size, small, start};

/// The name of the repository with most issues, and how many it has.
fn largest(test: &crate::support::Test) -> (String, usize) {
    test.fake.with_world(|world| {
        let counts = world.full_names().into_iter().map(|name| {
            let resource = format!("repo:{name}");
            let of_it = world.items().filter(|item| item.resource == resource);
            let count = of_it
                .filter(|item| item.body.get("number").is_some())
                .count();
            (name, count)
        });
        counts
            .max_by_key(|(_, count)| *count)
            .expect("repositories")
    })
}

#[tokio::test]
async fn pages_are_exact_and_linked_as_at_github() {
    let test = start(small(), Setup::default());
    let (name, count) = largest(&test);
    let (all, pages) = test
        .walk(&format!("/repos/{name}/issues?state=all&per_page=7"))
        .await;
    assert_eq!(all.len(), count);
    assert_eq!(pages, count.div_ceil(7));
    let mut numbers: Vec<u64> = all
        .iter()
        .filter_map(|body| body["number"].as_u64())
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=count as u64));

    let first = test
        .get(&format!("/repos/{name}/issues?state=all&per_page=7"))
        .await;
    let second = link(&first, "next").expect("a second page");
    assert!(
        second.starts_with("http://fake.invalid/repositories/1000"),
        "{second}"
    );
    assert!(
        second.ends_with("/issues?state=all&per_page=7&page=2"),
        "{second}"
    );
    assert_eq!(link(&first, "prev"), None);
    assert_eq!(link(&first, "first"), None);
    let last = link(&first, "last").expect("a last page");
    assert!(
        last.ends_with(&format!("&page={}", count.div_ceil(7))),
        "{last}"
    );
    let last = test.get(&last).await;
    assert_eq!(link(&last, "next"), None);
    assert_eq!(link(&last, "last"), None);
    assert!(
        link(&last, "first")
            .expect("a first page")
            .ends_with("&page=1")
    );
    let past = test
        .get(&format!(
            "/repos/{name}/issues?state=all&per_page=7&page=9999"
        ))
        .await;
    assert_eq!((past.status, past.body.as_slice()), (200, b"[]".as_slice()));
}

#[tokio::test]
async fn pages_hold_thirty_unless_told_and_a_hundred_at_most() {
    let test = start(small(), Setup::default());
    let (name, _) = largest(&test);
    for (query, expected) in [
        ("", 30),
        ("&per_page=5", 5),
        ("&per_page=0", 30),
        ("&per_page=500", 100),
    ] {
        let page = test
            .get(&format!("/repos/{name}/issues?state=all{query}"))
            .await;
        assert_eq!(
            json(&page).as_array().map(Vec::len),
            Some(expected),
            "{query}"
        );
    }
}

#[tokio::test]
async fn cursors_lead_through_the_same_list_even_while_it_grows() {
    let setup = Setup {
        paging: Paging::Cursors,
        ..Setup::default()
    };
    let test = start(small(), setup);
    let (name, count) = largest(&test);
    for order in [
        "sort=updated&direction=asc",
        "sort=comments",
        "sort=created&direction=desc",
    ] {
        let target = format!("/repos/{name}/issues?state=all&per_page=9&{order}");
        let (all, pages) = test.walk(&target).await;
        assert_eq!((all.len(), pages), (count, count.div_ceil(9)), "{order}");
    }
    let first = test
        .get(&format!("/repos/{name}/issues?state=all&per_page=9"))
        .await;
    let next = link(&first, "next").expect("a next page");
    assert!(
        next.contains("after=") && !next.contains("&page="),
        "{next}"
    );
    assert_eq!(link(&first, "last"), None);
    let before = json(&test.get(&next).await);
    test.fake.with_world(|world| world.change(4, 100));
    let after = json(&test.get(&next).await);
    let numbers = |page: &serde_json::Value| -> Vec<u64> {
        let page = page.as_array().expect("a list").iter();
        page.filter_map(|body| body["number"].as_u64()).collect()
    };
    assert_eq!(numbers(&before), numbers(&after));
    for query in ["page=2", "after=nonsense"] {
        let refused = test.get(&format!("/repos/{name}/issues?{query}")).await;
        assert_eq!(refused.status, 422);
    }
}

#[tokio::test]
async fn lists_are_sorted_and_filtered_as_documented() {
    let test = start(small(), Setup::default());
    let (name, _) = largest(&test);
    let dates = async |target: String, field: &str| -> Vec<String> {
        let (all, _) = test.walk(&target).await;
        all.iter()
            .map(|body| body[field].as_str().expect("a date").to_owned())
            .collect()
    };
    let updated = dates(
        format!("/repos/{name}/issues?state=all&sort=updated&direction=asc"),
        "updated_at",
    )
    .await;
    assert!(updated.is_sorted());
    let since = &updated[updated.len() / 2];
    let later = dates(
        format!("/repos/{name}/issues?state=all&since={since}"),
        "updated_at",
    )
    .await;
    assert_eq!(
        later.len(),
        updated.iter().filter(|at| *at >= since).count()
    );
    // `/pulls` knows no `since`, and another default direction.
    let pulls = dates(
        format!("/repos/{name}/pulls?state=all&sort=updated&since={since}"),
        "updated_at",
    )
    .await;
    assert!(pulls.is_sorted() && pulls[0] < *since);
    let pulls = dates(format!("/repos/{name}/pulls?state=all"), "created_at").await;
    assert!(pulls.is_sorted_by(|a, b| a >= b));
    let open = test.walk(&format!("/repos/{name}/issues")).await.0;
    assert!(open.len() < updated.len() && open.iter().all(|body| body["state"] == "open"));
    let commits = test
        .walk(&format!("/repos/{name}/commits?per_page=100"))
        .await
        .0;
    let committed = |n: usize| {
        commits[n]["commit"]["committer"]["date"]
            .as_str()
            .expect("a date")
    };
    assert!((1..commits.len()).all(|n| committed(n - 1) >= committed(n)));
    let since = committed(commits.len() / 3);
    let later = test
        .walk(&format!("/repos/{name}/commits?since={since}"))
        .await
        .0;
    assert_eq!(
        later.len(),
        (0..commits.len())
            .filter(|n| committed(*n) >= since)
            .count()
    );
    let repositories = test.walk("/users/octocat/repos?per_page=5").await.0;
    assert_eq!(repositories.len(), 12);
    assert!(repositories.is_sorted_by_key(|body| body["full_name"].as_str().map(str::to_owned)));
}

#[tokio::test]
async fn three_hundred_events_are_shown_and_no_page_after_them() {
    let mut world = World::generate(1, &size(1, 0, 301));
    world.change(1, 100);
    let test = start(world, Setup::default());
    let (events, pages) = test.walk("/users/octocat/events?per_page=100").await;
    assert_eq!((events.len(), pages), (300, 3));
    let newest = events
        .iter()
        .map(|event| event["created_at"].as_str().map(str::to_owned));
    assert!(newest.is_sorted_by(|a, b| a >= b));
    assert!(events[0]["id"].is_string());
    let page = test.get("/users/octocat/events?per_page=100&page=3").await;
    assert_eq!(page.header("x-poll-interval"), Some("60"));
    let past = test.get("/users/octocat/events?per_page=100&page=4").await;
    assert_eq!(past.status, 422);
    assert!(message(&past).contains("pagination is limited"));
}

#[tokio::test]
async fn what_is_not_there_is_refused_as_at_github() {
    let test = start(small(), Setup::default());
    let names = test.fake.with_world(|world| world.full_names());
    let cases = [
        (
            format!("/repos/{}/commits", names[1]),
            409,
            "Git Repository is empty.",
        ),
        (
            format!("/repos/{}/commits", names[11]),
            409,
            "Git Repository is empty.",
        ),
        (
            format!("/repos/{}/issues", names[2]),
            410,
            "Issues has been disabled in this repository.",
        ),
        (
            format!("/repos/{}/issues?since=yesterday", names[0]),
            422,
            "Invalid since: give a time as 2020-01-01T00:00:00Z.",
        ),
        ("/repos/octocat/nothing/issues".to_owned(), 404, "Not Found"),
        ("/repositories/5/issues".to_owned(), 404, "Not Found"),
        ("/users/nobody".to_owned(), 404, "Not Found"),
        ("/users/octocat/gists".to_owned(), 404, "Not Found"),
        ("/".to_owned(), 404, "Not Found"),
    ];
    for (target, status, expected) in cases {
        let answer = test.get(&target).await;
        assert_eq!(
            (answer.status, message(&answer).as_str()),
            (status, expected),
            "{target}"
        );
    }
    assert_eq!(
        test.get(&format!("/repos/{}/pulls", names[2])).await.status,
        200
    );
    assert_eq!(
        test.get(&format!("/repos/{}/issues", names[1])).await.body,
        b"[]"
    );
}

#[tokio::test]
async fn tokens_have_accounts() {
    let test = start(small(), Setup::default());
    assert_eq!(json(&test.get("/user").await)["login"], "octocat");
    assert_eq!(
        json(&test.get_as(Some("fake-a-robot-7"), "/user").await)["login"],
        "a-robot"
    );
    assert_eq!(test.get_as(None, "/user").await.status, 401);
    for bad in ["ghp_real", "fake-octocat", "fake--1", "fake-octocat-x"] {
        let refused = test.get_as(Some(bad), "/users/octocat").await;
        assert_eq!(
            (refused.status, message(&refused).as_str()),
            (401, "Bad credentials"),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn a_full_last_page_keeps_its_etag_when_another_follows() {
    let world = World::generate(1, &size(1, 1, 2));
    let grown = (0..).find_map(|seed| {
        let mut world = world.clone();
        world.change(seed, 1);
        (world.full_names().len() == 2).then_some(world)
    });
    let target = "/users/octocat/repos?per_page=1&sort=created&direction=asc";
    let test = start(world, Setup::default());
    let alone = test.get(target).await;
    assert_eq!(alone.header("link"), None);
    test.fake
        .with_world(|world| *world = grown.expect("a repository is added"));
    let etag = alone.header("etag").expect("an ETag");
    let known = test.get_known(Some(TOKEN), target, etag).await;
    assert_eq!(known.status, 304);
    assert!(link(&known, "next").is_some());
}

#[tokio::test]
async fn an_etag_is_the_tokens_own_and_outlives_the_fake() {
    let target = "/users/octocat/repos?per_page=5";
    let test = start(small(), Setup::default());
    let first = test.get(target).await;
    let etag = first.header("etag").expect("an ETag").to_owned();
    assert!(etag.starts_with("W/\""));
    let spent = number(&first, "x-ratelimit-used");

    let again = start(small(), Setup::default());
    for test in [&test, &again] {
        let known = test.get_known(Some(TOKEN), target, &etag).await;
        assert_eq!((known.status, known.body.len()), (304, 0));
        assert_eq!(known.header("link"), first.header("link"));
        assert_eq!(test.fake.tally().not_modified, 1);
    }
    let known = test.get_known(Some(TOKEN), target, &etag).await;
    assert_eq!(number(&known, "x-ratelimit-used"), spent);
    let other = test.get_known(Some("fake-octocat-2"), target, &etag).await;
    assert_eq!(other.status, 200);
    let nobody = test.get_as(None, target).await;
    let known = test
        .get_known(None, target, nobody.header("etag").expect("an ETag"))
        .await;
    assert_eq!((known.status, number(&known, "x-ratelimit-used")), (304, 2));

    test.fake.with_world(|world| {
        let first = world.full_names()[0].clone();
        world.rename(&first, "a-first-one")
    });
    assert_eq!(test.get_known(Some(TOKEN), target, &etag).await.status, 200);
}
