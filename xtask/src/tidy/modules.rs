//! Which files the crates' `mod` declarations reach.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::manifests;
use super::test_code::test_lines;
use super::tokens::{self, attribute_at, group_at, is_punct};
use super::tree::{Tree, join, resolve};

/// Every file that is part of some crate, and whether only of its tests.
pub(crate) fn reached(tree: &Tree) -> BTreeMap<String, bool> {
    let mut reached = BTreeMap::new();
    for manifest in manifests::collect(tree) {
        for (kind, root) in manifest.roots(tree) {
            visit(tree, &root, true, kind == "test", &mut reached);
        }
    }
    reached
}

fn visit(tree: &Tree, path: &str, root: bool, test: bool, reached: &mut BTreeMap<String, bool>) {
    let Some(file) = tree.get(path) else { return };
    match reached.get(path) {
        Some(&known) if !known || test => return,
        _ => reached.insert(path.to_owned(), test),
    };
    let Some(stream) = tokens::parse(&file.text) else {
        return;
    };
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let home = if root || name == "mod.rs" {
        folder.to_owned()
    } else {
        join(folder, name.trim_end_matches(".rs"))
    };
    let tests = test_lines(stream.clone());
    for entry in declarations(stream) {
        let test = test || tests.iter().any(|lines| lines.contains(&entry.line));
        for candidate in entry.candidates(folder, &home) {
            visit(tree, &candidate, false, test, reached);
        }
    }
}

/// A `mod name;` or an `include!("path")`.
struct Declaration {
    line: usize,
    /// The inline modules around it.
    inside: Vec<String>,
    name: String,
    /// From `#[path]` or `include!`: relative to the folder of the file itself.
    path: Option<String>,
}

impl Declaration {
    fn candidates(&self, folder: &str, home: &str) -> Vec<String> {
        if let Some(path) = &self.path {
            return resolve(folder, path).into_iter().collect();
        }
        let home = self
            .inside
            .iter()
            .fold(home.to_owned(), |home, name| join(&home, name));
        vec![
            join(&home, &format!("{}.rs", self.name)),
            join(&home, &format!("{}/mod.rs", self.name)),
        ]
    }
}

fn declarations(stream: TokenStream) -> Vec<Declaration> {
    let mut found = Vec::new();
    collect(stream, &[], &mut found);
    found
}

fn collect(stream: TokenStream, inside: &[String], found: &mut Vec<Declaration>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut path = None;
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        at += 1;
        if let Some((group, _)) = attribute_at(&trees, at - 1) {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            if inner.first().is_some_and(|word| word.to_string() == "path") {
                path = literal(inner.last());
            }
            at += 1;
            continue;
        }
        let line = tree.span().start().line;
        match (tree, trees.get(at), trees.get(at + 1)) {
            (TokenTree::Ident(word), Some(TokenTree::Ident(name)), Some(end)) if word == "mod" => {
                let name = name.to_string();
                at += 2;
                if is_punct(end, ';') {
                    let (inside, path) = (inside.to_vec(), path.take());
                    found.push(Declaration {
                        line,
                        inside,
                        name,
                        path,
                    });
                } else if let Some(group) = group_at(&trees, at - 1, Delimiter::Brace) {
                    let inside = [inside, &[name]].concat();
                    collect(group.stream(), &inside, found);
                }
            }
            (TokenTree::Ident(word), Some(bang), Some(TokenTree::Group(group)))
                if word == "include" && is_punct(bang, '!') =>
            {
                let path = literal(group.stream().into_iter().next().as_ref());
                let (inside, name) = (Vec::new(), String::new());
                found.extend(path.is_some().then_some(Declaration {
                    line,
                    inside,
                    name,
                    path,
                }));
            }
            (TokenTree::Group(group), ..) => collect(group.stream(), inside, found),
            _ => {}
        }
    }
}

fn literal(tree: Option<&TokenTree>) -> Option<String> {
    let text = tree?.to_string();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.to_owned())
}
