//! A correct adapter, and the places at which it can be made wrong.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub(crate) use clinch_contract::Changes;
use clinch_contract::{Calls, Fault};
use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Bus, Claim, Claimed, DeadLetter, Delivery, Dequeue,
    Extension, Filter, Inspect, LockManager, NewBatch, NewOperation, Notice, Notices, Operation,
    Outbox, Page, Prune, Pruned, Publication, Receipt, Recovery, Refused, Reschedule, Scan,
    Silence,
};
use clinch_core::{BatchId, OpId, Result, WorkerId};
use clinch_memory::{ManualClock, Memory, MemoryBus, Row};

/// What the flaw sits on: the reference adapter, which is right.
#[derive(Clone)]
pub(crate) struct Real {
    pub(crate) memory: Memory,
    pub(crate) bus: MemoryBus,
    pub(crate) clock: Arc<ManualClock>,
}

impl Real {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        Self {
            memory: Memory::new(clock.clone()),
            bus: MemoryBus::new(clock.clone()),
            clock,
        }
    }

    /// A row as it is.
    pub(crate) fn row(&self, op: OpId) -> Option<Row> {
        self.memory.edit(|tables| tables.rows.get(&op).cloned())
    }

    /// Changes a row behind the ports' back.
    pub(crate) fn edit(&self, op: OpId, edit: impl FnOnce(&mut Row)) {
        self.memory.edit(|tables| {
            if let Some(mut row) = tables.rows.get(&op).cloned() {
                edit(&mut row);
                tables.put(row);
            }
        });
    }

    /// The fence that is current, whatever the caller believes.
    pub(crate) fn fence(&self, op: OpId) -> u64 {
        self.row(op).map_or(0, |row| row.operation.state.fence)
    }
}

/// One way to be wrong: overrides one method, or the few that go together.
#[async_trait]
pub(crate) trait Flaw: Send + Sync + 'static {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        real.memory.accept(new, routes).await
    }
    async fn begin(
        &self,
        real: &Real,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        real.memory.begin(begins, routes).await
    }
    async fn extend(&self, real: &Real, extensions: &[Extension]) -> Changes {
        Calls::extend(&real.memory, extensions).await
    }
    async fn write_ahead(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        real.memory.write_ahead(answers, routes).await
    }
    async fn finalize(&self, real: &Real, ops: &[OpId], routes: &Routes) -> Changes {
        real.memory.finalize(ops, routes).await
    }
    async fn settle(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        real.memory.settle(answers, routes).await
    }
    async fn reschedule(&self, real: &Real, ended: &[Reschedule], routes: &Routes) -> Changes {
        real.memory.reschedule(ended, routes).await
    }
    async fn amend(&self, real: &Real, amendments: &[Amendment], routes: &Routes) -> Changes {
        real.memory.amend(amendments, routes).await
    }
    async fn claim(&self, real: &Real, claim: &Claim) -> Result<Vec<Claimed>> {
        real.memory.claim(claim).await
    }
    async fn claim_silent(
        &self,
        real: &Real,
        claim: &Claim,
        silence: &Silence,
    ) -> Result<Vec<Claimed>> {
        real.memory.claim_silent(claim, silence).await
    }
    async fn published(&self, real: &Real, claimed: &[Claimed]) -> Result<()> {
        real.memory.published(claimed).await
    }
    async fn scan(&self, real: &Real, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        real.memory.scan(scan, claim).await
    }
    async fn import(&self, real: &Real, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        real.memory.import(letters).await
    }
    async fn prune(&self, real: &Real, prune: &Prune) -> Result<Pruned> {
        real.memory.prune(prune).await
    }
    async fn open(&self, real: &Real, batches: &[NewBatch]) -> Result<Vec<bool>> {
        clinch_core::ports::Batches::open(&real.memory, batches).await
    }
    async fn seal(
        &self,
        real: &Real,
        batches: &[BatchId],
        routes: &Routes,
    ) -> Result<Vec<BatchId>> {
        real.memory.seal(batches, routes).await
    }
    async fn list(
        &self,
        real: &Real,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        real.memory.list(filter, cursor, limit).await
    }
    async fn news(&self, real: &Real, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        real.memory.news(seen, wait).await
    }
    async fn publish(&self, real: &Real, publications: &[Publication]) -> Result<()> {
        real.bus.publish(publications).await
    }
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        real.bus.dequeue(dequeue).await
    }
    async fn ack(&self, real: &Real, receipts: &[Receipt]) -> Result<()> {
        real.bus.ack(receipts).await
    }
    async fn nack(&self, real: &Real, receipts: &[(Receipt, Duration)]) -> Result<()> {
        real.bus.nack(receipts).await
    }
    async fn take_begun(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        Bus::dequeue(&real.memory, dequeue).await
    }
    async fn lock(
        &self,
        real: &Real,
        name: &str,
        owner: &WorkerId,
        ttl: Duration,
    ) -> Result<Option<clinch_core::ports::Tenure>> {
        real.memory.take(name, owner, ttl).await
    }
    async fn unlock(&self, real: &Real, name: &str, owner: &WorkerId) -> Result<bool> {
        LockManager::release(&real.memory, name, owner).await
    }
    /// The next writing call is to fail.
    fn arm(&self, real: &Real, fault: Fault) {
        real.memory.fail_next(fault);
    }
    /// What a crash leaves.
    fn crash(&self, real: &Real) -> Memory {
        real.memory.crash()
    }
}

/// None at all: the control.
#[derive(Default)]
pub(crate) struct Unbroken;

impl Flaw for Unbroken {}
