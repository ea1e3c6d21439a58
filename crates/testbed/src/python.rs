//! A Python with a package of its own, for clients in another language.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python that has `package`, in a folder under `tools` that is made once; tests of other
/// processes may make it at the same time. The error says why there is none.
pub fn python(tools: &Path, package: &str, module: &str) -> Result<PathBuf, String> {
    let home = tools.join(module);
    let program = home.join("bin/python");
    let import = format!("import {module}");
    if run(Command::new(&program).args(["-c", &import])).is_ok() {
        return Ok(program);
    }
    std::fs::create_dir_all(tools).map_err(|error| error.to_string())?;
    let own = tools.join(format!("{module}-{}", std::process::id()));
    run(Command::new("python3").args(["-m", "venv"]).arg(&own))?;
    let pip = ["-m", "pip", "install", "--quiet", package];
    run(Command::new(own.join("bin/python")).args(pip))?;
    // Who comes second finds it there.
    if std::fs::rename(&own, &home).is_err() {
        let _ = std::fs::remove_dir_all(&own);
    }
    run(Command::new(&program).args(["-c", &import]))?;
    Ok(program)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
