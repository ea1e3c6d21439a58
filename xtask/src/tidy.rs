//! `cargo xtask tidy`: rules of the tree that no compiler checks.
//!
//! Each rule is one function from the [`Tree`] to its findings, in a file of its own, and one row
//! in [`CHECKS`]. The rules read Rust as tokens: comments and strings never trigger them, and code
//! inside macro calls is seen like any other.

mod attributes;
mod banned_calls;
mod core_purity;
mod dead_files;
mod decisions;
mod dependency_rule;
mod excuses;
#[cfg(test)]
pub(crate) mod fixture;
mod length;
pub(crate) mod links;
mod machine_paths;
pub(crate) mod manifests;
mod markdown;
mod modules;
pub(crate) mod packages;
mod requirements;
mod snippets;
mod stages;
mod test_code;
pub(crate) mod tokens;
pub(crate) mod tree;
mod unused_deps;

use std::path::Path;

use crate::Failure;
use tree::Tree;

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl std::fmt::Display, to_do: &str) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: format!("{what} — {to_do}"),
        }
    }
}

struct Check {
    name: &'static str,
    run: fn(&Tree) -> Vec<Finding>,
    /// Whether a `tidy: allow` comment may silence it on a line.
    excusable: bool,
}

const fn firm(name: &'static str, run: fn(&Tree) -> Vec<Finding>) -> Check {
    Check {
        name,
        run,
        excusable: false,
    }
}

const fn excusable(name: &'static str, run: fn(&Tree) -> Vec<Finding>) -> Check {
    Check {
        name,
        run,
        excusable: true,
    }
}

const CHECKS: &[Check] = &[
    firm("dependency-rule", dependency_rule::check),
    firm("core-purity", core_purity::check),
    firm("stages", stages::check),
    firm("length", length::check),
    excusable("banned-calls", banned_calls::check),
    excusable("attributes", attributes::check),
    excusable("unused-deps", unused_deps::check),
    firm("packages", packages::check),
    firm("dead-files", dead_files::check),
    firm("requirements", requirements::check),
    firm("decisions", decisions::check),
    firm("links", links::check),
    firm("snippets", snippets::check),
    firm("machine-paths", machine_paths::check),
];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::Usage(format!(
            "`tidy` takes no arguments, got `{argument}`"
        )));
    }
    let tree = Tree::load(root)
        .map_err(|error| Failure::Failed(format!("cannot list the tree: {error}")))?;
    let findings = findings(&tree);
    for (check, finding) in &findings {
        let Finding {
            path,
            line,
            message,
        } = finding;
        println!("{path}:{line}: [{check}] {message}");
    }
    match findings.len() {
        0 => {
            println!(
                "tidy: {} files, {} checks, no findings",
                tree.files.len(),
                CHECKS.len()
            );
            Ok(())
        }
        count => Err(Failure::Failed(format!("tidy found {count} to fix"))),
    }
}

fn findings(tree: &Tree) -> Vec<(&'static str, Finding)> {
    let mut excuses = excuses::collect(tree);
    let mut all = Vec::new();
    for check in CHECKS {
        let mut found = (check.run)(tree);
        if check.excusable {
            found.retain(|finding| !excuses::cover(&mut excuses, check.name, finding));
        }
        all.extend(found.into_iter().map(|finding| (check.name, finding)));
    }
    let bad = excuses::check(&excuses, CHECKS);
    all.extend(bad.into_iter().map(|finding| ("excuses", finding)));
    all
}
