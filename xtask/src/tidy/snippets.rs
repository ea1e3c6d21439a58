//! Every block of code on a page is checked by something: compiled, parsed, run, or compared with a
//! file that is run. Blocks that nothing can check are listed with the reason.

use super::Finding;
use super::tree::{File, Tree};

/// Languages that one check covers on every page that [`COMMANDS_AND_DOCUMENTS`] reads.
const EVERYWHERE: &[&str] = &["console", "json", "sh", "toml"];
const COMMANDS_AND_DOCUMENTS: &str = "crates/cli/src/guide.rs";

/// Pictures and output: no code.
const NO_CODE: &[&str] = &["", "text"];

/// What speaks for the blocks of one language on one page.
enum Proof {
    /// This file names the page and checks its blocks.
    File(&'static str),
    /// Nothing checks them, because of this.
    None(&'static str),
}

use Proof::{File as By, None as Unchecked};

const PAGES: &[(&str, &str, Proof)] = &[
    (
        "CONTRIBUTING.md",
        "rust",
        Unchecked("the form of a comment, no program"),
    ),
    (
        "README.md",
        "mermaid",
        Unchecked("a picture that the repository's site draws"),
    ),
    (
        "clients/python/README.md",
        "python",
        By("crates/cli/tests/clients/pages.rs"),
    ),
    (
        "clients/typescript/README.md",
        "typescript",
        By("crates/cli/tests/clients/pages.rs"),
    ),
    // Quoted from the in-memory store, which is compiled.
    (
        "docs/guide/adapter.md",
        "rust,ignore",
        By("crates/cli/src/guide.rs"),
    ),
    (
        "docs/guide/adapter.md",
        "rust",
        By("examples/tests/custom_store.rs"),
    ),
    (
        "docs/guide/clients.md",
        "python",
        By("crates/cli/tests/clients/pages.rs"),
    ),
    (
        "docs/guide/clients.md",
        "typescript",
        By("crates/cli/tests/clients/pages.rs"),
    ),
    (
        "docs/guide/github.md",
        "sql",
        Unchecked("a query for DuckDB, which no test installs"),
    ),
    (
        "docs/guide/migrating.md",
        "javascript before",
        Unchecked("code of BullMQ, which Clinch replaces"),
    ),
    (
        "docs/guide/migrating.md",
        "python before",
        Unchecked("code of Celery, which Clinch replaces"),
    ),
    (
        "docs/guide/migrating.md",
        "ruby before",
        Unchecked("code of Sidekiq, which Clinch replaces"),
    ),
    (
        "docs/guide/migrating.md",
        "sql before",
        Unchecked("a table of somebody's own, which Clinch replaces"),
    ),
    (
        "docs/guide/migrating.md",
        "python",
        By("crates/cli/tests/clients/pages.rs"),
    ),
    (
        "docs/guide/migrating.md",
        "sql",
        By("crates/adapters/postgres/tests/store/pages.rs"),
    ),
    (
        "docs/guide/migrating.md",
        "typescript",
        By("crates/cli/tests/clients/pages.rs"),
    ),
    (
        "docs/guide/mysql.md",
        "sql",
        By("crates/adapters/mysql/tests/contract/pages.rs"),
    ),
    (
        "docs/guide/operating.md",
        "yaml",
        Unchecked("the configuration of Prometheus; its rules are tested"),
    ),
    // The SQL; crates/cli/tests/clients/java.rs compiles the Java where there is a JDK.
    (
        "docs/guide/outbox.md",
        "java",
        By("crates/adapters/postgres/tests/store/pages.rs"),
    ),
    (
        "docs/guide/outbox.md",
        "python",
        By("crates/adapters/postgres/tests/store/pages.rs"),
    ),
    // sqlx and diesel: their SQL is run, in the block's order and with its keys. The Rust around it is
    // not compiled: both would be large development dependencies, with drivers of their own, for two
    // blocks of twenty lines.
    (
        "docs/guide/outbox.md",
        "rust,ignore",
        By("crates/adapters/postgres/tests/store/pages.rs"),
    ),
    (
        "docs/guide/outbox.md",
        "sql",
        By("crates/adapters/mysql/tests/contract/pages.rs"),
    ),
    (
        "docs/guide/postgres.md",
        "sql",
        By("crates/adapters/postgres/tests/store/pages.rs"),
    ),
    (
        "docs/guide/quick-start.md",
        "python",
        By("crates/cli/tests/clients/quick_start.rs"),
    ),
    (
        "docs/guide/quick-start.md",
        "typescript",
        By("crates/cli/tests/clients/quick_start.rs"),
    ),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree.with_extension("md") {
        let blocks = languages(&page.text);
        for (line, language) in &blocks {
            if let Some(problem) = problem(tree, page, language) {
                let to_do = "let a test check it; `PAGES` in xtask/src/tidy/snippets.rs says which";
                findings.push(Finding::new(&page.path, *line, problem, to_do));
            }
        }
        for (_, language, _) in PAGES.iter().filter(|(path, ..)| *path == page.path) {
            if !blocks.iter().any(|(_, own)| own == language) {
                let what = format!("the page has no block `{language}`");
                let to_do = "remove the row of xtask/src/tidy/snippets.rs";
                findings.push(Finding::new(&page.path, 1, what, to_do));
            }
        }
    }
    findings
}

/// What follows each opening fence, with its line.
fn languages(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut is_open) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        if !is_open {
            found.push((number, language));
        }
        is_open = !is_open;
    }
    found
}

