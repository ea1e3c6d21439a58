//! `cargo xtask proof`: checks that take too long for every test run.

use std::path::Path;
use std::time::Instant;

use crate::servers::Shared;
use crate::{Failure, cargo};

/// One proof: its name, the arguments for cargo, and its environment variables.
struct Proof {
    name: &'static str,
    cargo: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

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
    let is_asked = |proof: &&Proof| match arguments {
        [] => true,
        [name] => name == proof.name,
        _ => false,
    };
    let asked: Vec<&Proof> = PROOFS.iter().filter(is_asked).collect();
    if asked.is_empty() {
        let names: Vec<&str> = PROOFS.iter().map(|proof| proof.name).collect();
        let message = format!("proof takes one name of: {}", names.join(", "));
        return Err(Failure::Usage(message));
    }
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
