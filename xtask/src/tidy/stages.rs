//! The engine's stages follow the path of an operation: a module may use later stages, but no
//! earlier ones.

use super::Finding;
use super::tokens;
use super::tree::Tree;

const ENGINE: &str = "crates/engine/src/";

/// The modules of the path, and the stages that each may name. Modules that are not listed are
/// shared by all stages and may name none of them.
const MAY_USE: &[(&str, &[&str])] = &[
    ("accept", &["accept", "dispatch", "execute", "settle"]),
    ("dispatch", &["dispatch", "execute", "settle"]),
    ("execute", &["execute", "settle"]),
    ("settle", &["settle"]),
    ("recover", &["recover", "settle"]),
    (
        "runtime",
        &[
            "accept", "dispatch", "execute", "settle", "recover", "runtime",
        ],
    ),
];

/// Public names at the crate's root, and the module that they come from.
const AT_ROOT: &[(&str, &str)] = &[
    ("Orchestrator", "accept"),
    ("Snapshot", "accept"),
    ("Redriven", "accept"),
    ("ImportedLetters", "recover"),
    ("Pumped", "runtime"),
    ("Role", "runtime"),
    ("Runtime", "runtime"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let Some(path) = file.path.strip_prefix(ENGINE) else {
            continue;
        };
        let module = path.split(['/', '.']).next().unwrap_or_default();
        if module == "lib" {
            continue;
        }
        let listed = MAY_USE.iter().find(|(name, _)| *name == module);
        let may_use = listed.map_or(&[][..], |(_, may_use)| may_use);
        for mention in tokens::mentions(&file.text) {
            let Some(used) = module_of(&mention.path) else {
                continue;
            };
            if !may_use.contains(&used) {
                let what = format!("`{module}` names `{used}`, which comes before it");
                let to_do = "move what both need to a module that all stages share";
                findings.push(Finding::new(&file.path, mention.line, what, to_do));
            }
        }
    }
    findings
}

/// The stage that a path through the crate's root names.
fn module_of(path: &[String]) -> Option<&'static str> {
    let [root, name, ..] = path else {
        return None;
    };
    if root != "crate" {
        return None;
    }
    let stages = MAY_USE.iter().map(|(stage, _)| (*stage, *stage));
    let mut names = stages.chain(AT_ROOT.iter().copied());
    names.find(|(known, _)| known == name).map(|(_, of)| of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    #[test]
    fn a_use_of_an_earlier_stage_is_found() {
        let fixture = Fixture::new()
            .file("crates/engine/src/settle/mod.rs", "use crate::accept::x;")
            .file("crates/engine/src/execute/a.rs", "use crate::Orchestrator;")
            .file("crates/engine/src/recover/a.rs", "use crate::execute::x;")
            .file("crates/engine/src/base.rs", "\nuse crate::settle::x;");
        assert_findings(
            &fixture.run(check),
            &[
                "crates/engine/src/base.rs:2: `base` names `settle`",
                "crates/engine/src/execute/a.rs:1: `execute` names `accept`",
                "crates/engine/src/recover/a.rs:1: `recover` names `execute`",
                "crates/engine/src/settle/mod.rs:1: `settle` names `accept`",
            ],
        );
    }

    #[test]
    fn later_stages_and_what_all_share_are_allowed() {
        let fixture = Fixture::new()
            .file(
                "crates/engine/src/accept/mod.rs",
                "use crate::base::Base;\nuse crate::execute::Workers;",
            )
            .file(
                "crates/engine/src/runtime.rs",
                "use crate::recover::x;\nuse crate::Orchestrator;",
            )
            .file("crates/server/src/a.rs", "use crate::settle::x;");
        assert_findings(&fixture.run(check), &[]);
    }
}
