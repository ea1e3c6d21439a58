//! `cargo xtask schema`: runs schemathesis against the API's own description.
//!
//! Schemathesis generates valid and invalid requests from `/openapi.json`, and fails on any 5xx
//! answer and on any answer that the description does not allow. The tool lives in a private
//! environment in the target folder; the server is a real one on a database of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Failure, cargo};

/// Pinned: another release generates other requests from the same seed.
const TOOL: &str = "schemathesis==4.32.5";
/// Links are not inferred from `Location`: with two kinds of resources the tool confuses their
/// parameters.
const TOOL_CONFIG: &str = "[phases.stateful.inference]\nalgorithms = [\"dependency-analysis\"]\n";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Requests of each kind to each route: about a minute in all.
const EXAMPLES: &str = "25";
const SEED: &str = "20261115";
/// Two workers crash in the parser of Python 3.11.
const WORKERS: &str = "1";
/// Seconds: longer than any wait that a request may ask for.
const TIMEOUT: &str = "75";
/// This stream never ends, and schemathesis waits for the last byte.
const ENDLESS: &str = "/v1/events";

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
shed_queue_age = "1h"
[github]
api_url = "http://127.0.0.1:9"
[[route]]
name = "any"
domain = "away"
event_type = "*"
remote = true
"#;

/// Runs the step alone; builds only what it needs.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    match arguments.first() {
        Some(other) => Err(Failure::Usage(format!(
            "`schema` has no argument `{other}`"
        ))),
        None => step(root, &["--package", "clinch-cli"]),
    }
}

/// Runs the step as one of several, which need the same packages.
pub(crate) fn step(root: &Path, packages: &[&str]) -> Result<(), Failure> {
    let built = cargo::command(root)
        .args(["test", "--no-run", "--quiet"])
        .args(packages)
        .status();
    let built = built.map_err(|error| failed("start cargo", &error))?;
    if !built.success() {
        return Err(Failure::Failed("the server cannot be built".into()));
    }
    let target = cargo::target(root);
    let Some(tool) = tool(&target)? else {
        return Ok(());
    };
    let server = Server::start(&target)?;
    let tested = Command::new(tool)
        .arg("run")
        .arg(format!("{}/openapi.json", server.url))
        .args(["--url", &server.url, "--checks", CHECKS, "--seed", SEED])
        .args(["--max-examples", EXAMPLES, "--exclude-path", ENDLESS])
        .args(["--request-timeout", TIMEOUT])
        .args([
            "--workers",
            WORKERS,
            "--max-time",
            "90",
            "--warnings",
            "off",
        ])
        .args(["--generation-database", "none", "--no-color"])
        .current_dir(&server.folder)
        .status();
    let tested = tested.map_err(|error| failed("start schemathesis", &error))?;
    match tested.success() {
        true => Ok(()),
        false => Err(Failure::Failed(
            "schemathesis found answers that the description does not allow".into(),
        )),
    }
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot {what}: {error}"))
}

/// The path of the tool in its own environment, which is created if it is missing. `None`: this
/// machine has no suitable Python; CI treats that as an error.
fn tool(target: &Path) -> Result<Option<PathBuf>, Failure> {
    let folder = target.join(TOOL.replace("==", "-"));
    let tool = folder.join("bin/schemathesis");
    if tool.exists() {
        return Ok(Some(tool));
    }
    let run = |program: &Path, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).status();
        status.is_ok_and(|status| status.success())
    };
    let place = folder.display().to_string();
    let made = run(Path::new("python3"), &["-m", "venv", &place]);
    let pip = folder.join("bin/pip");
    if made && run(&pip, &["install", "--quiet", TOOL]) {
        return Ok(Some(tool));
    }
    let why =
        format!("{TOOL} cannot be installed: python3 with venv and a package index are needed");
    if std::env::var_os("CI").is_some() {
        return Err(Failure::Failed(why));
    }
    println!("skipped: {why}");
    Ok(None)
}

/// A server that stops when this is dropped.
struct Server {
    child: Child,
    url: String,
    folder: PathBuf,
}

impl Server {
    fn start(target: &Path) -> Result<Self, Failure> {
        let folder = target.join(format!("schema-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| failed("make a folder", &error))?;
        for (name, text) in [("clinch.toml", CONFIG), ("schemathesis.toml", TOOL_CONFIG)] {
            let written = std::fs::write(folder.join(name), text);
            written.map_err(|error| failed("write a file", &error))?;
        }
        let mut child = Command::new(target.join("debug/clinch"))
            .arg("serve")
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed("start the server", &error))?;
        let lines = child.stderr.take().map(BufReader::new);
        let mut lines = lines
            .into_iter()
            .flat_map(|lines| lines.lines().map_while(Result::ok));
        let said = |line: String| Some(line.strip_prefix("listening on ")?.to_owned());
        let url = lines.by_ref().find_map(said);
        // The server's later output must be read, or the server would block.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        let silent = || Failure::Failed("the server does not listen".into());
        let url = url.ok_or_else(silent)?;
        Ok(Self { child, url, folder })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
