//! The Pythons of this machine: the client supports older ones than the one that the tools have.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clinch_testbed::python_tools_environment;

use crate::language::Language;

type Version = (u32, u32);

/// The oldest one that the client supports.
const OLDEST: Version = (3, 9);

/// The latest `python3.N` that is looked for on the PATH.
const LATEST_MINOR: u32 = 30;

/// The program of the oldest other version from [`OLDEST`] on: `python3.9` and so on of the PATH, and
/// those that pyenv has installed.
pub(crate) fn oldest_other() -> Option<(Version, PathBuf)> {
    let (major, minor) = OLDEST;
    let promise = format!("requires-python = \">={major}.{minor}\"");
    let package = Language::Python.read("pyproject.toml");
    assert!(package.contains(&promise), "{promise}");
    let own = version(&python_tools_environment().join("bin/python"));
    let named = (minor..=LATEST_MINOR).map(|minor| PathBuf::from(format!("python{major}.{minor}")));
    named
        .chain(of_pyenv())
        .filter_map(|program| Some((version(&program)?, program)))
        .filter(|(version, _)| *version >= OLDEST && Some(*version) != own)
        .min()
}

/// `None`: there is no such program, it does not work, or it has no TLS.
fn version(program: &Path) -> Option<Version> {
    let mut python = Command::new(program);
    python.args(["-c", "import ssl, sys; print(*sys.version_info[:2])"]);
    let output = python.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn of_pyenv() -> Vec<PathBuf> {
    let asked = Command::new("pyenv").arg("root").output();
    let root = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let versions = root.map(|root| Path::new(&root).join("versions"));
    let Ok(entries) = versions.and_then(std::fs::read_dir) else {
        return Vec::new();
    };
    let programs = entries.flatten();
    programs
        .map(|entry| entry.path().join("bin/python"))
        .collect()
}
