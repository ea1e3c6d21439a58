//! `cargo xtask book`: builds the guide as a site, in `target/book`.
//!
//! The pages are those of `docs/`, which people also read in the repository. Links to files outside
//! of `docs/` lead nowhere in the site, so a copy of the pages shows the file's path instead.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, cargo};

/// Pinned: another release may draw the site differently.
const TOOL: &str = "mdbook@0.5.4";

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.first() {
        let message = format!("`book` has no argument `{unknown}`");
        return Err(Failure::Usage(message));
    }
    let target = cargo::target(root);
    let pages = target.join("book-pages");
    copy_pages(&root.join("docs"), &pages).map_err(|error| failed("copy the pages", &error))?;
    let tool = tool(root, &target)?;
    let built = Command::new(tool).arg("build").arg(&pages).output();
    let built = built.map_err(|error| failed("start mdbook", &error))?;
    let said = String::from_utf8_lossy(&built.stderr);
    eprint!("{said}");
    // A warning is a page that is missing or a link that leads nowhere.
    if !built.status.success() || said.contains("WARN") || said.contains("ERROR") {
        return Err(Failure::Failed("mdbook did not build a clean site".into()));
    }
    println!("the site is in target/book: open target/book/index.html");
    Ok(())
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("cannot {what}: {error}"))
}

/// The program, installed into the target folder if it is missing.
fn tool(root: &Path, target: &Path) -> Result<PathBuf, Failure> {
    let folder = target.join("mdbook");
    let program = folder.join("bin").join("mdbook");
    if !program.exists() {
        println!("== installing {TOOL}, once");
        let mut install = cargo::command(root);
        install.args(["install", "--locked", "--no-default-features"]);
        install
            .args(["--features", "search", "--root"])
            .arg(&folder);
        let installed = install.arg(TOOL).status();
        if !installed.is_ok_and(|status| status.success()) {
            return Err(Failure::Failed(format!("{TOOL} cannot be installed")));
        }
    }
    Ok(program)
}

fn copy_pages(from: &Path, to: &Path) -> std::io::Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    copy_folder(from, to, 0)
}

/// `depth`: number of folders between `docs/` and this one.
fn copy_folder(from: &Path, to: &Path, depth: usize) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &copy, depth + 1)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let page = std::fs::read_to_string(&path)?;
            std::fs::write(copy, without_outer_links(&page, depth))?;
        } else {
            std::fs::copy(&path, &copy)?;
        }
    }
    Ok(())
}

/// Replaces `[text](../../crates/core/src/lib.rs)` of a page in `docs/guide/` by the text and the
/// path from the root of the repository.
fn without_outer_links(page: &str, depth: usize) -> String {
    let outside = "../".repeat(depth + 1);
    without_links(page, |target| {
        let path = target.strip_prefix(&outside)?;
        Some(path.split('#').next().unwrap_or_default().to_owned())
    })
}

/// Replaces links of a page by their text and a path: those for whose target `path` names one. Code
/// stays as it is.
pub(crate) fn without_links(page: &str, path: impl Fn(&str) -> Option<String>) -> String {
    let (mut text, mut prose) = (String::with_capacity(page.len()), String::new());
    let mut is_code = false;
    for line in page.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || is_code {
            text.push_str(&without_links_of_prose(&prose, &path));
            prose.clear();
            text.push_str(line);
        } else {
            prose.push_str(line);
        }
        is_code ^= is_fence;
    }
    text.push_str(&without_links_of_prose(&prose, &path));
    text
}

/// A link's text may go over several lines.
fn without_links_of_prose(prose: &str, path: impl Fn(&str) -> Option<String>) -> String {
    let mut rest = prose;
    let mut text = String::with_capacity(prose.len());
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, tail)) = after.split_once(')') else {
            break;
        };
        match (before.rfind('['), path(target)) {
            (Some(open), Some(path)) => {
                let (kept, label) = (&before[..open], &before[open + 1..]);
                text.push_str(kept);
                match path.ends_with(label.trim_matches('`')) {
                    true => text.push_str(&format!("`{path}`")),
                    false => text.push_str(&format!("{label} (`{path}`)")),
                }
            }
            _ => text.push_str(&rest[..rest.len() - tail.len()]),
        }
        rest = tail;
    }
    text.push_str(rest);
    text
}

/// Pages of `docs/` that the summary does not name, or names more than once.
#[cfg(test)]
fn missing_pages(docs: &Path) -> Vec<String> {
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap_or_default();
    let mut pages = std::collections::BTreeSet::new();
    list_pages(docs, "", &mut pages);
    pages.remove("SUMMARY.md");
    let is_named_once = |page: &&String| summary.matches(&format!("({page})")).count() != 1;
    pages.iter().filter(is_named_once).cloned().collect()
}

#[cfg(test)]
fn list_pages(folder: &Path, prefix: &str, pages: &mut std::collections::BTreeSet<String>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            list_pages(&entry.path(), &format!("{name}/"), pages);
        } else if name.ends_with(".md") {
            pages.insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_docs_become_paths() {
        let page = "A [`lib.rs`](../../crates/core/src/lib.rs), [the rules](../../deploy/alerts.yml#top), \
                    [a page](redis.md), [another](../protocol.md).";
        let shown = "A `crates/core/src/lib.rs`, the rules (`deploy/alerts.yml`), \
                     [a page](redis.md), [another](../protocol.md).";
        assert_eq!(without_outer_links(page, 1), shown);
        assert_eq!(
            without_outer_links("[x](../README.md)", 0),
            "x (`README.md`)"
        );
        assert_eq!(without_outer_links("no ](../ link", 0), "no ](../ link");
        let code = "```rust\nlet a = b[0](../c);\n```\n[two\nlines](../x)\n";
        let shown = "```rust\nlet a = b[0](../c);\n```\ntwo\nlines (`x`)\n";
        assert_eq!(without_outer_links(code, 0), shown);
    }

    #[test]
    fn core_18_every_page_is_in_the_summary_once() {
        let docs = crate::workspace_root().join("docs");
        assert_eq!(missing_pages(&docs), Vec::<String>::new());
    }

    #[test]
    fn core_18_the_readme_leads_to_every_page_of_the_guide() {
        let root = crate::workspace_root();
        let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
        let (summary, readme) = (read("docs/SUMMARY.md"), read("README.md"));
        // Pages below another page are found there.
        let entries = summary.lines().filter(|line| line.starts_with("- ["));
        let pages = entries.filter_map(|line| line.split_once("](")?.1.strip_suffix(')'));
        let pages: Vec<&str> = pages.collect();
        assert!(pages.len() > 30, "{pages:?}");
        let is_missing = |page: &&&str| !readme.contains(&format!("](docs/{page})"));
        let missing: Vec<_> = pages.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "README.md has no link to {missing:?}");
    }
}
