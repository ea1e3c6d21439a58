//! The collector without a server, on the store of the folder.

use std::process::Stdio;
use std::time::Duration;

use clinch_github::fake::{Faults, Setup};
use clinch_testbed::wait_until;
use serde_json::json;

use crate::hub::{Hub, exported, small};
use crate::support::{Folder, PATIENCE, clinch, document, ends, said};

const FAKE: [&str; 6] = ["github", "run", "octocat", "--fake", "-o", "json"];

#[test]
fn col_4_a_made_up_github_is_collected_whole_and_hardly_read_the_second_time() {
    let folder = Folder::with("");
    let first = document(&folder.run(&FAKE), 0);
    let whole = json!({"equal": 20_000, "of": 20_000, "extra": 0});
    assert_eq!(first["documents"], whole);
    assert_eq!(first["runs"].as_array().map(Vec::len), Some(3), "{first:#}");

    let second = document(&folder.run(&FAKE), 0);
    assert_eq!(second["documents"], whole);
    let spared = second["not_fetched_percent"].as_f64();
    assert!(spared.is_some_and(|share| share >= 90.0), "{second:#}");

    let lines = ends(&folder.run(&["github", "export"]), 0);
    assert_eq!(exported(&lines).len(), 20_000);
    let out = folder.0.join("issues.csv");
    let path = out.to_str().expect("a path");
    let arguments = [
        "github", "export", "--kind", "issue", "--format", "csv", "--out", path,
    ];
    ends(&folder.run(&arguments), 0);
    let csv = std::fs::read_to_string(&out).expect("a file");
    assert!(csv.starts_with("_id,_user,_resource,id,"), "{csv:.200}");
    let issues = lines
        .lines()
        .filter(|line| line.contains("\"kind\":\"issue\""));
    assert_eq!(csv.lines().count(), issues.count() + 1);

    let people = ends(&folder.run(&FAKE[..4]), 0);
    assert!(
        people.contains("documents equal the world's: 20,000 of 20,000"),
        "{people}"
    );
}

#[test]
fn col_15_what_is_there_is_shown_and_exported_as_it_was_sent() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let report = document(&folder.run(&["github", "run", "octocat", "-o", "json"]), 0);
    assert_eq!(report.pointer("/run/status"), Some(&json!("COMPLETED")));
    assert_eq!(report.pointer("/statistics/runs"), Some(&json!(1)));
    let lines = ends(&folder.run(&["github", "export", "--login", "octocat"]), 0);
    assert_eq!(exported(&lines), hub.documents("octocat"));

    let runs = document(&folder.run(&["github", "status", "-o", "json"]), 0);
    assert_eq!(runs.pointer("/runs/0/run_id"), Some(&json!("octocat.1")));
    for name in ["octocat", "octocat.1"] {
        let status = document(&folder.run(&["github", "status", name, "-o", "json"]), 0);
        assert_eq!(
            status.pointer("/run/kinds/user_basic/succeeded"),
            Some(&json!(1))
        );
        assert_eq!(status.pointer("/tokens/0/account"), Some(&json!("ann")));
    }
    let people = ends(&folder.run(&["github", "status", "octocat", "--watch"]), 0);
    assert!(people.contains("repo_issues"), "{people}");
}

#[test]
fn col_18_a_shadow_is_collected_from_the_beginning_and_compared() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let run = ["github", "run", "octocat", "-o", "json"];
    document(&folder.run(&run), 0);
    let shadow = ["github", "run", "octocat", "--shadow", "-o", "json"];
    let report = document(&folder.run(&shadow), 0);
    let known = hub.documents("octocat").len();
    assert_eq!(report.pointer("/comparison/equal"), Some(&json!(known)));
    assert_eq!(
        report.pointer("/run/run_id"),
        Some(&json!("octocat.shadow.1"))
    );
    ends(&folder.run(&["github", "compare", "octocat"]), 0);

    // The world changes; the next real run sees the change, the shadow does not.
    hub.fake.with_world(|world| world.change(3, 40));
    document(&folder.run(&run), 0);
    let differs = document(
        &folder.run(&["github", "compare", "octocat", "-o", "json"]),
        1,
    );
    let count = |name: &str| differs[name].as_u64().unwrap_or(0);
    assert!(count("different") + count("missing") > 0, "{differs:#}");
}

