//! The test suites, type checkers and packages of the clients.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::language::{Language, Project, python, succeed, tsc};
use crate::pythons;
use crate::server::{Folder, Server, clinch};

/// The routes that the suites use.
pub(crate) const ROUTES: &str = include_str!("routes.toml");

pub(crate) fn pass(language: Language) {
    let server = Server::start(ROUTES);
    let folder = Folder::new();
    folder.write("clinch.toml", ROUTES);
    let key = ["keys", "create", "test", "--scopes", "submit"];
    let key = succeed(clinch(&folder).args(key)).trim().to_owned();
    let locked = Server::start_in(folder);
    let project = Project::new(language);
    let run = |suite: &mut Command| {
        project.prepare(suite);
        suite
            .env("CLINCH_URL", server.url())
            .env("CLINCH_LOCKED_URL", locked.url())
            .env("CLINCH_SUBMIT_KEY", &key);
        succeed(suite);
    };
    match language {
        Language::Python => {
            // Outside the sources, so that the installed package is what is tested.
            copy(
                &language.sources().join("tests"),
                &project.folder.0.join("tests"),
            );
            run(&mut python("unittest"));
            // One after the other: their workers would lease each other's operations.
            if let Some(((major, minor), program)) = pythons::oldest_other() {
                println!("also with Python {major}.{minor}");
                run(Command::new(program).args(["-m", "unittest"]));
            }
        }
        Language::TypeScript => {
            let mut node = Command::new("node");
            run(node.arg("--test").arg(language.sources().join("tests")));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for (name, text) in files(from) {
        std::fs::write(to.join(name), text).expect("a file");
    }
}

/// The text of every file of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let files = entries.filter(|entry| entry.path().is_file()).map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(entry.path()).expect("text");
        (name, text)
    });
    files.collect()
}

pub(crate) fn are_checked(language: Language) {
    let sources = language.sources();
    match language {
        Language::Python => {
            let cache = Folder::new();
            let mut mypy = python("mypy");
            mypy.args(["--strict", "--cache-dir"]).arg(&cache.0);
            mypy.args(["clinch_client", "examples", "tests"]);
            succeed(mypy.current_dir(&sources));
            for check in [["check"].as_slice(), &["format", "--check"]] {
                let mut ruff = python("ruff");
                ruff.args(check).arg("--no-cache").arg(".");
                succeed(ruff.current_dir(&sources));
            }
        }
        Language::TypeScript => {
            succeed(tsc().arg("--noEmit"));
            succeed(tsc().args(["--noEmit", "--project", "tsconfig.examples.json"]));
        }
    }
}

/// The package installs without a compiler and without dependencies. What is compiled in the tree
/// is what the sources compile to.
pub(crate) fn are_built(language: Language) {
    match language {
        Language::Python => {
            let project = Project::new(language);
            let installed = project.folder.0.join("installed");
            assert!(installed.join("clinch_client/py.typed").exists());
            let mut names: Vec<String> = std::fs::read_dir(installed)
                .expect("a folder")
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            assert_eq!(names, ["clinch_client", "clinch_client-0.1.0.dist-info"]);
        }
        Language::TypeScript => {
            let compiled = Folder::new();
            succeed(tsc().arg("--outDir").arg(&compiled.0));
            let dist = language.sources().join("dist");
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::remove_dir_all(&dist).expect("removed");
                copy(&compiled.0, &dist);
            }
            let why = "UPDATE_DOCS=1 compiles `dist` again";
            assert_eq!(files(&compiled.0), files(&dist), "{why}");
            let package: serde_json::Value =
                serde_json::from_str(&language.read("package.json")).expect("JSON");
            assert!(package.get("dependencies").is_none());
        }
    }
}
