//! The core's source must not name a clock, thread, file or socket.

use super::Finding;
use super::tokens;
use super::tree::Tree;

const CORE: &str = "crates/core/src/";

const BANNED: &[&[&str]] = &[
    &["std", "fs"],
    &["std", "net"],
    &["std", "time", "SystemTime"],
    &["std", "time", "Instant"],
    &["std", "thread"],
    &["std", "env"],
    &["std", "process"],
    &["tokio"],
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.path.starts_with(CORE)) {
        for mention in tokens::mentions(&file.text) {
            let names: Vec<&str> = mention.path.iter().map(String::as_str).collect();
            if let Some(banned) = BANNED.iter().find(|banned| names.starts_with(banned)) {
                let what = format!("the core names `{}`", banned.join("::"));
                let to_do = "take the value as an argument or go through a port";
                findings.push(Finding::new(&file.path, mention.line, what, to_do));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    #[test]
    fn io_clocks_and_threads_are_found() {
        let text = "use std::{collections::BTreeMap, fs};\nuse std::time::{Duration, Instant};\n\
                    fn a() { ::std::thread::yield_now() }\nasync fn b() { tokio::select!() }";
        let fixture = Fixture::new().file("crates/core/src/a.rs", text);
        assert_findings(
            &fixture.run(check),
            &[
                "crates/core/src/a.rs:1: the core names `std::fs`",
                "crates/core/src/a.rs:2: the core names `std::time::Instant`",
                "crates/core/src/a.rs:3: the core names `std::thread`",
                "crates/core/src/a.rs:4: the core names `tokio`",
            ],
        );
    }

    #[test]
    fn words_and_other_crates_are_left_alone() {
        let fixture = Fixture::new()
            .file(
                "crates/core/src/a.rs",
                "//! No std::fs.\nuse std::time::Duration;",
            )
            .file("crates/engine/src/a.rs", "use tokio::time;");
        assert_findings(&fixture.run(check), &[]);
    }
}
