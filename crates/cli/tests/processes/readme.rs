//! The README's "A durable call in a minute", and what `clinch init` prints, followed literally.

use serde_json::Value;

use crate::follower::{Follower, Step, section, steps};
use crate::support::Folder;

const README: &str = include_str!("../../../../README.md");

#[test]
fn core_18_the_quick_start_of_the_readme_works_as_it_is_written() {
    let folder = Folder::new("readme");
    let steps = steps(section(README, "## A durable call in a minute"));
    let kind = |step: &Step| match step {
        Step::Run(command) => command.split(" -").next().unwrap_or_default().to_owned(),
        Step::Write(name, _) => name.clone(),
    };
    let kinds: Vec<String> = steps.iter().map(kind).collect();
    assert_eq!(
        kinds,
        [
            "clinch init",
            "clinch serve",
            "curl",
            "clinch echo &",
            "curl"
        ],
        "the steps that this test knows"
    );
    let answers = Follower::new(&folder.0).follow(&steps);
    assert!(answers[0].contains("wrote clinch.toml"), "{}", answers[0]);
    assert!(answers[1].starts_with("HTTP/1.1 202 "), "{}", answers[1]);
    is_echoed(&answers[2]);
}

/// The answer of curl is a completed operation with what `clinch echo` received.
fn is_echoed(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let operation: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(operation["state"], "COMPLETED", "{operation:#}");
    let echoed = &operation["result"]["payload"];
    assert_eq!(echoed["body"]["name"], "Ada", "{operation:#}");
    assert_eq!(echoed["op_id"], operation["op_id"]);
}

#[test]
fn core_18_the_commands_that_init_prints_make_a_first_call() {
    let folder = Folder::new("init-next");
    let mut follower = Follower::new(&folder.0);
    let run = |command: &str| Step::Run(command.to_owned());
    let said = follower.follow(&[run("clinch init"), run("clinch init --force --output json")]);
    let written: Value = serde_json::from_str(&said[1]).expect("JSON");
    let next = written["next"].as_array().expect("commands").iter();
    let next: Vec<&str> = next.filter_map(Value::as_str).collect();
    let [_, _, curl] = next[..] else {
        panic!("three commands: {next:?}");
    };
    assert!(curl.starts_with("curl "), "{curl}");
    for command in &next {
        assert!(said[0].contains(&format!("\n  {command}\n")), "{}", said[0]);
    }
    let next: Vec<Step> = next.into_iter().map(run).collect();
    let said = follower.follow(&next);
    let [answer] = &said[..] else {
        panic!("curl alone ends: {said:?}");
    };
    is_echoed(answer);
}
