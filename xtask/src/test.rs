//! `cargo xtask test`: everything that a change must pass, cheapest first.
//!
//! The main tests run last and nothing is printed after them, so that the output ends with the
//! runner's own summary.

use std::path::Path;
use std::time::Instant;

use crate::servers::Shared;
use crate::{Failure, cargo, schema, tidy};

const FMT: &[&str] = &["fmt", "--all", "--check"];
const CLIPPY: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];
const DOC: &[&str] = &["test", "--workspace", "--doc"];
/// The environment turns warnings into errors: rustdoc has no flag for that.
const PAGES: &[&str] = &["doc", "--workspace", "--no-deps"];
/// Runs the breaker under every thread order that a scheduler finds.
const SHUTTLE: &[&str] = &[
    "test",
    "--package",
    "clinch-protect",
    "--features",
    "shuttle",
    "--test",
    "shuttle",
];

/// Names every test as it passes. After the summary only failures are named again: with
/// `pass` there, each name would be printed twice and the summary would scroll away.
const NEXTEST: &[&str] = &[
    "nextest",
    "run",
    "--workspace",
    "--no-fail-fast",
    "--status-level",
    "pass",
    "--final-status-level",
    "fail",
];
const LIBTEST: &[&str] = &["test", "--workspace", "--all-targets", "--no-fail-fast"];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let extra = runner_arguments(arguments)?;
    let steps = Steps {
        root,
        start: Instant::now(),
    };

    steps.optional("fmt", FMT)?;
    steps.heading("tidy", "cargo xtask tidy");
    tidy::run(root, &[])?;
    steps.optional("clippy", CLIPPY)?;
    steps.cargo("pages", PAGES)?;
    steps.cargo("doc tests", DOC)?;
    steps.cargo("interleavings", SHUTTLE)?;
    steps.heading("schema", "cargo xtask schema");
    schema::step(root, &["--workspace"])?;

    steps.heading("servers", "private ones that the tests share");
    let shared = Shared::start()?;
    let runner = if cargo::has(root, "nextest") {
        NEXTEST
    } else {
        LIBTEST
    };
    let runner: Vec<&str> = runner.iter().copied().chain(extra).collect();
    // The runner has reported what failed; its summary stays last on the screen.
    steps
        .cargo_with("tests", &runner, shared.environment())
        .map_err(|_| Failure::Reported)
}

/// The arguments after `--`; an argument before it is an error.
fn runner_arguments(arguments: &[String]) -> Result<impl Iterator<Item = &str>, Failure> {
    match arguments.first().map(String::as_str) {
        None | Some("--") => Ok(arguments.iter().skip(1).map(String::as_str)),
        Some(other) => Err(Failure::Usage(format!(
            "`test` does not know `{other}`; runner arguments go after `--`"
        ))),
    }
}

struct Steps<'a> {
    root: &'a Path,
    start: Instant,
}

impl Steps<'_> {
    /// Prints one line per step, with the time since the start.
    fn heading(&self, name: &str, what: &str) {
        let elapsed = self.start.elapsed().as_secs_f64();
        println!("== [{elapsed:6.1} s] {name}: {what}");
    }

    fn cargo(&self, name: &str, arguments: &[&str]) -> Result<(), Failure> {
        self.cargo_with(name, arguments, std::iter::empty())
    }

    fn cargo_with(
        &self,
        name: &str,
        arguments: &[&str],
        environment: impl Iterator<Item = (&'static str, String)>,
    ) -> Result<(), Failure> {
        self.heading(name, &format!("cargo {}", arguments.join(" ")));
        let status = cargo::command(self.root)
            .args(arguments)
            .env("RUSTDOCFLAGS", "-D warnings")
            .envs(environment)
            // All servers were installed: a test that finds no server must fail.
            .env("CI", "true")
            .status()
            .map_err(|error| Failure::Failed(format!("cannot start cargo: {error}")))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::Failed(format!("step `{name}` failed ({status})")))
        }
    }

    /// A step whose tool may be missing on a minimal toolchain.
    fn optional(&self, name: &str, arguments: &[&str]) -> Result<(), Failure> {
        let installed = arguments
            .first()
            .is_some_and(|tool| cargo::has(self.root, tool));
        if installed {
            self.cargo(name, arguments)
        } else {
            self.heading(name, "skipped, it is not installed");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Option<Vec<String>> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let rest = runner_arguments(&arguments).ok()?;
        Some(rest.map(str::to_owned).collect())
    }

    #[test]
    fn only_what_follows_the_dashes_goes_to_the_runner() {
        assert_eq!(parse(&[]), Some(vec![]));
        assert_eq!(parse(&["--"]), Some(vec![]));
        assert_eq!(
            parse(&["--", "name", "--", "-x"]),
            Some(vec!["name".into(), "--".into(), "-x".into()])
        );
        assert_eq!(parse(&["name"]), None);
    }
}
