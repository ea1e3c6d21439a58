//! Checks the files for answers and dead letters that the store does not accept.

use std::path::Path;

use rustix::fs::{Access, access};

use super::store::folder_of;
use super::{Finding, Subject};

/// A journal without entries is at most this long.
const EMPTY_BYTES: u64 = 8_192;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let config = &subject.config;
    if config.store.url.starts_with("memory:") {
        return Vec::new();
    }
    let files = [
        (
            "worker.spill_file",
            &config.worker.spill_file,
            "answers wait there; a server with the recovery role reads them back",
        ),
        (
            "dead_letter.file",
            &config.dead_letter.file,
            "dead letters wait there; read them back with `clinch dlq import`",
        ),
    ];
    let look = |(key, path, full): &(&str, &String, &str)| file(key, Path::new(path), full);
    files.iter().map(look).collect()
}

fn file(key: &str, path: &Path, full: &str) -> Finding {
    let shown = path.display();
    let is_closed = match path.is_file() {
        true => access(path, Access::READ_OK | Access::WRITE_OK).is_err(),
        false => path.exists() || access(folder_of(path), Access::WRITE_OK).is_err(),
    };
    if is_closed {
        let what = format!("{key} = {shown} cannot be written");
        return Finding::fail(
            what,
            "name a file in a folder that the server's user may write",
        );
    }
    match std::fs::metadata(path) {
        Ok(there) if there.len() > EMPTY_BYTES => {
            Finding::warn(format!("{key} = {shown} is not empty"), full)
        }
        _ => Finding::ok(format!("{key} = {shown} is writable")),
    }
}
