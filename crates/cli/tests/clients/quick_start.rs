//! `docs/guide/quick-start.md`, followed literally from an empty folder in each language.

mod timed;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clinch_testbed::{
    python_tools_environment, python_tools_missing, typescript_compiler, typescript_missing,
};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::follower::{Follower, Step, section, steps};
use crate::pages::code_lines;
use crate::server::Folder;
use crate::trial;

const PAGE: &str = include_str!("../../../../docs/guide/quick-start.md");

/// The most lines of code that a first handler may need.
const LINES_MAX: usize = 25;

/// Where packages, their versions and compiled crates come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supply {
    /// From this workspace and its tools: no network, and little to compile.
    Workspace,
    /// From where a user gets them, with the defaults of every tool.
    User,
}

/// The steps that were done, and how long each took.
type Took = Vec<(String, Duration)>;

pub(crate) fn trials() -> Vec<Trial> {
    let named = |name: &str| format!("core_18_quick_start::{name}");
    if timed::is_asked() {
        return vec![Trial::test(named("timed"), || {
            // A figure is missing without a program: never ignored.
            timed::missing().map_or(Ok(()), Err)?;
            timed::every_language();
            Ok(())
        })];
    }
    let own = Supply::Workspace;
    vec![
        trial(named("curl"), absent("curl"), || drop(curl())),
        trial(named("rust"), absent("cargo"), move || drop(rust(own))),
        trial(named("python"), python_tools_missing(), move || {
            drop(python(own));
        }),
        trial(named("typescript"), typescript_missing(), move || {
            drop(typescript(own));
        }),
    ]
}

fn absent(program: &str) -> Option<String> {
    let ran = Command::new(program).arg("--version").output();
    ran.err().map(|_| format!("{program} is not on the PATH"))
}

/// The steps of a part; every program among them is short.
fn part(heading: &str) -> Vec<Step> {
    println!("{heading}");
    let steps = steps(section(PAGE, heading));
    for step in &steps {
        if let Step::Write(name, text) = step {
            let lines = code_lines(name, text);
            println!("            {name}: {lines} lines of code");
            assert!(lines <= LINES_MAX, "{name} has {lines} lines of code");
        }
    }
    steps
}

/// Two runs of one program print the same result, and only the first calls the provider.
fn assert_called_once(said: &[String]) {
    let [.., first, second] = said else {
        panic!("two runs: {said:?}");
    };
    let called = "calling the provider\n";
    assert!(first.starts_with(called), "{first}");
    assert!(first.contains("5000"), "{first}");
    assert_eq!(first.replace(called, ""), *second);
}

fn curl() -> Took {
    let folder = Folder::new();
    let mut steps = part("## curl");
    // "Run the command again."
    let Some(Step::Run(again)) = steps.last() else {
        panic!("a command: {steps:?}");
    };
    let again = again.clone();
    assert!(again.starts_with("curl "), "{again}");
    steps.push(Step::Run(again));
    let mut follower = Follower::new(&folder.0);
    let said = follower.follow(&steps);
    let answers: Vec<Value> = said[1..].iter().map(|answer| operation(answer)).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["state"], "COMPLETED", "{:#}", answers[0]);
    assert_eq!(answers[0]["op_id"], answers[1]["op_id"]);
    assert_eq!(answers[0]["result"], answers[1]["result"]);
    // `clinch echo` counts the calls that it gets.
    let count = &answers[1]["result"]["payload"]["number"];
    assert_eq!(count, 1, "{:#}", answers[1]);
    follower.took
}

fn operation(answer: &str) -> Value {
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("JSON")
}

fn rust(supply: Supply) -> Took {
    let outer = Folder::new();
    let folder = outer.0.join("empty");
    std::fs::create_dir(&folder).expect("a folder");
    let mut follower = Follower::new(&folder);
    let mut steps = part("## Rust");
    match supply {
        Supply::Workspace => share_build(&outer, &mut follower),
        Supply::User => {
            follower.removed = build_variables();
            // What the first `cargo run` does first, as a step of its own.
            let is_run = |step: &Step| *step == Step::Run("cargo run".to_owned());
            let first = steps.iter().position(is_run).expect("a run");
            steps.insert(first, Step::Run("cargo build".to_owned()));
        }
    }
    let said = follower.follow(&steps);
    assert_called_once(&said);
    follower.took
}

