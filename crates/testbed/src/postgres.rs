//! PostgreSQL: durable as in production, small as in a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kind::{as_user, on_path, run};
use crate::{Kind, Trouble};

/// The newest installed one. Debian keeps them apart by version and off the path; a program
/// on the path is a last resort, as `initdb` must be beside it.
pub(crate) fn program() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
    let mut versions: Vec<u32> = versions
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    versions.sort_unstable();
    let debian = versions.into_iter().rev().map(|version| {
        let folder = format!("/usr/lib/postgresql/{version}/bin");
        Path::new(&folder).join("postgres")
    });
    let has_initdb = |program: &PathBuf| program.with_file_name("initdb").is_file();
    debian
        .chain(on_path("postgres"))
        .find(|program| program.is_file() && has_initdb(program))
}

pub(crate) fn prepare(folder: &Path) -> Result<(), Trouble> {
    let kind = Kind::Postgres;
    let program = program().ok_or(Trouble::Missing(kind))?;
    let mut command = as_user(kind.user(), &program.with_file_name("initdb"));
    command
        .arg("--pgdata")
        .arg(folder.join("data"))
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8"])
        .args(["--locale=C", "--no-sync"]);
    run(kind, &mut command)
}

pub(crate) fn arguments(command: &mut Command, folder: &Path, port: u16) {
    command
        .arg("-D")
        .arg(folder.join("data"))
        .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"])
        .arg(folder)
        .args(["-c", "max_connections=300"])
        .args(["-c", "shared_buffers=256MB"])
        .args(["-c", "max_wal_size=4GB"])
        .args(["-c", "shared_preload_libraries=pg_stat_statements"]);
}

pub(crate) fn is_ready(port: u16) -> bool {
    let ready = program().and_then(|program| {
        Command::new(program.with_file_name("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()])
            .status()
            .ok()
    });
    ready.is_some_and(|status| status.success())
}
