//! Every public name of the facade stands in an example that is compiled: in the documentation of
//! its own or of a module of the facade. Every public method of the facade's types is called in an
//! example of its type, or in one on a page of the guide.

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
    "const fn ",
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

/// The kinds of blocks that rustdoc compiles in documentation comments.
const IN_DOCS: &[&str] = &["", "rust", "no_run", "should_panic"];
/// Those of a page, where a block without a kind is no Rust.
const ON_PAGES: &[&str] = &["rust", "rust,no_run"];

/// The compiled examples of these documentation lines, without what they import.
fn examples(docs: &[&str], compiled: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in docs {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(kind)) => {
                let is_compiled = compiled.contains(&kind.trim());
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

/// An example of a documentation comment or of a page.
struct Example {
    /// The item that it documents; `None`: a module or a page.
    item: Option<String>,
    /// The type whose method that item is.
    owner: Option<String>,
    code: String,
}

/// The type whose own methods an `impl` has; `None`: another line, or the `impl` of a trait.
fn implemented(line: &str) -> Option<String> {
    let mut rest = line.strip_prefix("impl")?;
    if line.contains(" for ") {
        return None;
    }
    if rest.starts_with('<') {
        let mut depth = 0_i32;
        let end = rest.char_indices().find(|(_, letter)| {
            depth += i32::from(*letter == '<') - i32::from(*letter == '>');
            depth == 0
        });
        rest = &rest[end?.0 + 1..];
    }
    Some(word(rest.trim_start()))
}

/// Every example of a file.
fn of_file(text: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut docs: Vec<&str> = Vec::new();
    let mut owner = None;
    for line in text.lines().chain([""]) {
        if line.starts_with("impl") || line.starts_with('}') {
            owner = implemented(line);
        }
        if let Some(text) = doc(line) {
            docs.push(text);
        } else if !line.trim_start().starts_with("#[") || line.is_empty() {
            let item = line.trim_start().strip_prefix("pub ");
            let item = item.and_then(|item| ITEMS.iter().find_map(|kind| item.strip_prefix(kind)));
            let item = item.map(word);
            found.extend(examples(&docs, IN_DOCS).into_iter().map(|code| Example {
                item: item.clone(),
                owner: owner.clone(),
                code,
            }));
            docs.clear();
        }
    }
    found
}

/// The examples of the guide and of the READMEs.
fn of_pages() -> Vec<Example> {
    let root = crates().join("..");
    let guide = std::fs::read_dir(root.join("docs/guide")).expect("docs/guide");
    let guide = guide.map(|entry| entry.expect("an entry").path());
    let pages = guide.filter(|page| page.extension().is_some_and(|end| end == "md"));
    let readmes = ["README.md", "crates/clinch/README.md"].map(|page| root.join(page));
    let mut found = Vec::new();
    for page in pages.chain(readmes) {
        let text = read(&page);
        let lines: Vec<&str> = text.lines().collect();
        found.extend(examples(&lines, ON_PAGES).into_iter().map(|code| Example {
            item: None,
            owner: None,
            code,
        }));
    }
    found
}

/// The examples of every Rust file of a crate.
fn of_crate(name: &str) -> Vec<Example> {
    let mut files = Vec::new();
    rust_files(&crates().join(name).join("src"), &mut files);
    files.iter().flat_map(|file| of_file(&read(file))).collect()
}

/// The types of a file and their public methods.
fn methods(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut owner = None;
    for line in text.lines() {
        if line.starts_with("impl") || line.starts_with('}') {
            owner = implemented(line);
        }
        let Some(mut item) = line.strip_prefix("    pub ") else {
            continue;
        };
        for modifier in ["const ", "async "] {
            item = item.strip_prefix(modifier).unwrap_or(item);
        }
        if let (Some(owner), Some(method)) = (&owner, item.strip_prefix("fn ")) {
            found.push((owner.clone(), word(method)));
        }
    }
    found
}

/// How an example gets a value of a type that it does not name.
const MADE_BY: [(&str, &str); 2] = [
    ("Builder", "Clinch::builder()"),
    ("Test", "testing::start("),
];

/// Whether the example calls this method of this type.
fn calls(example: &Example, owner: &str, method: &str) -> bool {
    let Example { code, .. } = example;
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let path = format!("{owner}::{method}");
    let is_path = code.match_indices(&path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + path.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    });
    let of_type = [&example.item, &example.owner];
    let is_made = |(name, made): &(&str, &str)| *name == owner && code.contains(made);
    let has_value = of_type.iter().any(|name| name.as_deref() == Some(owner))
        || names(code, owner)
        || MADE_BY.iter().any(is_made);
    let is_called = [format!(".{method}("), format!(".{method}::<")]
        .iter()
        .any(|call| code.contains(call));
    is_path || has_value && is_called
}

/// The public names without an example, by the file that exports them.
fn missing() -> BTreeMap<PathBuf, Vec<String>> {
    let of_facade = of_crate("clinch");
    let others = CRATES.iter().filter(|name| **name != "clinch");
    let own: Vec<Example> = others.flat_map(|name| of_crate(name)).collect();
    assert!(of_facade.len() > 30, "the examples are not found");
    let has_example = |name: &String| {
        let of_itself = |one: &Example| one.item.as_ref() == Some(name) && names(&one.code, name);
        of_facade.iter().any(|one| names(&one.code, name)) || own.iter().any(of_itself)
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
fn core_18_every_public_method_of_the_facade_is_called_in_an_example() {
    let exported: BTreeSet<String> = modules()
        .iter()
        .flat_map(|file| exported(&read(file)))
        .collect();
    let mut files = Vec::new();
    rust_files(&crates().join("clinch/src"), &mut files);
    let all = files.iter().flat_map(|file| methods(&read(file)));
    let all: Vec<_> = all.filter(|(owner, _)| exported.contains(owner)).collect();
    assert!(all.len() > 130, "{all:?}");
    let mut examples = of_crate("clinch");
    examples.extend(of_pages());
    let is_missing =
        |(owner, method): &&(String, String)| !examples.iter().any(|one| calls(one, owner, method));
    let missing: Vec<_> = all.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "show them in use: {missing:?}");
}

#[test]
fn names_and_examples_are_read_as_they_are_written() {
    let text = "mod x;\npub use a::b::One;\npub use c::{\n    Two, d::Three,\n};\npub fn four() {}\nfn five() {}\n";
    let found: Vec<String> = exported(text).into_iter().collect();
    assert_eq!(found, ["One", "Three", "Two", "four"]);
    let text = "/// ```\n/// use a::One;\n/// Two::new();\n/// ```\n/// ```text\n/// Four\n/// ```\npub struct Three;\n";
    let found = of_file(text);
    assert_eq!(found.len(), 1);
    let Example { item, code, .. } = &found[0];
    assert_eq!(item.as_deref(), Some("Three"));
    assert!(names(code, "Two"), "{code}");
    for not in ["One", "Four", "Tw", "Three"] {
        assert!(!names(code, not), "{not}: {code}");
    }
}

#[test]
fn methods_and_their_calls_are_read_as_they_are_written() {
    let text = "impl<I: A<B>, O> One<I, O> {\n    /// ```\n    /// x.far();\n    /// ```\n    pub async fn near(&self) {}\n    \
                pub const fn far() {}\n    pub const X: u8 = 1;\n    fn own() {}\n}\n\
                impl Two for One<I, O> {\n    pub fn other() {}\n}\n";
    let of_one = |name: &str| ("One".to_owned(), name.to_owned());
    assert_eq!(methods(text), [of_one("near"), of_one("far")]);
    let found = of_file(text);
    assert!(calls(&found[0], "One", "far"));
    assert!(!calls(&found[0], "Two", "far"), "a value of which type?");
    let of_module = |code: &str| Example {
        item: None,
        owner: None,
        code: code.to_owned(),
    };
    let is_called = |code: &str| calls(&of_module(code), "One", "near");
    assert!(is_called("One::near(x)") && is_called("let x: One = y;\nx.near()"));
    assert!(is_called("x.map(One::near)"));
    for code in [
        "x.near()",
        "One::nearer(x)",
        "NotOne::near(x)",
        "let x: One = near();",
    ] {
        assert!(!is_called(code), "{code}");
    }
    let built = of_module("Clinch::builder().clock(clock)");
    assert!(calls(&built, "Builder", "clock") && !calls(&built, "Test", "clock"));
}
