//! Decisions are numbered without holes, and a page's heading has the number of its file.

use super::Finding;
use super::tree::{File, Tree};

const FOLDER: &str = "docs/adr/";
const INDEX: &str = "docs/adr/index.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| is_decision(file));
    let findings = pages.zip(1..).map(|(page, number)| {
        let start = format!("{FOLDER}{number:04}-");
        if !page.path.starts_with(&start) {
            let what = format!("decision {number} is missing before this page");
            return Some(Finding::new(
                &page.path,
                1,
                what,
                "number the pages in order",
            ));
        }
        let heading = format!("# {number}. ");
        let wrong = !page.text.starts_with(&heading);
        wrong.then(|| {
            let what = format!("the heading does not start with `{heading}`");
            Finding::new(&page.path, 1, what, "give the page its file's number")
        })
    });
    findings.flatten().collect()
}

fn is_decision(file: &File) -> bool {
    file.path.starts_with(FOLDER) && file.path.ends_with(".md") && file.path != INDEX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    #[test]
    fn pages_in_order_are_fine() {
        let fixture = Fixture::new()
            .file("docs/adr/0001-a.md", "# 1. A\n")
            .file("docs/adr/0002-b.md", "# 2. B\n")
            .file(INDEX, "# Decisions\n");
        assert_findings(&fixture.run(check), &[]);
    }

    #[test]
    fn holes_doubles_and_other_headings_are_found() {
        let hole = Fixture::new()
            .file("docs/adr/0001-a.md", "# 1. A\n")
            .file("docs/adr/0003-b.md", "# 3. B\n");
        assert_findings(
            &hole.run(check),
            &["docs/adr/0003-b.md:1: decision 2 is missing"],
        );
        let double = Fixture::new()
            .file("docs/adr/0001-a.md", "# 1. A\n")
            .file("docs/adr/0001-b.md", "# 1. B\n");
        assert_findings(
            &double.run(check),
            &["docs/adr/0001-b.md:1: decision 2 is missing"],
        );
        let heading = Fixture::new().file("docs/adr/0001-a.md", "# 2. A\n");
        assert_findings(
            &heading.run(check),
            &["docs/adr/0001-a.md:1: the heading does not start with `# 1. `"],
        );
    }
}
