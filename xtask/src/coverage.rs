//! `cargo xtask coverage`: line coverage of the crates that must reach 80 % (RUN-13).
//!
//! Each crate is measured by the tests of the whole path above it: the engine by its own tests, by
//! the contract suite on the in-memory reference and by the facade's tests.

use std::path::Path;

use crate::{Failure, cargo};

/// The measured crates, and the minimum in per cent.
const MEASURED: &[&str] = &["core", "engine", "protect"];
const LEAST: f64 = 80.0;

/// The packages whose tests run.
const TESTED: &[&str] = &[
    "clinch-core",
    "clinch-engine",
    "clinch-protect",
    "clinch-memory",
    "clinch",
    "clinch-examples",
    "clinch-sim",
];

/// Their integration tests. The exhaustive model check and the simulation's thousands of seeds are
/// left out: under the tracer they take hours and cover no further lines.
const TARGETS: &[&str] = &[
    "protocol",
    "canonical_json",
    "contract",
    "protect",
    "facade",
];

/// Left out for the same reason.
const SKIPPED: &[&str] = &["--", "--skip", "col_13"];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.first() {
        let message = format!("`coverage` takes no argument, not even `{unknown}`");
        return Err(Failure::Usage(message));
    }
    if !cargo::has(root, "tarpaulin") {
        println!("== installing cargo-tarpaulin, once");
        call(root, &["install", "cargo-tarpaulin", "--locked"])?;
    }
    let out = root.join("target").join("coverage");
    std::fs::create_dir_all(&out)
        .map_err(|error| Failure::Failed(format!("cannot make {}: {error}", out.display())))?;
    let out_text = out.display().to_string();
    let mut line = vec![
        "tarpaulin",
        "--engine",
        "ptrace",
        "--skip-clean",
        "--out",
        "Lcov",
        "--output-dir",
        &out_text,
        "--target-dir",
        "target/tarpaulin",
        "--timeout",
        "600",
    ];
    for package in TESTED {
        line.extend(["--packages", package]);
    }
    line.extend(["--lib", "--bins"]);
    for target in TARGETS {
        line.extend(["--test", target]);
    }
    line.extend(SKIPPED);
    call(root, &line)?;
    let report = out.join("lcov.info");
    let report = std::fs::read_to_string(&report)
        .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", report.display())))?;
    judge(&report)
}

fn call(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    println!("== cargo {}", arguments.join(" "));
    let status = cargo::command(root).args(arguments).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Failed(format!("cargo ended with {status}"))),
        Err(error) => Err(Failure::Failed(format!("cannot start cargo: {error}"))),
    }
}

fn judge(report: &str) -> Result<(), Failure> {
    let mut short = Vec::new();
    println!(
        "\n{:<10}{:>8}{:>8}{:>10}",
        "crate", "lines", "hit", "covered"
    );
    for name in MEASURED {
        let (hit, lines) = lines_of(report, &format!("crates/{name}/src/"));
        let share = 100.0 * hit as f64 / (lines as f64).max(1.0);
        println!("{name:<10}{lines:>8}{hit:>8}{share:>9.1} %");
        if share < LEAST {
            short.push(*name);
        }
    }
    if short.is_empty() {
        Ok(())
    } else {
        let message = format!("below {LEAST} %: {}", short.join(", "));
        Err(Failure::Failed(message))
    }
}

/// Lines that were hit, and lines that could be, of the files below `folder`.
fn lines_of(report: &str, folder: &str) -> (usize, usize) {
    let (mut ours, mut hit, mut lines) = (false, 0, 0);
    for line in report.lines() {
        if let Some(file) = line.strip_prefix("SF:") {
            ours = file.contains(folder);
        }
        let count = line
            .strip_prefix("DA:")
            .and_then(|line| line.split_once(','));
        if let Some((_, count)) = count.filter(|_| ours) {
            lines += 1;
            hit += usize::from(count.trim() != "0");
        }
    }
    (hit, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "SF:/x/crates/core/src/a.rs\nDA:1,3\nDA:2,0\nend_of_record\n\
                          SF:/x/crates/engine/src/b.rs\nDA:1,1\nend_of_record\n";

    #[test]
    fn run_13_lines_are_counted_by_crate() {
        assert_eq!(lines_of(REPORT, "crates/core/src/"), (1, 2));
        assert_eq!(lines_of(REPORT, "crates/engine/src/"), (1, 1));
        assert_eq!(lines_of(REPORT, "crates/protect/src/"), (0, 0));
        assert!(judge(REPORT).is_err(), "one at half, one not measured");
    }
}
