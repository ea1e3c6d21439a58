//! Names of domains, event types and workers, and the numbers that stand for them.
//!
//! Both are written once and never change, so every process keeps all it has met.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use clinch_core::policy::Routes;
use clinch_core::{Domain, EventType, Result, WorkerId};

use crate::error;
use crate::link::Link;
use crate::query::Query;

/// A line of rows of one domain, event type and priority.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub id: i32,
    pub domain: Domain,
    pub event_type: EventType,
    /// The priority, turned around: lower is served first.
    pub rank: i8,
}

#[derive(Debug, Default)]
struct Known {
    streams: HashMap<i32, Stream>,
    by_name: HashMap<(Domain, EventType, i8), i32>,
    workers: HashMap<i32, WorkerId>,
    worker_ids: HashMap<WorkerId, i32>,
}

/// Every name that this process has met.
#[derive(Debug, Default)]
pub(crate) struct Names(RwLock<Known>);

impl Names {
    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream with this number, which [`Names::learn`] has seen.
    pub(crate) fn stream(&self, id: i32) -> Result<Stream> {
        let found = self.read().streams.get(&id).cloned();
        found.ok_or_else(|| error::corrupt("stream"))
    }

    pub(crate) fn knows_stream(&self, id: i32) -> bool {
        self.read().streams.contains_key(&id)
    }

    pub(crate) fn worker_named(&self, id: i64) -> Result<WorkerId> {
        let id = i32::try_from(id).map_err(|_| error::corrupt("worker"))?;
        let found = self.read().workers.get(&id).cloned();
        found.ok_or_else(|| error::corrupt("worker"))
    }

    /// Streams that `wanted` allows, in the order of service.
    pub(crate) fn streams(&self, wanted: impl Fn(&Stream) -> bool) -> Vec<i32> {
        let known = self.read();
        let wanted = known.streams.values().filter(|stream| wanted(stream));
        let mut found: Vec<_> = wanted.map(|stream| (stream.rank, stream.id)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Streams of routes in `only`.
    pub(crate) fn routed(&self, domains: &[Domain], only: &Routes) -> Vec<i32> {
        self.streams(|stream| {
            domains.contains(&stream.domain)
                && only.find(&stream.domain, &stream.event_type).is_some()
        })
    }

    /// Reads every stream.
    pub(crate) async fn load(&self, link: &Link<'_>) -> Result<()> {
        let rows = link.query(Query::Streams, &[]).await?;
        let mut known = self.write();
        for row in rows {
            let name: String = row.get(2);
            let event_type: String = row.get(3);
            let stream = Stream {
                id: row.get(0),
                domain: Domain::new(name).map_err(error::unreadable)?,
                event_type: EventType::new(event_type).map_err(error::unreadable)?,
                rank: i8::try_from(row.get::<_, i16>(4)).map_err(|_| error::corrupt("rank"))?,
            };
            let name = (
                stream.domain.clone(),
                stream.event_type.clone(),
                stream.rank,
            );
            known.by_name.insert(name, stream.id);
            known.streams.insert(stream.id, stream);
        }
        Ok(())
    }

    /// Makes sure that these streams are known.
    pub(crate) async fn learn(
        &self,
        link: &Link<'_>,
        streams: impl IntoIterator<Item = i32>,
    ) -> Result<()> {
        let unknown = streams.into_iter().any(|id| !self.knows_stream(id));
        match unknown {
            true => self.load(link).await,
            false => Ok(()),
        }
    }

    pub(crate) fn find_stream(
        &self,
        domain: &Domain,
        event_type: &EventType,
        rank: i8,
    ) -> Option<i32> {
        let name = (domain.clone(), event_type.clone(), rank);
        self.read().by_name.get(&name).copied()
    }

    /// The stream of this name, made if it is not there.
    pub(crate) async fn stream_of(
        &self,
        link: &Link<'_>,
        domain: &Domain,
        event_type: &EventType,
        rank: i8,
    ) -> Result<i32> {
        if let Some(id) = self.find_stream(domain, event_type, rank) {
            return Ok(id);
        }
        let params = (domain.as_str(), event_type.as_str(), i16::from(rank));
        link.run(Query::InsertDomain, &[&params.0]).await?;
        link.run(Query::InsertStream, &[&params.0, &params.1, &params.2])
            .await?;
        self.load(link).await?;
        let found = self.find_stream(domain, event_type, rank);
        found.ok_or_else(|| error::corrupt("stream"))
    }

    pub(crate) fn find_worker(&self, worker: &WorkerId) -> Option<i32> {
        self.read().worker_ids.get(worker).copied()
    }

    /// The number of a worker, drawn if it has none.
    pub(crate) async fn worker_of(&self, link: &Link<'_>, worker: &WorkerId) -> Result<i32> {
        if let Some(id) = self.find_worker(worker) {
            return Ok(id);
        }
        let name = worker.as_str();
        link.run(Query::InsertWorker, &[&name]).await?;
        let row = link.first(Query::WorkerByName, &[&name]).await?;
        let id: i32 = row.ok_or_else(|| error::corrupt("worker"))?.get(0);
        self.keep_worker(id, worker.clone());
        Ok(id)
    }

    fn keep_worker(&self, id: i32, worker: WorkerId) {
        let mut known = self.write();
        known.worker_ids.insert(worker.clone(), id);
        known.workers.insert(id, worker);
    }

    /// Makes sure that the workers with these numbers are known.
    pub(crate) async fn learn_workers(&self, link: &Link<'_>, ids: &[i32]) -> Result<()> {
        let unknown: Vec<i32> = {
            let known = self.read();
            let unknown = ids.iter().filter(|id| !known.workers.contains_key(id));
            unknown.copied().collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        for row in link.query(Query::WorkersById, &[&unknown]).await? {
            let name: String = row.get(1);
            let worker = WorkerId::new(name).map_err(error::unreadable)?;
            self.keep_worker(row.get(0), worker);
        }
        Ok(())
    }
}
