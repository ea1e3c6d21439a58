//! What each stream costs in requests, and what it would cost in points of GraphQL (ADR 43).
//!
//! `UPDATE_DOCS=1 cargo test -p clinch-github --test collector points` writes the page's table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clinch_github::fake::{BASE, Setup, Size, World};
use clinch_github::{Job, JobFilter, JobKind, PageEnd, Run, Settings, Space, Token};

use crate::lab::{Lab, assert_whole};

const BEGIN: &str = "<!-- points: written by the test `points` of clinch-github -->\n";
const END: &str = "<!-- end of points -->\n";
/// Nodes that a connection of a query gives at most, and so many cost a point.
const NODES: usize = 100;

/// Requests of a stream in a run: all, and those that cost budget.
#[derive(Default, Clone, Copy)]
struct Requests {
    asked: u64,
    spent: u64,
}

async fn requests(lab: &Lab, run: &Run) -> BTreeMap<JobKind, Requests> {
    let (mut by_kind, mut after) = (BTreeMap::<JobKind, Requests>::new(), None);
    let all = JobFilter::default();
    loop {
        let page = lab.collector.jobs(&run.run_id, &all, after.as_deref(), 500);
        let (jobs, more): (Vec<Job>, _) = page.await.expect("jobs");
        for job in jobs {
            let of_kind = by_kind.entry(job.kind).or_default();
            of_kind.asked += 1;
            let end = job.done.expect("it ended").end;
            of_kind.spent += u64::from(end != PageEnd::NotModified);
        }
        after = more;
        if after.is_none() {
            return by_kind;
        }
    }
}

/// Points of a query for each hundred nodes of each list: of a user's or of each repository. What
/// belongs to items comes with them, a hundred of them and what they have for a point.
fn points(kind: JobKind, lab: &Lab) -> u64 {
    let parents = ["review", "pull_request_detail"];
    let of_pull = parents.contains(&kind.document());
    let of_issue = ["reaction", "timeline"].contains(&kind.document());
    let counted: Vec<&str> = match kind.document() {
        "commit_detail" => vec!["commit"],
        "workflow_job" => vec!["workflow_run"],
        "branch_commit" => vec!["branch"],
        _ if of_pull => vec!["pull_request"],
        _ if of_issue => vec!["issue", "pull_request"],
        own => vec![own],
    };
    let mut by_place: BTreeMap<String, usize> = BTreeMap::new();
    for one in lab.world(&["octocat"]) {
        let is_place = one.0 == "repository";
        let place = if is_place {
            format!("repo:{}", name(&one.3))
        } else {
            one.2.clone()
        };
        let count = by_place.entry(place).or_default();
        *count += usize::from(counted.contains(&one.0.as_str()) && !is_place);
    }
    let is_of_user = [
        "user",
        "event",
        "repository",
        "organization",
        "member",
        "team",
    ];
    let is_of_user = is_of_user.contains(&kind.document());
    let places = by_place
        .iter()
        .filter(|(place, _)| place.starts_with("user:") == is_of_user);
    places
        .map(|(_, count)| count.div_ceil(NODES).max(1) as u64)
        .sum()
}

fn name(body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    body["full_name"].as_str().expect("a name").to_owned()
}

#[tokio::test]
async fn col_8_the_page_says_what_rest_and_graphql_cost() {
    let size = Size {
        users: 3,
        repositories: 12,
        documents: 4_000,
    };
    let world = World::generate(1, &size).with_streams();
    let lab = Lab::with(world, Setup::default(), |settings| {
        *settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new("fake-robot-1")],
            streams: JobKind::all().filter(|kind| kind.is_selectable()).collect(),
            ..Settings::default()
        };
    })
    .await;
    let mut runs = Vec::new();
    for round in 0..3 {
        if round == 2 {
            lab.fake.with_world(|world| world.change(1, 60));
        }
        let run = lab.run("octocat").await;
        assert_whole(&run);
        runs.push(requests(&lab, &run).await);
    }
    let documents = lab.documents(Space::Main).await.len();
    let mut text = format!(
        "\n{documents} documents of a user with four repositories. Sixty changes of the world precede the third run.\n\n"
    );
    text.push_str(
        "| stream | first run: requests | points | unchanged: requests (budget) | points | changed: requests (budget) |\n",
    );
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    let mut sums = [0_u64; 7];
    for kind in JobKind::all().filter(|kind| kind.is_selectable()) {
        let of = |run: usize| runs[run].get(&kind).copied().unwrap_or_default();
        let (first, second, third) = (of(0), of(1), of(2));
        if first.asked == 0 {
            continue;
        }
        let points = points(kind, &lab);
        let row = [
            first.asked,
            points,
            second.asked,
            second.spent,
            points,
            third.asked,
            third.spent,
        ];
        for (sum, one) in sums.iter_mut().zip(row) {
            *sum += one;
        }
        text.push_str(&line(&format!("`{}`", kind.document()), row));
    }
    text.push_str(&line("all", sums));
    compare(&text);
}

/// Compares the page with this table, or writes it.
fn compare(text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../docs/adr/0043-rest-and-graphql.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("the place");
    let (_, after) = rest.split_once(END).expect("its end");
    let wanted = format!("{before}{BEGIN}{text}\n{END}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, wanted).expect("written");
        return;
    }
    assert!(
        page == wanted,
        "UPDATE_DOCS=1 cargo test -p clinch-github --test collector points"
    );
}

fn line(name: &str, row: [u64; 7]) -> String {
    let [first, points, asked, spent, again, changed, cost] = row;
    format!("| {name} | {first} | {points} | {asked} ({spent}) | {again} | {changed} ({cost}) |\n")
}
