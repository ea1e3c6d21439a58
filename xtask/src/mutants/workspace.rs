//! A copy of the workspace, for patches.

use std::io;
use std::path::{Path, PathBuf};

use crate::cargo;
use crate::tidy::tree::{File, Tree};

/// The copy, and the folder of its build results.
pub(crate) struct Workspace {
    copy: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Makes the copy equal to the tree. Unchanged files keep their modification time, so that
    /// cargo rebuilds only what changed.
    pub(crate) fn mirror(tree: &Tree, folder: &Path) -> io::Result<Self> {
        let copy = folder.join("workspace");
        std::fs::create_dir_all(&copy)?;
        let old = Tree::walk(&copy)?;
        for file in old
            .files
            .iter()
            .filter(|file| tree.get(&file.path).is_none())
        {
            std::fs::remove_file(copy.join(&file.path))?;
        }
        for file in &tree.files {
            if old.get(&file.path).is_none_or(|old| old.text != file.text) {
                write(&copy, file)?;
            }
        }
        Ok(Self {
            copy,
            target: folder.join("target"),
        })
    }

    /// Calls `work` while one file of the copy is replaced.
    pub(crate) fn with<T>(
        &self,
        tree: &Tree,
        file: &File,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let failed = |error| format!("cannot write {}: {error}", file.path);
        write(&self.copy, file).map_err(failed)?;
        let done = work();
        if let Some(original) = tree.get(&file.path) {
            write(&self.copy, original).map_err(failed)?;
        }
        done
    }

    /// Builds the simulation; returns a copy of the program under this name.
    ///
    /// The build uses little optimisation and no LTO: most bugs are found within ten seeds, so the
    /// build takes most of the time.
    pub(crate) fn build(&self, name: &str) -> Result<PathBuf, String> {
        let output = cargo::command(&self.copy)
            .args(["build", "--quiet", "--package", "clinch-sim"])
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .output()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the simulation does not compile:\n{said}"));
        }
        let file = |name: &str| format!("{name}{}", std::env::consts::EXE_SUFFIX);
        let built = self.target.join("debug").join(file("sim"));
        let kept = self.target.join(file(name));
        std::fs::copy(built, &kept).map_err(|error| format!("cannot keep {name}: {error}"))?;
        Ok(kept)
    }
}

fn write(copy: &Path, file: &File) -> io::Result<()> {
    let path = copy.join(&file.path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, &file.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::Fixture;

    fn texts(workspace: &Workspace) -> Vec<(String, String)> {
        let files = Tree::walk(&workspace.copy).unwrap().files;
        files
            .into_iter()
            .map(|file| (file.path, file.text))
            .collect()
    }

    #[test]
    fn the_copy_follows_the_tree_and_a_patch_is_undone() {
        let (old, new) = (Fixture::new(), Fixture::new());
        let old = old.file("a.rs", "1").file("b/c.rs", "2");
        let new = new.file("a.rs", "1").file("d.rs", "3");
        let target = Fixture::new();
        let folder = target.tree().root;
        Workspace::mirror(&old.tree(), &folder).unwrap();
        let tree = new.tree();
        let workspace = Workspace::mirror(&tree, &folder).unwrap();
        let own = |text: &str| ("a.rs".to_owned(), text.to_owned());
        let other = ("d.rs".to_owned(), "3".to_owned());
        assert_eq!(texts(&workspace), [own("1"), other.clone()]);
        let patched = File {
            path: "a.rs".to_owned(),
            text: "bug".to_owned(),
        };
        let seen = workspace.with(&tree, &patched, || Ok(texts(&workspace)));
        assert_eq!(seen.unwrap(), [own("bug"), other.clone()]);
        assert_eq!(texts(&workspace), [own("1"), other]);
    }
}
