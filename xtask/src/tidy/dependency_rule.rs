//! Which crate may depend on which. Development dependencies are not restricted.

use std::collections::BTreeSet;

use super::Finding;
use super::manifests::{self, Kind, Manifest};
use super::tree::Tree;
use crate::cargo;

const CORE: &str = "clinch-core";

/// The crate that the stores share.
const STORED: &str = "clinch-stored";

/// Dependencies that the core may name: data, hashing and derive macros. No runtime, no I/O, no
/// clock.
const CORE_DIRECT: &[&str] = &[
    "async-trait",
    "hmac",
    "ryu-js",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
    "uuid",
];

/// Their own dependencies on any platform. `cpufeatures` uses `libc` to query some processors.
const CORE_TRANSITIVE: &[&str] = &[
    "block-buffer",
    "cfg-if",
    "cmov",
    "cpufeatures",
    "crypto-common",
    "ctutils",
    "digest",
    "hybrid-array",
    "itoa",
    "libc",
    "memchr",
    "proc-macro2",
    "quote",
    "serde_core",
    "serde_derive",
    "syn",
    "thiserror-impl",
    "typenum",
    "unicode-ident",
    "zmij",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = manifests::collect(tree);
    let members: BTreeSet<&str> = manifests.iter().map(|one| one.name.as_str()).collect();
    let mut findings = Vec::new();
    for manifest in &manifests {
        findings.extend(workspace_crates(manifest, &members));
        if manifest.name == CORE {
            findings.extend(core_direct(manifest, &members));
            findings.extend(core_transitive(tree, manifest));
        }
    }
    findings
}

/// The workspace crates that the package in this folder may use; `None` for any.
fn allowed(dir: &str) -> Result<Option<&'static [&'static str]>, ()> {
    let parts: Vec<&str> = dir.split('/').collect();
    match parts.as_slice() {
        ["crates", "core" | "testbed"] => Ok(Some(&[])),
        ["crates", "engine" | "protect" | "stored"] => Ok(Some(&[CORE])),
        ["crates", "adapters", _] => Ok(Some(&[CORE, STORED])),
        ["crates", "contract"] => Ok(Some(&[CORE, "clinch-engine", "clinch-protect", STORED])),
        ["crates", "sim"] => Ok(Some(&[
            CORE,
            "clinch-engine",
            "clinch-memory",
            "clinch-protect",
        ])),
        ["crates", "measure"] => Ok(Some(&[CORE, "clinch-engine"])),
        ["apps", _] | ["crates", "axum"] => Ok(Some(&["clinch"])),
        ["crates", "clinch"] => Ok(Some(&[
            CORE,
            "clinch-engine",
            "clinch-memory",
            "clinch-mysql",
            "clinch-nats",
            "clinch-postgres",
            "clinch-protect",
            "clinch-redis",
            "clinch-sqlite",
            "clinch-system",
        ])),
        // Stores and buses reach the server through the facade.
        ["crates", "server"] => Ok(Some(&[
            "clinch",
            CORE,
            "clinch-engine",
            "clinch-protect",
            "clinch-system",
        ])),
        ["crates", "cli"] => Ok(None),
        ["crates" | "apps", ..] => Err(()),
        _ => Ok(None),
    }
}

fn workspace_crates(manifest: &Manifest, members: &BTreeSet<&str>) -> Vec<Finding> {
    let Ok(allowed) = allowed(&manifest.dir) else {
        let what = format!("`{}` has no dependency rule", manifest.name);
        let to_do = "say in xtask/src/tidy/dependency_rule.rs what it may depend on";
        return vec![Finding::new(&manifest.path, 1, what, to_do)];
    };
    let Some(allowed) = allowed else {
        return Vec::new();
    };
    let list = match allowed {
        [] => "no workspace crate".to_owned(),
        names => format!("only {} of the workspace", names.join(" and ")),
    };
    let to_do = format!("it may use {list}; go through a port, or make it a dev-dependency");
    manifest
        .dependencies
        .iter()
        .filter(|one| one.kind != Kind::Dev)
        .filter(|one| members.contains(one.package.as_str()))
        .filter(|one| !allowed.contains(&one.package.as_str()))
        .map(|one| {
            let what = format!("`{}` depends on `{}`", manifest.name, one.package);
            Finding::new(&manifest.path, one.line, what, &to_do)
        })
        .collect()
}

/// Workspace crates are left to `workspace_crates`.
fn core_direct(manifest: &Manifest, members: &BTreeSet<&str>) -> Vec<Finding> {
    manifest
        .dependencies
        .iter()
        .filter(|one| one.kind != Kind::Dev)
        .filter(|one| !members.contains(one.package.as_str()))
        .filter(|one| !CORE_DIRECT.contains(&one.package.as_str()))
        .map(|one| {
            let what = format!("the core depends on `{}`", one.package);
            let to_do = "the core does no I/O and knows no runtime: move the code to an adapter, \
                         or argue for the crate in the list of this check";
            Finding::new(&manifest.path, one.line, what, to_do)
        })
        .collect()
}

