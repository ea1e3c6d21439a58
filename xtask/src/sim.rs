//! `cargo xtask sim`: the simulation, in release mode.

use std::path::Path;

use crate::{Failure, cargo};

const PLAY: [&str; 5] = ["run", "--quiet", "--release", "--package", "clinch-sim"];

/// Runs seeds, or replays one. The arguments are passed to the simulation unchanged.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if arguments.is_empty() {
        let message = "sim needs --seeds N [--from S], or --seed S";
        return Err(Failure::Usage(message.into()));
    }
    let mut command = cargo::command(root);
    command.args(PLAY).arg("--").args(arguments);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failure::Reported),
        Err(error) => Err(Failure::Failed(format!("cannot run cargo: {error}"))),
    }
}
