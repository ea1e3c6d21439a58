//! What idle processes ask of their database, by the server's own count.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock::pause;
use crate::folder::Folder;
use crate::{Kind, Server, nursery};

/// Whatever a start does is over by then.
const SETTLE: Duration = Duration::from_secs(3);

/// Nothing is due, nothing expires, and no bound of a wait ends while it is watched.
const SETTINGS: [&str; 5] = [
    "store.fallback_poll=1h",
    "finalizer.interval=1h",
    "reaper.interval=1h",
    "sweeper.grace=1h",
    "server.listen=127.0.0.1:0",
];

/// A route for remote workers: the least that a worker process can wait for.
const CONFIG: &str = "[[route]]\nname = \"idle\"\ndomain = \"idle\"\nevent_type = \"*\"\nurl = \"http://127.0.0.1:9/\"\nsafety = \"natural\"\n";

/// Ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a server process and two worker processes of `program` on a private PostgreSQL and
/// watches them for so long: every statement that reached it, with its count.
pub fn idle_statements(program: &Path, watched: Duration) -> Result<Vec<String>, String> {
    let server = Server::start(Kind::Postgres).map_err(|trouble| trouble.to_string())?;
    let url = server.url();
    ask(&url, "CREATE EXTENSION pg_stat_statements")?;
    let folder = Folder::new(Kind::Redis).map_err(|trouble| trouble.to_string())?;
    let config = folder.path().join("clinch.toml");
    std::fs::write(&config, CONFIG).map_err(|error| error.to_string())?;
    let mut processes = Vec::new();
    for (number, roles) in ["api,recovery", "worker", "worker"].iter().enumerate() {
        let own = folder.path().join(number.to_string());
        std::fs::create_dir(&own).map_err(|error| error.to_string())?;
        processes.push(serve(program, &config, &own, &url, roles)?);
    }
    pause(SETTLE);
    ask(&url, "SELECT pg_stat_statements_reset()")?;
    pause(watched);
    let said = ask(
        &url,
        "SELECT calls || ' x ' || query FROM pg_stat_statements \
         WHERE query NOT LIKE '%pg_stat_statements%'",
    )?;
    drop(processes);
    Ok(said.lines().map(str::to_owned).collect())
}

fn serve(
    program: &Path,
    config: &Path,
    folder: &Path,
    url: &str,
    roles: &str,
) -> Result<Process, String> {
    let mut command = Command::new(program);
    command
        .args(["serve", "--roles", roles, "--config"])
        .arg(config)
        .args(["--set", &format!("store.url={url}")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    for setting in SETTINGS {
        command.args(["--set", setting]);
    }
    let child = nursery::spawn(command).map_err(|error| error.to_string())?;
    let mut process = Process(child);
    let errors = process.0.stderr.take().ok_or("no pipe")?;
    let mut lines = BufReader::new(errors).lines();
    let mut said = String::new();
    for line in lines.by_ref() {
        let line = line.map_err(|error| error.to_string())?;
        if line.starts_with("listening") || line.starts_with("working") {
            // Whatever it says later must find a reader.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(process);
        }
        said.push_str(&line);
    }
    Err(format!("it does not start: {said}"))
}

fn ask(url: &str, sql: &str) -> Result<String, String> {
    let output = Command::new("psql")
        .args([url, "-qAtc", sql])
        .output()
        .map_err(|error| format!("psql: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
