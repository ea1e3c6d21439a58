//! What the unpacked archive must have.

use std::path::Path;
use std::process::Command;

use super::{COMPLETIONS, CONTAINERFILE, Files, output, wrong};
use crate::Failure;
use crate::tidy::links;
use crate::tidy::tree::Tree;

/// Every file is there and none is empty; each command has its manual page; links of the pages lead
/// to files of the archive; its image can be built from it.
pub(super) fn check(folder: &Path, files: &Files, commands: &[String]) -> Result<(), Failure> {
    let completions = COMPLETIONS
        .iter()
        .map(|(_, file)| format!("completions/{file}"));
    let pages = commands.iter().map(|command| manual_page(command));
    let all = files.keys().cloned().chain(completions).chain(pages);
    for file in all.chain(["clinch".to_owned()]) {
        let path = folder.join(&file);
        let about = std::fs::metadata(&path).map_err(|error| wrong(&path, &error))?;
        if about.len() == 0 {
            return refused(format!("{file} is empty in the archive"));
        }
    }
    has_no_other_page(folder, commands)?;
    has_no_dead_link(folder)?;
    has_an_image(folder, files)
}

fn refused(problem: String) -> Result<(), Failure> {
    Err(Failure::Failed(problem))
}

/// `man/clinch-ops-ls.1` of `clinch ops ls`
fn manual_page(command: &str) -> String {
    format!("man/{}.1", command.replace(' ', "-"))
}

/// The commands of a program as its help lists them: `clinch`, `clinch ops`, `clinch ops ls`, …
pub(super) fn commands(program: &Path) -> Result<Vec<String>, Failure> {
    let (mut found, mut open) = (Vec::new(), vec!["clinch".to_owned()]);
    while let Some(command) = open.pop() {
        let words = command.split(' ').skip(1);
        let help = output(&command, Command::new(program).args(words).arg("--help"))?;
        let inner = listed(&String::from_utf8_lossy(&help));
        open.extend(inner.iter().map(|name| format!("{command} {name}")));
        found.push(command);
    }
    Ok(found)
}

/// The commands that a help text lists, but `help` itself.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = lines.take_while(|line| !line.is_empty());
    // The name stands after two spaces; the continued description of a command after more.
    let names = rows.filter_map(|row| row.strip_prefix("  ")?.split(' ').next());
    names
        .filter(|name| !name.is_empty() && *name != "help")
        .map(str::to_owned)
        .collect()
}

/// There are as many manual pages as commands: the help was read to its end.
fn has_no_other_page(folder: &Path, commands: &[String]) -> Result<(), Failure> {
    let man = folder.join("man");
    let listed = std::fs::read_dir(&man).map_err(|error| wrong(&man, &error))?;
    match (listed.count(), commands.len()) {
        (pages, commands) if pages != commands => refused(format!(
            "the archive has {pages} manual pages, and the help lists {commands} commands"
        )),
        _ => Ok(()),
    }
}

fn has_no_dead_link(folder: &Path) -> Result<(), Failure> {
    let tree = Tree::walk(folder).map_err(|error| wrong(folder, &error))?;
    match links::check(&tree).first() {
        Some(dead) => refused(format!("the archive has a dead link: {dead:?}")),
        None => Ok(()),
    }
}

