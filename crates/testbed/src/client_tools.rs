//! Programs that build and check the clients in Python and TypeScript.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::npm_file;

/// What the Python environment holds, for pip: a type checker, a linter, and the package that
/// builds the client.
pub const PYTHON_TOOLS: [&str; 3] = ["mypy==2.4.1", "ruff==0.17.5", "flit_core==4.2.0"];

/// The compiler, for npm. The last version that is one package for every platform.
const TYPESCRIPT: &str = "typescript@5.9.3";

fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools")
}

/// Where `cargo xtask servers install` puts the Python tools: an environment of its own.
pub fn python_tools_environment() -> PathBuf {
    tools().join("clients")
}

/// Why the Python tools cannot be used here.
pub fn python_tools_missing() -> Option<String> {
    let mut python = Command::new(python_tools_environment().join("bin/python"));
    python.args(["-c", "import mypy, ruff, flit_core"]);
    match python.output() {
        Ok(output) if output.status.success() => None,
        _ => Some(format!(
            "{} are not installed; `cargo xtask servers install` installs them",
            PYTHON_TOOLS.join(", ")
        )),
    }
}

/// The TypeScript compiler, a program for Node.
pub fn typescript_compiler() -> PathBuf {
    tools().join("typescript/node_modules/typescript/bin/tsc")
}

/// Installs the TypeScript compiler with npm, if it is missing.
pub fn install_typescript() -> Result<(), String> {
    npm_file(&tools().join("typescript"), TYPESCRIPT, "bin/tsc").map(drop)
}

/// Why the TypeScript compiler cannot be used here.
pub fn typescript_missing() -> Option<String> {
    for program in ["node", "npm"] {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("{program} is not on the PATH"));
        }
    }
    let is_there = typescript_compiler().exists();
    (!is_there).then(|| {
        format!("{TYPESCRIPT} is not installed; `cargo xtask servers install` installs it")
    })
}
