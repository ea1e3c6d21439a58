//! `cargo xtask proof`: checks that take too long for every test run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::servers::{Shared, finish};
use crate::{Failure, book, cargo, dist};

/// One proof: its name, the arguments for cargo, and its environment variables.
struct Proof {
    name: &'static str,
    cargo: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// A proof that needs no servers: a stranger's first steps.
struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<(), Failure>,
}

const STEPS: &[Step] = &[
    Step {
        name: "install",
        run: install,
    },
    Step {
        name: "dist",
        run: |root| dist::run(root, &[]),
    },
    Step {
        name: "book",
        run: |root| book::run(root, &[]),
    },
    Step {
        name: "quick-start",
        run: quick_start,
    },
];

const PROOFS: &[Proof] = &[
    Proof {
        name: "chaos",
        cargo: &[
            "test",
            "--release",
            "--package",
            "clinch-cli",
            "--test",
            "chaos",
            "--",
            "--test-threads",
            "1",
        ],
        environment: &[("CLINCH_PROOF", "1")],
    },
    Proof {
        name: "black-hole",
        cargo: &[
            "test",
            "--package",
            "clinch-cli",
            "--test",
            "nodes",
            "black_hole",
            "--",
            "--nocapture",
        ],
        environment: &[("CLINCH_PROOF", "1")],
    },
    Proof {
        name: "letters",
        cargo: &[
            "test",
            "--package",
            "clinch-cli",
            "--test",
            "console",
            "every_dead_letter",
        ],
        environment: &[("CLINCH_PROOF", "1")],
    },
    Proof {
        name: "redis",
        cargo: &[
            "test",
            "--package",
            "clinch-redis",
            "--test",
            "server",
            "out_8",
        ],
        environment: &[("CLINCH_PROOF", "1")],
    },
    Proof {
        name: "kills",
        cargo: &[
            "test",
            "--package",
            "clinch-sqlite",
            "--test",
            "store",
            "run_11",
        ],
        environment: &[("CLINCH_KILLS", "200")],
    },
    Proof {
        name: "history",
        cargo: &[
            "test",
            "--package",
            "clinch-sqlite",
            "--package",
            "clinch-postgres",
            "--package",
            "clinch-mysql",
            "--test",
            "store",
            "--test",
            "contract",
            "cost::",
            "--",
            "--nocapture",
        ],
        environment: &[("CLINCH_PROOF", "1")],
    },
    Proof {
        name: "sim",
        cargo: &["xtask", "sim", "--seeds", "50000"],
        environment: &[],
    },
    Proof {
        name: "mutants",
        cargo: &["xtask", "mutants"],
        environment: &[],
    },
];

/// Runs all proofs, or the named one.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let is_asked = |name: &str| match arguments {
        [] => true,
        [asked] => name == asked,
        _ => false,
    };
    let steps: Vec<&Step> = STEPS.iter().filter(|step| is_asked(step.name)).collect();
    let asked: Vec<&Proof> = PROOFS.iter().filter(|proof| is_asked(proof.name)).collect();
    if asked.is_empty() && steps.is_empty() {
        let message = format!("proof takes one name of: {}", names().join(", "));
        return Err(Failure::Usage(message));
    }
    for step in steps {
        let start = Instant::now();
        println!("== {}", step.name);
        (step.run)(root)?;
        println!("== {}: {:.0} s", step.name, start.elapsed().as_secs_f64());
    }
    if asked.is_empty() {
        return Ok(());
    }
    with_servers(root, &asked)
}

fn names() -> Vec<&'static str> {
    let steps = STEPS.iter().map(|step| step.name);
    steps.chain(PROOFS.iter().map(|proof| proof.name)).collect()
}

fn with_servers(root: &Path, asked: &[&Proof]) -> Result<(), Failure> {
    let shared = Shared::start()?;
    for proof in asked {
        let start = Instant::now();
        println!("== {}: cargo {}", proof.name, proof.cargo.join(" "));
        let status = cargo::command(root)
            .args(proof.cargo)
            .envs(proof.environment.iter().copied())
            .envs(shared.environment())
            .env("CI", "true")
            .status()
            .map_err(|error| Failure::Failed(format!("cannot start cargo: {error}")))?;
        if !status.success() {
            return Err(Failure::Reported);
        }
        println!("== {}: {:.0} s", proof.name, start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// What the README tells a stranger to do: install from a clone, then run the demo.
fn install(root: &Path) -> Result<(), Failure> {
    let folder = cargo::target(root).join("installed");
    let wrong = |error: std::io::Error| Failure::Failed(format!("{}: {error}", folder.display()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(wrong)?;
    }
    let empty = folder.join("empty");
    std::fs::create_dir_all(&empty).map_err(wrong)?;
    let mut install = cargo::command(root);
    install.args(["install", "--locked", "--path", "crates/cli", "--root"]);
    finish("cargo install", install.arg(&folder))?;
    let mut demo = Command::new(folder.join("bin").join("clinch"));
    finish("clinch demo", demo.arg("demo").current_dir(&empty))
}

/// What the guide tells a stranger to do, in four languages, with the program as it is installed;
/// fails if a first durable call takes more than two minutes. Needs the registries of all four.
fn quick_start(root: &Path) -> Result<(), Failure> {
    let mut test = cargo::command(root);
    test.args(["test", "--release", "--package", "clinch-cli"])
        .args(["--test", "clients", "quick_start", "--", "--nocapture"])
        .env("CLINCH_PROOF", "1");
    finish("the quick start", &mut test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_proof_has_a_name_of_its_own_and_the_usage_lists_it() {
        let names = names();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
        let usage = crate::usage();
        for name in names {
            assert!(usage.contains(name), "{name} is missing in: {usage}");
        }
    }
}
