//! The measures of the embedded store on a database server, and those that need several processes:
//! workers that share a backlog, and the latency from one process to another.

mod arguments;
mod churn;
mod single;
mod steady;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::Clock;
use clinch_core::{Error, ErrorKind, Result};
use clinch_system::SystemClock;
use clinch_testbed::{Kind, Server};

use crate::{Bounds, DOMAIN, Folder, FullStore, Load, Node, Report};
use arguments::{Arguments, Part};

/// A part that takes longer is stuck.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A server to measure on.
#[async_trait]
pub trait Database: Send + Sync + 'static {
    /// The store on it.
    type Store: FullStore + Clone;
    /// A transaction that stays open until it is dropped.
    type Snapshot: Send;
    /// Name of the benchmark.
    const NAME: &'static str;
    /// Kind of the server.
    const KIND: Kind;
    /// Floors and goals.
    const BOUNDS: &'static [Bounds];

    /// Creates the tables; returns the address of their database.
    async fn prepare(server: &str) -> Result<String>;
    /// The store with its default settings.
    async fn connect(url: &str, clock: Arc<dyn Clock>) -> Result<Self::Store>;
    /// Measures plain inserts on the same server.
    async fn limits(server: &Server, report: &mut Report) -> Result<()>;
    /// A repeatable-read transaction that has begun.
    async fn snapshot(url: &str) -> Result<Self::Snapshot>;
}

/// One database and an engine on it, in this process.
struct Scene<D: Database> {
    url: String,
    clock: Arc<SystemClock>,
    folder: Folder,
    load: Load,
    store: D::Store,
}

impl<D: Database> Scene<D> {
    async fn new(url: String) -> Result<Self> {
        let clock = Arc::new(SystemClock::new());
        Ok(Self {
            store: D::connect(&url, clock.clone()).await?,
            load: Load::new(clock.clone(), DOMAIN, "call", "")?,
            folder: Folder::new()?,
            url,
            clock,
        })
    }

    fn node(&self, worker: &str) -> Result<Node> {
        Node::new(worker, self.clock.clone(), self.folder.path())
    }

    fn store(&self) -> Arc<D::Store> {
        Arc::new(self.store.clone())
    }
}

/// Measures what the command line asks for.
pub fn main<D: Database>() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return complain(D::NAME, error),
    };
    if let [word, rest @ ..] = words.as_slice()
        && word == worker::WORKER_ARGUMENT
    {
        return match runtime.block_on(worker::work::<D>(rest)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(D::NAME, error),
        };
    }
    let Some(arguments) = Arguments::parse(words.into_iter()) else {
        eprintln!("usage: {} {}", D::NAME, arguments::USAGE);
        return ExitCode::from(2);
    };
    match runtime.block_on(measure::<D>(&arguments)) {
        Ok(report) => {
            println!("{}", report.text(arguments.json));
            ExitCode::SUCCESS
        }
        Err(error) => complain(D::NAME, error),
    }
}

async fn measure<D: Database>(arguments: &Arguments) -> Result<Report> {
    let mut report = Report::new(D::NAME, D::BOUNDS);
    report.load("before");
    let server = Server::start(D::KIND).map_err(failed)?;
    if matches!(arguments.part, Part::Alone | Part::All) {
        D::limits(&server, &mut report).await?;
    }
    let scene = Scene::<D>::new(D::prepare(&server.url()).await?).await?;
    match arguments.part {
        Part::Alone => scene.single(arguments.operations, &mut report).await?,
        Part::Latencies => scene.latencies(arguments.operations, &mut report).await?,
        Part::All => {
            scene.single(arguments.operations, &mut report).await?;
            scene.shared(arguments.operations, &mut report).await?;
            scene.across(&mut report).await?;
        }
        Part::Snapshot => scene.churn(arguments.span, &mut report).await?,
        Part::Steady(rate) => scene.steady(rate, arguments.span, &mut report).await?,
    }
    report.load("after");
    report.memory();
    Ok(report)
}

fn complain(bench: &str, error: impl std::fmt::Display) -> ExitCode {
    eprintln!("{bench}: {error}");
    ExitCode::FAILURE
}

/// An error that prevents a measurement.
pub fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, error.to_string())
}

fn complete(missing: usize) -> Result<()> {
    match missing {
        0 => Ok(()),
        _ => Err(failed(format!(
            "{missing} operations were not completed in time"
        ))),
    }
}
