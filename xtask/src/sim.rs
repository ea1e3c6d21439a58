//! `cargo xtask sim` and `cargo xtask mutants`: the simulation, with release speed.

use std::path::Path;

use crate::{Failure, cargo};

const PLAY: [&str; 5] = ["run", "--quiet", "--release", "--package", "clinch-sim"];

/// Plays seeds, or replays one: the arguments go to the simulation as they are.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if arguments.is_empty() {
        let message = "sim needs --seeds N [--from S], or --seed S";
        return Err(Failure::Usage(message.into()));
    }
    play(root, &[], arguments)
}

/// Plants every bug in turn; says by which seed it was found.
pub(crate) fn mutants(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let mut all = vec!["--mutants".to_owned()];
    all.extend_from_slice(arguments);
    play(root, &["--features", "mutants"], &all)
}

fn play(root: &Path, features: &[&str], arguments: &[String]) -> Result<(), Failure> {
    let mut command = cargo::command(root);
    command.args(PLAY).args(features).arg("--").args(arguments);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failure::Reported),
        Err(error) => Err(Failure::Failed(format!("cannot run cargo: {error}"))),
    }
}
