//! Files and functions must be short enough to read in one go.

use super::Finding;
use super::tokens;
use super::tree::Tree;

/// The most that a reader should scroll through; about four times the usual file.
const FILE_LINES_MAX: usize = 500;

/// One screen.
const FUNCTION_LINES_MAX: usize = 70;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines, at most {FILE_LINES_MAX} are allowed");
            findings.push(Finding::new(
                &file.path,
                1,
                what,
                "split it by what it is about",
            ));
        }
        let Some(stream) = tokens::parse(&file.text) else {
            // No other check can read such a file, so it must be a finding.
            let what = "this is not Rust";
            findings.push(Finding::new(&file.path, 1, what, "fix it or rename it"));
            continue;
        };
        for (name, range) in tokens::functions(stream) {
            let lines = range.end() + 1 - range.start();
            if lines > FUNCTION_LINES_MAX {
                let what =
                    format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX} are allowed");
                findings.push(Finding::new(
                    &file.path,
                    *range.start(),
                    what,
                    "give its parts names",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    fn function(lines: usize) -> String {
        format!("\nfn long() {{\n{}}}\n", "// text\n".repeat(lines - 2))
    }

    #[test]
    fn the_limits_themselves_are_fine() {
        let fixture = Fixture::new()
            .file("a.rs", &"// text\n".repeat(FILE_LINES_MAX))
            .file("b.rs", &function(FUNCTION_LINES_MAX));
        assert_findings(&fixture.run(check), &[]);
    }

    #[test]
    fn one_line_more_is_found_also_in_tests() {
        let fixture = Fixture::new()
            .file("a.rs", &"// text\n".repeat(FILE_LINES_MAX + 1))
            .file("tests/b.rs", &function(FUNCTION_LINES_MAX + 1))
            .file("tests/c.rs", "}");
        assert_findings(
            &fixture.run(check),
            &[
                "a.rs:1: 501 lines",
                "tests/b.rs:2: `long` has 71 lines",
                "tests/c.rs:1: this is not Rust",
            ],
        );
    }
}
