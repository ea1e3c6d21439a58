//! The files that the checks read.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace: its root and every text file that git tracks or would track.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// Sorted by path.
    pub(crate) files: Vec<File>,
    /// The paths of the binary files.
    pub(crate) binaries: Vec<String>,
}

/// A text file. Its path is relative to the root, with `/` between the parts.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tree {
    /// Asks git for the files; a folder that is no repository is walked instead.
    pub(crate) fn load(root: &Path) -> io::Result<Self> {
        match git_files(root) {
            Some(paths) => Ok(Self::read(root, paths)),
            None => Self::walk(root),
        }
    }

    pub(crate) fn walk(root: &Path) -> io::Result<Self> {
        let mut paths = Vec::new();
        walk_into(root, "", &mut paths)?;
        Ok(Self::read(root, paths))
    }

    /// Skips files that git lists but that are missing on disk.
    fn read(root: &Path, mut paths: Vec<String>) -> Self {
        paths.sort();
        paths.dedup();
        let mut tree = Self {
            root: root.to_path_buf(),
            files: Vec::new(),
            binaries: Vec::new(),
        };
        for path in paths {
            match std::fs::read_to_string(root.join(&path)) {
                Ok(text) => tree.files.push(File { path, text }),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tree.binaries.push(path);
                }
                Err(_) => {}
            }
        }
        tree
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        let at = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()?;
        self.files.get(at)
    }

    pub(crate) fn with_extension<'a>(
        &'a self,
        extension: &'a str,
    ) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| {
            Path::new(&file.path)
                .extension()
                .is_some_and(|own| own == extension)
        })
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.with_extension("rs")
    }
}

impl File {
    /// Whether the file is in a folder of this name, at any depth.
    pub(crate) fn is_under(&self, folder: &str) -> bool {
        let folders = self
            .path
            .rsplit_once('/')
            .map_or("", |(folders, _)| folders);
        folders.split('/').any(|part| part == folder)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let list = String::from_utf8_lossy(&output.stdout);
    Some(
        list.split('\0')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

fn walk_into(root: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = join(folder, &name);
        if !entry.file_type()?.is_dir() {
            paths.push(path);
        } else if name != ".git" && name != "target" {
            walk_into(root, &path, paths)?;
        }
    }
    Ok(())
}

/// `name` inside `folder`, where the root is the empty string.
pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// `relative` as seen from `folder`, with `.` and `..` resolved; `None` when it leaves the root.
pub(crate) fn resolve(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::Fixture;

    #[test]
    fn text_files_are_listed_in_order_without_build_output() {
        let fixture = Fixture::new()
            .file("b/c.rs", "")
            .file("a.md", "")
            .file("target/x.rs", "")
            .file("b.rs", "");
        let tree = fixture.tree();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a.md", "b.rs", "b/c.rs"]);
        assert!(tree.get("b/c.rs").is_some_and(|file| file.is_under("b")));
        assert!(tree.get("b").is_none());
    }

    #[test]
    fn relative_paths_stay_inside_the_root() {
        assert_eq!(resolve("a/b", "../c.md").as_deref(), Some("a/c.md"));
        assert_eq!(resolve("", "./c.md").as_deref(), Some("c.md"));
        assert_eq!(resolve("a", "../../c.md"), None);
    }
}
