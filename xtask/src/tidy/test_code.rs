//! Which lines are compiled for tests only.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::modules;
use super::tokens::{self, attribute_at, group_at, is_punct};
use super::tree::{File, Tree};

/// Tells test code from library code, file by file.
pub(crate) struct TestCode {
    reached: BTreeMap<String, bool>,
}

impl TestCode {
    pub(crate) fn of(tree: &Tree) -> Self {
        Self {
            reached: modules::reached(tree),
        }
    }

    /// All lines of a file under `tests/` or of a test-only module; in other files the test-only
    /// items.
    pub(crate) fn lines(&self, file: &File) -> Vec<RangeInclusive<usize>> {
        let outside = file.is_under("tests") && !file.is_under("src");
        if outside || self.reached.get(&file.path) == Some(&true) {
            return vec![1..=usize::MAX];
        }
        tokens::parse(&file.text)
            .map(test_lines)
            .unwrap_or_default()
    }
}

/// The lines of items that are compiled for tests only.
pub(crate) fn test_lines(stream: TokenStream) -> Vec<RangeInclusive<usize>> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        match attribute_at(&trees, at) {
            Some((group, inner)) if is_test(group.stream()) => {
                let is_end = |tree: &&TokenTree| {
                    let is_body = matches!(tree, TokenTree::Group(group)
                        if group.delimiter() == Delimiter::Brace);
                    !inner && (is_body || is_punct(tree, ';'))
                };
                let end = trees.iter().skip(at).find(is_end).or(trees.last());
                let end = end.map_or(usize::MAX, |end| end.span().end().line);
                found.push(tree.span().start().line..=end);
            }
            _ => {
                if let TokenTree::Group(group) = tree {
                    found.extend(test_lines(group.stream()));
                }
            }
        }
    }
    found
}

/// `test`, `tokio::test`, `cfg(test)`, `cfg(all(test, …))`; not `cfg(any(test, …))`, which is
/// library code as well.
fn is_test(attribute: TokenStream) -> bool {
    let trees: Vec<TokenTree> = attribute.into_iter().collect();
    let is_word = |tree: Option<&TokenTree>, name: &str| matches!(tree, Some(TokenTree::Ident(word)) if word == name);
    if is_word(trees.first(), "cfg") {
        return group_at(&trees, 1, Delimiter::Parenthesis)
            .is_some_and(|group| requires_test(group.stream()));
    }
    let last = trees
        .iter()
        .rfind(|tree| !matches!(tree, TokenTree::Group(_)));
    let is_path = trees.iter().all(|tree| !is_punct(tree, '='));
    is_path && is_word(last, "test")
}

fn requires_test(stream: TokenStream) -> bool {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    trees.iter().enumerate().any(|(at, tree)| match tree {
        TokenTree::Ident(word) if word == "test" || word == "doctest" => true,
        TokenTree::Ident(word) if word == "all" => group_at(&trees, at + 1, Delimiter::Parenthesis)
            .is_some_and(|group| requires_test(group.stream())),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::Fixture;

    fn lines(text: &str) -> Vec<RangeInclusive<usize>> {
        test_lines(tokens::parse(text).unwrap())
    }

    #[test]
    fn items_for_tests_are_found_whatever_their_form() {
        assert_eq!(lines("#[cfg(test)]\nmod a {\n}\nfn b() {}"), [1..=3]);
        assert_eq!(lines("#[cfg(all(test, unix))]\nuse a;"), [1..=2]);
        assert_eq!(lines("#[cfg(doctest)]\nmod pages {\n}"), [1..=3]);
        assert_eq!(
            lines("m! {\n#[tokio::test(x = 1)]\nasync fn a() {}\n}"),
            [2..=3]
        );
        assert_eq!(
            lines("//! Text.\n#![cfg(test)]\nfn a() {}\nfn b() {}"),
            [2..=4]
        );
    }

    #[test]
    fn library_code_is_not_taken_for_a_test() {
        for attribute in [
            "cfg(not(test))",
            "cfg(any(test, unix))",
            "cfg(feature = \"test\")",
        ] {
            assert!(
                lines(&format!("#[{attribute}]\nmod a {{}}")).is_empty(),
                "{attribute}"
            );
        }
        assert!(lines("#[doc = \"test\"] mod test {}").is_empty());
    }

    #[test]
    fn a_module_file_that_only_tests_declare_is_a_test() {
        let fixture = Fixture::new()
            .package("a", "a", "")
            .file("a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;")
            .file("a/src/b.rs", "")
            .file("a/src/tests.rs", "mod deep;")
            .file("a/src/tests/deep.rs", "");
        let tree = fixture.tree();
        let code = TestCode::of(&tree);
        let is_test = |path: &str| !code.lines(tree.get(path).unwrap()).is_empty();
        assert!(is_test("a/src/tests.rs") && is_test("a/src/tests/deep.rs"));
        assert!(!is_test("a/src/b.rs"));
    }
}
