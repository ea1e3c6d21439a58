//! The packages of the tree and what they depend on.

use toml::{Table, Value};

use super::tree::{Tree, join};

/// A `Cargo.toml` with a package in it.
pub(crate) struct Manifest {
    pub(crate) path: String,
    /// The folder of the package; empty at the root.
    pub(crate) dir: String,
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    table: Table,
}

pub(crate) struct Dependency {
    /// The name in this manifest, which is the name in the code.
    pub(crate) key: String,
    /// The name of the package; differs from the key if `package = "…"` is given.
    pub(crate) package: String,
    pub(crate) kind: Kind,
    /// The version it must have, given here or inherited from the workspace.
    pub(crate) version: Option<String>,
    pub(crate) line: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

const SECTIONS: [(&str, Kind); 3] = [
    ("dependencies", Kind::Normal),
    ("build-dependencies", Kind::Build),
    ("dev-dependencies", Kind::Dev),
];

impl Manifest {
    /// What `[package]` says under a key.
    pub(crate) fn says(&self, key: &str) -> Option<&Value> {
        self.table.get("package")?.get(key)
    }

    /// The path of a file inside the package; `None` for a file elsewhere.
    pub(crate) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.dir.is_empty() {
            return Some(path);
        }
        path.strip_prefix(&self.dir)?.strip_prefix('/')
    }

    /// The files where cargo starts compiling, with the kind of their target.
    pub(crate) fn roots(&self, tree: &Tree) -> Vec<(&'static str, String)> {
        let mut roots = self.written_targets();
        for file in tree.rust() {
            let parts = self
                .inside(&file.path)
                .map(|path| path.split('/').collect());
            let parts: Vec<&str> = parts.unwrap_or_default();
            let kind = match parts.as_slice() {
                ["build.rs"] => "build",
                ["src", "lib.rs"] => "lib",
                ["src", "main.rs"] | ["src", "bin", _] | ["src", "bin", _, "main.rs"] => "bin",
                ["tests", _] | ["tests", _, "main.rs"] => "test",
                ["benches", _] | ["benches", _, "main.rs"] => "bench",
                ["examples", _] | ["examples", _, "main.rs"] => "example",
                _ => continue,
            };
            roots.push((kind, file.path.clone()));
        }
        roots.sort();
        roots.dedup();
        roots
    }

    /// The targets whose `path` the manifest gives.
    fn written_targets(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for kind in ["lib", "bin", "test", "bench", "example"] {
            let targets = match self.table.get(kind) {
                Some(Value::Array(list)) => list.as_slice(),
                Some(one) => std::slice::from_ref(one),
                None => &[],
            };
            for target in targets {
                if let Some(path) = target.get("path").and_then(Value::as_str) {
                    found.push((kind, join(&self.dir, path)));
                }
            }
        }
        found
    }
}

/// A table of `[workspace]` in the manifest at the root; empty if it is missing.
pub(crate) fn of_workspace(tree: &Tree, key: &str) -> Table {
    let root = tree.get("Cargo.toml").and_then(|file| parse(&file.text));
    let found = root.and_then(|table| table.get("workspace")?.get(key)?.as_table().cloned());
    found.unwrap_or_default()
}

fn parse(text: &str) -> Option<Table> {
    text.parse().ok()
}

/// Every package of the tree, in the order of their paths.
pub(crate) fn collect(tree: &Tree) -> Vec<Manifest> {
    let workspace = of_workspace(tree, "dependencies");
    tree.files
        .iter()
        .filter(|file| file.name() == "Cargo.toml")
        .filter_map(|file| {
            let table = parse(&file.text)?;
            let name = table.get("package")?.get("name")?.as_str()?.to_owned();
            let dir = file.path.rsplit_once('/').map_or("", |(dir, _)| dir);
            Some(Manifest {
                dependencies: dependencies(&table, &workspace, &file.text),
                path: file.path.clone(),
                dir: dir.to_owned(),
                name,
                table,
            })
        })
        .collect()
}

/// Includes those of single platforms: `[target.'cfg(unix)'.dependencies]`.
fn dependencies(table: &Table, workspace: &Table, text: &str) -> Vec<Dependency> {
    let targets = table.get("target").and_then(Value::as_table);
    let platforms = targets.into_iter().flat_map(Table::values);
    let mut found = Vec::new();
    for owner in std::iter::once(table).chain(platforms.filter_map(Value::as_table)) {
        for (section, kind) in SECTIONS {
            let entries = owner.get(section).and_then(Value::as_table);
            for (key, value) in entries.into_iter().flatten() {
                let inherited = value.get("workspace").and_then(|_| workspace.get(key));
                let value = inherited.unwrap_or(value);
                let renamed = value.get("package");
                let version = value.as_str().or_else(|| value.get("version")?.as_str());
                found.push(Dependency {
                    key: key.clone(),
                    package: renamed.and_then(Value::as_str).unwrap_or(key).to_owned(),
                    kind,
                    version: version.map(str::to_owned),
                    line: line_of(text, section, key),
                });
            }
        }
    }
    found
}

/// The line that declares `key` in `section`; the first line if the declaration is written in an
/// unknown form.
fn line_of(text: &str, section: &str, key: &str) -> usize {
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default();
            if header.ends_with(&format!("{section}.{key}")) {
                return number;
            }
            inside = header == section || header.ends_with(&format!(".{section}"));
        }
        let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
        if inside && name.trim_matches('"') == key {
            return number;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::Fixture;

    #[test]
    fn renames_platforms_and_lines_are_seen() {
        let fixture = Fixture::new()
            .file(
                "Cargo.toml",
                "[workspace.dependencies]\nw = { package = \"real\", version = \"1\" }",
            )
            .package(
                "a",
                "a",
                "[dependencies]\nw.workspace = true\n[dependencies.long]\nversion = \"1\"\n\
                 [target.'cfg(unix)'.dev-dependencies]\nu = { package = \"x\", version = \"1\" }",
            );
        let manifests = collect(&fixture.tree());
        let found: Vec<_> = manifests[0]
            .dependencies
            .iter()
            .map(|one| (one.key.as_str(), one.package.as_str(), one.line))
            .collect();
        assert_eq!(
            found,
            [("long", "long", 7), ("w", "real", 6), ("u", "x", 10)]
        );
        assert!(manifests[0].dependencies[2].kind == Kind::Dev);
    }
}
