//! `docs/requirements.md` must list every requirement, and every requirement marked as done needs a
//! test.

use std::collections::BTreeMap;

use super::Finding;
use super::markdown;
use super::test_code::TestCode;
use super::tree::Tree;

const PAGE: &str = "docs/requirements.md";

/// The contract suite that every adapter runs counts as test source too.
const SUITE: &str = "crates/contract/src/";

/// Not counted as a test: its fixtures name requirements without proving them.
const SELF: &str = "xtask/src/tidy/requirements.rs";

/// Each group counts from 1 to its number.
const GROUPS: [(&str, usize); 4] = [("CORE", 20), ("RUN", 13), ("OUT", 10), ("COL", 18)];

const STATES: [&str; 3] = ["done", "partly", "not yet"];

const HEADER: &str = "| id | requirement | state | code | test |";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(PAGE) else {
        let to_do = "write it: one row for each requirement";
        return vec![Finding::new(PAGE, 1, "the page is missing", to_do)];
    };
    let tests = test_source(tree);
    let mut findings = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (line, cells) in rows(&page.text) {
        let mut add = |what: String, to_do: &str| {
            findings.push(Finding::new(PAGE, line, what, to_do));
        };
        let id = &cells[0];
        if !ids().any(|known| known == *id) {
            add(format!("`{id}` is no requirement"), "correct the id");
            continue;
        }
        if let Some(first) = seen.insert(id.clone(), line) {
            add(format!("{id} is on line {first} too"), "keep one row");
        }
        for (what, to_do) in row(&cells, &tests) {
            add(format!("{id} {what}"), to_do);
        }
    }
    for id in ids().filter(|id| !seen.contains_key(id)) {
        let to_do = format!("add a row: {HEADER}");
        findings.push(Finding::new(PAGE, 1, format!("{id} has no row"), &to_do));
    }
    findings
}

fn ids() -> impl Iterator<Item = String> {
    GROUPS
        .into_iter()
        .flat_map(|(group, last)| (1..=last).map(move |number| format!("{group}-{number}")))
}

/// What is wrong with one row, and how to fix it.
fn row(cells: &[String], tests: &str) -> Vec<(&'static str, &'static str)> {
    let [id, _, state, code, test] = cells else {
        return vec![("does not have five columns", HEADER)];
    };
    if !STATES.contains(&state.as_str()) {
        return vec![(
            "has an unknown state",
            "write `done`, `partly` or `not yet`",
        )];
    }
    let mut wrong = Vec::new();
    if state != "not yet" && !has_link(code) {
        wrong.push((
            "is not `not yet` and links no code",
            "link the code that does it",
        ));
    }
    if state == "done" && !has_link(test) {
        wrong.push(("is done and links no test", "link the test that proves it"));
    }
    if state == "done" && !names(tests, id) {
        let to_do = "name the id in the name, doc comment or text of the test that proves it";
        wrong.push(("is done and no test source names it", to_do));
    }
    wrong
}

fn has_link(cell: &str) -> bool {
    markdown::links(cell).next().is_some()
}

/// The table rows that start with something like an id, with the number of their line.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<String>)> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        // A bar that belongs to the text is written `\|`.
        let inner = inner.replace("\\|", "\u{0}");
        let cells: Vec<String> = inner
            .split('|')
            .map(|cell| cell.trim().replace('\u{0}', "|"))
            .collect();
        let (group, number_text) = cells.first()?.split_once('-')?;
        let is_group = !group.is_empty() && group.chars().all(|letter| letter.is_ascii_uppercase());
        let is_number = number_text.parse::<usize>().is_ok();
        (is_group && is_number).then_some((number, cells))
    })
}

