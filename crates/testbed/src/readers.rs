//! Programs from PyPI that read files which Clinch writes or ships: a Singer target, a Parquet reader
//! and a YAML parser.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the environment holds, for pip.
pub const READERS: [&str; 3] = ["target-jsonl==0.1.4", "pyarrow==26.0.1", "PyYAML==6.0.3"];

/// Where `cargo xtask servers install` puts them: a Python environment of its own.
pub fn readers_environment() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/readers")
}

/// Why they cannot be used here.
pub fn readers_missing() -> Option<String> {
    let mut python = Command::new(readers_environment().join("bin/python"));
    python.args(["-c", "import pyarrow.parquet, target_jsonl, yaml"]);
    match python.output() {
        Ok(output) if output.status.success() => None,
        _ => Some(format!(
            "{} are not installed; `cargo xtask servers install` installs them",
            READERS.join(", ")
        )),
    }
}