/// Why nothing checks a block, unless something does.
fn problem(tree: &Tree, page: &File, language: &str) -> Option<String> {
    if NO_CODE.contains(&language) {
        return None;
    }
    if EVERYWHERE.contains(&language) {
        let is_read = is_read(&page.path) && tree.get(COMMANDS_AND_DOCUMENTS).is_some();
        return (!is_read).then(|| format!("{COMMANDS_AND_DOCUMENTS} does not read this page"));
    }
    let row = PAGES
        .iter()
        .find(|(path, own, _)| (*path, *own) == (page.path.as_str(), language));
    match row {
        Some((.., Unchecked(why))) => why.is_empty().then(|| "a reason is missing".to_owned()),
        Some((.., By(file))) => {
            let name = page.path.rsplit('/').next().unwrap_or_default();
            let is_named = tree.get(file).is_some_and(|file| file.text.contains(name));
            (!is_named).then(|| format!("{file} does not name this page"))
        }
        None if matches!(language, "rust" | "rust,no_run") => {
            (!is_compiled(tree, &page.path)).then(|| "no crate includes this page".to_owned())
        }
        None => Some(format!("nothing checks a block `{language}`")),
    }
}

/// The pages that [`COMMANDS_AND_DOCUMENTS`] reads.
fn is_read(path: &str) -> bool {
    let is_top = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "crates/cli/README.md",
    ]
    .contains(&path);
    let is_of_client = path.starts_with("clients/") && path.ends_with("/README.md");
    is_top || is_of_client || path.starts_with("docs/")
}

/// Whether a crate includes the page in its documentation: `cargo test --doc` compiles its blocks.
fn is_compiled(tree: &Tree, path: &str) -> bool {
    let end = format!("../{path}\")]");
    let includes =
        |line: &str| line.trim_start().starts_with("#[doc = include_str!(") && line.ends_with(&end);
    tree.rust().any(|file| file.text.lines().any(includes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    #[test]
    fn checked_blocks_pass() {
        let found = Fixture::new()
            .file("crates/cli/src/guide.rs", "")
            .file(
                "docs/a.md",
                "```sh\nls\n```\n```text\n```\n```\n```rust\n```\n```rust,no_run\n```\n",
            )
            .file(
                "x/src/lib.rs",
                "    #[doc = include_str!(\"../../docs/a.md\")]\n    struct A;\n",
            )
            .file("README.md", "```mermaid\n```\n")
            .file(
                "docs/guide/clients.md",
                "```python\n```\n```typescript\n```\n",
            )
            .file("crates/cli/tests/clients/pages.rs", "// clients.md")
            .run(check);
        assert_findings(&found, &[]);
    }

    #[test]
    fn blocks_that_nothing_checks_are_found() {
        let found = Fixture::new()
            .file("benches/a.md", "```sh\n```\n")
            .file(
                "docs/a.md",
                "text\n```rust\n```\n```rust,ignore\n```\n```python\n```\n```sh\n```\n",
            )
            .file("docs/guide/clients.md", "```python\n```\n")
            .file("crates/cli/tests/clients/pages.rs", "")
            .run(check);
        assert_findings(
            &found,
            &[
                "benches/a.md:1: crates/cli/src/guide.rs does not read this page",
                "docs/a.md:2: no crate includes this page",
                "docs/a.md:4: nothing checks a block `rust,ignore`",
                "docs/a.md:6: nothing checks a block `python`",
                "docs/a.md:8: crates/cli/src/guide.rs does not read this page",
                "docs/guide/clients.md:1: crates/cli/tests/clients/pages.rs does not name this page",
                "docs/guide/clients.md:1: the page has no block `typescript`",
            ],
        );
    }
}