/// The unpacked archive has what its Containerfile copies, and its compose files build from it.
fn has_an_image(folder: &Path, files: &Files) -> Result<(), Failure> {
    let (_, name) = CONTAINERFILE;
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(&path, &error))?;
    for copied in copied(&text) {
        if !folder.join(copied).is_file() {
            let problem = format!("{name} copies {copied}, which the archive does not have");
            return refused(problem);
        }
    }
    let build = format!("build: {{ context: ../.., dockerfile: {name} }}");
    for file in files
        .keys()
        .filter(|file| file.starts_with("deploy/compose/"))
    {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&path, &error))?;
        if !text.contains(&build) {
            return refused(format!("{file} does not build from {name}"));
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::{files, pages};
    use super::*;

    /// A folder with the files of this repository's archive, removed with the test.
    struct Archive {
        folder: PathBuf,
        files: Files,
    }

    impl Archive {
        fn new(name: &str) -> Self {
            let root = crate::workspace_root();
            let name = format!("xtask-dist-{name}-{}", std::process::id());
            let archive = Self {
                folder: std::env::temp_dir().join(name),
                files: files(&Tree::load(&root).unwrap()),
            };
            for (to, from) in &archive.files {
                let text = std::fs::read(root.join(from)).unwrap();
                match String::from_utf8(text) {
                    Ok(page) if to.ends_with(".md") => {
                        archive.write(to, &pages::in_archive(to, &page, &archive.files));
                    }
                    Ok(text) => archive.write(to, &text),
                    Err(_) => archive.write(to, "a picture"),
                }
            }
            for (_, file) in COMPLETIONS {
                archive.write(&format!("completions/{file}"), "text");
            }
            for file in ["man/clinch.1", "man/clinch-serve.1", "clinch"] {
                archive.write(file, "text");
            }
            archive
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// Why the archive is refused; empty if it is not.
        fn problem(&self) -> String {
            let commands = ["clinch", "clinch serve"].map(str::to_owned);
            match check(&self.folder, &self.files, &commands) {
                Ok(()) => String::new(),
                Err(Failure::Failed(problem)) => problem,
                Err(_) => "another failure".to_owned(),
            }
        }
    }

    impl Drop for Archive {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn an_archive_that_lacks_a_file_or_has_an_empty_one_is_refused() {
        let archive = Archive::new("files");
        assert_eq!(archive.problem(), "");
        for file in ["completions/_clinch", "docs/console-overview.png", "clinch"] {
            archive.write(file, "");
            assert_eq!(archive.problem(), format!("{file} is empty in the archive"));
            std::fs::remove_file(archive.folder.join(file)).unwrap();
            assert!(archive.problem().contains(file), "{}", archive.problem());
            archive.write(file, "text");
        }
        assert_eq!(archive.problem(), "");
    }

    #[test]
    fn a_command_without_a_page_and_a_page_without_a_command_are_refused() {
        let archive = Archive::new("pages");
        archive.write("man/clinch-ops.1", "text");
        let problem = archive.problem();
        assert!(problem.contains("3 manual pages"), "{problem}");
        std::fs::remove_file(archive.folder.join("man/clinch-serve.1")).unwrap();
        let problem = archive.problem();
        assert!(problem.contains("clinch-serve.1"), "{problem}");
    }

    #[test]
    fn a_link_to_a_file_outside_of_the_archive_is_refused() {
        let archive = Archive::new("links");
        archive.write("docs/guide/new.md", "[it](../../crates/core/src/lib.rs)\n");
        let problem = archive.problem();
        assert!(problem.contains("docs/guide/new.md"), "{problem}");
    }

    #[test]
    fn an_archive_whose_image_cannot_be_built_from_it_is_refused() {
        let archive = Archive::new("image");
        let of_the_clone = crate::workspace_root().join("deploy/Containerfile");
        let of_the_clone = std::fs::read_to_string(of_the_clone).unwrap();
        assert_eq!(copied(&of_the_clone), ["."]);
        archive.write("deploy/Containerfile", &of_the_clone);
        let problem = archive.problem();
        assert!(problem.contains("does not have"), "{problem}");
        let archive = Archive::new("compose");
        let compose = "services: { clinch: { build: { context: ., dockerfile: Containerfile } } }";
        archive.write("deploy/compose/postgres.yaml", compose);
        let problem = archive.problem();
        assert!(problem.contains("does not build from"), "{problem}");
    }

    #[test]
    fn commands_are_read_from_the_help() {
        let help = "Runs it\n\nUsage: clinch <COMMAND>\n\nExamples:\n  clinch serve\n\nCommands:\n  \
                    serve     Runs the API, workers and\n            recovery\n  dead-one  Shows it\n  \
                    help      Prints help\n\nOptions:\n  -h, --help  Print help\n";
        assert_eq!(listed(help), ["serve", "dead-one"]);
        assert!(listed("Usage: clinch serve\n\nOptions:\n  -h\n").is_empty());
        assert_eq!(manual_page("clinch ops ls"), "man/clinch-ops-ls.1");
    }
}
