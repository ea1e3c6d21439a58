//! Worker processes: this program again, with an engine that only executes.
//!
//! A worker prints `ready` once it is connected, begins to work with the first line of its input,
//! and ends when its input ends. Then it prints what its executor recorded, as JSON.

use std::io::BufRead;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::Clock;
use clinch_system::SystemClock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Database, Scene, TIMEOUT, complete, failed};
use crate::{Amount, LatencyProvider, Load, Node, Report};

/// The first argument of a worker; the address, a name and a folder follow.
pub(super) const WORKER_ARGUMENT: &str = "worker";
/// Operations that are sent from one process to another, and the pause between them.
const SAMPLES: usize = 1_000;
const INTERVAL: Duration = Duration::from_millis(5);

/// Runs a worker.
pub(super) async fn work<D: Database>(words: &[String]) -> Result<()> {
    let [url, name, folder] = words else {
        return Err(failed("a worker needs an address, a name and a folder"));
    };
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(D::connect(url, clock.clone()).await?);
    let node = Node::new(name, clock, folder.as_ref())?;
    let watch = Arc::new(LatencyProvider::default());
    let engine = node.engine(store, Some(watch.clone())).await?;
    println!("ready");
    heard().await?;
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run().await }
    });
    while heard().await? {}
    engine.stop();
    running.await.map_err(failed)?;
    println!("{}", serde_json::json!(watch.seen()));
    Ok(())
}

/// False: the input has ended.
async fn heard() -> Result<bool> {
    let read = || std::io::stdin().lock().read_line(&mut String::new());
    let read = tokio::task::spawn_blocking(read).await.map_err(failed)?;
    Ok(read.map_err(failed)? > 0)
}

/// A worker process, killed if it is dropped.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    async fn start(url: &str, name: &str, folder: &std::path::Path) -> Result<Self> {
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args([WORKER_ARGUMENT, url, name])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("a worker without pipes"));
        };
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).await.map_err(failed)?;
        match line.trim() {
            "ready" => Ok(Self {
                child,
                input,
                output,
            }),
            _ => Err(failed("a worker does not start")),
        }
    }

    async fn begin(&mut self) -> Result<()> {
        self.input.write_all(b"go\n").await.map_err(failed)
    }

    /// Ends the worker; returns the times that its executor recorded, in milliseconds.
    async fn end(mut self) -> Result<Vec<f64>> {
        drop(self.input);
        let mut said = String::new();
        let read = self.output.read_to_string(&mut said).await;
        read.map_err(failed)?;
        self.child.wait().await.map_err(failed)?;
        let micros: Vec<u64> = serde_json::from_str(&said).map_err(failed)?;
        Ok(micros.into_iter().map(|one| one as f64 / 1_000.0).collect())
    }
}

impl<D: Database> Scene<D> {
    async fn workers(&self, count: usize) -> Result<Vec<Worker>> {
        let mut workers = Vec::with_capacity(count);
        for number in 0..count {
            let name = format!("bench-{count}-{number}");
            workers.push(Worker::start(&self.url, &name, self.folder.path()).await?);
        }
        Ok(workers)
    }

    /// Drains one backlog after the other, each with more worker processes.
    pub(super) async fn shared(&self, operations: usize, report: &mut Report) -> Result<()> {
        let submitter = self.node("submitter")?.engine(self.store(), None).await?;
        let orchestrator = submitter.orchestrator();
        for count in [1, 2, 4, 8] {
            let before = self.load.completed(&self.store).await?;
            let backlog = operations.next_multiple_of(Load::CHUNK);
            let amount = Amount::Count(backlog);
            self.load.accept_bulk(&orchestrator, 4, amount).await?;
            let mut workers = self.workers(count).await?;
            for worker in &mut workers {
                worker.begin().await?;
            }
            let drained = self.load.drained(&self.store, before, backlog, TIMEOUT);
            let (rate, missing) = drained.await?;
            complete(missing)?;
            report.add(format!("drain, {count} worker processes"), rate, "/s");
            for worker in workers {
                worker.end().await?;
            }
        }
        Ok(())
    }

    /// Measures the time from the submit in this process to the begin of the call in another one.
    pub(super) async fn across(&self, report: &mut Report) -> Result<()> {
        let submitter = self.node("submitter")?.engine(self.store(), None).await?;
        let orchestrator = submitter.orchestrator();
        let before = self.load.completed(&self.store).await?;
        let mut workers = self.workers(1).await?;
        for worker in &mut workers {
            worker.begin().await?;
        }
        for _ in 0..SAMPLES {
            self.clock.sleep(INTERVAL).await;
            for one in orchestrator.submit(vec![self.load.stamped()?]).await? {
                one?;
            }
        }
        let drained = self.load.drained(&self.store, before, SAMPLES, TIMEOUT);
        complete(drained.await?.1)?;
        let mut millis = Vec::new();
        for worker in workers {
            millis.extend(worker.end().await?);
        }
        report.add_times("submit to start in another process", millis);
        Ok(())
    }
}
