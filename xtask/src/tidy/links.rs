//! Relative links in Markdown pages must lead to an existing file or heading.

use super::Finding;
use super::markdown;
use super::tree::{Tree, resolve};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree.with_extension("md") {
        for (number, line) in markdown::prose(&page.text) {
            for target in markdown::links(&line).filter(|target| is_local(target)) {
                if let Some((problem, to_do)) = problem(tree, &page.path, target) {
                    let what = format!("the link `{target}` {problem}");
                    findings.push(Finding::new(&page.path, number, what, to_do));
                }
            }
        }
    }
    findings
}

/// Excludes `https:`, `mailto:` and the like.
pub(crate) fn is_local(target: &str) -> bool {
    let scheme = target.split(['/', '#', '?']).next().unwrap_or_default();
    !scheme.contains(':') && !target.starts_with("//")
}

fn problem(tree: &Tree, page: &str, target: &str) -> Option<(&'static str, &'static str)> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path
        .split('?')
        .next()
        .unwrap_or_default()
        .replace("%20", " ");
    if path.starts_with('/') {
        return Some(("is absolute", "write it relative to the page"));
    }
    let full = if path.is_empty() {
        page.to_owned()
    } else {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        let Some(full) = resolve(folder, &path) else {
            return Some(("leaves the repository", "link it with its full address"));
        };
        full
    };
    if !exists(tree, &full) {
        return Some(("points to nothing", "correct it, or add the file"));
    }
    let file = tree
        .get(&full)
        .filter(|file| file.name().ends_with(".md"))?;
    let is_missing =
        !anchor.is_empty() && !markdown::anchors(&file.text).contains(&anchor.to_owned());
    is_missing.then_some((
        "names a heading that is not there",
        "take the heading as it is now",
    ))
}

/// Checks the tree's list, not the disk: files that git ignores are missing in other checkouts.
fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    let is_folder =
        || path.is_empty() || tree.files.iter().any(|file| file.path.starts_with(&folder));
    tree.get(path).is_some() || is_folder() || tree.binaries.iter().any(|binary| binary == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    fn run(text: &str) -> Vec<String> {
        Fixture::new()
            .file("docs/a.md", text)
            .file("docs/b.md", "# One two\n")
            .file("src/c.rs", "")
            .run(check)
    }

    #[test]
    fn good_links_pass() {
        let text = "# Top\n[1](b.md) [2](b.md#one-two) [3](#top) [4](../src/c.rs#L3) [5](../src/)\n\
                    [6](https://example.com/x.md) [7](mailto:a@example.com) [8](..)\n`[9](none.md)`\n";
        assert_findings(&run(text), &[]);
    }

    #[test]
    fn bad_links_are_found() {
        let text = "[1](none.md)\n[2](b.md#three)\n[3](#top)\n[4](../../x.md)\n[5](/docs/b.md)\n[6]: none.md\n";
        assert_findings(
            &run(text),
            &[
                "docs/a.md:1: the link `none.md` points to nothing",
                "docs/a.md:2: the link `b.md#three` names a heading",
                "docs/a.md:3: the link `#top` names a heading",
                "docs/a.md:4: the link `../../x.md` leaves the repository",
                "docs/a.md:5: the link `/docs/b.md` is absolute",
                "docs/a.md:6: the link `none.md` points to nothing",
            ],
        );
    }
}
