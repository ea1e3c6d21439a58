//! Planted bugs as source patches.

use toml::{Table, Value};

use crate::tidy::tree::{File, Tree};

const PATCHES: &str = "crates/sim/bugs.toml";
/// Where a patch looks for its text.
const ENGINE: &str = "crates/engine/src/";

/// One defect: a text of the engine and its replacement.
pub(crate) struct Patch {
    pub(crate) name: String,
    find: String,
    replace: String,
}

/// Every patch of the tree.
pub(crate) fn load(tree: &Tree) -> Result<Vec<Patch>, String> {
    let file = tree.get(PATCHES);
    let file = file.ok_or_else(|| format!("{PATCHES} is missing"))?;
    let table: Table = file
        .text
        .parse()
        .map_err(|error| format!("{PATCHES}: {error}"))?;
    let bugs = table.get("bug").and_then(Value::as_array);
    let bugs = bugs.ok_or_else(|| format!("{PATCHES} has no [[bug]]"))?;
    bugs.iter().map(patch).collect()
}

fn patch(bug: &Value) -> Result<Patch, String> {
    let text = |key: &str| {
        let text = bug.get(key).and_then(Value::as_str);
        let text = text.filter(|text| !text.is_empty());
        let missing = || format!("{PATCHES}: a bug has no `{key}`: {bug:?}");
        text.map(str::to_owned).ok_or_else(missing)
    };
    text("what")?;
    Ok(Patch {
        name: text("name")?,
        find: text("find")?,
        replace: text("replace")?,
    })
}

impl Patch {
    /// The one file of the engine that holds the text, with the bug in its place.
    pub(crate) fn apply(&self, tree: &Tree) -> Result<File, String> {
        let engine = tree.rust().filter(|file| file.path.starts_with(ENGINE));
        let places = engine.flat_map(|file| file.text.matches(&self.find).map(move |_| file));
        let places: Vec<&File> = places.collect();
        match places.as_slice() {
            [file] => Ok(File {
                path: file.path.clone(),
                text: file.text.replace(&self.find, &self.replace),
            }),
            places => Err(format!(
                "its text occurs {} times in {ENGINE} instead of once; correct {PATCHES}: {}",
                places.len(),
                self.find
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tidy::fixture::Fixture;
    use crate::tidy::tokens;

    #[test]
    fn every_patch_of_the_workspace_fits_in_one_place() {
        let tree = Tree::load(&crate::workspace_root()).unwrap();
        let patches = load(&tree).unwrap();
        let mut names = BTreeSet::new();
        let mut problems = Vec::new();
        for patch in &patches {
            assert!(names.insert(&patch.name), "{} stands twice", patch.name);
            match patch.apply(&tree) {
                Ok(file) if tokens::parse(&file.text).is_some() => {}
                Ok(file) => problems.push(format!("{}: {} is no Rust", patch.name, file.path)),
                Err(problem) => problems.push(format!("{}: {problem}", patch.name)),
            }
        }
        assert!(problems.is_empty(), "{problems:#?}");
    }

    fn apply(engine: &[(&str, &str)]) -> Result<File, String> {
        let bug = "[[bug]]\nname = 'B'\nwhat = 'w'\nfind = 'right'\nreplace = 'wrong'\n";
        let mut fixture = Fixture::new().file(PATCHES, bug).file("other.rs", "right");
        for (path, text) in engine {
            fixture = fixture.file(&format!("{ENGINE}{path}"), text);
        }
        let tree = fixture.tree();
        load(&tree)?[0].apply(&tree)
    }

    #[test]
    fn a_patch_finds_its_file_by_the_text() {
        let file = apply(&[("a.rs", "left"), ("b/c.rs", "a right b")]).unwrap();
        assert_eq!(file.path, "crates/engine/src/b/c.rs");
        assert_eq!(file.text, "a wrong b");
    }

    #[test]
    fn a_patch_that_fits_nowhere_or_twice_is_refused() {
        let nowhere = apply(&[("a.rs", "left")]).err().unwrap();
        assert!(nowhere.contains("occurs 0 times"), "{nowhere}");
        let twice = apply(&[("a.rs", "right"), ("b.rs", "right")])
            .err()
            .unwrap();
        assert!(twice.contains("occurs 2 times"), "{twice}");
    }

    #[test]
    fn a_bug_without_a_text_is_refused() {
        let tree = |text: &str| Fixture::new().file(PATCHES, text).tree();
        let missing = load(&tree("[[bug]]\nname = 'B'\nwhat = 'w'\n"))
            .err()
            .unwrap();
        assert!(missing.contains("a bug has no `find`"), "{missing}");
        assert!(load(&tree("")).is_err());
        assert!(load(&Fixture::new().tree()).is_err());
    }
}
