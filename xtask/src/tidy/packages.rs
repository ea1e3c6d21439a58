//! What the registry needs of a library crate: its description, its texts, its dependencies by
//! version, and every file that it compiles.

use std::collections::BTreeSet;

use toml::Value;

use super::Finding;
use super::manifests::{self, Dependency, Kind, Manifest};
use super::test_code::TestCode;
use super::tokens;
use super::tree::{File, Tree, join, resolve};

/// Packages that are for this repository alone. Everything else below `crates/` and `apps/` goes to
/// the registry.
const UNPUBLISHED: &[&str] = &[
    "crates/testbed",
    "crates/sim",
    "benches",
    "examples",
    "xtask",
];

/// Files that every package holds.
const FILES: &[&str] = &["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Keys that all packages take from `[workspace.package]`.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license"];

/// Categories of the registry that fit. It refuses a package with an unknown one.
const CATEGORIES: &[&str] = &[
    "algorithms",
    "api-bindings",
    "asynchronous",
    "command-line-utilities",
    "concurrency",
    "database",
    "database-implementations",
    "development-tools::profiling",
    "development-tools::testing",
    "filesystem",
    "network-programming",
    "web-programming",
    "web-programming::http-client",
    "web-programming::http-server",
];

/// Limits of the registry.
const KEYWORDS_MAX: usize = 5;
const KEYWORD_LENGTH_MAX: usize = 20;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = manifests::collect(tree);
    let tests = TestCode::of(tree);
    let package = manifests::of_workspace(tree, "package");
    let version = package.get("version").and_then(Value::as_str);
    let repository = package.contains_key("repository");
    let names = |are_published: bool| -> BTreeSet<&str> {
        let chosen = manifests
            .iter()
            .filter(|one| is_published(&one.dir) == are_published);
        chosen.map(|one| one.name.as_str()).collect()
    };
    let (published, own) = (names(true), names(false));
    let mut findings = Vec::new();
    for manifest in &manifests {
        if !is_published(&manifest.dir) {
            findings.extend(stays_here(manifest));
            continue;
        }
        findings.extend(metadata(tree, manifest, repository));
        for dependency in &manifest.dependencies {
            let problem = if published.contains(dependency.package.as_str()) {
                of_a_package(dependency, version)
            } else if own.contains(dependency.package.as_str()) {
                of_ours(dependency)
            } else {
                None
            };
            findings.extend(problem.map(|(what, to_do)| {
                let what = format!("`{}` {what}", dependency.key);
                Finding::new(&manifest.path, dependency.line, what, to_do)
            }));
        }
        findings.extend(outer_files(tree, manifest, &tests));
    }
    findings
}

/// The names of the packages that go to the registry.
pub(crate) fn published(tree: &Tree) -> Vec<String> {
    let manifests = manifests::collect(tree);
    let chosen = manifests.into_iter().filter(|one| is_published(&one.dir));
    chosen.map(|one| one.name).collect()
}

fn is_published(dir: &str) -> bool {
    let is_library = dir.starts_with("crates/") || dir.starts_with("apps/");
    is_library && !UNPUBLISHED.contains(&dir)
}

/// Packages of other workspaces, such as `benches/peers`, are nobody's to publish either.
fn stays_here(manifest: &Manifest) -> Option<Finding> {
    if manifest.says("publish").and_then(Value::as_bool) == Some(false) {
        return None;
    }
    let what = format!("`{}` could be published by mistake", manifest.name);
    let to_do = "write `publish = false`, or move it below crates/";
    Some(Finding::new(&manifest.path, 1, what, to_do))
}

