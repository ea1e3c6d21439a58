//! A package's code must use every dependency that its manifest declares.

use super::Finding;
use super::manifests::{self, Dependency, Kind, Manifest};
use super::tokens::{self, Form};
use super::tree::{File, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = manifests::collect(tree);
    let mut findings = Vec::new();
    for manifest in &manifests {
        let files: Vec<Source> = tree
            .rust()
            .filter(|file| owner(&manifests, file).is_some_and(|own| own.path == manifest.path))
            .filter_map(|file| Source::new(manifest, file))
            .collect();
        for dependency in &manifest.dependencies {
            if !files.iter().any(|file| file.names(dependency)) {
                let what = format!("`{}` is never used", dependency.key);
                let to_do = "remove it";
                findings.push(Finding::new(&manifest.path, dependency.line, what, to_do));
            }
        }
    }
    findings
}

/// The innermost package around a file.
fn owner<'a>(manifests: &'a [Manifest], file: &File) -> Option<&'a Manifest> {
    manifests
        .iter()
        .filter(|manifest| manifest.inside(&file.path).is_some())
        .max_by_key(|manifest| manifest.dir.len())
}

struct Source<'a> {
    /// The first folder or file name inside the package.
    place: &'a str,
    /// The first names of paths in the code.
    crates: Vec<String>,
    /// The doc comments: their examples may use development dependencies.
    docs: String,
}

impl<'a> Source<'a> {
    fn new(manifest: &Manifest, file: &'a File) -> Option<Self> {
        let place = manifest.inside(&file.path)?.split('/').next()?;
        let is_doc = |line: &&str| line.starts_with("///") || line.starts_with("//!");
        let docs: Vec<&str> = file
            .text
            .lines()
            .map(str::trim_start)
            .filter(is_doc)
            .collect();
        let mut crates = Vec::new();
        for mention in tokens::mentions(&file.text) {
            let is_import = mention.form == Form::Import;
            let is_path = mention.path.len() > 1;
            crates.extend(
                mention
                    .path
                    .into_iter()
                    .next()
                    .filter(|_| is_import || is_path),
            );
        }
        Some(Self {
            place,
            crates,
            docs: docs.join("\n"),
        })
    }

    fn names(&self, dependency: &Dependency) -> bool {
        let name = dependency.key.replace('-', "_");
        let counts = match dependency.kind {
            Kind::Normal => !["benches", "examples"].contains(&self.place),
            Kind::Build => self.place == "build.rs",
            Kind::Dev => true,
        };
        let in_docs = dependency.kind == Kind::Dev && self.docs.contains(&format!("{name}::"));
        counts && (in_docs || self.crates.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    const MANIFEST: &str = "[dependencies]\na-b = \"1\"\n[dev-dependencies]\nc = \"1\"\n";

    #[test]
    fn used_dependencies_are_fine_wherever_they_are_named() {
        for (code, test) in [
            ("use a_b;", "use c::d;"),
            ("#[a_b::m] fn x() {}", "m! { c::d() }"),
            ("pub use a_b as z;", "use {c::d, std::fmt};"),
            ("/// let x = c::d();\nuse a_b::d;", ""),
        ] {
            let fixture = Fixture::new()
                .package("p", "p", MANIFEST)
                .file("p/src/lib.rs", code)
                .file("p/benches/x.rs", test);
            assert_findings(&fixture.run(check), &[]);
        }
    }

    #[test]
    fn unused_dependencies_are_found() {
        let fixture = Fixture::new()
            .package("p", "p", MANIFEST)
            .file(
                "p/src/lib.rs",
                "// a_b::x\nfn a_b() { \"a_b::x\"; x.c(); std::c::d() }",
            )
            .file("p/benches/x.rs", "use a_b::c;")
            .package("p/inner", "inner", "")
            .file("p/inner/src/lib.rs", "use a_b::x; use c::x;");
        assert_findings(
            &fixture.run(check),
            &[
                "p/Cargo.toml:6: `a-b` is never used",
                "p/Cargo.toml:8: `c` is never used",
            ],
        );
    }
}
