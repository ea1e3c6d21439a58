//! `cargo xtask bench`: benchmarks of the real engine, in release mode.

use std::path::Path;
use std::process::Command;

use crate::{Failure, cargo};

const BENCHES: [&str; 11] = [
    "embedded",
    "github",
    "mysql",
    "pages",
    "peers",
    "postgres",
    "probes",
    "recovery",
    "redis_delay",
    "retries",
    "slow-connections",
];
/// Measured by the test that proves that no caller starves: a real server in the test build.
const SLOW_CONNECTIONS: [&str; 8] = [
    "test",
    "--package",
    "clinch-cli",
    "--test",
    "api",
    "two_thousand_slow_connections",
    "--",
    "--nocapture",
];

/// Also measured by a test: ten thousand held operations instead of a few hundred.
const PROBES: [&str; 8] = [
    "test",
    "--package",
    "clinch-cli",
    "--test",
    "nodes",
    "held_operations_are_asked_about",
    "--",
    "--nocapture",
];

/// Also measured by tests: a thousand calls in flight when their process is killed.
const RECOVERY: [&str; 8] = [
    "test",
    "--package",
    "clinch-cli",
    "--test",
    "nodes",
    "calls_of_a_killed_process",
    "--",
    "--nocapture",
];

/// Runs one benchmark by name. The following arguments are passed to it unchanged.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let known = BENCHES.join(", ");
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::Usage(format!("bench needs a name: {known}")));
    };
    if !BENCHES.contains(&name.as_str()) {
        let message = format!("there is no bench `{name}`; known: {known}");
        return Err(Failure::Usage(message));
    }
    if ["github", "pages", "peers"].contains(&name.as_str()) {
        // These benchmarks measure the program `clinch` itself.
        let program = ["build", "--quiet", "--release", "--package", "clinch-cli"];
        succeed(cargo::command(root).args(program))?;
    }
    let mut command = cargo::command(root);
    match name.as_str() {
        "slow-connections" => command.args(SLOW_CONNECTIONS),
        "probes" => command.args(PROBES).env("PROBES_HELD", "10000"),
        "recovery" => command.args(RECOVERY).env("DEATHS_IN_FLIGHT", "1000"),
        // A workspace of its own; with the same target folder it shares what is built here.
        "peers" => command
            .args(["run", "--quiet", "--release", "--locked", "--target-dir"])
            .arg(root.join("target"))
            .args(["--manifest-path", "benches/peers/Cargo.toml", "--"])
            .args(rest),
        _ => command
            .args(["run", "--quiet", "--release", "--package", "clinch-bench"])
            .args(["--bin", name, "--"])
            .args(rest),
    };
    succeed(&mut command)
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failure::Reported),
        Err(error) => Err(Failure::Failed(format!("cannot run cargo: {error}"))),
    }
}
