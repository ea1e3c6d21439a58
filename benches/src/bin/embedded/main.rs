//! The embedded default under load: one SQLite file, one process, every answer durable.
//!
//! The benchmark measures what a user sees, through the engine: accepts with 1, 16 and 64 callers
//! that each wait for their own commit, accepts in bulk, the drain of a backlog with results
//! written ahead and finalized, and the time from submit to settled. The same run measures the
//! machine's own limits, so that figures of two machines can be compared. `--history N` first fills
//! the file with N settled operations.
#![forbid(unsafe_code)]

mod clinch;
mod limits;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clinch_bench::Report;
use clinch_core::{Error, ErrorKind, Result};

use clinch::Scene;
use report::BOUNDS;

const USAGE: &str = "usage: embedded [--json] [--history N] [--operations N] [--folder PATH] [--page BYTES] [--keep]";

/// The command line.
struct Arguments {
    json: bool,
    history: usize,
    operations: usize,
    folder: PathBuf,
    /// Page size of the file, unless it is the default.
    page: Option<u32>,
    keep: bool,
}

/// The allocator of `clinch`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match measure(&arguments) {
        Ok(report) => {
            println!("{}", report.text(arguments.json));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("embedded: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        json: false,
        history: 0,
        operations: 100_000,
        folder: std::env::temp_dir(),
        page: None,
        keep: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => arguments.json = true,
            "--keep" => arguments.keep = true,
            "--history" => arguments.history = words.next()?.parse().ok()?,
            "--operations" => arguments.operations = words.next()?.parse().ok()?,
            "--page" => arguments.page = Some(words.next()?.parse().ok()?),
            "--folder" => arguments.folder = words.next()?.into(),
            _ => return None,
        }
    }
    (arguments.operations >= 1_000).then_some(arguments)
}

fn measure(arguments: &Arguments) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build();
    let no_runtime = |error| Error::new(ErrorKind::Internal, "no runtime").caused_by(error);
    let runtime = runtime.map_err(no_runtime)?;
    let mut report = Report::new("embedded", &BOUNDS);
    let mut scene = Scene::new(runtime, &arguments.folder, arguments.keep)?;
    scene.page = arguments.page;
    limits::measure(scene.folder(), &mut report)?;
    scene.play(arguments.operations, arguments.history, &mut report)?;
    report.memory();
    Ok(report)
}
