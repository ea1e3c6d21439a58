//! `clinch github stats`: the weekly figures as a table, as JSON and as a chart.

use serde_json::{Value, json};

use crate::hub::Hub;
use crate::support::{Folder, Server, document, ends, said};

/// Every week of the made-up world.
const WEEKS: &str = "520";

/// Number of the user's documents of a kind that have this member, in the world.
fn world(hub: &Hub, kind: &str, member: &str) -> u64 {
    let documents = hub.documents("octocat");
    let of_kind = documents.iter().filter(|(name, _)| name[0] == kind);
    let counted = of_kind.filter(|(_, body)| body.pointer(member).is_some_and(|at| !at.is_null()));
    counted.count() as u64
}

#[test]
fn col_11_weekly_figures_are_shown_as_a_table_as_json_and_as_a_chart() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let nobody = folder.run(&["github", "stats", "octocat"]);
    ends(&nobody, 3);
    document(&folder.run(&["github", "run", "octocat", "-o", "json"]), 0);

    let stats = ["github", "stats", "octocat", "--weeks", WEEKS];
    let figures = document(&folder.run(&[&stats[..], &["-o", "json"]].concat()), 0);
    let expected = [
        ("commits", world(&hub, "commit", "/sha")),
        ("issues_opened", world(&hub, "issue", "/created_at")),
        ("issues_closed", world(&hub, "issue", "/closed_at")),
        ("pull_requests_opened", world(&hub, "pull_request", "/id")),
        (
            "pull_requests_merged",
            world(&hub, "pull_request", "/merged_at"),
        ),
    ];
    let weeks = figures["weekly"]["weeks"].as_array().expect("weeks");
    assert_eq!(weeks.len(), 520);
    for (name, number) in expected {
        assert!(number > 0, "{name}");
        assert_eq!(figures["weekly"]["all_time"][name], json!(number), "{name}");
        let sum: u64 = weeks.iter().filter_map(|week| week[name].as_u64()).sum();
        assert_eq!(figures["weekly"]["total"][name], json!(sum), "{name}");
        assert_eq!(sum, number, "{name}: the world is younger than ten years");
    }
    assert_eq!(figures["weekly"]["stale"], json!(0));

    let table = ends(&folder.run(&stats), 0);
    let wide = table.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{table}");
    let heading = table.lines().next().unwrap_or_default();
    let titles: Vec<&str> = heading.split_whitespace().collect();
    let expected = [
        "WEEK",
        "COMMITS",
        "ISSUES",
        "PULL_REQUESTS",
        "LEAD_TIME",
        "REVIEW_TIME",
        "EVENTS",
    ];
    assert_eq!(titles, expected);
    let is_total = |line: &&str| line.starts_with("total");
    let total = table.lines().find(is_total).expect("a total");
    assert_eq!(
        total.split_whitespace().nth(1),
        figures["weekly"]["total"]["commits"]
            .as_u64()
            .map(|n| n.to_string())
            .as_deref()
    );
    assert!(table.contains("  events: "), "{table}");
    let usual = ends(&folder.run(&stats[..3]), 0);
    let rows = usual.lines().take_while(|line| !line.is_empty()).count();
    assert_eq!(rows, 14, "a heading, twelve weeks and the total: {usual}");
}

#[test]
fn col_11_a_chart_and_one_repository() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    document(&folder.run(&["github", "run", "octocat", "-o", "json"]), 0);
    let stats = ["github", "stats", "octocat", "--weeks", WEEKS];
    let out = folder.0.join("octocat.svg");
    let path = out.to_str().expect("a path");
    let drawn = folder.run(&[&stats[..], &["--svg", path]].concat());
    assert_eq!(ends(&drawn, 0), "");
    let svg = std::fs::read_to_string(&out).expect("a file");
    assert!(svg.starts_with("<svg xmlns="), "{svg:.200}");
    assert!(svg.trim_end().ends_with("</svg>") && svg.contains("octocat: weeks from"));
    let printed = folder.run(&[&stats[..], &["--svg", "-"]].concat());
    assert_eq!(ends(&printed, 0), svg);
    let nowhere = folder.run(&[&stats[..], &["--svg", "no/folder/x.svg"]].concat());
    ends(&nowhere, 1);

    let names = hub.fake.with_world(|world| world.full_names());
    let is_own = |name: &&String| name.starts_with("octocat/");
    let name = names.iter().find(is_own).expect("a repository");
    let one = [&stats[..], &["--repository", name, "-o", "json"]].concat();
    let one = document(&folder.run(&one), 0);
    assert_eq!(one["repository"], json!(name));
    assert_eq!(one["weekly"]["repositories"], json!(1));
    let documents = hub.documents("octocat");
    let resource = format!("repo:{name}");
    let commits = documents
        .keys()
        .filter(|key| key[0] == "commit" && key[1] == resource);
    assert_eq!(one["weekly"]["all_time"]["commits"], json!(commits.count()));

    let other = folder.run(&[&stats[..], &["--repository", "no-such-thing"]].concat());
    ends(&other, 3);
    assert!(
        said(&other).contains("no such repository"),
        "{}",
        said(&other)
    );
    ends(
        &folder.run(&["github", "stats", "octocat", "--weeks", "0"]),
        2,
    );
    ends(&folder.run(&["github", "stats"]), 2);
}

#[test]
fn col_11_a_server_gives_the_weekly_figures() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let server = Server::start(&folder, "api,worker,recovery");
    let url = server.url();
    let run = ["github", "run", "octocat", "--wait", "--url", &url];
    ends(&folder.run(&run), 0);
    let path = "/v1/github/statistics?login=octocat&weeks=2";
    let two = server.ask("GET", path, "", 200);
    assert_eq!(two["weekly"]["weeks"].as_array().map(Vec::len), Some(2));
    let command = ["github", "stats", "octocat", "--weeks", "2", "-o", "json"];
    let shown = document(&folder.run(&[&command[..], &["--url", &url]].concat()), 0);
    assert_eq!(shown, two);
    let all = server.ask("GET", "/v1/github/statistics", "", 200);
    assert_eq!(all["weekly"], Value::Null);
    for (wrong, status) in [
        ("?login=octocat&weeks=0", 400),
        ("?login=octocat&weeks=521", 400),
        ("?weeks=3", 400),
        ("?repository=hello", 400),
        ("?login=octocat&repository=none", 404),
        ("?login=stranger", 404),
    ] {
        let path = format!("/v1/github/statistics{wrong}");
        let problem = server.ask("GET", &path, "", status);
        assert!(problem["code"].is_string(), "{problem:#}");
    }
    let openapi = server.ask("GET", "/openapi.json", "", 200);
    let statistics = &openapi["paths"]["/v1/github/statistics"]["get"]["parameters"];
    let names = statistics.as_array().expect("parameters").iter();
    let names: Vec<&str> = names.filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["login", "repository", "weeks", "shadow"]);
}
