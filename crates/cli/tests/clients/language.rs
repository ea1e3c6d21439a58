//! The two clients: where they are, how they are installed and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clinch_testbed::{python_tools_environment, typescript_compiler};

use crate::server::Folder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    TypeScript,
}

impl Language {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
        }
    }

    /// The folder of the client in the tree.
    pub(crate) fn sources(self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
        let root = root.canonicalize().expect("the clients");
        root.join(self.name())
    }

    /// The text of a file of the client.
    pub(crate) fn read(self, file: &str) -> String {
        let path = self.sources().join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The file name of an example.
    pub(crate) fn example(self, name: &str) -> String {
        match self {
            Self::Python => format!("{name}.py"),
            Self::TypeScript => format!("{name}.ts"),
        }
    }
}

/// A program that must succeed; returns what it printed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// A tool of the Python environment.
pub(crate) fn python(module: &str) -> Command {
    let mut python = Command::new(python_tools_environment().join("bin/python"));
    // The sources stay as they are.
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    python.args(["-m", module]);
    python
}

/// The TypeScript compiler, at work in the client's folder.
pub(crate) fn tsc() -> Command {
    let mut tsc = Command::new("node");
    tsc.arg(typescript_compiler());
    tsc.current_dir(Language::TypeScript.sources());
    tsc
}

/// A project that has installed the client from its folder, without a network.
pub(crate) struct Project {
    pub(crate) folder: Folder,
    language: Language,
}

impl Project {
    pub(crate) fn new(language: Language) -> Self {
        let folder = Folder::new();
        match language {
            Language::Python => {
                let pip = [
                    "install",
                    "--quiet",
                    "--no-index",
                    "--no-build-isolation",
                    "--disable-pip-version-check",
                    "--target",
                ];
                let mut install = python("pip");
                install.args(pip).arg(folder.0.join("installed"));
                succeed(install.arg(language.sources()));
            }
            Language::TypeScript => {
                folder.write("package.json", r#"{"private":true,"type":"module"}"#);
                let npm = [
                    "install",
                    "--offline",
                    "--no-audit",
                    "--no-fund",
                    "--silent",
                ];
                let mut install = Command::new("npm");
                install.args(npm).arg(language.sources());
                succeed(install.current_dir(&folder.0));
                let mut compile = tsc();
                compile.args(["--project", "tsconfig.examples.json", "--outDir"]);
                succeed(compile.arg(&folder.0));
            }
        }
        Self { folder, language }
    }

    /// An example as a program.
    pub(crate) fn example(&self, name: &str) -> Command {
        let mut command = match self.language {
            Language::Python => {
                let mut python = Command::new(python_tools_environment().join("bin/python"));
                let file = format!("examples/{}", self.language.example(name));
                python.arg(self.language.sources().join(file));
                python
            }
            Language::TypeScript => {
                let mut node = Command::new("node");
                node.arg(self.folder.0.join(format!("{name}.js")));
                node
            }
        };
        self.prepare(&mut command);
        command
    }

    /// Gives a program the installed client.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(&self.folder.0)
            .stdin(Stdio::null())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONPATH", self.folder.0.join("installed"));
    }
}
