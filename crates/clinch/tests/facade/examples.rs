//! Every public name of the facade stands in an example that is compiled: in the documentation of
//! its own or of a module of the facade.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates whose items the facade exports again.
const CRATES: &[&str] = &["clinch", "core", "engine", "protect", "adapters/memory"];

const ITEMS: &[&str] = &[
    "struct ",
    "enum ",
    "trait ",
    "fn ",
    "async fn ",
    "const ",
    "type ",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The public modules: the root, and what `lib.rs` declares as `pub mod`.
fn modules() -> Vec<PathBuf> {
    let folder = crates().join("clinch/src");
    let root = folder.join("lib.rs");
    let declared = read(&root);
    let names = declared
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let files = names.map(|name| {
        let file = folder.join(format!("{name}.rs"));
        match file.exists() {
            true => file,
            false => folder.join(name).join("mod.rs"),
        }
    });
    std::iter::once(root.clone()).chain(files).collect()
}

/// The names that a module exports.
fn exported(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for uses in text.split("\npub use ").skip(1) {
        let Some((path, _)) = uses.split_once(';') else {
            continue;
        };
        let list = path.split_once('{').map_or(path, |(_, list)| list);
        let words = list.trim_end_matches('}').split(',').map(str::trim);
        let last = words.filter_map(|word| word.rsplit("::").next());
        names.extend(last.filter(|word| !word.is_empty()).map(str::to_owned));
    }
    for line in text.lines() {
        let item = line.strip_prefix("pub ");
        let item = item.and_then(|item| ITEMS.iter().find_map(|kind| item.strip_prefix(kind)));
        names.extend(item.map(word));
    }
    names
}

/// The identifier at the beginning.
fn word(text: &str) -> String {
    let is_part = |letter: &char| letter.is_alphanumeric() || *letter == '_';
    text.chars().take_while(is_part).collect()
}

/// The compiled examples of these documentation lines, without what they import.
fn examples(docs: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in docs {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(kind)) => {
                let kind = kind.trim();
                let is_compiled = ["", "rust", "no_run", "should_panic"].contains(&kind);
                open = Some((is_compiled, String::new()));
            }
            (Some((is_compiled, code)), Some(_)) => {
                if *is_compiled {
                    found.push(without_imports(code));
                }
                open = None;
            }
            (Some((_, code)), None) => {
                code.push_str(line.trim_start().trim_start_matches("# "));
                code.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

fn without_imports(code: &str) -> String {
    let mut kept = String::new();
    let mut is_import = false;
    for line in code.lines() {
        is_import |= line.trim_start().starts_with("use ");
        if !is_import {
            kept.push_str(line);
            kept.push('\n');
        }
        is_import &= !line.trim_end().ends_with(';');
    }
    kept
}

fn names(code: &str, name: &str) -> bool {
    let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.into_iter().any(|word| word == name)
}

/// The text of a documentation comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every example of a file, with the name of the item that it documents; `None`: the module.
fn of_file(text: &str) -> Vec<(Option<String>, String)> {
    let mut found = Vec::new();
    let mut docs: Vec<&str> = Vec::new();
    for line in text.lines().chain([""]) {
        if let Some(text) = doc(line) {
            docs.push(text);
        } else if !line.trim_start().starts_with("#[") || line.is_empty() {
            let item = line.trim_start().strip_prefix("pub ");
            let item = item.and_then(|item| ITEMS.iter().find_map(|kind| item.strip_prefix(kind)));
            let owner = item.map(word);
            found.extend(
                examples(&docs)
                    .into_iter()
                    .map(|code| (owner.clone(), code)),
            );
            docs.clear();
        }
    }
    found
}

/// The public names without an example, by the file that exports them.
fn missing() -> BTreeMap<PathBuf, Vec<String>> {
    let mut of_facade = Vec::new();
    let mut own = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        rust_files(&crates().join(name).join("src"), &mut files);
        for file in files {
            let all = of_file(&read(&file));
            match *name {
                "clinch" => of_facade.extend(all),
                _ => own.extend(all),
            }
        }
    }
    assert!(of_facade.len() > 30, "the examples are not found");
    let has_example = |name: &String| {
        let of_itself = |(owner, code): &(Option<String>, String)| {
            owner.as_ref() == Some(name) && names(code, name)
        };
        of_facade.iter().any(|(_, code)| names(code, name)) || own.iter().any(of_itself)
    };
    let mut missing = BTreeMap::new();
    for file in modules() {
        let lacking: Vec<String> = exported(&read(&file))
            .into_iter()
            .filter(|name| !has_example(name))
            .collect();
        if !lacking.is_empty() {
            missing.insert(file, lacking);
        }
    }
    missing
}

#[test]
fn core_18_every_public_name_of_the_facade_has_an_example() {
    assert_eq!(
        missing(),
        BTreeMap::new(),
        "name them in the example of their module"
    );
}

#[test]
fn names_and_examples_are_read_as_they_are_written() {
    let text = "mod x;\npub use a::b::One;\npub use c::{\n    Two, d::Three,\n};\npub fn four() {}\nfn five() {}\n";
    let found: Vec<String> = exported(text).into_iter().collect();
    assert_eq!(found, ["One", "Three", "Two", "four"]);
    let text = "/// ```\n/// use a::One;\n/// Two::new();\n/// ```\n/// ```text\n/// Four\n/// ```\npub struct Three;\n";
    let found = of_file(text);
    assert_eq!(found.len(), 1);
    let (owner, code) = &found[0];
    assert_eq!(owner.as_deref(), Some("Three"));
    assert!(names(code, "Two"), "{code}");
    for not in ["One", "Four", "Tw", "Three"] {
        assert!(!names(code, not), "{not}: {code}");
    }
}
