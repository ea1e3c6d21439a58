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

/// Names every test as it passes. After the summary only failures and flaky tests are named again:
/// with `pass` there, each name would be printed twice and the summary would scroll away.
const NEXTEST: &[&str] = &[
    "nextest",
    "run",
    "--workspace",
    "--no-fail-fast",
    "--status-level",
    "pass",
    "--final-status-level",
    "flaky",
];
/// On a machine for CI, which others load too, a failed test runs once more. One that passes then is
/// named as flaky after the summary, and is a bug of the test or of the product all the same.
const RETRIES: &[&str] = &["--retries", "1"];
const LIBTEST: &[&str] = &["test", "--workspace", "--all-targets", "--no-fail-fast"];

/// The steps, in their order.
const STEPS: [&str; 8] = [
    "fmt",
    "tidy",
    "clippy",
    "pages",
    "doc",
    "interleavings",
    "schema",
    "tests",
];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let (first, extra) = parse(arguments)?;
    let steps = Steps {
        root,
        start: Instant::now(),
    };
    for step in &STEPS[first..] {
        match *step {
            "fmt" => steps.optional("fmt", FMT)?,
            "tidy" => {
                steps.heading("tidy", "cargo xtask tidy");
                tidy::run(root, &[])?;
            }
            "clippy" => steps.optional("clippy", CLIPPY)?,
            "pages" => steps.cargo("pages", PAGES)?,
            "doc" => steps.cargo("doc", DOC)?,
            "interleavings" => steps.cargo("interleavings", SHUTTLE)?,
            "schema" => {
                steps.heading("schema", "cargo xtask schema");
                schema::step(root, &["--workspace"])?;
            }
            _ => steps.tests(extra)?,
        }
    }
    Ok(())
}

/// The first step to run, and the arguments for the runner of the tests, which follow `--`.
fn parse(arguments: &[String]) -> Result<(usize, &[String]), Failure> {
    let own = arguments.iter().take_while(|one| *one != "--").count();
    let (own, rest) = arguments.split_at(own);
    let extra = rest.split_first().map_or(rest, |(_, extra)| extra);
    let first = match own {
        [] => Some(0),
        [from, name] if from == "--from" => STEPS.iter().position(|step| step == name),
        _ => None,
    };
    let usage = || {
        let (steps, unknown) = (STEPS.join(", "), own.join(" "));
        Failure::Usage(format!(
            "`test` does not know `{unknown}`: it takes `--from STEP` ({steps}), and arguments for the \
             test runner after `--`"
        ))
    };
    Ok((first.ok_or_else(usage)?, extra))
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

    /// Runs every test on servers that they share.
    fn tests(&self, extra: &[String]) -> Result<(), Failure> {
        self.heading("servers", "private ones that the tests share");
        let shared = Shared::start()?;
        let is_ci = std::env::var_os("CI").is_some();
        let (runner, retries) = match cargo::has(self.root, "nextest") {
            true if is_ci => (NEXTEST, RETRIES),
            true => (NEXTEST, &[][..]),
            false => (LIBTEST, &[][..]),
        };
        let extra = extra.iter().map(String::as_str);
        let runner = runner.iter().chain(retries).copied();
        let runner: Vec<&str> = runner.chain(extra).collect();
        // The runner has reported what failed; its summary stays last on the screen.
        self.cargo_with("tests", &runner, shared.environment())
            .map_err(|_| Failure::Reported)
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

    fn parsed(arguments: &[&str]) -> Option<(&'static str, Vec<String>)> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let (first, extra) = parse(&arguments).ok()?;
        Some((STEPS[first], extra.to_vec()))
    }

    #[test]
    fn only_what_follows_the_dashes_goes_to_the_runner() {
        assert_eq!(parsed(&[]), Some(("fmt", vec![])));
        assert_eq!(parsed(&["--"]), Some(("fmt", vec![])));
        assert_eq!(
            parsed(&["--", "name", "--", "-x"]),
            Some(("fmt", vec!["name".into(), "--".into(), "-x".into()]))
        );
        assert_eq!(parsed(&["name"]), None);
    }

    #[test]
    fn a_run_may_begin_at_a_later_step() {
        let extra = vec!["name".to_owned()];
        assert_eq!(parsed(&["--from", "schema"]), Some(("schema", vec![])));
        assert_eq!(
            parsed(&["--from", "tests", "--", "name"]),
            Some(("tests", extra))
        );
        assert_eq!(parsed(&["--from", "nothing"]), None);
        assert_eq!(parsed(&["--from"]), None);
    }
}