fn test_source(tree: &Tree) -> String {
    let code = TestCode::of(tree);
    let mut source = String::new();
    for file in tree.rust().filter(|file| file.path != SELF) {
        let is_suite = file.path.starts_with(SUITE);
        let tests = code.lines(file);
        for (number, line) in (1..).zip(file.text.lines()) {
            if is_suite || tests.iter().any(|lines| lines.contains(&number)) {
                source.push_str(line);
                source.push('\n');
            }
        }
    }
    source
}

/// Whether the text names the id as `CORE-6` or as `core_6`; `CORE-60` and `score_6` do not count.
fn names(text: &str, id: &str) -> bool {
    let in_code = id.to_lowercase().replace('-', "_");
    [id, &in_code].iter().any(|name| {
        text.match_indices(*name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + name.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric)
                && !after.is_some_and(|letter| letter.is_ascii_digit())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    /// A page where every requirement is `not yet`, but for the rows given.
    fn page(rows: &[&str]) -> String {
        let mut text = format!("# Requirements\n\n{HEADER}\n| --- | --- | --- | --- | --- |\n");
        for row in rows {
            text.push_str(&format!("{row}\n"));
        }
        let given = |id: &String| rows.iter().any(|row| row.starts_with(&format!("| {id} |")));
        for id in ids().filter(|id| !given(id)) {
            text.push_str(&format!("| {id} | a \\| b | not yet | | |\n"));
        }
        text
    }

    fn run(rows: &[&str], test: &str) -> Vec<String> {
        let fixture = Fixture::new()
            .file(PAGE, &page(rows))
            .file("crates/a/tests/b.rs", test)
            .file("crates/a/src/lib.rs", "//! CORE-6");
        fixture.run(check)
    }

    const DONE: &str = "| CORE-6 | text | done | [a](a.rs) | [b](b.rs) |";

    #[test]
    fn a_done_requirement_has_code_and_a_test_that_names_it() {
        for test in [
            "/// CORE-6: text",
            "fn core_6_holds() {}",
            "case(\"CORE-6\")",
        ] {
            assert_findings(&run(&[DONE], test), &[]);
        }
        for test in ["", "/// CORE-60", "fn score_6() {}"] {
            assert_findings(
                &run(&[DONE], test),
                &["docs/requirements.md:5: CORE-6 is done and no test source names it"],
            );
        }
    }

    #[test]
    fn the_contract_suite_and_test_modules_prove_too() {
        for (path, text) in [
            ("crates/contract/src/a.rs", "case(\"CORE-6\")"),
            (
                "crates/b/src/a.rs",
                "#[cfg(test)]\nmod tests {\n/// CORE-6\n}",
            ),
        ] {
            let fixture = Fixture::new().file(PAGE, &page(&[DONE])).file(path, text);
            assert_findings(&fixture.run(check), &[]);
        }
    }

    #[test]
    fn wrong_rows_are_found() {
        let rows = [
            "| RUN-1 | text | finished | | |",
            "| RUN-2 | text | partly | src/a.rs | |",
            "| RUN-3 | text | not yet | |",
            "| RUN-99 | text | not yet | | |",
            "| RUN-1 | text | not yet | | |",
        ];
        assert_findings(
            &run(&rows, ""),
            &[
                "docs/requirements.md:5: RUN-1 has an unknown state",
                "docs/requirements.md:6: RUN-2 is not `not yet` and links no code",
                "docs/requirements.md:7: RUN-3 does not have five columns",
                "docs/requirements.md:8: `RUN-99` is no requirement",
                "docs/requirements.md:9: RUN-1 is on line 5 too",
            ],
        );
    }

    #[test]
    fn missing_rows_and_a_missing_page_are_found() {
        let text = page(&[]).replace("| COL-18 |", "| none |");
        let fixture = Fixture::new().file(PAGE, &text);
        assert_findings(
            &fixture.run(check),
            &["docs/requirements.md:1: COL-18 has no row"],
        );
        assert_findings(
            &Fixture::new().run(check),
            &["docs/requirements.md:1: the page is missing"],
        );
    }
}
