//! Attributes that are required, and attributes that must give a reason.

use proc_macro2::{Delimiter, TokenTree};

use super::Finding;
use super::manifests;
use super::tokens::{self, group_at, is_punct};
use super::tree::{File, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = crate_roots(tree);
    for file in tree.rust() {
        let Some(stream) = tokens::parse(&file.text) else {
            continue;
        };
        for (line, attribute) in tokens::attributes(stream) {
            if let Some((what, to_do)) = complaint(&attribute) {
                findings.push(Finding::new(&file.path, line, what, to_do));
            }
        }
    }
    findings
}

/// Checks libraries and binaries; for tests and examples the workspace's lints are enough.
fn crate_roots(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests::collect(tree) {
        let roots = manifest.roots(tree);
        let own = roots
            .iter()
            .filter(|(kind, _)| ["lib", "bin"].contains(kind));
        for file in own.filter_map(|(_, path)| tree.get(path)) {
            if !forbids_unsafe(file) {
                let to_do = "add `#![forbid(unsafe_code)]` below its first comment";
                findings.push(Finding::new(
                    &file.path,
                    1,
                    "the crate may be unsafe",
                    to_do,
                ));
            }
        }
    }
    findings
}

fn forbids_unsafe(file: &File) -> bool {
    let attributes = tokens::parse(&file.text).map(tokens::attributes);
    attributes.into_iter().flatten().any(|(_, attribute)| {
        is_word(attribute.first(), "forbid")
            && group_at(&attribute, 1, Delimiter::Parenthesis)
                .is_some_and(|group| group.stream().to_string().contains("unsafe_code"))
    })
}

fn complaint(attribute: &[TokenTree]) -> Option<(&'static str, &'static str)> {
    let first = attribute.first();
    let arguments = group_at(attribute, 1, Delimiter::Parenthesis);
    let inner: Vec<TokenTree> = arguments
        .into_iter()
        .flat_map(|group| group.stream())
        .collect();
    if is_word(first, "allow") {
        let to_do = "write `#[expect(…, reason = \"…\")]`, which complains when it is not needed";
        return Some(("`allow` outlives its cause", to_do));
    }
    if is_word(first, "expect") && !inner.iter().any(|tree| is_word(Some(tree), "reason")) {
        return Some(("`expect` without a reason", "add `reason = \"…\"`"));
    }
    let says_why = attribute.get(1).is_some_and(|tree| is_punct(tree, '='));
    if is_word(first, "ignore") && !says_why {
        return Some((
            "a test is ignored without a reason",
            "write `#[ignore = \"…\"]`",
        ));
    }
    if is_word(first, "cfg_attr") {
        // cfg_attr(condition, attribute, attribute …)
        return inner
            .split(|tree| is_punct(tree, ','))
            .skip(1)
            .find_map(complaint);
    }
    None
}

fn is_word(tree: Option<&TokenTree>, name: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(word)) if word == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    #[test]
    fn every_crate_root_forbids_unsafe_code() {
        let fixture = Fixture::new()
            .package("a", "a", "[[bin]]\nname = \"x\"\npath = \"x.rs\"")
            .file("a/src/lib.rs", "//! Text.\n#![forbid(unsafe_code)]")
            .file("a/src/main.rs", "// #![forbid(unsafe_code)]")
            .file("a/src/bin/tool.rs", "")
            .file("a/src/other.rs", "")
            .file("a/tests/b.rs", "")
            .file("a/x.rs", "");
        assert_findings(
            &fixture.run(check),
            &[
                "a/src/bin/tool.rs:1: the crate may be unsafe",
                "a/src/main.rs:1: the crate may be unsafe",
                "a/x.rs:1: the crate may be unsafe",
            ],
        );
    }

    #[test]
    fn attributes_that_hide_something_without_a_reason_are_found() {
        let text = "#![allow(unused)]\n#[expect(unused)]\nfn a() {\n#[allow(unused)]\nlet a = 1;\n}\n\
                    m! {\n#[ignore]\nfn b() {}\n}\n#[cfg_attr(unix, allow(unused))]\nfn c() {}";
        assert_findings(
            &Fixture::new().file("a.rs", text).run(check),
            &[
                "a.rs:1: `allow`",
                "a.rs:2: `expect`",
                "a.rs:4: `allow`",
                "a.rs:8: a test is ignored",
                "a.rs:11: `allow`",
            ],
        );
    }

    #[test]
    fn attributes_with_a_reason_are_fine() {
        let text = "#[expect(unused, reason = \"why\")]\n#[ignore = \"why\"]\n\
                    #[cfg_attr(unix, ignore = \"why\")]\n#[doc(allow)]\nfn a() {}";
        assert_findings(&Fixture::new().file("a.rs", text).run(check), &[]);
    }
}
