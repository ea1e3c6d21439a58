//! What a run would cost, before it begins.

use clinch::types::ErrorKind;
use clinch_github::fake::{BASE, Fault, Faults, Setup, Size, World};
use clinch_github::{
    Cost, JobKind, Run, Selection, Settings, Space, Start, StreamCost, Token, selected,
};

use crate::lab::{Lab, assert_whole};

async fn lab(repositories: usize, streams: Vec<JobKind>) -> Lab {
    let size = Size {
        users: 1,
        repositories,
        documents: 300,
    };
    let world = World::generate(4, &size).with_streams();
    Lab::with(world, Setup::default(), |settings| {
        *settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            streams,
            page_size: 7,
            ..Settings::default()
        };
    })
    .await
}

fn streams(names: &[&str]) -> Vec<JobKind> {
    let names: Vec<String> = names.iter().map(|one| (*one).to_owned()).collect();
    selected(&names).expect("streams")
}

async fn cost(lab: &Lab, start: &Start) -> Cost {
    let cost = lab.collector.cost("OctoCat", start).await.expect("a cost");
    assert_eq!(cost.tokens.len(), 1);
    assert!(cost.tokens[0].budget.is_some(), "{cost:?}");
    cost
}

/// One job is one request.
fn assert_between(cost: &Cost, run: &Run) {
    assert_whole(run);
    let most = cost.at_most.expect("it is known");
    let total = run.jobs.total;
    assert!(cost.at_least <= total, "{total} requests: {cost:#?}");
    assert!(total <= most, "{total} requests: {cost:#?}");
}

#[tokio::test]
async fn col_8_a_first_run_costs_what_was_said_before() {
    let wanted = [
        "issue",
        "pull_request",
        "commit",
        "review",
        "commit_detail",
        "reaction",
    ];
    for more in [&[][..], &["event", "label", "languages"]] {
        let lab = lab(4, streams(&[&wanted[..], more].concat())).await;
        let before = lab.fake.tally().requests;
        let cost = cost(&lab, &Start::default()).await;
        // The token's account is asked for once, with its budget.
        let asked = lab.fake.tally().requests - before;
        assert!(cost.looked > 0 && asked <= cost.looked + 2, "{cost:?}");
        let latest = lab.collector.latest("octocat", Space::Main).await;
        assert_eq!(latest.expect("records"), None, "nothing has begun");
        assert_between(&cost, &lab.run("octocat").await);
    }
}

#[tokio::test]
async fn col_8_events_of_several_pages_are_read_twice() {
    let size = Size {
        users: 1,
        repositories: 0,
        documents: 250,
    };
    let lab = Lab::with(World::generate(4, &size), Setup::default(), |settings| {
        *settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            streams: streams(&["event"]),
            page_size: 100,
            ..Settings::default()
        };
    })
    .await;
    let cost = cost(&lab, &Start::default()).await;
    // The user, and three pages of events twice.
    assert_eq!((cost.at_least, cost.at_most), (2, Some(7)), "{cost:#?}");
    let run = lab.run("octocat").await;
    assert_between(&cost, &run);
    // The last page need not be read again.
    assert_eq!(run.jobs.total, 6, "{run:?}");
}

#[tokio::test]
async fn col_8_a_later_run_costs_what_the_store_knows() {
    let all = JobKind::all().filter(|kind| kind.is_selectable());
    let lab = lab(3, all.collect()).await;
    assert_whole(&lab.run("octocat").await);
    let full = Start {
        is_full: true,
        ..Start::default()
    };
    for start in [Start::default(), full] {
        let cost = cost(&lab, &start).await;
        // Of lists that GitHub does not have, such as milestones without issues, nothing is known.
        assert!(cost.looked <= 3, "{cost:?}");
        let run = lab.collector.start_with("octocat", &start).await;
        assert_between(&cost, &lab.end(&run.expect("it begins").run_id).await);
    }
    let name = lab.fake.with_world(|world| world.full_names()).remove(0);
    let part = Start {
        selection: Selection::new("octocat", &[name], None).expect("a name"),
        ..Start::default()
    };
    let part = cost(&lab, &part).await;
    assert_eq!(part.repositories, 1);
    assert!(part.at_least < cost(&lab, &Start::default()).await.at_least);
}

