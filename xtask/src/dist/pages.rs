//! The pages of the archive. A link to a file that the archive does not have, such as a source file,
//! becomes the link's text and the path in the repository.

use super::Files;
use crate::book::without_links;
use crate::tidy::links::is_local;
use crate::tidy::tree::resolve;

/// The text of a page in an archive with these files.
pub(super) fn in_archive(page: &str, text: &str, files: &Files) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    without_links(text, |target| missing(folder, target, files))
}

/// The path that a link names, if the archive does not have it.
fn missing(folder: &str, target: &str, files: &Files) -> Option<String> {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if path.is_empty() || !is_local(target) {
        return None;
    }
    let full = resolve(folder, path)?;
    let below = format!("{full}/");
    let is_packed = files.contains_key(&full) || files.keys().any(|file| file.starts_with(&below));
    (!is_packed).then_some(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_that_the_archive_lacks_are_replaced() {
        let names = ["README.md", "docs/guide/a.md", "deploy/compose/b.yaml"];
        let files: Files = names.map(|name| (name.to_owned(), name.to_owned())).into();
        let kept = "[1](a.md#x) [2](../../README.md) [3](../../deploy) [4](https://a.example/b.rs) \
                    [5](#here) [6](mailto:a@b.example)\n```text\n[7](c.rs)\n```\n";
        assert_eq!(in_archive("docs/guide/a.md", kept, &files), kept);
        let linked = "[`c.rs`](../../crates/c.rs#L3), [the crates](../../crates), [A](../b.md)";
        let shown = "`crates/c.rs`, the crates (`crates`), A (`docs/b.md`)";
        assert_eq!(in_archive("docs/guide/a.md", linked, &files), shown);
        assert_eq!(
            in_archive("README.md", "[C](CONTRIBUTING.md#tests)", &files),
            "C (`CONTRIBUTING.md`)"
        );
    }
}
