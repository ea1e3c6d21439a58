//! Checks the store. A further backend is one more arm in [`check`].

use std::path::Path;

use clinch::backend::StoreUrl;
use clinch_sqlite::{Settings, Sqlite};
use rustix::fs::{Access, access, statvfs};

use super::{Finding, Subject};
use crate::store::StoreConfig;

/// With less free space, the next busy hour may fill the disk.
const FREE_BYTES_WARN: u64 = 1024 * 1024 * 1024;
/// With less free space, the database can hardly commit.
const FREE_BYTES_FAIL: u64 = 64 * 1024 * 1024;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    match StoreConfig::of(&subject.config) {
        Err(error) => vec![Finding::error(&error)],
        Ok(store) if store.url == StoreUrl::Memory => vec![Finding::warn(
            "store.url is memory:, whose data is lost when its process ends",
            "use sqlite://FILE for anything that matters",
        )],
        Ok(store) if store.url.file().is_some() => file(subject, &store),
        Ok(store) => vec![schema(subject, &store)],
    }
}

fn file(subject: &Subject, store: &StoreConfig) -> Vec<Finding> {
    let Ok(path) = store.file() else {
        return Vec::new();
    };
    let folder = folder_of(path);
    if !folder.is_dir() {
        return vec![Finding::fail(
            format!("the database's folder {} is missing", folder.display()),
            "create it, or set store.url",
        )];
    }
    let mut findings = vec![is_local(folder), may_write(path, folder)];
    findings.push(match Sqlite::check_file(path, &Settings::default()) {
        Ok(()) => Finding::ok("the database is the one that was last used, and complete"),
        Err(error) => Finding::error(&error),
    });
    findings.push(schema(subject, store));
    findings.extend(free_space(folder));
    findings
}

fn is_local(folder: &Path) -> Finding {
    match Sqlite::check_folder(folder) {
        Ok(()) => Finding::ok("the database is on a file system of this machine"),
        Err(error) => Finding::error(&error),
    }
}

fn may_write(path: &Path, folder: &Path) -> Finding {
    let closed = |path: &Path| access(path, Access::READ_OK | Access::WRITE_OK).is_err();
    let is_closed = closed(folder) || (path.exists() && closed(path));
    match is_closed {
        true => Finding::fail(
            format!(
                "this user has no permission to write {} or its folder",
                path.display()
            ),
            "let the server's user write both",
        ),
        false => Finding::ok(format!("{} is writable", path.display())),
    }
}

fn schema(subject: &Subject, store: &StoreConfig) -> Finding {
    match subject.runtime.block_on(store.schema()) {
        Err(error) => Finding::error(&error),
        Ok(schema) => match (schema.version, schema.pending.len()) {
            (None, _) => Finding::warn(
                format!("there is no database at {} yet", store.name()),
                "`clinch serve` or `clinch migrate` creates it",
            ),
            (Some(version), 0) => Finding::ok(format!("schema version {version} is up to date")),
            (Some(version), pending) => Finding::warn(
                format!("schema version {version} has {pending} pending migrations"),
                "run `clinch migrate`; a server also migrates when it starts",
            ),
        },
    }
}

fn free_space(folder: &Path) -> Option<Finding> {
    let stat = statvfs(folder).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let what = format!("{} MiB free on the database's disk", free / (1024 * 1024));
    Some(match free {
        free if free < FREE_BYTES_FAIL => Finding::fail(what, "free some space"),
        free if free < FREE_BYTES_WARN => Finding::warn(what, "free some space soon"),
        _ => Finding::ok(what),
    })
}

/// The folder of a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
