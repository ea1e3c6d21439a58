//! Calls that library code must not make: they panic, print, sleep, or read the real clock or
//! randomness.

use super::Finding;
use super::test_code::TestCode;
use super::tokens::{self, Form, Mention};
use super::tree::{File, Tree};

/// Files that may print: the command line, the contract suite's report and the simulation.
const PRINTERS: &[&str] = &["crates/cli/", "crates/contract/", "crates/sim/src/main.rs"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let tests = TestCode::of(tree);
    let mut findings = Vec::new();
    for file in tree.rust() {
        let test_lines = tests.lines(file);
        let is_library = file.is_under("src")
            && (file.path.starts_with("crates/") || file.path.starts_with("apps/"));
        for mention in tokens::mentions(&file.text) {
            let is_test = test_lines.iter().any(|lines| lines.contains(&mention.line));
            let rule = if is_test {
                wait(&mention)
            } else if is_library {
                library(file, &mention)
            } else {
                None
            };
            if let Some(to_do) = rule {
                let name = mention.path.join("::");
                let what = match mention.form {
                    Form::Macro => format!("`{name}!`"),
                    Form::Method { .. } => format!("`.{name}()`"),
                    _ => format!("`{name}`"),
                };
                findings.push(Finding::new(&file.path, mention.line, what, to_do));
            }
        }
    }
    findings
}

/// What to write instead; `None`: the name is allowed.
fn library(file: &File, mention: &Mention) -> Option<&'static str> {
    let is_clock = file.name() == "clock.rs";
    let may_print = PRINTERS.iter().any(|owner| file.path.starts_with(owner));
    panics(mention)
        .or_else(|| prints(mention).filter(|_| !may_print))
        .or_else(|| wait(mention).filter(|_| !is_clock || ends(mention, &["thread", "sleep"])))
        .or_else(|| clock(mention).filter(|_| !is_clock))
        .or_else(|| random(mention))
}

fn panics(mention: &Mention) -> Option<&'static str> {
    let last = mention.path.last()?.as_str();
    let is_call = match mention.form {
        Form::Method { has_arguments } => {
            (last == "unwrap" && !has_arguments) || (last == "expect" && has_arguments)
        }
        _ => ["Option", "Result"]
            .iter()
            .any(|owner| ends(mention, &[owner, "unwrap"]) || ends(mention, &[owner, "expect"])),
    };
    if is_call {
        return Some("return an error, or make the impossible unrepresentable");
    }
    let is_macro = is_macro(mention, &["todo", "unimplemented", "dbg"]);
    is_macro.then_some("finish it or leave it out")
}

fn prints(mention: &Mention) -> Option<&'static str> {
    is_macro(mention, &["print", "println", "eprint", "eprintln"])
        .then_some("use the `tracing` crate, or return the text")
}

fn wait(mention: &Mention) -> Option<&'static str> {
    let waits = [
        ["thread", "sleep"],
        ["time", "sleep"],
        ["time", "sleep_until"],
    ];
    waits
        .iter()
        .any(|name| ends(mention, name))
        .then_some("wait for a signal, or for the injected clock")
}

fn clock(mention: &Mention) -> Option<&'static str> {
    let reads = ends(mention, &["SystemTime", "now"]) || ends(mention, &["Instant", "now"]);
    reads.then_some("ask the injected clock; only a file named clock.rs reads the real one")
}

fn random(mention: &Mention) -> Option<&'static str> {
    let draws = ends(mention, &["rand", "rng"])
        || ends(mention, &["rand", "random"])
        || ends(mention, &["thread_rng"]);
    draws.then_some("draw from the injected source, so that a seed replays the run")
}

fn is_macro(mention: &Mention, names: &[&str]) -> bool {
    let last = mention.path.last().map(String::as_str);
    mention.form == Form::Macro && last.is_some_and(|last| names.contains(&last))
}

fn ends(mention: &Mention, names: &[&str]) -> bool {
    let path: Vec<&str> = mention.path.iter().map(String::as_str).collect();
    path.ends_with(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    fn found(path: &str, text: &str) -> Vec<String> {
        let fixture = Fixture::new()
            .package("crates/a", "a", "")
            .package("crates/cli", "cli", "")
            .package("xtask", "xtask", "")
            .file(path, text);
        let prefix = format!("{path}:");
        let found = fixture.run(check);
        found.iter().map(|line| line.replace(&prefix, "")).collect()
    }

    #[test]
    fn every_banned_call_is_found_in_library_code() {
        let text = "fn a() {\nx.unwrap();\nx.expect(\"\");\ntodo!();\nunimplemented!();\ndbg!(1);\n\
                    println!();\neprintln!();\nstd::thread::sleep(d);\ntokio::time::sleep(d);\n\
                    SystemTime::now();\nstd::time::Instant::now();\nrand::rng();\nthread_rng();\n\
                    y.map(Option::unwrap);\nassert!(z.unwrap());\n}\nuse tokio::time::{sleep, timeout};";
        let expected = [
            "2: `.unwrap()`",
            "3: `.expect()`",
            "4: `todo!`",
            "5: `unimplemented!`",
            "6: `dbg!`",
            "7: `println!`",
            "8: `eprintln!`",
            "9: `std::thread::sleep`",
            "10: `tokio::time::sleep`",
            "11: `SystemTime::now`",
            "12: `std::time::Instant::now`",
            "13: `rand::rng`",
            "14: `thread_rng`",
            "15: `Option::unwrap`",
            "16: `.unwrap()`",
            "18: `tokio::time::sleep`",
        ];
        assert_findings(&found("crates/a/src/lib.rs", text), &expected);
    }

    #[test]
    fn harmless_relatives_are_left_alone() {
        let text = "//! x.unwrap()\nfn a() { \"x.unwrap()\"; x.unwrap_or(1); expect(1); parser.unwrap(1); \
                    #[expect(unused, reason = \"y\")] let sleep = clock.sleep(d); clock.now(); }";
        assert_findings(&found("crates/a/src/lib.rs", text), &[]);
    }

    #[test]
    fn clock_files_read_the_clock_and_the_command_line_prints() {
        let clock = "fn a() { Instant::now(); tokio::time::sleep(d); }";
        assert_findings(&found("crates/a/src/clock.rs", clock), &[]);
        let block = "fn a() { std::thread::sleep(d); }";
        assert_findings(
            &found("crates/a/src/clock.rs", block),
            &["1: `std::thread::sleep`"],
        );
        assert_findings(
            &found("crates/cli/src/main.rs", "fn a() { println!(); }"),
            &[],
        );
        assert_findings(
            &found("xtask/src/main.rs", "fn a() { println!(); x.unwrap(); }"),
            &[],
        );
    }

    #[test]
    fn tests_may_panic_but_not_sleep() {
        let text = "#[cfg(test)]\nmod tests {\nfn a() { x.unwrap(); Instant::now(); }\n\
                    fn b() { thread::sleep(d); }\n}";
        let expected = ["4: `thread::sleep`"];
        assert_findings(&found("crates/a/src/lib.rs", text), &expected);
        assert_findings(&found("xtask/src/main.rs", text), &expected);
        assert_findings(&found("crates/a/tests/b.rs", text), &expected);
    }
}
