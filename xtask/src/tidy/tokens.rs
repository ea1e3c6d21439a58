//! Rust source as tokens: what it names, which lines are tests, how long its functions are.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// A name in code, with everything before it that belongs to the same path.
pub(crate) struct Mention {
    /// `use a::{b, c::d}` gives `a::b` and `a::c::d`.
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    pub(crate) form: Form,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `.name(…)`
    Method { has_arguments: bool },
    /// `name!(…)`
    Macro,
    /// `use name` or `extern crate name`, the first name of it
    Import,
    /// anything else
    Plain,
}

/// The tokens of a file; `None` when it is not Rust.
pub(crate) fn parse(text: &str) -> Option<TokenStream> {
    text.parse().ok()
}

pub(crate) fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    if let Some(stream) = parse(text) {
        collect_mentions(stream, &[], &mut found);
    }
    found
}

fn collect_mentions(stream: TokenStream, prefix: &[String], found: &mut Vec<Mention>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        if let TokenTree::Group(group) = tree {
            collect_mentions(group.stream(), &[], found);
        }
        let TokenTree::Ident(first) = tree else {
            at += 1;
            continue;
        };
        let start = at;
        let mut path = prefix.to_vec();
        path.push(first.to_string());
        at += 1;
        while is_path_separator(&trees, at)
            && let Some(TokenTree::Ident(next)) = trees.get(at + 2)
        {
            path.push(next.to_string());
            at += 3;
        }
        if is_path_separator(&trees, at)
            && let Some(group) = group_at(&trees, at + 2, Delimiter::Brace)
        {
            collect_mentions(group.stream(), &path, found);
            at += 3;
            continue;
        }
        found.push(Mention {
            form: form(&trees, start, at),
            line: first.span().start().line,
            path,
        });
    }
}

/// The form of the path whose tokens are `start..end`.
fn form(trees: &[TokenTree], start: usize, end: usize) -> Form {
    let before = |back: usize| start.checked_sub(back).and_then(|at| trees.get(at));
    let is_dot = |tree: Option<&TokenTree>| tree.is_some_and(|tree| is_punct(tree, '.'));
    // `..name` is a range, not a call.
    if is_dot(before(1)) && !is_dot(before(2)) {
        let arguments = group_at(trees, end, Delimiter::Parenthesis);
        return match arguments {
            Some(group) => Form::Method {
                has_arguments: !group.stream().is_empty(),
            },
            None => Form::Plain,
        };
    }
    // `name != x` has no group after its `!`.
    let is_macro = trees.get(end).is_some_and(|tree| is_punct(tree, '!'))
        && matches!(trees.get(end + 1), Some(TokenTree::Group(_)));
    if is_macro {
        return Form::Macro;
    }
    match before(1) {
        Some(TokenTree::Ident(word)) if word == "use" || word == "crate" => Form::Import,
        _ => Form::Plain,
    }
}

/// The attributes, inner and outer, at any depth: the line and what is between the brackets.
pub(crate) fn attributes(stream: TokenStream) -> Vec<(usize, Vec<TokenTree>)> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        if let Some((group, _)) = attribute_at(&trees, at) {
            let line = tree.span().start().line;
            found.push((line, group.stream().into_iter().collect()));
        } else if let TokenTree::Group(group) = tree {
            found.extend(attributes(group.stream()));
        }
    }
    found
}

/// The attribute whose `#` is at `at`, and whether it is an inner one.
pub(crate) fn attribute_at(trees: &[TokenTree], at: usize) -> Option<(&Group, bool)> {
    if !is_punct(trees.get(at)?, '#') {
        return None;
    }
    let inner = is_punct(trees.get(at + 1)?, '!');
    let group = group_at(trees, at + 1 + usize::from(inner), Delimiter::Bracket)?;
    Some((group, inner))
}

/// The files that `include_str!`, `include_bytes!` and `include!` name by one string, with the lines.
pub(crate) fn included(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    if let Some(stream) = parse(text) {
        collect_included(stream, &mut found);
    }
    found
}

