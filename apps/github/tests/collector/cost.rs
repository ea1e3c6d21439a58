//! What a run would cost, before it begins.

use clinch::types::ErrorKind;
use clinch_github::fake::{BASE, Fault, Faults, Setup, Size, World};
use clinch_github::{Cost, JobKind, Run, Selection, Settings, Space, Start, Token, selected};

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
async fn col_8_what_is_too_much_to_look_at_is_unknown() {
    let lab = lab(40, streams(&["issue", "pull_request", "commit"])).await;
    let cost = cost(&lab, &Start::default()).await;
    assert_eq!((cost.repositories, cost.at_most), (40, None));
    assert!(cost.looked <= 40, "{cost:?}");
    assert!(cost.at_least >= 120, "{cost:?}");
    let unknown = lab.collector.cost("nobody", &Start::default()).await;
    assert_eq!(unknown.expect_err("no user").kind(), ErrorKind::NotFound);
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
