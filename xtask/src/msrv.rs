//! `cargo xtask msrv`: whether everything that is shipped compiles with the oldest supported Rust.
//!
//! Every test run already checks, offline, that no shipped dependency asks for a newer one. This
//! command lets that compiler speak.

#[cfg(test)]
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use toml::Value;

use crate::servers::finish;
use crate::tidy::manifests;
use crate::tidy::packages;
use crate::tidy::tree::Tree;
use crate::{Failure, cargo};

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::Usage(format!(
            "`msrv` has no argument `{unknown}`"
        )));
    }
    let tree = Tree::load(root);
    let tree = tree.map_err(|error| Failure::Failed(format!("cannot list the tree: {error}")))?;
    let version =
        ours(&tree).ok_or_else(|| Failure::Failed("the workspace names no rust-version".into()))?;
    let toolchain = format!("+{version}");
    if !is_installed(root, &toolchain) {
        let message = format!(
            "Rust {version} is not installed here, so nothing was compiled; \
             `rustup toolchain install {version} --profile minimal` installs it"
        );
        return Err(Failure::Failed(message));
    }
    let mut check = Command::new("cargo");
    check
        .current_dir(root)
        .arg(toolchain)
        .args(["check", "--locked"]);
    // Another compiler's results in the same folder would make the next build start anew.
    check
        .arg("--target-dir")
        .arg(cargo::target(root).join("msrv"));
    for name in packages::published(&tree) {
        check.args(["--package", &name]);
    }
    finish("cargo", &mut check)?;
    println!("everything that is shipped compiles with Rust {version}");
    Ok(())
}

/// Asks the `cargo` of rustup: the one that runs this program is of one toolchain.
fn is_installed(root: &Path, toolchain: &str) -> bool {
    let mut version = Command::new("cargo");
    version.current_dir(root).args([toolchain, "--version"]);
    // Otherwise rustup downloads what is missing.
    version.env("RUSTUP_AUTO_INSTALL", "0");
    let status = version.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// `rust-version` of the workspace.
fn ours(tree: &Tree) -> Option<String> {
    let package = manifests::of_workspace(tree, "package");
    package
        .get("rust-version")
        .and_then(Value::as_str)
        .map(str::to_owned)
}

/// Shipped packages of others that declare a newer Rust than `ours`, with the version they ask for.
#[cfg(test)]
fn newer(metadata: &serde_json::Value, shipped: &[String], ours: &str) -> BTreeMap<String, String> {
    let reached = reached(metadata, shipped);
    let asks = list(&metadata["packages"]).filter_map(|package| {
        let id = package["id"].as_str()?;
        let asked = package["rust_version"].as_str()?;
        let is_newer = reached.contains(id) && parts(asked) > parts(ours);
        let name = format!(
            "{} {}",
            package["name"].as_str()?,
            package["version"].as_str()?
        );
        is_newer.then(|| (name, asked.to_owned()))
    });
    asks.collect()
}

#[cfg(test)]
fn list(value: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    value.as_array().into_iter().flatten()
}

/// The ids of the packages that `shipped` are compiled from; what only tests use is left out.
#[cfg(test)]
fn reached<'a>(metadata: &'a serde_json::Value, shipped: &[String]) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<&str, &serde_json::Value> = list(&metadata["resolve"]["nodes"])
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let is_shipped = |package: &&serde_json::Value| {
        let name = package["name"].as_str().unwrap_or_default();
        package["source"].is_null() && shipped.iter().any(|one| one == name)
    };
    let roots = list(&metadata["packages"]).filter(is_shipped);
    let mut open: Vec<&str> = roots.filter_map(|package| package["id"].as_str()).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let uses = nodes
            .get(id)
            .into_iter()
            .flat_map(|node| list(&node["deps"]));
        let is_compiled =
            |one: &&serde_json::Value| list(&one["dep_kinds"]).any(|kind| kind["kind"] != "dev");
        open.extend(
            uses.filter(is_compiled)
                .filter_map(|one| one["pkg"].as_str()),
        );
    }
    reached
}

/// `1.89` as `[1, 89]`.
#[cfg(test)]
fn parts(version: &str) -> Vec<u64> {
    let mut parts: Vec<u64> = version
        .split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect();
    parts.resize(3, 0);
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(root: &Path, program: &mut Command) -> Vec<u8> {
        let output = program.current_dir(root).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        output.stdout
    }

    #[test]
    fn no_shipped_dependency_asks_for_a_newer_rust() {
        let root = crate::workspace_root();
        let tree = Tree::load(&root).unwrap();
        let about = run(&root, Command::new("rustc").arg("-vV"));
        let about = String::from_utf8(about).unwrap();
        let host = about
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .unwrap();
        // The crates of other platforms were never downloaded.
        let arguments = [
            "metadata",
            "--offline",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            host,
        ];
        let metadata = run(&root, cargo::command(&root).args(arguments));
        let metadata: serde_json::Value = serde_json::from_slice(&metadata).unwrap();
        let shipped = packages::published(&tree);
        let count = reached(&metadata, &shipped).len();
        assert!(count > 200, "only {count} packages are looked at");
        assert_eq!(
            newer(&metadata, &shipped, &ours(&tree).unwrap()),
            BTreeMap::new()
        );
    }

    #[test]
    fn a_newer_dependency_is_found_unless_only_tests_use_it() {
        let package = |name: &str, rust: Option<&str>, source: Option<&str>| json!({"id": name, "name": name, "version": "1.2.3", "rust_version": rust, "source": source});
        let uses =
            |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("ours", Some("1.89"), None),
                package("through", None, Some("registry")),
                package("new", Some("1.90.1"), Some("registry")),
                package("old", Some("1.9"), Some("registry")),
                package("tests", Some("1.99"), Some("registry")),
            ],
            "resolve": {"nodes": [
                {"id": "ours", "deps": [uses("through", None), uses("tests", Some("dev"))]},
                {"id": "through", "deps": [uses("new", Some("build")), uses("old", None)]},
            ]},
        });
        let found = newer(&metadata, &["ours".to_owned()], "1.89");
        assert_eq!(
            found,
            BTreeMap::from([("new 1.2.3".to_owned(), "1.90.1".to_owned())])
        );
    }
}
