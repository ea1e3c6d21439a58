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
    let program_file = (program.to_owned(), folder.join("clinch"));
    let files = files().map(|(from, to)| (root.join(from), folder.join(to)));
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

/// Files of the repository, each with its path in the archive.
fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES
        .iter()
        .map(|file| (*file, *file))
        .chain([CONTAINERFILE])
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
    let files = files().map(|(_, file)| file.to_owned());
    let files = files.chain(completions);
    for file in files.chain(["man/clinch.1", "man/clinch-serve.1"].map(str::to_owned)) {
        let path = folder.join(&file);
        let about = std::fs::metadata(&path).map_err(|error| wrong(&path, &error))?;
        if about.len() == 0 {
            return Err(Failure::Failed(format!("{file} is empty in the archive")));
        }
    }
    has_an_image(folder)
}

/// The unpacked archive has what its Containerfile copies, and its compose files build from it.
fn has_an_image(folder: &Path) -> Result<(), Failure> {
    let (_, name) = CONTAINERFILE;
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(&path, &error))?;
    for copied in copied(&text) {
        if !folder.join(copied).is_file() {
            let problem = format!("{name} copies {copied}, which the archive does not have");
            return Err(Failure::Failed(problem));
        }
    }
    let build = format!("build: {{ context: ../.., dockerfile: {name} }}");
    for file in FILES
        .iter()
        .filter(|file| file.starts_with("deploy/compose/"))
    {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&path, &error))?;
        if !text.contains(&build) {
            return Err(Failure::Failed(format!(
                "{file} does not build from {name}"
            )));
        }
    }
    Ok(())
}

/// What a Containerfile copies out of the folder in which it is built.
fn copied(containerfile: &str) -> Vec<&str> {
    let copies = containerfile
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "));
    let from_outside = copies.filter(|words| !words.starts_with("--from="));
    from_outside
        .filter_map(|words| words.split_whitespace().next())
        .collect()
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
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn every_file_of_the_archive_is_in_the_repository() {
        let root = crate::workspace_root();
        for (file, _) in files() {
            assert!(root.join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn the_archive_has_every_file_of_deploy_but_its_tests() {
        let tree = crate::tidy::tree::Tree::load(&crate::workspace_root()).unwrap();
        let paths = tree.files.iter().map(|file| file.path.as_str());
        let deploy =
            paths.filter(|path| path.starts_with("deploy/") && !path.starts_with("deploy/tests/"));
        // Its place is taken by the Containerfile that needs no sources.
        let (_, replaced) = CONTAINERFILE;
        let missing: Vec<&str> = deploy
            .filter(|path| *path != replaced && !files().any(|(from, _)| from == *path))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    /// A folder with the files of an archive, removed with the test.
    struct Archive(PathBuf);

    impl Archive {
        fn new(name: &str) -> Self {
            let name = format!("xtask-dist-{name}-{}", std::process::id());
            let archive = Self(std::env::temp_dir().join(name));
            let root = crate::workspace_root();
            for (from, to) in files() {
                archive.write(to, &std::fs::read_to_string(root.join(from)).unwrap());
            }
            let made = COMPLETIONS
                .iter()
                .map(|(_, file)| format!("completions/{file}"));
            let pages = ["man/clinch.1", "man/clinch-serve.1", "clinch"].map(str::to_owned);
            for file in made.chain(pages) {
                archive.write(&file, "text");
            }
            archive
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn is_refused(&self) -> bool {
            matches!(lacks_nothing(&self.0), Err(Failure::Failed(_)))
        }
    }

    impl Drop for Archive {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_archive_that_lacks_a_file_or_has_an_empty_one_is_refused() {
        let archive = Archive::new("files");
        assert!(!archive.is_refused());
        archive.write("completions/_clinch", "");
        assert!(archive.is_refused());
        std::fs::remove_file(archive.0.join("completions/_clinch")).unwrap();
        assert!(archive.is_refused());
    }

    #[test]
    fn an_archive_whose_image_cannot_be_built_from_it_is_refused() {
        let archive = Archive::new("image");
        let root = crate::workspace_root();
        let of_the_clone = std::fs::read_to_string(root.join("deploy/Containerfile")).unwrap();
        assert_eq!(copied(&of_the_clone), ["."]);
        archive.write("deploy/Containerfile", &of_the_clone);
        assert!(archive.is_refused(), "it needs the sources");
        let archive = Archive::new("compose");
        let compose = "services: { clinch: { build: { context: ., dockerfile: Containerfile } } }";
        archive.write("deploy/compose/postgres.yaml", compose);
        assert!(archive.is_refused(), "another image");
    }
}
