//! Every command is in the guide by its name. Codes of operations are compared in `codes.rs`, routes
//! and codes of the API in `tests/api`, keys of the configuration in `config/reference.rs`.

use clap::CommandFactory as _;

use super::root;
use crate::args::Cli;

/// Every page of the guide.
pub(super) fn guide() -> String {
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
