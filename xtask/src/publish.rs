//! `cargo xtask publish`: a dry run of publishing every library crate and the program.
//!
//! Cargo packs each crate, unpacks the archive, builds it against the archives of the others, and
//! stops before the upload. It orders the crates itself, so they need not be on the registry.

use std::path::Path;

use crate::servers::finish;
use crate::tidy::packages;
use crate::tidy::tree::Tree;
use crate::{Failure, cargo};

/// Arguments that cargo gets too.
const KNOWN: &[&str] = &["--no-verify", "--allow-dirty", "--offline"];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.iter().find(|one| !KNOWN.contains(&one.as_str())) {
        let message = format!("`publish` knows only {}, not `{unknown}`", KNOWN.join(", "));
        return Err(Failure::Usage(message));
    }
    let tree = Tree::load(root);
    let tree = tree.map_err(|error| Failure::Failed(format!("cannot list the tree: {error}")))?;
    let names = packages::published(&tree);
    let mut command = cargo::command(root);
    command
        .args(subcommand(arguments))
        .arg("--locked")
        .args(arguments);
    for name in &names {
        command.args(["--package", name]);
    }
    finish("cargo", &mut command)?;
    println!(
        "{} packages can be published: {}",
        names.len(),
        names.join(", ")
    );
    if !tree
        .get("Cargo.toml")
        .is_some_and(|root| root.text.contains("\nrepository = "))
    {
        println!(
            "they name no repository yet: set `repository` in [workspace.package] before the first upload"
        );
    }
    Ok(())
}

/// Without the registry's index the archives are packed and built all the same. What `publish`
/// does beyond that is to ask which versions the registry has.
fn subcommand(arguments: &[String]) -> &'static [&'static str] {
    match arguments.iter().any(|one| one == "--offline") {
        true => &["package"],
        false => &["publish", "--dry-run"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dry_run_can_be_asked_for() {
        for asked in [&[][..], &["--offline"], &["--no-verify", "--allow-dirty"]] {
            let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
            let subcommand = subcommand(&asked);
            assert!(subcommand == ["package"] || subcommand.contains(&"--dry-run"));
        }
        for wrong in ["--registry", "--token", "clinch"] {
            let refused = run(&crate::workspace_root(), &[wrong.to_owned()]);
            assert!(matches!(refused, Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn the_program_and_the_facade_are_published_and_the_testbed_is_not() {
        let tree = Tree::load(&crate::workspace_root()).unwrap();
        let names = packages::published(&tree);
        for name in ["clinch", "clinch-cli", "clinch-core", "clinch-github"] {
            assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
        }
        for name in ["clinch-testbed", "clinch-bench", "clinch-sim", "xtask"] {
            assert!(!names.contains(&name.to_owned()), "{name} in {names:?}");
        }
    }
}
