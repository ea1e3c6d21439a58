//! `promtool`, which tests alert rules.

use std::path::PathBuf;

/// Where `promtool` is installed. `None`: it is not, and tests of rules cannot run. On CI that is a
/// failure.
pub fn promtool() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&path).map(|folder| folder.join("promtool"));
    programs.into_iter().find(|program| program.is_file())
}