fn metadata(tree: &Tree, manifest: &Manifest, repository: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |what: String, to_do: &str| {
        found.push(Finding::new(&manifest.path, 1, what, to_do));
    };
    let name = &manifest.name;
    if manifest.says("publish").is_some() {
        let to_do =
            "remove the key, or add the package to UNPUBLISHED in xtask/src/tidy/packages.rs";
        add(format!("`{name}` restricts where it is published"), to_do);
    }
    let is_inherited = |key: &&&str| {
        let value = manifest.says(key).and_then(|value| value.get("workspace"));
        value.and_then(Value::as_bool) == Some(true)
    };
    let optional = ["repository"].iter().filter(|_| repository);
    for key in INHERITED
        .iter()
        .chain(optional)
        .filter(|key| !is_inherited(key))
    {
        add(
            format!("`{name}` does not inherit `{key}`"),
            &format!("write `{key}.workspace = true`"),
        );
    }
    let text = |key: &str| {
        manifest
            .says(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if text("description").trim().is_empty() {
        add(
            format!("`{name}` has no description"),
            "say in one sentence what it is",
        );
    }
    if text("readme") != "README.md" {
        add(
            format!("`{name}` names no readme"),
            "write `readme = \"README.md\"`",
        );
    }
    for file in FILES {
        if tree.get(&join(&manifest.dir, file)).is_none() {
            let to_do = "add it: packages hold only files of their own folder (licences are symbolic links)";
            add(format!("`{name}` has no file {file}"), to_do);
        }
    }
    let keywords = words(manifest, "keywords");
    if keywords.is_empty()
        || keywords.len() > KEYWORDS_MAX
        || !keywords.iter().all(|one| is_keyword(one))
    {
        let to_do = "one to five of at most 20 letters, digits, `-`, `_` or `+`";
        add(format!("the keywords of `{name}` are {keywords:?}"), to_do);
    }
    let categories = words(manifest, "categories");
    let is_known = |one: &&str| CATEGORIES.contains(one);
    if categories.is_empty() || categories.len() > KEYWORDS_MAX || !categories.iter().all(is_known)
    {
        let to_do = "one to five categories of the registry; CATEGORIES in xtask/src/tidy/packages.rs has those that fit";
        add(
            format!("the categories of `{name}` are {categories:?}"),
            to_do,
        );
    }
    found
}

fn words<'a>(manifest: &'a Manifest, key: &str) -> Vec<&'a str> {
    let list = manifest.says(key).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn is_keyword(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_+".contains(letter);
    word.len() <= KEYWORD_LENGTH_MAX
        && word.starts_with(|first: char| first.is_ascii_alphanumeric())
        && word.chars().all(is_plain)
}

type Problem = (&'static str, &'static str);

/// Development dependencies on our packages have no version: cargo strips them from the package.
/// With a version they would have to be published first, in a circle.
fn of_a_package(dependency: &Dependency, version: Option<&str>) -> Option<Problem> {
    let given = dependency.version.as_deref();
    match dependency.kind {
        Kind::Dev if given.is_some() => Some((
            "is a development dependency with a version",
            "write `{ path = \"…\" }` alone, which a package leaves out",
        )),
        Kind::Normal | Kind::Build if given.is_none() || given != version => Some((
            "has another version than the workspace",
            "write the version of [workspace.package] beside its path in [workspace.dependencies]",
        )),
        _ => None,
    }
}

fn of_ours(dependency: &Dependency) -> Option<Problem> {
    match (dependency.kind, &dependency.version) {
        (Kind::Dev, None) => None,
        (Kind::Dev, Some(_)) => Some(("is never published", "leave its version out")),
        _ => Some((
            "is never published, so this package could not be either",
            "move what is used into a crate that is published",
        )),
    }
}

/// Files that the library includes but that its package does not hold.
fn outer_files(tree: &Tree, manifest: &Manifest, tests: &TestCode) -> Vec<Finding> {
    let is_source = |file: &&File| {
        manifest
            .inside(&file.path)
            .is_some_and(|path| path.starts_with("src/"))
    };
    let mut found = Vec::new();
    for file in tree.rust().filter(is_source) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let test_lines = tests.lines(file);
        for (line, path) in tokens::included(&file.text) {
            let is_test = test_lines.iter().any(|lines| lines.contains(&line));
            let target = resolve(folder, &path);
            let is_inside = target
                .as_deref()
                .is_some_and(|target| manifest.inside(target).is_some());
            if !is_test && !is_inside {
                let what = format!("`{path}` is not in the package of `{}`", manifest.name);
                let to_do = "move the file below the package, or include it under `cfg(doctest)`";
                found.push(Finding::new(&file.path, line, what, to_do));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    const ROOT: &str = "[workspace.package]\nversion = \"1.0.0\"\n\
        [workspace.dependencies]\nb = { path = \"crates/b\", version = \"1.0.0\" }\n\
        bed = { path = \"crates/testbed\" }\nold = { path = \"crates/b\", package = \"b\", version = \"0.9.0\" }";

    const GOOD: &str = "description = \"It is a test.\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        readme = \"README.md\"\nkeywords = [\"a-b\"]\ncategories = [\"database\"]\n";

    /// A package `a` with this manifest, beside a good package `b`.
    fn with(manifest: &str) -> Fixture {
        let mut fixture = Fixture::new()
            .file("Cargo.toml", ROOT)
            .file(
                "crates/a/Cargo.toml",
                &format!("[package]\nname = \"a\"\n{manifest}"),
            )
            .file(
                "crates/b/Cargo.toml",
                &format!("[package]\nname = \"b\"\n{GOOD}"),
            )
            .file(
                "crates/testbed/Cargo.toml",
                "[package]\nname = \"bed\"\npublish = false",
            );
        for dir in ["crates/a", "crates/b"] {
            for file in FILES {
                fixture = fixture.file(&join(dir, file), "text");
            }
        }
        fixture
    }

    #[test]
    fn a_package_with_everything_is_fine() {
        let manifest = format!(
            "{GOOD}[dependencies]\nb.workspace = true\nserde = \"1\"\n\
             [dev-dependencies]\nb = {{ path = \"../b\" }}\nbed.workspace = true"
        );
        let fixture = with(&manifest)
            .file("crates/a/src/lib.rs", "include_str!(\"../sql/a.sql\");\n#[cfg(doctest)]\nmod m { include!(\"../../../x.md\"); }");
        assert_findings(&fixture.run(check), &[]);
        assert_eq!(published(&fixture.tree()), ["a", "b"]);
    }

    #[test]
    fn missing_texts_are_found() {
        let fixture =
            with("publish = true\nkeywords = [\"with space\"]\ncategories = [\"nonsense\"]");
        let found: Vec<String> = fixture.run(check);
        let start = "crates/a/Cargo.toml:1: ";
        assert_findings(&found, &[start; 9]);
        for word in [
            "restricts",
            "`version`",
            "`license`",
            "description",
            "readme",
            "with space",
            "nonsense",
        ] {
            assert!(
                found.iter().any(|line| line.contains(word)),
                "{word} in {found:#?}"
            );
        }
    }

    #[test]
    fn a_package_is_published_with_what_it_needs() {
        let manifest = format!(
            "{GOOD}[dependencies]\nold.workspace = true\nbed.workspace = true\n\
             [dev-dependencies]\nb.workspace = true"
        );
        let fixture = with(&manifest)
            .file(
                "crates/a/src/x/y.rs",
                "\ninclude_bytes!(\"../../../b/README.md\");",
            )
            .file(
                "apps/new/Cargo.toml",
                &format!("[package]\nname = \"new\"\n{GOOD}"),
            )
            .package("benches", "bench", "");
        let found = fixture.run(check);
        assert_findings(
            &found,
            &[
                "apps/new/Cargo.toml:1: `new` has no file README.md",
                "apps/new/Cargo.toml:1: `new` has no file LICENSE-MIT",
                "apps/new/Cargo.toml:1: `new` has no file LICENSE-APACHE",
                "benches/Cargo.toml:1: `bench` could be published by mistake",
                "crates/a/Cargo.toml:13: `bed` is never published",
                "crates/a/Cargo.toml:12: `old` has another version",
                "crates/a/Cargo.toml:15: `b` is a development dependency with a version",
                "crates/a/src/x/y.rs:2: `../../../b/README.md` is not in the package",
            ],
        );
    }

    #[test]
    fn a_repository_is_named_by_all_packages_or_by_none() {
        let root = ROOT.replace(
            "version = \"1.0.0\"\n[",
            "version = \"1.0.0\"\nrepository = \"https://example.com\"\n[",
        );
        let fixture = with(&format!("{GOOD}repository.workspace = true")).file("Cargo.toml", &root);
        assert_findings(
            &fixture.run(check),
            &["crates/b/Cargo.toml:1: `b` does not inherit `repository`"],
        );
    }
}