#[test]
fn col_15_failed_jobs_are_named_and_tried_again() {
    let broken = Hub::calm().fake.with_world(|world| world.full_names());
    let name = broken.first().expect("a repository");
    let hub = Hub::with(Faults::none().repository(name, 400));
    let login = name.split('/').next().expect("an owner");
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let report = document(&folder.run(&["github", "run", login, "-o", "json"]), 1);
    assert_eq!(report.pointer("/run/status"), Some(&json!("COMPLETED")));
    let failed = report["failed"].as_array().expect("a list");
    let resource = json!(format!("repo:{name}"));
    assert!(
        !failed.is_empty() && failed.iter().all(|job| job["resource"] == resource),
        "{report:#}"
    );

    hub.fake.set_faults(Faults::none());
    let id = format!("{login}.1");
    let repaired = document(&folder.run(&["github", "retry", &id, "-o", "json"]), 0);
    assert_eq!(repaired.pointer("/repairs/0/jobs/failed"), Some(&json!(0)));
    let lines = ends(&folder.run(&["github", "export", "--login", login]), 0);
    assert_eq!(exported(&lines), hub.documents(login));
    let again = folder.run(&["github", "retry", &id]);
    ends(&again, 0);
    assert!(said(&again).contains("0 jobs"), "{}", said(&again));
}

#[test]
fn col_16_a_blocked_repository_is_named_and_no_failure() {
    let names = Hub::calm().fake.with_world(|world| world.full_names());
    let name = names.first().expect("a repository");
    let hub = Hub::with(Faults::none().repository(name, 451));
    let login = name.split('/').next().expect("an owner");
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let report = document(&folder.run(&["github", "run", login, "-o", "json"]), 0);
    assert_eq!(report.pointer("/run/jobs/failed"), Some(&json!(0)));
    assert_eq!(report.pointer("/run/jobs/unavailable"), Some(&json!(3)));
    let id = format!("{login}.1");
    let shown = ends(&folder.run(&["github", "status", &id]), 0);
    let line = format!("unavailable: repo:{name}: HTTP 451: Repository access blocked");
    assert!(shown.contains(&line), "{shown}");
    assert!(shown.contains("0 failed, 3 unavailable"), "{shown}");
}

#[test]
fn col_16_an_interrupted_run_goes_on_with_the_next_call() {
    let setup = Setup {
        latency: Duration::from_millis(200),
        ..Setup::default()
    };
    let hub = Hub::start(&small(), setup);
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    let arguments = ["github", "run", "octocat", "-o", "json"];
    let mut command = clinch(&folder.0);
    let piped = command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = piped.spawn().expect("it starts");
    assert!(wait_until(PATIENCE, || hub.tally().requests >= 4));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    ends(&output, 5);
    assert!(
        said(&output).contains("goes on with the next"),
        "{}",
        said(&output)
    );

    let output = folder.run(&arguments);
    let report = document(&output, 0);
    assert!(
        said(&output).contains("continuing octocat.1"),
        "{}",
        said(&output)
    );
    assert_eq!(report.pointer("/run/run_id"), Some(&json!("octocat.1")));
    let lines = ends(&folder.run(&["github", "export"]), 0);
    assert_eq!(exported(&lines), hub.documents("octocat"));
}

#[test]
fn col_1_bad_input_is_refused_in_one_line() {
    let folder = Folder::with("");
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let output = folder.run(arguments);
        ends(&output, code);
        let said = said(&output);
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    };
    refused(&["github", "status"], 3, "github run LOGIN");
    refused(&["github", "run", "no/body"], 2, "login");
    refused(&["github", "run", "nobody", "--fake"], 2, "octocat");
    let cases: [(&str, &str); 6] = [
        ("page_size = 0", "github.page_size"),
        ("concurrency = 0", "github.concurrency"),
        ("api_url = \"ftp://x\"", "github.api_url"),
        ("sink = \"mongodb://x/y\"", "MongoDB"),
        ("tokens = [\"${env:NO_SUCH_TOKEN}\"]", "NO_SUCH_TOKEN"),
        (
            "schedule = [{ login = \"octocat\", cron = \"0 3 * *\" }]",
            "five fields",
        ),
    ];
    for (line, word) in cases {
        folder.configure(&format!("[github]\n{line}"));
        refused(&["github", "run", "octocat"], 2, word);
        refused(&["serve", "--set", "server.listen=127.0.0.1:0"], 2, word);
    }
    folder.configure("[github]\nschedule = [{ login = \"octocat\" }]");
    refused(&["github", "run", "octocat"], 2, "entry 1");
}
