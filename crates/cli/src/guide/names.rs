//! Everything that a reader may look up by name is in the guide: commands, and the codes with which
//! an operation fails or waits. Routes and codes of the API are compared in `tests/api`, keys of the
//! configuration in `config/reference.rs`.

use std::collections::BTreeSet;

use clap::CommandFactory as _;

use super::root;
use crate::args::Cli;

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every page of the guide.
fn guide() -> String {
    let folder = std::fs::read_dir(root().join("docs/guide")).expect("docs/guide");
    let files = folder.map(|entry| entry.expect("a file").path());
    let pages = files.filter(|file| file.extension().is_some_and(|kind| kind == "md"));
    pages
        .map(|page| std::fs::read_to_string(page).expect("a page"))
        .collect()
}

/// Whether the guide has the words as a whole: `clinch ops` is not `clinch ops ls`.
fn names(guide: &str, words: &str, end: impl Fn(char) -> bool) -> bool {
    let mut places = guide.match_indices(words);
    places.any(|(at, _)| guide[at + words.len()..].chars().next().is_none_or(&end))
}

/// The full names of a command's subcommands that do something themselves.
fn commands(command: &clap::Command, name: &str) -> Vec<String> {
    let inner: Vec<_> = command
        .get_subcommands()
        .filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
        .collect();
    let mut found = Vec::new();
    if inner.is_empty() {
        found.push(name.to_owned());
    }
    for inner in inner {
        found.extend(commands(inner, &format!("{name} {}", inner.get_name())));
    }
    found
}

#[test]
fn core_18_every_command_is_in_the_guide() {
    let (guide, every) = (guide(), commands(&Cli::command(), "clinch"));
    assert!(every.len() > 40, "{every:?}");
    let is_end = |next: char| !next.is_alphanumeric() && next != '-' && next != '_';
    let missing: Vec<_> = every
        .iter()
        .filter(|command| !names(&guide, command, is_end))
        .collect();
    assert!(missing.is_empty(), "docs/guide does not name {missing:?}");
}

/// The code of a source file: without comments and tests.
fn code_of(file: &str) -> String {
    let text = read(file);
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The words in quotes after each of these beginnings, up to a colon.
fn quoted(code: &str, begin: &str) -> BTreeSet<String> {
    let texts = code.split(begin).skip(1);
    let words = texts.filter_map(|text| text.split(['"', ':']).next());
    let is_code = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let words = words.filter(is_code).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Codes of the protocol, of handlers in Rust, and of the HTTP executor.
fn codes() -> BTreeSet<String> {
    let protocol = code_of("crates/core/src/outcome.rs");
    let protocol = quoted(&protocol, ": &str = \"");
    assert!(protocol.contains("retry_exhausted"), "{protocol:?}");
    let handler = quoted(&code_of("crates/clinch/src/handler.rs"), "Fail::new(\"");
    assert!(handler.contains("invalid_input"), "{handler:?}");
    let executor = code_of("crates/adapters/http/src/executor.rs");
    let told = ["Retry::unknown(\"", "=> \"", "format!(\"", "not_called(\""];
    let executor: BTreeSet<_> = told
        .iter()
        .flat_map(|begin| quoted(&executor, begin))
        .collect();
    assert!(executor.contains("connect_failed"), "{executor:?}");
    [protocol, handler, executor]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn core_18_every_code_of_an_operation_is_in_the_guide() {
    let guide = guide();
    let is_missing = |code: &String| !guide.contains(&format!("`{code}`"));
    let missing: Vec<_> = codes().into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/guide does not name {missing:?}");
}