/// Without a network, and with the build folder, the versions and the build options of this
/// workspace, so that little is compiled.
fn share_build(outer: &Folder, follower: &mut Follower) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lock = root.join("Cargo.lock");
    std::fs::copy(lock, outer.0.join("empty/Cargo.lock")).expect("the versions");
    std::fs::create_dir(outer.0.join(".cargo")).expect("a folder");
    outer.write(".cargo/config.toml", &build_options(&root));
    let target = Path::new(env!("CARGO_BIN_EXE_clinch")).ancestors().nth(2);
    let target = target.expect("the build folder").display().to_string();
    follower.environment = vec![
        ("CARGO_NET_OFFLINE".to_owned(), "true".to_owned()),
        ("CARGO_TARGET_DIR".to_owned(), target),
    ];
}

/// Variables by which a build of this workspace differs from one of a new project: those that the
/// cargo of this test has set, and build options. What leads to the registry stays.
fn build_variables() -> Vec<String> {
    const KEPT: [&str; 5] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
    ];
    let is_kept = |name: &str| KEPT.iter().any(|begin| name.starts_with(begin));
    let is_of_builds = |name: &String| {
        let is_build = ["CARGO", "RUSTC", "RUSTFLAGS", "LIBSQLITE3_FLAGS"]
            .iter()
            .any(|begin| name.starts_with(begin));
        is_build && !is_kept(name)
    };
    let names = std::env::vars().map(|(name, _)| name);
    names.filter(is_of_builds).collect()
}

/// The environment of the compiler, and the profile `dev`, as a configuration of Cargo.
fn build_options(root: &Path) -> String {
    let read = |name: &str| -> toml::Table {
        let text = std::fs::read_to_string(root.join(name)).expect("a file of Cargo");
        text.parse().expect("TOML")
    };
    let (config, manifest) = (read(".cargo/config.toml"), read("Cargo.toml"));
    let mut options = toml::Table::new();
    options.insert("env".to_owned(), config["env"].clone());
    let mut profile = toml::Table::new();
    profile.insert("dev".to_owned(), manifest["profile"]["dev"].clone());
    options.insert("profile".to_owned(), profile.into());
    options.to_string()
}

fn python(supply: Supply) -> Took {
    let folder = Folder::new();
    let mut follower = Follower::new(&folder.0);
    if supply == Supply::Workspace {
        // Without a network: pip builds the client with the package of the tools.
        let tools = installed_packages().display().to_string();
        let environment = [
            ("PIP_NO_INDEX", "1"),
            ("PIP_NO_BUILD_ISOLATION", "false"),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("PYTHONPATH", &tools),
        ];
        follower.environment = owned(&environment);
    }
    let said = follower.follow(&part("## Python"));
    assert_called_once(&said);
    follower.took
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    let owned = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect()
}

/// The packages of the Python tools.
fn installed_packages() -> PathBuf {
    let lib = python_tools_environment().join("lib");
    let versions = std::fs::read_dir(lib).expect("the tools").flatten();
    let mut packages = versions.map(|version| version.path().join("site-packages"));
    packages.next().expect("a version of Python")
}

fn typescript(supply: Supply) -> Took {
    let folder = Folder::new();
    let mut follower = Follower::new(&folder.0);
    if supply == Supply::Workspace {
        // Without a network: the compiler is the one of the tools.
        let compiler = typescript_compiler();
        let package = compiler.ancestors().nth(2).expect("its package");
        let package = package.canonicalize().expect("the compiler");
        let replaced = ("typescript@5".to_owned(), package.display().to_string());
        follower.replaced.push(replaced);
        let environment = [
            ("npm_config_offline", "true"),
            ("npm_config_audit", "false"),
        ];
        follower.environment = owned(&environment);
    }
    let said = follower.follow(&part("## TypeScript"));
    assert_called_once(&said);
    follower.took
}