#[tokio::test]
async fn col_8_a_first_run_of_everything_costs_what_was_said_before() {
    let all = JobKind::all().filter(|kind| kind.is_selectable());
    let lab = lab(4, all.collect()).await;
    let cost = cost(&lab, &Start::default()).await;
    let known = |one: &StreamCost| one.lists == Some(one.lists_known);
    assert!(cost.streams.iter().all(known), "{cost:#?}");
    assert_eq!(cost.at_most, Some(cost.at_most_known));
    assert_between(&cost, &lab.run("octocat").await);
}

fn of(cost: &Cost, document: &str) -> StreamCost {
    let mut streams = cost.streams.iter();
    let of_kind = streams.find(|one| one.kind.document() == document);
    *of_kind.expect("a stream")
}

#[tokio::test]
async fn col_8_what_is_too_much_to_look_at_is_known_in_part() {
    let lab = lab(40, streams(&["issue", "pull_request", "commit"])).await;
    let cost = cost(&lab, &Start::default()).await;
    assert_eq!((cost.repositories, cost.at_most), (40, None));
    assert!(cost.looked <= 40, "{cost:?}");
    assert!(cost.at_least >= 120, "{cost:?}");
    // No stream is left out.
    for document in ["issue", "pull_request", "commit"] {
        let stream = of(&cost, document);
        assert_eq!((stream.lists, stream.lists_known), (Some(40), 10));
        assert_eq!(stream.at_most, None);
        assert!(stream.at_most_known >= 10, "{stream:?}");
    }
    assert!(cost.at_most_known > 30, "{cost:?}");
    let unknown = lab.collector.cost("nobody", &Start::default()).await;
    assert_eq!(unknown.expect_err("no user").kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn col_8_lists_whose_items_cost_a_request_each_are_looked_at_first() {
    let all = JobKind::all().filter(|kind| kind.is_selectable());
    let lab = lab(30, all.collect()).await;
    let before = lab.fake.tally().requests;
    let cost = cost(&lab, &Start::default()).await;
    let asked = lab.fake.tally().requests - before;
    assert!(asked <= cost.looked + 2 && cost.looked <= 210, "{cost:?}");
    for document in ["review", "timeline", "workflow_job", "commit_detail"] {
        let stream = of(&cost, document);
        assert!(stream.at_most > Some(0), "{stream:?}");
        assert_eq!(stream.at_most, Some(stream.at_least), "{stream:?}");
    }
    let label = of(&cost, "label");
    assert_eq!((label.lists, label.at_most), (Some(30), None));
    assert!((1..30).contains(&label.lists_known), "{label:?}");
    // The user's own lists are few.
    assert!(of(&cost, "organization").at_most.is_some(), "{cost:?}");
    assert_eq!(of(&cost, "member").at_most, Some(0));
    assert_eq!(cost.at_most, None);
    let items = of(&cost, "commit_detail").at_least;
    assert!(cost.at_most_known > items, "{cost:?}");
}

#[tokio::test]
async fn col_16_an_api_that_does_not_answer_leaves_the_cost_unknown() {
    let lab = lab(3, streams(&["issue", "review"])).await;
    let broken = Faults::none().first("/users/", 100, Fault::Status(502));
    lab.fake.set_faults(broken);
    let cost = cost(&lab, &Start::default()).await;
    assert_eq!((cost.at_most, cost.repositories), (None, 0));
    let problem = cost.problem.unwrap_or_default();
    assert!(problem.contains("502"), "{problem}");
}
