//! Builds and installs the peers, below `target/peers`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clinch_peers_load::{Result, ensure};
use serde_json::Value;

use crate::contender::Contender;

/// What effectum sets when it opens its file, and what it should set: its pragma `journal` does not
/// exist, so that it would run without a write-ahead log, and `normal` does not sync every commit.
const EFFECTUM_SETTINGS: [(&str, &str); 2] = [
    (
        r#"pragma_update(None, "journal", "wal")"#,
        r#"pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))"#,
    ),
    (
        r#"pragma_update(None, "synchronous", "normal")"#,
        r#"pragma_update(None, "synchronous", "full")"#,
    ),
];

/// Where the repository is, and what was built so far.
pub(crate) struct Installer {
    pub(crate) root: PathBuf,
}

impl Installer {
    pub(crate) fn new() -> Result<Self> {
        let own = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = own.parent().and_then(Path::parent).ok_or("no root")?;
        let installer = Self {
            root: root.to_owned(),
        };
        std::fs::create_dir_all(installer.target())?;
        Ok(installer)
    }

    fn target(&self) -> PathBuf {
        self.root.join("target/peers")
    }

    /// The program `clinch`, which `cargo xtask bench peers` has built.
    pub(crate) fn clinch(&self) -> Result<PathBuf> {
        let program = self.root.join("target/release/clinch");
        ensure(program.is_file(), "`clinch` is not built: use cargo xtask")?;
        Ok(program)
    }

    /// effectum, with a write-ahead log and a sync of every commit.
    pub(crate) fn effectum(&self) -> Result<Contender> {
        let copy = self.target().join("effectum");
        if !copy.join("Cargo.toml").is_file() {
            self.copy_effectum(&copy)?;
        }
        self.build("effectum", "clinch-peers-effectum")
    }

    /// Copies the crate from cargo's own cache and changes the two settings in the copy.
    fn copy_effectum(&self, copy: &Path) -> Result<()> {
        let fetch = self.target().join("effectum-fetch");
        std::fs::create_dir_all(fetch.join("src"))?;
        std::fs::write(fetch.join("src/lib.rs"), "")?;
        let manifest = "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
                        [dependencies]\neffectum = \"=0.7.0\"\n\n[workspace]\n";
        std::fs::write(fetch.join("Cargo.toml"), manifest)?;
        let output = self
            .cargo()
            .args(["metadata", "--quiet", "--format-version", "1"])
            .arg("--manifest-path")
            .arg(fetch.join("Cargo.toml"))
            .stderr(Stdio::inherit())
            .output()?;
        ensure(output.status.success(), "effectum cannot be fetched")?;
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let packages = metadata["packages"].as_array();
        let package = packages
            .and_then(|list| list.iter().find(|one| one["name"] == "effectum"))
            .and_then(|one| one["manifest_path"].as_str());
        let source = package.and_then(|path| Path::new(path).parent());
        // Takes its place only when it is whole and changed.
        let new = self.target().join("effectum-new");
        let _ = std::fs::remove_dir_all(&new);
        copy_folder(source.ok_or("cargo does not know effectum")?, &new)?;
        let file = new.join("src/local_queue.rs");
        let mut text = std::fs::read_to_string(&file)?;
        for (was, is) in EFFECTUM_SETTINGS {
            ensure(
                text.matches(was).count() == 1,
                "effectum sets its file up in another way",
            )?;
            text = text.replace(was, is);
        }
        std::fs::write(file, text)?;
        Ok(std::fs::rename(new, copy)?)
    }

    /// Builds a package of one of the workspaces below `benches/peers`. The packages of a workspace
    /// share their crates if they are built together; if one of them fails, the others are built
    /// alone.
    pub(crate) fn build(&self, workspace: &str, package: &str) -> Result<Contender> {
        let target = self.target().join("build");
        let manifest = self.root.join("benches/peers").join(workspace);
        let run = |what: &[&str]| -> Result<bool> {
            let status = self
                .cargo()
                .args(["build", "--release", "--locked"])
                .args(what)
                .arg("--manifest-path")
                .arg(manifest.join("Cargo.toml"))
                .arg("--target-dir")
                .arg(&target)
                .stdout(Stdio::null())
                .status()?;
            Ok(status.success())
        };
        let is_built = run(&["--workspace"])? || run(&["--package", package])?;
        ensure(is_built, &format!("{package} cannot be built"))?;
        Ok(Contender::new(target.join("release").join(package), &[]))
    }

    fn cargo(&self) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(program);
        // The settings of cargo, such as the flags of SQLite, are those of Clinch.
        command.current_dir(&self.root);
        // What cargo told this program about its own package would make crates build again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// The version of a crate in the lock file of a workspace below `benches/peers`.
    pub(crate) fn version(&self, workspace: &str, name: &str) -> String {
        let lock = self.root.join("benches/peers").join(workspace);
        let lock = std::fs::read_to_string(lock.join("Cargo.lock")).unwrap_or_default();
        let start = format!("name = \"{name}\"\nversion = \"");
        let version = lock.split_once(&start).map(|(_, rest)| rest);
        let version = version.and_then(|rest| rest.split('"').next());
        version.unwrap_or("unknown").to_owned()
    }

    /// BullMQ with its client of Redis, run by the installed Node; and their versions.
    pub(crate) fn bullmq(&self) -> Result<(Contender, String)> {
        let node = Command::new("node").arg("--version").output();
        let node = node.map_err(|error| format!("Node cannot be run: {error}"))?;
        let node = String::from_utf8_lossy(&node.stdout).trim().to_owned();
        let folder = self.npm("bullmq", &["bullmq", "ioredis"])?;
        let version = npm_version(&folder.join("node_modules/bullmq"))?;
        let script = folder.join("round.mjs");
        // Node looks for packages beside the script.
        std::fs::copy(self.root.join("benches/peers/bullmq/round.mjs"), &script)?;
        let contender = Contender::new("node".into(), &[&script.to_string_lossy()]);
        Ok((contender, format!("{version}, Node {node}")))
    }

    /// Installs packages of npm in a folder of their own; returns the folder.
    pub(crate) fn npm(&self, name: &str, packages: &[&str]) -> Result<PathBuf> {
        let folder = self.target().join(name);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("package.json"), "{\"private\":true}")?;
        let output = Command::new("npm")
            .args([
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
            ])
            .args(packages)
            .current_dir(&folder)
            .output();
        let output = output.map_err(|error| format!("npm cannot be run: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure(
            output.status.success(),
            &format!("npm cannot install {}: {said}", packages.join(", ")),
        )?;
        Ok(folder)
    }
}

/// The version of an installed package of npm.
pub(crate) fn npm_version(package: &Path) -> Result<String> {
    let manifest = std::fs::read_to_string(package.join("package.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    Ok(manifest["version"].as_str().unwrap_or("unknown").to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
