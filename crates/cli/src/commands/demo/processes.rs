//! The processes of the demo: this program, as a server and as workers.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::client::{Base, Client, Request};
use crate::error::{CliError, note};

use super::{Environment, metrics};

/// Maximum time for a server to start, even on a slow machine.
const START_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Processes {
    folder: PathBuf,
    config: PathBuf,
    listen: SocketAddr,
    server: Option<Child>,
    workers: Vec<Worker>,
    started: usize,
}

/// A worker process, and its log, which contains the address of its metrics.
struct Worker {
    process: Child,
    log: PathBuf,
}

impl Processes {
    pub(crate) fn new(
        folder: &Path,
        environment: &Environment,
        provider: SocketAddr,
    ) -> Result<Self, CliError> {
        let failed = |error| CliError::failed(format!("cannot prepare the demo: {error}"));
        // The port is free now; the server takes it a moment later.
        let free = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let listen = free.local_addr().map_err(failed)?;
        let config = folder.join("clinch.toml");
        let text = configuration(environment, listen, provider)?;
        std::fs::write(&config, text).map_err(failed)?;
        Ok(Self {
            folder: folder.to_owned(),
            config,
            listen,
            server: None,
            workers: Vec::new(),
            started: 0,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    pub(crate) async fn start_all(&mut self, workers: u8) -> Result<(), CliError> {
        self.server = Some(self.spawn("api,recovery", &[])?);
        self.is_up().await?;
        for _ in 0..workers {
            self.start_worker()?;
        }
        Ok(())
    }

    fn start_worker(&mut self) -> Result<(), CliError> {
        // It only listens for requests to its metrics.
        let process = self.spawn("api,worker", &["server.listen=127.0.0.1:0"])?;
        let log = self.log();
        self.workers.push(Worker { process, log });
        Ok(())
    }

    /// Kills one worker without warning, and starts another.
    pub(crate) async fn kill_worker(&mut self) -> Result<(), CliError> {
        if let Some(worker) = self.workers.pop() {
            note(&format!("kill -9 of worker {}", worker.process.id()));
            end(worker.process);
        }
        self.start_worker()
    }

    /// Kills the server without warning, and starts another on the same address.
    pub(crate) async fn kill_server(&mut self) -> Result<(), CliError> {
        if let Some(server) = self.server.take() {
            note(&format!("kill -9 of server {}", server.id()));
            end(server);
        }
        self.server = Some(self.spawn("api,recovery", &[])?);
        self.is_up().await
    }

    /// The sum of a metric over the running processes; `None` if none of them has it.
    pub(crate) async fn metric(&self, name: &str) -> Result<Option<f64>, CliError> {
        let mut urls = vec![self.url()];
        for worker in &self.workers {
            let said = std::fs::read_to_string(&worker.log).unwrap_or_default();
            urls.extend(metrics::address(&said).map(str::to_owned));
        }
        let mut sum = None;
        for url in urls {
            let base = Base::parse(&url).map_err(CliError::usage)?;
            let told = Client::new(base, None)
                .text(Request::get("/metrics"))
                .await?;
            sum = match (sum, metrics::value(&told, name)) {
                (Some(sum), Some(more)) => Some(sum + more),
                (sum, more) => sum.or(more),
            };
        }
        Ok(sum)
    }

    pub(crate) async fn stop_all(&mut self) {
        self.end_all();
    }

    fn end_all(&mut self) {
        let workers = self.workers.drain(..).map(|worker| worker.process);
        workers.chain(self.server.take()).for_each(end);
    }

    /// The log file of the process that was started last.
    fn log(&self) -> PathBuf {
        self.folder.join(format!("process-{}.log", self.started))
    }

    fn spawn(&mut self, roles: &str, set: &[&str]) -> Result<Child, CliError> {
        let failed = |error| CliError::failed(format!("cannot start a process: {error}"));
        self.started += 1;
        let log = File::create(self.log()).map_err(failed)?;
        // Each process has its own files for answers and dead letters that the store does not
        // accept.
        let files = [
            format!("worker.spill_file={}", self.own("spill")),
            format!("dead_letter.file={}", self.own("dlq")),
        ];
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("serve").arg("--config").arg(&self.config);
        command.args(["--roles", roles]);
        for pair in files.iter().map(String::as_str).chain(set.iter().copied()) {
            command.args(["--set", pair]);
        }
        command.current_dir(&self.folder);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLINCH_")) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log).spawn().map_err(failed)
    }

    fn own(&self, what: &str) -> String {
        let name = format!("{what}-{}.log", self.started);
        self.folder.join(name).display().to_string()
    }

    async fn is_up(&self) -> Result<(), CliError> {
        let base = Base::parse(&self.url()).map_err(CliError::usage)?;
        let mut client = Client::new(base, None);
        let asked = async {
            while client.send(Request::get("/readyz")).await.is_err() {
                crate::clock::pause(Duration::from_millis(50)).await;
            }
        };
        let up = tokio::time::timeout(START_MAX, asked).await;
        up.map_err(|_| CliError::failed("the server does not start".to_owned()))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Ends a process that the demo started, by its id.
fn end(mut process: Child) {
    // The process may have ended already.
    let _ = process.kill();
    let _ = process.wait();
}

fn configuration(
    environment: &Environment,
    listen: SocketAddr,
    provider: SocketAddr,
) -> Result<String, CliError> {
    // A JSON string is a valid TOML string; an address may contain any character.
    let quoted = |text: &str| {
        serde_json::to_string(text).map_err(|error| CliError::failed(error.to_string()))
    };
    Ok(format!(
        r#"[store]
url = {}
fallback_poll = "1s"

[bus]
url = {}

[server]
listen = "{listen}"

[worker]
lease = "5s"

[sweeper]
grace = "5s"
stalled = "5s"

[[route]]
name = "charge"
domain = {}
event_type = "charge"
destination = "psp"
url = "http://{provider}/v1/charges"
safety = "keyed"
key_ttl = "24h"
remembers_refusals = true
txn_id = "json:/id"
timeout = "2s"
concurrency = 32
retry = {{ max_attempts = 20, base = "200ms", cap = "2s" }}
breaker = {{ open = "1s", window = 50, min_calls = 20 }}
"#,
        quoted(&environment.store)?,
        quoted(&environment.bus)?,
        quoted(&environment.domain)?,
    ))
}