fn core_transitive(tree: &Tree, manifest: &Manifest) -> Vec<Finding> {
    let packages = match normal_tree(tree) {
        Ok(packages) => packages,
        Err(error) => {
            let what = format!("cannot read the core's dependency tree: {error}");
            return vec![Finding::new(
                &manifest.path,
                1,
                what,
                "make `cargo tree` work",
            )];
        }
    };
    let direct = |name: &str| manifest.dependencies.iter().any(|one| one.package == name);
    packages
        .iter()
        .map(String::as_str)
        .filter(|name| *name != CORE && !direct(name))
        .filter(|name| !CORE_DIRECT.contains(name) && !CORE_TRANSITIVE.contains(name))
        .map(|name| {
            let what = format!("the core depends on `{name}` through another crate");
            let to_do = format!(
                "see `cargo tree -p {CORE} -e normal -i {name}`: turn off the feature that \
                 brings it, or argue for it in the list of this check"
            );
            Finding::new(&manifest.path, 1, what, &to_do)
        })
        .collect()
}

/// The crates in the core's own tree, for all features and platforms. Features that other members
/// enable do not count: they are not the core's choice.
fn normal_tree(tree: &Tree) -> Result<BTreeSet<String>, String> {
    let output = cargo::command(&tree.root)
        .args(["tree", "--package", CORE, "--edges", "normal"])
        .args(["--all-features", "--target", "all"])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(errors.trim().replace('\n', " "));
    }
    let list = String::from_utf8_lossy(&output.stdout);
    Ok(list
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{Fixture, assert_findings, show};
    use crate::workspace_root;

    const MEMBERS: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\", \"vendor/*\"]\n";

    /// A workspace whose core has these dependencies, next to stand-ins for `helper` (which
    /// needs `tokio`), `tokio` and `serde`.
    fn core_with(dependencies: &str) -> Fixture {
        Fixture::new()
            .file("Cargo.toml", MEMBERS)
            .package("crates/core", CORE, dependencies)
            .file("crates/core/src/lib.rs", "")
            .package(
                "vendor/helper",
                "serde",
                "[dependencies]\ntokio = { path = \"../tokio\" }",
            )
            .file("vendor/helper/src/lib.rs", "")
            .package("vendor/tokio", "tokio", "")
            .file("vendor/tokio/src/lib.rs", "")
    }

    /// CORE-17: the core and every other crate of this tree follow the rule.
    #[test]
    fn core_17_this_workspace_keeps_the_dependency_rule() {
        let tree = Tree::load(&workspace_root()).unwrap();
        let found: Vec<String> = check(&tree).iter().map(show).collect();
        assert_findings(&found, &[]);
    }

    /// CORE-17: the check finds a violation in the real manifest.
    #[test]
    fn core_17_tokio_in_the_core_is_found() {
        let real = Tree::load(&workspace_root()).unwrap();
        let manifest = &real.get("crates/core/Cargo.toml").unwrap().text;
        let with_tokio = manifest.replacen("[dependencies]", "[dependencies]\ntokio = \"1\"", 1);
        assert_ne!(*manifest, with_tokio);
        let fixture = Fixture::new().file("crates/core/Cargo.toml", &with_tokio);
        let manifest = &manifests::collect(&fixture.tree())[0];
        let found = core_direct(manifest, &BTreeSet::from([CORE]));
        let found: Vec<String> = found.iter().map(show).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("the core depends on `tokio`"),
            "{found:?}"
        );
    }

    /// CORE-17: a runtime behind another crate is found too.
    #[test]
    fn core_17_tokio_behind_another_crate_is_found() {
        let fixture = core_with("[dependencies]\nserde = { path = \"../../vendor/helper\" }");
        let tree = fixture.tree();
        let manifest = &manifests::collect(&tree)[0];
        let found: Vec<String> = core_transitive(&tree, manifest).iter().map(show).collect();
        assert_findings(
            &found,
            &["crates/core/Cargo.toml:1: the core depends on `tokio` through another crate"],
        );
    }

    #[test]
    fn development_dependencies_are_free() {
        let fixture = core_with("[dev-dependencies]\ntokio = { path = \"../../vendor/tokio\" }");
        assert_findings(&fixture.run(check), &[]);
    }

    #[test]
    fn workspace_crates_keep_their_places() {
        let uses = |names: &str| format!("[dependencies]\n{names}");
        let fixture = Fixture::new()
            .package("crates/clinch", "clinch", &uses("clinch-memory = \"1\""))
            .package(
                "crates/engine",
                "clinch-engine",
                &uses("clinch-memory = \"1\""),
            )
            .package(
                "crates/adapters/memory",
                "clinch-memory",
                &uses("clinch-core = \"1\"\nclinch-stored = \"1\""),
            )
            .package(
                "crates/stored",
                "clinch-stored",
                &uses("clinch-core = \"1\"\nclinch-memory = \"1\""),
            )
            .package(
                "crates/contract",
                "clinch-contract",
                &uses("clinch-engine = \"1\""),
            )
            .package(
                "apps/github",
                "github",
                &uses("clinch = \"1\"\nclinch-engine = \"1\""),
            )
            .package("crates/new", "clinch-new", "")
            .package(
                "crates/server",
                "clinch-server",
                &uses("clinch = \"1\"\nclinch-memory = \"1\""),
            );
        assert_findings(
            &fixture.run(check),
            &[
                "apps/github/Cargo.toml:7: `github` depends on `clinch-engine`",
                "crates/engine/Cargo.toml:6: `clinch-engine` depends on `clinch-memory`",
                "crates/new/Cargo.toml:1: `clinch-new` has no dependency rule",
                "crates/server/Cargo.toml:7: `clinch-server` depends on `clinch-memory`",
                "crates/stored/Cargo.toml:7: `clinch-stored` depends on `clinch-memory`",
            ],
        );
    }
}
