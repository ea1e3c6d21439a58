//! The README's "A durable call in a minute", followed literally.

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
    assert!(answers[2].starts_with("HTTP/1.1 200 "), "{}", answers[2]);
    let (_, body) = answers[2].split_once("\r\n\r\n").expect("a body");
    let operation: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(operation["state"], "COMPLETED", "{operation:#}");
    let echoed = &operation["result"]["payload"];
    assert_eq!(echoed["body"]["name"], "Ada", "{operation:#}");
    assert_eq!(echoed["op_id"], operation["op_id"]);
}
