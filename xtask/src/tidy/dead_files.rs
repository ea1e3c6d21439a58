//! Every source file must be part of a crate: some `mod` must lead to it.

use super::Finding;
use super::manifests;
use super::modules;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let reached = modules::reached(tree);
    let manifests = manifests::collect(tree);
    let belongs = |path: &str| {
        manifests
            .iter()
            .filter_map(|manifest| manifest.inside(path))
            .any(|inside| inside.starts_with("src/") || inside.starts_with("tests/"))
    };
    tree.rust()
        .filter(|file| belongs(&file.path) && !reached.contains_key(&file.path))
        .map(|file| {
            let to_do = "declare it with `mod`, or delete it";
            Finding::new(&file.path, 1, "no crate compiles this file", to_do)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings};

    #[test]
    fn files_that_a_mod_reaches_are_alive() {
        let fixture = Fixture::new()
            .package(
                "p",
                "p",
                "[[test]]\nname = \"t\"\npath = \"tests/deep/t.rs\"",
            )
            .file(
                "p/src/lib.rs",
                "mod a; mod b { mod c; } #[path = \"odd.rs\"] mod d; mod e;",
            )
            .file("p/src/a.rs", "m! { mod f; }")
            .file("p/src/a/f.rs", "include!(\"g.rs\");")
            .file("p/src/a/g.rs", "")
            .file("p/src/b/c.rs", "")
            .file("p/src/odd.rs", "")
            .file("p/src/e/mod.rs", "mod h;")
            .file("p/src/e/h.rs", "")
            .file("p/src/bin/tool.rs", "")
            .file("p/tests/t.rs", "mod common;")
            .file("p/tests/common/mod.rs", "")
            .file("p/tests/deep/t.rs", "mod near;")
            .file("p/tests/deep/near.rs", "")
            .file("p/tests/many/main.rs", "mod one;")
            .file("p/tests/many/one.rs", "");
        assert_findings(&fixture.run(check), &[]);
    }

    #[test]
    fn files_that_nothing_declares_are_dead() {
        let fixture = Fixture::new()
            .package("p", "p", "")
            .file("p/src/lib.rs", "// mod a;\nmod b;")
            .file("p/src/a.rs", "mod c;")
            .file("p/src/a/c.rs", "")
            .file("p/src/b.rs", "")
            .file("p/tests/common/mod.rs", "");
        assert_findings(
            &fixture.run(check),
            &[
                "p/src/a.rs:1: no crate",
                "p/src/a/c.rs:1: no crate",
                "p/tests/common/mod.rs:1: no crate",
            ],
        );
    }
}
