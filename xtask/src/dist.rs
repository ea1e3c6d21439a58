//! `cargo xtask dist`: the release archive of this machine's platform, in `target/archive`.
//!
//! The archive holds the stripped program, completion scripts, manual pages, the licences and the
//! files of `deploy/`; its checksum is beside it. The archive is then unpacked into an empty folder,
//! and the program in it must run the demo.

use std::path::Path;
use std::process::Command;

use crate::servers::finish;
use crate::{Failure, cargo};

/// Files of the repository that go into the archive.
const FILES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "deploy/Containerfile",
    "deploy/clinch.service",
    "deploy/compose/mariadb-redis.yaml",
    "deploy/compose/postgres-nats.yaml",
    "deploy/compose/postgres.yaml",
    "deploy/alerts.yml",
    "deploy/alerts-github.yml",
    "deploy/grafana.json",
    "deploy/grafana-github.json",
];

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
    let program = cargo::target(root).join("dist").join("clinch");
    let name = name(&program)?;
    let archives = cargo::target(root).join("archive");
    let folder = archives.join(&name);
    if archives.exists() {
        std::fs::remove_dir_all(&archives).map_err(|error| wrong(&archives, &error))?;
    }
    fill(root, &program, &folder)?;
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
    try_out(&archives, &file, &name)?;
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

/// Puts everything into the folder that is packed.
fn fill(root: &Path, program: &Path, folder: &Path) -> Result<(), Failure> {
    let completions = folder.join("completions");
    for made in [&completions, &folder.join("deploy/compose")] {
        std::fs::create_dir_all(made).map_err(|error| wrong(made, &error))?;
    }
    let files = FILES
        .iter()
        .map(|file| (root.join(file), folder.join(file)));
    let program_file = (program.to_owned(), folder.join("clinch"));
    for (from, to) in files.chain([program_file]) {
        std::fs::copy(&from, &to).map_err(|error| wrong(&from, &error))?;
    }
    for (shell, file) in COMPLETIONS {
        let script = output("clinch", Command::new(program).args(["completions", shell]))?;
        write(&completions.join(file), &script)?;
    }
    let mut man = Command::new(program);
    finish("clinch man", man.arg("man").arg(folder.join("man")))
}

/// Unpacks the archive into an empty folder and runs the demo there.
fn try_out(archives: &Path, file: &str, name: &str) -> Result<(), Failure> {
    let empty = archives.join("tried");
    std::fs::create_dir_all(&empty).map_err(|error| wrong(&empty, &error))?;
    let mut tar = Command::new("tar");
    finish(
        "tar",
        tar.arg("-xf").arg(archives.join(file)).current_dir(&empty),
    )?;
    let mut demo = Command::new(empty.join(name).join("clinch"));
    finish(
        "clinch demo of the archive",
        demo.arg("demo").current_dir(&empty),
    )?;
    lacks_nothing(&empty.join(name))?;
    std::fs::remove_dir_all(&empty).map_err(|error| wrong(&empty, &error))
}

/// Every file of the unpacked archive is there and none is empty; one page describes each command.
fn lacks_nothing(folder: &Path) -> Result<(), Failure> {
    let completions = COMPLETIONS
        .iter()
        .map(|(_, file)| format!("completions/{file}"));
    let files = FILES.iter().map(ToString::to_string).chain(completions);
    for file in files.chain(["man/clinch.1", "man/clinch-serve.1"].map(str::to_owned)) {
        let path = folder.join(&file);
        let about = std::fs::metadata(&path).map_err(|error| wrong(&path, &error))?;
        if about.len() == 0 {
            return Err(Failure::Failed(format!("{file} is empty in the archive")));
        }
    }
    Ok(())
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
        for file in FILES {
            assert!(root.join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn the_archive_has_every_file_of_deploy_but_its_tests() {
        let tree = crate::tidy::tree::Tree::load(&crate::workspace_root()).unwrap();
        let paths = tree.files.iter().map(|file| file.path.as_str());
        let deploy =
            paths.filter(|path| path.starts_with("deploy/") && !path.starts_with("deploy/tests/"));
        let missing: Vec<&str> = deploy.filter(|path| !FILES.contains(path)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn an_archive_that_lacks_a_file_or_has_an_empty_one_is_refused() {
        let folder = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        let all = FILES.iter().map(ToString::to_string);
        let made = COMPLETIONS
            .iter()
            .map(|(_, file)| format!("completions/{file}"));
        let pages = ["man/clinch.1", "man/clinch-serve.1"].map(str::to_owned);
        for file in all.chain(made).chain(pages) {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        }
        assert!(lacks_nothing(&folder).is_ok());
        std::fs::write(folder.join("completions/_clinch"), "").unwrap();
        assert!(matches!(lacks_nothing(&folder), Err(Failure::Failed(_))));
        std::fs::remove_file(folder.join("completions/_clinch")).unwrap();
        assert!(matches!(lacks_nothing(&folder), Err(Failure::Failed(_))));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
