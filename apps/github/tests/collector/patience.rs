//! How long jobs wait, on the collector's clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::{Document, DocumentFilter, DocumentName, DocumentSink};
use clinch::types::ErrorKind;
use clinch::{Error, Result};
use clinch_memory::Memory;

use crate::lab::{Lab, assert_whole};
use clinch_github::fake::{Fault, Faults, Setup, Size, World};
use clinch_github::{JobFilter, JobState, Run, RunStatus};

const TOKEN: &str = "fake-robot-1";

fn world(repositories: usize) -> World {
    let size = Size {
        users: 1,
        repositories,
        documents: 3 + 60 * repositories,
    };
    World::generate(3, &size)
}

fn took(run: &Run) -> Duration {
    let ended = run.completed_at.expect("ended");
    ended.since(run.created_at)
}

async fn errors(lab: &Lab, run: &Run) -> Vec<(String, u32)> {
    let filter = JobFilter {
        state: Some(JobState::Failed),
        ..JobFilter::default()
    };
    let failed = lab.collector.jobs(&run.run_id, &filter, None, 100).await;
    let (failed, _) = failed.expect("jobs");
    let error = |job: clinch_github::Job| (job.error.unwrap_or_default(), job.attempts);
    failed.into_iter().map(error).collect()
}

/// A GET has no effect that could be unknown: nothing is waited for after its last attempt.
#[tokio::test]
async fn col_16_a_job_ends_with_its_last_attempt() {
    let setup = Setup {
        faults: Faults::none().first("/events", 5, Fault::LostAfter),
        ..Setup::default()
    };
    let lab = Lab::new(world(4), setup, &[TOKEN]).await;
    let run = lab.run("octocat").await;
    assert_eq!((run.status, run.jobs.failed), (RunStatus::Completed, 1));
    let errors = errors(&lab, &run).await;
    assert!(errors[0].0.starts_with("retry_exhausted: "), "{errors:?}");
    assert_eq!(errors[0].1, 5);
    // Pauses of 1, 2, 4 and 8 seconds, a tenth longer at most.
    assert!(took(&run) <= Duration::from_millis(16_500), "{run:?}");
}

/// While one request asks for the budget, the others wait for its answer, not for the time that the
/// answer may take.
#[tokio::test]
async fn col_8_a_job_goes_on_soon_after_the_answer_that_it_waits_for() {
    let latency = Duration::from_secs(8);
    let setup = Setup {
        latency,
        ..Setup::default()
    };
    let lab = Lab::new(world(0), setup, &[]).await;
    let run = lab.run("octocat").await;
    assert_whole(&run);
    // The user, and then the list of repositories; the events not later.
    assert!(took(&run) <= 3 * latency, "{:?}", took(&run));
}

/// A sink that refuses the documents of one kind for good.
struct Strict {
    memory: Memory,
    kind: ErrorKind,
}

#[async_trait]
impl DocumentSink for Strict {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        if documents.iter().any(|one| one.kind == "event") {
            return Err(Error::new(self.kind, "the column `type` is too short"));
        }
        self.memory.upsert(collection, documents).await
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        self.memory.scan(collection, filter, after, limit).await
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        self.memory.list(collection, filter, after, limit).await
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        self.memory.relocate(from, to, ids).await
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        self.memory.count(collection, user).await
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        self.memory.clear(collection, filter).await
    }
}

#[tokio::test]
async fn col_9_a_sink_that_refuses_for_good_fails_the_job_at_once() {
    for kind in [ErrorKind::Invalid, ErrorKind::Unsupported] {
        let (lab, _) = Lab::with_sink(world(3), Setup::default(), &[TOKEN], |memory| {
            Arc::new(Strict { memory, kind })
        })
        .await;
        let run = lab.run("octocat").await;
        assert_eq!((run.status, run.jobs.failed), (RunStatus::Completed, 1));
        assert!(took(&run) < Duration::from_secs(5), "{:?}", took(&run));
        let errors = errors(&lab, &run).await;
        let expected = "sink_refused: the column `type` is too short";
        assert_eq!(errors, [(expected.to_owned(), 1)]);
    }
}
