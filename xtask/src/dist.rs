//! `cargo xtask dist`: the release archive of this machine's platform, in `target/archive`.
//!
//! The archive holds the stripped program, completion scripts, manual pages, the guide, the licences
//! and the files of `deploy/`; its checksum is beside it. The archive is then unpacked into an empty
//! folder, and the program in it must run the demo.

mod contents;
mod pages;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::servers::finish;
use crate::tidy::tree::Tree;
use crate::{Failure, cargo};

/// Files of the repository that go into the archive, beside the pages and pictures of `docs/`.
const FILES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "deploy/clinch.service",
    "deploy/compose/mariadb-redis.yaml",
    "deploy/compose/postgres-nats.yaml",
    "deploy/compose/postgres.yaml",
    "deploy/alerts.yml",
    "deploy/alerts-github.yml",
    "deploy/grafana.json",
    "deploy/grafana-github.json",
];

/// The archive has no sources: its image is made from its program, by the same command as in a clone.
/// So the compose files, which name this file, are the same too.
const CONTAINERFILE: (&str, &str) = ("deploy/Containerfile.binary", "deploy/Containerfile");

/// Shells and the names that they look for.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "clinch.bash"),
    ("zsh", "_clinch"),
    ("fish", "clinch.fish"),
];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.first() {
        let message = format!("`dist` has no argument `{unknown}`");
        return Err(Failure::Usage(message));
    }
    let mut build = cargo::command(root);
    build.args(["build", "--locked", "--profile", "dist"]);
    finish("cargo", build.args(["--package", "clinch-cli"]))?;
    let tree = Tree::load(root).map_err(|error| wrong(root, &error))?;
    let files = files(&tree);
    let program = cargo::target(root).join("dist").join("clinch");
    let name = name(&program)?;
    let archives = cargo::target(root).join("archive");
    let folder = archives.join(&name);
    if archives.exists() {
        std::fs::remove_dir_all(&archives).map_err(|error| wrong(&archives, &error))?;
    }
    fill(root, &files, &program, &folder)?;
    let file = format!("{name}.tar.gz");
    // The same content makes the same archive: neither owners nor times of this machine are in it.
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args([
        "--mtime=2026-01-01 00:00Z",
        "--use-compress-program=gzip -9n",
    ]);
    finish(
        "tar",
        tar.args(["-cf", &file, &name]).current_dir(&archives),
    )?;
    let sums = output(
        "sha256sum",
        Command::new("sha256sum").arg(&file).current_dir(&archives),
    )?;
    write(&archives.join("SHA256SUMS"), &sums)?;
    try_out(&archives, &file, &name, &files)?;
    println!("{} and SHA256SUMS are in {}", file, archives.display());
    Ok(())
}

/// `clinch-0.1.0-x86_64-linux`
fn name(program: &Path) -> Result<String, Failure> {
    let version = output("clinch", Command::new(program).arg("--version"))?;
    let version = String::from_utf8_lossy(&version);
    let version = version.split_whitespace().nth(1).unwrap_or("unknown");
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    Ok(format!("clinch-{version}-{arch}-{os}"))
}

/// What is packed: the path in the archive, and the path in the repository.
type Files = BTreeMap<String, String>;

fn files(tree: &Tree) -> Files {
    let named = FILES.iter().map(|file| (*file, *file));
    let (from, to) = CONTAINERFILE;
    let named = named.chain([(to, from)]);
    let named = named.map(|(to, from)| (to.to_owned(), from.to_owned()));
    let all = tree.files.iter().map(|file| &file.path);
    let docs = all.chain(&tree.binaries).filter(|path| is_of_docs(path));
    named
        .chain(docs.map(|path| (path.clone(), path.clone())))
        .collect()
}

/// A page or a picture of `docs/`.
fn is_of_docs(path: &str) -> bool {
    let kind = Path::new(path).extension().and_then(OsStr::to_str);
    path.starts_with("docs/") && kind.is_some_and(|kind| ["md", "png", "svg"].contains(&kind))
}

/// Puts everything into the folder that is packed.
fn fill(root: &Path, files: &Files, program: &Path, folder: &Path) -> Result<(), Failure> {
    for (to, from) in files {
        let (from, path) = (root.join(from), folder.join(to));
        make_folder_of(&path)?;
        if to.ends_with(".md") {
            let page = std::fs::read_to_string(&from).map_err(|error| wrong(&from, &error))?;
            write(&path, pages::in_archive(to, &page, files).as_bytes())?;
        } else {
            std::fs::copy(&from, &path).map_err(|error| wrong(&from, &error))?;
        }
    }
    let copy = folder.join("clinch");
    std::fs::copy(program, &copy).map_err(|error| wrong(program, &error))?;
    for (shell, file) in COMPLETIONS {
        let script = output("clinch", Command::new(program).args(["completions", shell]))?;
        let path = folder.join("completions").join(file);
        make_folder_of(&path)?;
        write(&path, &script)?;
    }
    let mut man = Command::new(program);
    finish("clinch man", man.arg("man").arg(folder.join("man")))
}

fn make_folder_of(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().unwrap_or(file);
    std::fs::create_dir_all(folder).map_err(|error| wrong(folder, &error))
}

/// Compares the archive with its checksum, unpacks it into an empty folder and runs the demo there.
fn try_out(archives: &Path, file: &str, name: &str, files: &Files) -> Result<(), Failure> {
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]);
    finish("sha256sum --check", check.current_dir(archives))?;
    let empty = archives.join("tried");
    std::fs::create_dir_all(&empty).map_err(|error| wrong(&empty, &error))?;
    let mut tar = Command::new("tar");
    finish(
        "tar",
        tar.arg("-xf").arg(archives.join(file)).current_dir(&empty),
    )?;
    let program = empty.join(name).join("clinch");
    let mut demo = Command::new(&program);
    finish(
        "clinch demo of the archive",
        demo.arg("demo").current_dir(&empty),
    )?;
    contents::check(&empty.join(name), files, &contents::commands(&program)?)?;
    std::fs::remove_dir_all(&empty).map_err(|error| wrong(&empty, &error))
}

fn wrong(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| wrong(path, &error))
}

fn output(what: &str, command: &mut Command) -> Result<Vec<u8>, Failure> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Failure::Failed(format!(
            "{what} ended with {}",
            output.status
        ))),
        Err(error) => Err(Failure::Failed(format!("cannot start {what}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_archive_is_in_the_repository() {
        let root = crate::workspace_root();
        let files = files(&Tree::load(&root).unwrap());
        for (to, from) in &files {
            assert!(root.join(from).is_file(), "{to}: {from}");
        }
        for page in ["README.md", "docs/guide/sqlite.md", "docs/states.svg"] {
            assert!(files.contains_key(page), "{page}");
        }
        assert!(files.contains_key("docs/console-overview.png"));
        assert!(!files.contains_key("docs/book.toml"));
    }

    #[test]
    fn the_archive_has_every_file_of_deploy_but_its_tests() {
        let tree = Tree::load(&crate::workspace_root()).unwrap();
        let files = files(&tree);
        let paths = tree.files.iter().map(|file| &file.path);
        let deploy =
            paths.filter(|path| path.starts_with("deploy/") && !path.starts_with("deploy/tests/"));
        // Its place is taken by the Containerfile that needs no sources.
        let (_, replaced) = CONTAINERFILE;
        let missing: Vec<_> = deploy
            .filter(|path| *path != replaced && !files.values().any(|from| from == *path))
            .collect();
        assert_eq!(missing, Vec::<&String>::new());
    }
}