fn collect_included(stream: TokenStream, found: &mut Vec<(usize, String)>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) => collect_included(group.stream(), found),
            TokenTree::Ident(word)
                if word.to_string().starts_with("include")
                    && trees.get(at + 1).is_some_and(|next| is_punct(next, '!')) =>
            {
                let group = group_at(&trees, at + 2, Delimiter::Parenthesis);
                let arguments = group.map(|group| group.stream().to_string());
                let path = arguments
                    .as_deref()
                    .and_then(|text| text.trim().strip_prefix('"')?.strip_suffix('"'));
                let path = path.filter(|path| !path.contains('"'));
                found.extend(path.map(|path| (word.span().start().line, path.to_owned())));
            }
            _ => {}
        }
    }
}

/// Every function with a body, at any depth: its name and its lines.
pub(crate) fn functions(stream: TokenStream) -> Vec<(String, RangeInclusive<usize>)> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(word) if word == "fn" => {
                // `fn(u8)` is a type.
                let Some(TokenTree::Ident(name)) = trees.get(at + 1) else {
                    continue;
                };
                if let Some(end) = end_of_item(&trees, at) {
                    found.push((name.to_string(), word.span().start().line..=end));
                }
            }
            TokenTree::Group(group) => found.extend(functions(group.stream())),
            _ => {}
        }
    }
    found
}

/// The last line of the body of the item at `at`; `None` when it ends in `;` without one.
fn end_of_item(trees: &[TokenTree], at: usize) -> Option<usize> {
    let last = trees.iter().skip(at).find(|tree| match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        other => is_punct(other, ';'),
    })?;
    match last {
        TokenTree::Group(group) => Some(group.span_close().end().line),
        _ => None,
    }
}

pub(crate) fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

pub(crate) fn group_at(trees: &[TokenTree], at: usize, delimiter: Delimiter) -> Option<&Group> {
    match trees.get(at)? {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

fn is_path_separator(trees: &[TokenTree], at: usize) -> bool {
    let joint = matches!(trees.get(at), Some(TokenTree::Punct(punct))
        if punct.as_char() == ':' && punct.spacing() == Spacing::Joint);
    joint && trees.get(at + 1).is_some_and(|tree| is_punct(tree, ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let found = mentions(text);
        found.iter().map(|name| name.path.join("::")).collect()
    }

    #[test]
    fn paths_are_whole_also_in_groups_of_a_use() {
        let text = "use a::{b, c::{d, e}};";
        assert_eq!(names(text), ["use", "a::b", "a::c::d", "a::c::e"]);
    }

    #[test]
    fn forms_are_told_apart() {
        let found = mentions("x.unwrap(); x.expect(1); todo!(); todo != 1; 0..unwrap(); use y;");
        let form = |name: &str, nth: usize| {
            let mut named = found.iter().filter(|mention| mention.path == [name]);
            &named.nth(nth).unwrap().form
        };
        assert_eq!(
            *form("unwrap", 0),
            Form::Method {
                has_arguments: false
            }
        );
        assert_eq!(*form("unwrap", 1), Form::Plain);
        assert_eq!(
            *form("expect", 0),
            Form::Method {
                has_arguments: true
            }
        );
        assert_eq!(*form("todo", 0), Form::Macro);
        assert_eq!(*form("todo", 1), Form::Plain);
        assert_eq!(*form("y", 0), Form::Import);
    }

    #[test]
    fn comments_and_strings_name_nothing() {
        assert!(names("// a::b\n/* a::b */ \"a::b\"").is_empty());
    }

    #[test]
    fn included_files_are_found_at_any_depth() {
        let text = "const A: &str = include_str!(\"a.sql\");\n#[doc = include_str!(\"../b.md\")]\nstruct B;\n\
                    include!(concat!(\"c\", \"d\")); let include = (\"e\");";
        let found = included(text);
        assert_eq!(found, [(1, "a.sql".to_owned()), (2, "../b.md".to_owned())]);
    }

    #[test]
    fn functions_are_measured_also_inside_macros() {
        let text = "trait T { fn a(); }\nm! {\n fn b(f: fn(u8)) {\n }\n}";
        let found = functions(parse(text).unwrap());
        assert_eq!(found, [("b".to_owned(), 3..=4)]);
    }
}
