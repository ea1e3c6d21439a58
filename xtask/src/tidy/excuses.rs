//! Comments that allow one line to break one rule, with a reason.
//!
//! The comment is on the line itself or on the line before it. In Rust it starts with two slashes,
//! in TOML with a hash, followed by the marker, the check's name and the reason.

use std::collections::BTreeMap;

use super::tree::{File, Tree};
use super::{Check, Finding};

/// In two parts, so that this file does not excuse itself.
const MARKER: [&str; 2] = ["tidy: ", "allow("];

pub(crate) struct Excuse {
    check: String,
    has_reason: bool,
    used: bool,
}

/// By path and line.
pub(crate) type Excuses = BTreeMap<(String, usize), Excuse>;

pub(crate) fn collect(tree: &Tree) -> Excuses {
    let toml = tree.with_extension("toml").map(|file| (file, "#"));
    let files = tree.rust().map(|file| (file, "//")).chain(toml);
    files
        .flat_map(|(file, opening)| in_file(file, opening))
        .collect()
}

fn in_file<'a>(
    file: &'a File,
    opening: &'a str,
) -> impl Iterator<Item = ((String, usize), Excuse)> + 'a {
    (1..)
        .zip(file.text.lines())
        .filter_map(move |(number, line)| {
            let (before, after) = line.split_once(&MARKER.concat())?;
            // Doc comments do not count as excuses.
            let before = before.trim_end().strip_suffix(opening)?;
            if before.ends_with('/') {
                return None;
            }
            let (check, reason) = after.split_once(')')?;
            let excuse = Excuse {
                check: check.to_owned(),
                has_reason: !reason.trim().is_empty(),
                used: false,
            };
            Some(((file.path.clone(), number), excuse))
        })
}

/// Whether a comment covers this finding; the comment then counts as used.
pub(crate) fn cover(excuses: &mut Excuses, check: &str, finding: &Finding) -> bool {
    for line in [finding.line, finding.line.saturating_sub(1)] {
        if let Some(excuse) = excuses.get_mut(&(finding.path.clone(), line))
            && excuse.check == check
        {
            excuse.used = true;
            return true;
        }
    }
    false
}

/// Findings about the comments themselves, after every check has run.
pub(crate) fn check(excuses: &Excuses, checks: &[Check]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((path, line), excuse) in excuses {
        let known = checks.iter().find(|check| check.name == excuse.check);
        let (what, to_do) = match known {
            None => ("names no check", "take the name from the finding"),
            Some(check) if !check.excusable => ("cannot be excused", "keep the rule"),
            Some(_) if !excuse.used => ("excuses nothing", "remove the comment"),
            Some(_) if !excuse.has_reason => ("has no reason", "write why behind the parenthesis"),
            Some(_) => continue,
        };
        let what = format!("the excuse `{}` {what}", excuse.check);
        findings.push(Finding::new(path, *line, what, to_do));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;
    use crate::tidy::fixture::{Fixture, assert_findings, show};

    fn run(text: &str) -> Vec<String> {
        let text = text.replace("ALLOW", &MARKER.concat());
        let fixture = Fixture::new().package("crates/cli", "cli", "").file(
            "crates/cli/src/main.rs",
            &format!("#![forbid(unsafe_code)]\n{text}"),
        );
        let found = findings(&fixture.tree());
        let of_this_file = found
            .iter()
            .filter(|(_, one)| one.path.ends_with("main.rs"));
        of_this_file
            .map(|(check, one)| {
                format!(
                    "{check} {}",
                    show(one).replace("crates/cli/src/main.rs:", "")
                )
            })
            .collect()
    }

    #[test]
    fn a_reason_excuses_its_own_line_and_the_next() {
        let text = "fn a() {\nx.unwrap(); // ALLOWbanned-calls) a test hook\n\
                    // ALLOWbanned-calls) a test hook\nx.unwrap();\nx.unwrap();\n}";
        assert_findings(&run(text), &["banned-calls 6: `.unwrap()`"]);
    }

    #[test]
    fn an_excuse_must_have_a_reason_and_a_use() {
        let text = "fn a() {\nx.unwrap(); // ALLOWbanned-calls)\n// ALLOWbanned-calls) why\n\
                    // ALLOWnonsense) why\n// ALLOWlength) why\n/// ALLOWbanned-calls)\nb();\n}";
        assert_findings(
            &run(text),
            &[
                "excuses 3: the excuse `banned-calls` has no reason",
                "excuses 4: the excuse `banned-calls` excuses nothing",
                "excuses 5: the excuse `nonsense` names no check",
                "excuses 6: the excuse `length` cannot be excused",
            ],
        );
    }

    #[test]
    fn an_excuse_for_one_check_does_not_cover_another() {
        let text = "fn a() {\nx.unwrap(); // ALLOWattributes) why\n}";
        let found = run(text);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
