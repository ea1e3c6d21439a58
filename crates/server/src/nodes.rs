//! The server processes of a store, registered in its records.
//!
//! Every process writes one record of its own when it starts and every [`BEAT`], each write a
//! compare-and-set on the version of its last one, and removes the record when it stops. Times are
//! those of the store's clock. A process that cannot write logs that once and works on.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Clock, Expected, Inspect, RecordList, RecordWrite, Records};
use clinch_core::{Result, Timestamp};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// The interval between two writes.
const BEAT: Duration = Duration::from_secs(15);
/// A process that was not seen for longer is lost: three writes are missing.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(45);
/// Lost processes are shown for this long.
const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);
/// The longest wait for one write: a process that stops does not wait for a store that hangs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Processes that are listed: far more than share one store.
const LIST_MAX: usize = 200;
/// The keys of the records.
const PREFIX: &str = "clinch/node/";

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    pub(crate) version: String,
    pub(crate) started_at: Timestamp,
    pub(crate) seen_at: Timestamp,
}

/// The registry of one store.
#[derive(Clone)]
pub(crate) struct Nodes {
    pub(crate) records: Arc<dyn Records>,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The name of this process.
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
}

impl Nodes {
    /// Registers this process until `stop`, then removes its record.
    pub(crate) async fn register(self, stop: CancellationToken) {
        let mut own = OwnRecord::default();
        let mut was_written = true;
        while !stop.is_cancelled() {
            let written = within(self.beat(&mut own)).await;
            match (was_written, &written) {
                (true, Err(error)) => {
                    tracing::warn!(target: "clinch", "this process cannot be registered in the store; it works on: {error}");
                }
                (false, Ok(())) => {
                    tracing::info!(target: "clinch", "this process is registered in the store again");
                }
                _ => {}
            }
            was_written = written.is_ok();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.clock.sleep(BEAT) => {}
            }
        }
        if let Some(version) = own.version {
            // If this fails, other processes show this one as lost for an hour.
            let _ = within(self.write(Expected::Version(version), None)).await;
        }
    }

    async fn beat(&self, own: &mut OwnRecord) -> Result<()> {
        let now = self.inspect.now().await?;
        let started_at = *own.started_at.get_or_insert(now);
        let node = Node {
            name: self.name.clone(),
            roles: self.roles.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at,
            seen_at: now,
        };
        let body = serde_json::to_string(&node).unwrap_or_default();
        let expected = own.version.map_or(Expected::Absent, Expected::Version);
        if self.write(expected, Some(body)).await? {
            own.version = Some(own.version.map_or(1, |version| version + 1));
        } else {
            // Another process took this one for lost and removed the record, or the answer to the
            // last write was lost. The next write continues from what is there.
            own.version = self.version().await?;
        }
        Ok(())
    }

    fn key(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    async fn version(&self) -> Result<Option<u64>> {
        let found = self.records.read_records(&[self.key()]).await?;
        Ok(found
            .into_iter()
            .flatten()
            .next()
            .map(|record| record.version))
    }

    async fn write(&self, expected: Expected, body: Option<String>) -> Result<bool> {
        let key = self.key();
        let write = RecordWrite {
            key,
            expected,
            body,
        };
        self.records.write_records(&[write]).await
    }

    /// Every registered process, by name, and whether it is alive. Records of processes that were
    /// lost for an hour are removed.
    pub(crate) async fn list(&self) -> Result<Vec<(Node, bool)>> {
        let now = self.inspect.now().await?;
        let list = RecordList {
            prefix: PREFIX.to_owned(),
            descending: false,
            after: None,
            limit: LIST_MAX,
        };
        let mut nodes = Vec::new();
        let mut old = Vec::new();
        for record in self.records.list_records(&list).await? {
            // A record of a later version that cannot be read is left alone.
            let Ok(node) = serde_json::from_str::<Node>(&record.body) else {
                continue;
            };
            let silent = now.since(node.seen_at);
            if silent > FORGET_AFTER {
                old.push(RecordWrite {
                    key: record.key,
                    expected: Expected::Version(record.version),
                    body: None,
                });
            } else {
                nodes.push((node, silent <= LOST_AFTER));
            }
        }
        if !old.is_empty() {
            // If another process removed one of them first, the next reading removes the rest.
            let _ = self.records.write_records(&old).await;
        }
        Ok(nodes)
    }
}

/// What this process knows of its own record.
#[derive(Default)]
struct OwnRecord {
    version: Option<u64>,
    started_at: Option<Timestamp>,
}

async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(WRITE_TIMEOUT, work).await {
        Ok(done) => done.map_err(|error| error.message().to_owned()),
        Err(_) => Err("the store does not answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clinch_memory::{ManualClock, Memory};

    use super::*;

    fn nodes(memory: &Memory, clock: &Arc<ManualClock>, name: &str) -> Nodes {
        Nodes {
            records: Arc::new(memory.clone()),
            inspect: Arc::new(memory.clone()),
            clock: clock.clone(),
            name: name.to_owned(),
            roles: vec!["api".to_owned()],
        }
    }

    async fn seen(nodes: &Nodes) -> Vec<(String, bool)> {
        let listed = nodes.list().await.expect("listed");
        let listed = listed.into_iter();
        listed.map(|(node, alive)| (node.name, alive)).collect()
    }

    #[tokio::test]
    async fn core_19_a_silent_process_is_lost_and_after_an_hour_forgotten() {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        let (one, two) = (nodes(&memory, &clock, "one"), nodes(&memory, &clock, "two"));
        let (mut of_one, mut of_two) = (OwnRecord::default(), OwnRecord::default());
        one.beat(&mut of_one).await.expect("written");
        two.beat(&mut of_two).await.expect("written");
        clock.advance(LOST_AFTER + Duration::from_secs(1));
        one.beat(&mut of_one).await.expect("written");
        let expected = |two| vec![("one".to_owned(), true), ("two".to_owned(), two)];
        assert_eq!(seen(&one).await, expected(false));
        clock.advance(FORGET_AFTER);
        one.beat(&mut of_one).await.expect("written");
        assert_eq!(seen(&one).await, vec![("one".to_owned(), true)]);
        // It was only slow: its compare-and-set finds no record, and the next write registers it.
        two.beat(&mut of_two).await.expect("read");
        two.beat(&mut of_two).await.expect("written");
        assert_eq!(seen(&one).await, expected(true));
    }
}
