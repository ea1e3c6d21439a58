//! A throw-away tree for the checks' own tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Finding;
use super::tree::Tree;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A folder of files that is removed when the test ends.
pub(crate) struct Fixture {
    root: PathBuf,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("xtask-fixture-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&root).unwrap();
        Self { root }
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Adds the manifest of a package with this name, and further text for it.
    pub(crate) fn package(self, dir: &str, name: &str, rest: &str) -> Self {
        let text = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n{rest}\n");
        self.file(&format!("{dir}/Cargo.toml"), &text)
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree::walk(&self.root).unwrap()
    }

    /// The findings as `path:line: message`.
    pub(crate) fn run(&self, check: fn(&Tree) -> Vec<Finding>) -> Vec<String> {
        check(&self.tree()).iter().map(show).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Leftover files are in the temporary folder; they are no reason to fail a test.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

pub(crate) fn show(finding: &Finding) -> String {
    format!("{}:{}: {}", finding.path, finding.line, finding.message)
}

/// Asserts one finding for each start, in order.
pub(crate) fn assert_findings(found: &[String], starts: &[&str]) {
    let fits = found.len() == starts.len()
        && found
            .iter()
            .zip(starts)
            .all(|(line, start)| line.starts_with(start));
    assert!(fits, "found {found:#?}\nexpected {starts:#?}");
}
