//! Documents on MongoDB pass the area `documents::`, where `CLINCH_TEST_MONGODB_URL` names a
//! server for tests, such as `mongodb://127.0.0.1:27017`. Elsewhere the cases are shown as
//! ignored, in CI too: the server cannot be installed from the distributions that tests run on.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clinch_contract::{
    DocumentsSubject, SinkAbilities, documents_cases, port_factory, port_trials,
};
use clinch_mongodb::MongoDb;
use libtest_mimic::Arguments;

const SERVER: &str = "CLINCH_TEST_MONGODB_URL";

static MADE: AtomicU32 = AtomicU32::new(0);

/// The address of a database of a case's own.
fn database(server: &str, number: u32) -> String {
    let (server, options) = server.split_once('?').unwrap_or((server, ""));
    let server = server.trim_end_matches('/');
    let name = format!("clinch_test_{}_{number}", std::process::id());
    format!("{server}/{name}?{options}")
}

async fn open() -> Result<DocumentsSubject, String> {
    let server = std::env::var(SERVER).map_err(|_| format!("{SERVER} is not set"))?;
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let sink = MongoDb::connect(&database(&server, number)).await;
    let sink = sink.map_err(|error| error.to_string())?;
    Ok(DocumentsSubject {
        documents: Arc::new(sink),
        fail_next: None,
        held: Arc::new(()),
    })
}

/// Removes the databases that the cases made.
fn clean_up(server: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        for number in 0..MADE.load(Ordering::Relaxed) {
            if let Ok(sink) = MongoDb::connect(&database(server, number)).await {
                let _ = sink.drop_database().await;
            }
        }
    });
}

fn main() -> ExitCode {
    let server = std::env::var(SERVER);
    if server.is_err() {
        eprintln!("{SERVER} is not set: cases that need a MongoDB server are ignored");
    }
    // Bodies come back to the value, and a server without replicas has no transactions.
    let abilities = SinkAbilities {
        transactional: false,
        exact: false,
    };
    let cases = documents_cases(abilities);
    let trials = port_trials("mongodb", cases, &port_factory(open), server.is_err());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    if let Ok(server) = server {
        clean_up(&server);
    }
    conclusion.exit_code()
}
