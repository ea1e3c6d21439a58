//! The collector on the embedded store, with a fake GitHub: pages per second, and memory.
//!
//! This process is the fake GitHub, over HTTP on loopback and without limits. The collector is the
//! program itself, `clinch github run`, in a process and a folder of its own, so that its memory is
//! measured alone. A world is collected completely and then once more; then a world ten times as
//! large. Memory that grows with the number of pages would show.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clinch_bench::{Folder, Report, peak_memory, processor_time};
use clinch_core::{Error, ErrorKind, Result};
use clinch_github::fake::{Fake, Limits, Setup, Size, World, serve};
use clinch_system::SystemClock;
use serde_json::Value;
use tokio::net::TcpListener;

const USAGE: &str =
    "usage: github [--json] [--documents N] [--plain]\n  --plain: answers are not compressed";

/// Default number of documents in the large world.
const DOCUMENTS: usize = 200_000;

/// How often the memory of the collector is read; the system keeps its peak.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

struct Arguments {
    json: bool,
    documents: usize,
    plain: bool,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let measured = match runtime {
        Ok(runtime) => runtime.block_on(measure(&arguments)),
        Err(error) => Err(failed(error)),
    };
    match measured {
        Ok(report) => {
            println!("{}", report.text(arguments.json));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("github: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        json: false,
        documents: DOCUMENTS,
        plain: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => arguments.json = true,
            "--plain" => arguments.plain = true,
            "--documents" => arguments.documents = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some(arguments)
}

async fn measure(arguments: &Arguments) -> Result<Report> {
    let mut report = Report::new("github", &[]);
    report.load("before");
    for documents in [arguments.documents / 10, arguments.documents] {
        let folder = Folder::new()?;
        let size = Size {
            users: 1,
            repositories: (documents / 500).max(1),
            documents,
        };
        let fake = Fake::new(
            World::generate(1, &size),
            setup(arguments.plain),
            Arc::new(SystemClock::new()),
        );
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let served = serve(listener, fake.clone()).map_err(failed)?;
        for round in ["first run", "second run"] {
            let before = fake.tally().requests;
            let collected = collect(&served.base, folder.path(), &fake).await?;
            let requests = fake.tally().requests - before;
            let (seconds, reading) = (collected.took.as_secs_f64(), collected.read.as_secs_f64());
            let name = |what: &str| format!("{documents} documents, {round}: {what}");
            report.add(name("requests"), requests as f64, "");
            report.add(name("time"), seconds, "s");
            report.add(name("time until the last page"), reading, "s");
            report.add(name("pages"), requests as f64 / reading, "/s");
            if round == "first run" {
                report.add(name("documents"), documents as f64 / reading, "/s");
            }
            let processor_ms = collected.processor.as_secs_f64() * 1_000.0;
            let each = processor_ms / requests as f64;
            report.add(name("processor time a page"), each, "ms");
            report.add(name("peak memory"), collected.peak_kib / 1_024.0, "MiB");
        }
        served.stop().await;
    }
    report.load("after");
    Ok(report)
}

/// No limits: only the collector's own speed counts.
fn setup(is_uncompressed: bool) -> Setup {
    Setup {
        is_uncompressed,
        limits: Limits {
            primary: 10_000_000,
            per_minute: 10_000_000,
            concurrent: 10_000,
            ..Limits::default()
        },
        ..Setup::default()
    }
}

struct Collected {
    took: Duration,
    /// Until the last request. After it the run reads its documents again, for its statistics.
    read: Duration,
    /// Of the collector alone.
    processor: Duration,
    peak_kib: f64,
}

/// Runs the program until its run has ended.
async fn collect(api_url: &str, folder: &Path, fake: &Fake) -> Result<Collected> {
    let (began, mut requests) = (Instant::now(), fake.tally().requests);
    let mut child = Command::new(program()?)
        .args(["github", "run", "octocat", "--output", "json"])
        .current_dir(folder)
        .env("CLINCH__GITHUB__API_URL", api_url)
        .env("CLINCH__GITHUB__TOKENS", r#"["fake-bench-1"]"#)
        // No server listens at this address.
        .env("CLINCH__SERVER__LISTEN", "127.0.0.1:1")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (mut peak_kib, mut processor) = (0.0_f64, Duration::ZERO);
    let (id, mut read) = (child.id().to_string(), Duration::ZERO);
    let status = loop {
        peak_kib = peak_memory(&id).unwrap_or_default().max(peak_kib);
        processor = processor_time(&id).unwrap_or_default().max(processor);
        let now = fake.tally().requests;
        if now != requests {
            (requests, read) = (now, began.elapsed());
        }
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    };
    let took = began.elapsed();
    let output = child.wait_with_output().map_err(failed)?;
    let _: Value = serde_json::from_slice(&output.stdout).map_err(failed)?;
    if !status.success() {
        return Err(failed(format!("the run ended with {status}")));
    }
    Ok(Collected {
        took,
        read,
        processor,
        peak_kib,
    })
}

/// The program in the same folder as this one.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(failed)?;
    let program = own.with_file_name("clinch");
    if program.exists() {
        return Ok(program);
    }
    Err(failed("build the program first: cargo build --release"))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, error.to_string())
}
