//! No file contains an absolute path of a developer's machine.

use super::Finding;
use super::tree::Tree;

/// Folder names without their slashes, so that this file is not a finding itself.
const FOLDERS: [&str; 3] = ["work", "root", "home"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let needles = FOLDERS.map(|folder| format!("/{folder}/"));
    let mut findings = Vec::new();
    for file in &tree.files {
        for (number, line) in (1..).zip(file.text.lines()) {
            for needle in needles.iter().filter(|needle| names(line, needle)) {
                let what = format!("`{needle}…` is a path of one machine");
                let to_do = "write it relative to the repository, or as a variable";
                findings.push(Finding::new(&file.path, number, what, to_do));
            }
        }
    }
    findings
}

/// In `a/home/`, `./home/`, `$A/home/` and `{a}/home/` the path starts earlier and is not absolute.
fn names(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "._-~})".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    #[test]
    fn absolute_paths_are_found_in_any_text_file() {
        let [work, root, home] = FOLDERS.map(|folder| format!("/{folder}/"));
        let fixture = Fixture::new()
            .file("a.md", &format!("text\nsee `{work}main`"))
            .file("b", &format!("{home}me"))
            .file("c.rs", &format!("const A: &str = \"{root}x\";"));
        assert_findings(&fixture.run(check), &["a.md:2:", "b:1:", "c.rs:1:"]);
    }

    #[test]
    fn relative_paths_are_fine() {
        let fixture = Fixture::new().file(
            "a.md",
            "https://example.com/home/x ./work/x ${A}/root/x $A/home/x a-homely/x",
        );
        assert_findings(&fixture.run(check), &[]);
    }
}
