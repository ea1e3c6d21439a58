//! What idle processes ask of their servers, by the servers' own count.

use std::collections::BTreeMap;
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

/// `USER_HZ`, which Linux has kept at this for programs on every architecture of ours.
const TICKS_PER_SECOND: f64 = 100.0;

/// A route for remote workers: the least that a worker process can wait for.
const CONFIG: &str = "[[route]]\nname = \"idle\"\ndomain = \"idle\"\nevent_type = \"*\"\nurl = \"http://127.0.0.1:9/\"\nsafety = \"natural\"\n";

/// Ends with its owner.
struct Process(Child);

impl Process {
    /// User and system time, in ticks.
    fn ticks(&self) -> Result<u64, String> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()));
        let stat = stat.map_err(|error| error.to_string())?;
        // The name in parentheses may hold anything.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number).and_then(|text| text.parse::<u64>().ok());
        let sum = field(11).zip(field(12)).map(|(user, system)| user + system);
        sum.ok_or_else(|| "its times cannot be read".to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Idle processes, and the servers that they wait on.
struct Idle {
    processes: Vec<Process>,
    store: Server,
    _folder: Folder,
}

impl Idle {
    /// A server process and two worker processes on a private PostgreSQL, with whatever they did
    /// at their start behind them.
    fn start(program: &Path, bus: &str) -> Result<Self, String> {
        let store = Server::start(Kind::Postgres).map_err(|trouble| trouble.to_string())?;
        let url = store.url();
        ask(&url, "CREATE EXTENSION pg_stat_statements")?;
        let folder = Folder::new(Kind::Redis).map_err(|trouble| trouble.to_string())?;
        let config = folder.path().join("clinch.toml");
        let text = format!("[store]\nurl = \"{url}\"\n[bus]\nurl = \"{bus}\"\n{CONFIG}");
        std::fs::write(&config, text).map_err(|error| error.to_string())?;
        let mut processes = Vec::new();
        for (number, roles) in ["api,recovery", "worker", "worker"].iter().enumerate() {
            let own = folder.path().join(number.to_string());
            std::fs::create_dir(&own).map_err(|error| error.to_string())?;
            processes.push(serve(program, &config, &own, roles)?);
        }
        pause(SETTLE);
        Ok(Self {
            processes,
            store,
            _folder: folder,
        })
    }

    /// What every process has used so far, in the kernel's ticks.
    fn ticks(&self) -> Result<Vec<u64>, String> {
        self.processes.iter().map(Process::ticks).collect()
    }
}

/// Watches idle processes for so long: every statement that reached PostgreSQL, with its count.
pub fn idle_statements(program: &Path, watched: Duration) -> Result<Vec<String>, String> {
    let idle = Idle::start(program, "store")?;
    let url = idle.store.url();
    ask(&url, "SELECT pg_stat_statements_reset()")?;
    pause(watched);
    let said = ask(
        &url,
        "SELECT calls || ' x ' || query FROM pg_stat_statements \
         WHERE query NOT LIKE '%pg_stat_statements%'",
    )?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// What idle processes cost a Redis server, and the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct IdleOnRedis {
    /// Commands that reached it, by its own count.
    pub commands: BTreeMap<String, u64>,
    /// Share of one core that the busiest process used, in percent.
    pub cpu_percent: f64,
}

/// Watches idle processes whose hints go over a private Redis for so long.
pub fn idle_on_redis(program: &Path, watched: Duration) -> Result<IdleOnRedis, String> {
    let say = |trouble: crate::Trouble| trouble.to_string();
    let redis = Server::start(Kind::Redis).map_err(say)?;
    let idle = Idle::start(program, &redis.url())?;
    let (before, used) = (redis.commands().map_err(say)?, idle.ticks()?);
    pause(watched);
    let (after, now) = (redis.commands().map_err(say)?, idle.ticks()?);
    let grown = |(name, count): (String, u64)| {
        let more = count - before.get(&name).copied().unwrap_or(0);
        // Our own questions are not theirs.
        (more > 0 && name != "info" && name != "quit").then_some((name, more))
    };
    let most = now.iter().zip(&used).map(|(now, used)| now - used).max();
    Ok(IdleOnRedis {
        commands: after.into_iter().filter_map(grown).collect(),
        cpu_percent: most.unwrap_or(0) as f64 / TICKS_PER_SECOND / watched.as_secs_f64() * 100.0,
    })
}

fn serve(program: &Path, config: &Path, folder: &Path, roles: &str) -> Result<Process, String> {
    let mut command = Command::new(program);
    command
        .args(["serve", "--roles", roles, "--config"])
        .arg(config)
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
