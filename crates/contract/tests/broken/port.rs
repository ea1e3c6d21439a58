//! The ports of a correct adapter, with a flaw in the way.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Control, Fault, LockPorts, StorePorts, Subject};
use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Accepted, Amendment, Answer, Batch, Batches, BeginRequest, Bus, Claim, Claimed, DeadLetter,
    Delivery, Dequeue, DomainView, Domains, Extension, Filter, Inspect, Known, Leader, LedgerLine,
    LockManager, NewBatch, NewOperation, Notice, Notices, OpenRoute, Operation, Outbox, Page,
    Prune, Pruned, Publication, Receipt, Recovery, Refused, Reschedule, Scan, Silence, Store,
    Tenure,
};
use clinch_core::{AttemptId, BatchId, Domain, Keys, OpId, Result, Sealed, Timestamp, WorkerId};

use crate::flaw::{Changes, Flaw, Real};

/// A correct adapter with one flaw.
#[derive(Clone)]
struct Port {
    real: Real,
    flaw: Arc<dyn Flaw>,
}

/// The bus and the queue are two buses of one adapter.
struct Hints(Port);
struct Queue(Port);

/// The adapter as the suite sees it.
pub(crate) fn subject(real: Real, flaw: Arc<dyn Flaw>) -> Subject {
    let port = Port { real, flaw };
    let shared = Arc::new(port.clone());
    Subject {
        store: Some(StorePorts {
            store: shared.clone(),
            outbox: shared.clone(),
            recovery: shared.clone(),
            batches: shared.clone(),
            domains: shared.clone(),
            inspect: shared.clone(),
            notices: shared.clone(),
        }),
        bus: Some(Arc::new(Hints(port.clone()))),
        queue: Some(Arc::new(Queue(port))),
        locks: Some(LockPorts {
            locks: shared.clone(),
            leader: shared.clone(),
        }),
        control: shared,
    }
}

#[async_trait]
impl Control for Port {
    async fn advance(&self, by: Duration) {
        self.real.clock.advance(by);
    }
    async fn corrupt(&self, op: OpId) {
        self.real.edit(op, |row| {
            let mut bytes = row.operation.payload.as_bytes().to_vec();
            bytes[0] ^= 1;
            row.operation.payload = Sealed::new(bytes);
        });
    }
    async fn arm(&self, fault: Fault) {
        self.flaw.arm(&self.real, fault);
    }
    async fn crash(&self) -> Subject {
        let memory = self.flaw.crash(&self.real);
        let real = Real {
            memory,
            ..self.real.clone()
        };
        subject(real, self.flaw.clone())
    }
}

#[async_trait]
impl Store for Port {
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>> {
        self.flaw.accept(&self.real, new, routes).await
    }
    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        self.flaw.begin(&self.real, begins, routes).await
    }
    async fn extend(&self, extensions: &[Extension]) -> Changes {
        self.flaw.extend(&self.real, extensions).await
    }
    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Changes {
        self.flaw.write_ahead(&self.real, answers, routes).await
    }
    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Changes {
        self.flaw.finalize(&self.real, ops, routes).await
    }
    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Changes {
        self.flaw.settle(&self.real, answers, routes).await
    }
    async fn reschedule(&self, ended: &[Reschedule], routes: &Routes) -> Changes {
        self.flaw.reschedule(&self.real, ended, routes).await
    }
    async fn amend(&self, amendments: &[Amendment], routes: &Routes) -> Changes {
        self.flaw.amend(&self.real, amendments, routes).await
    }
}

#[async_trait]
impl Outbox for Port {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        self.flaw.claim(&self.real, claim).await
    }
    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        self.flaw.claim_silent(&self.real, claim, silence).await
    }
    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        self.flaw.published(&self.real, claimed).await
    }
    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        Outbox::release(&self.real.memory, claimed).await
    }
    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        Outbox::next_due(&self.real.memory, routes).await
    }
}

#[async_trait]
impl Recovery for Port {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        self.flaw.scan(&self.real, scan, claim).await
    }
    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        Recovery::next_due(&self.real.memory, scan).await
    }
    async fn dead_letters(&self, cursor: Option<&str>, limit: usize) -> Result<Page<DeadLetter>> {
        self.real.memory.dead_letters(cursor, limit).await
    }
    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        self.flaw.import(&self.real, letters).await
    }
    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.flaw.prune(&self.real, prune).await
    }
    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.real.memory.seen_time().await
    }
    async fn confirm_time(&self) -> Result<SeenTime> {
        self.real.memory.confirm_time().await
    }
}

#[async_trait]
impl Batches for Port {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        self.flaw.open(&self.real, batches).await
    }
    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        self.flaw.seal(&self.real, batches, routes).await
    }
    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        self.real.memory.read(batches).await
    }
}

#[async_trait]
impl Domains for Port {
    async fn set_paused(&self, domain: &Domain, paused: bool) -> Result<()> {
        self.real.memory.set_paused(domain, paused).await
    }
    async fn domains(&self) -> Result<Vec<DomainView>> {
        self.real.memory.domains().await
    }
    async fn open_routes(&self) -> Result<Vec<OpenRoute>> {
        self.real.memory.open_routes().await
    }
}

#[async_trait]
impl Inspect for Port {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        self.real.memory.get(ops).await
    }
    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        self.real.memory.begun(attempts).await
    }
    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        self.real.memory.find(keys).await
    }
    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        self.flaw.list(&self.real, filter, cursor, limit).await
    }
    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        self.real.memory.ledger(op).await
    }
    async fn now(&self) -> Result<Timestamp> {
        self.real.memory.now().await
    }
}

#[async_trait]
impl Notices for Port {
    async fn news(&self, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        self.flaw.news(&self.real, seen, wait).await
    }
}

#[async_trait]
impl LockManager for Port {
    async fn take(&self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        self.flaw.lock(&self.real, name, owner, ttl).await
    }
    async fn release(&self, name: &str, owner: &WorkerId) -> Result<bool> {
        self.flaw.unlock(&self.real, name, owner).await
    }
}

#[async_trait]
impl Leader for Port {
    async fn lead(&self, job: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        self.real.memory.lead(job, owner, ttl).await
    }
}

#[async_trait]
impl Bus for Hints {
    async fn publish(&self, publications: &[Publication]) -> Result<()> {
        self.0.flaw.publish(&self.0.real, publications).await
    }
    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        self.0.flaw.dequeue(&self.0.real, dequeue).await
    }
    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        self.0.flaw.ack(&self.0.real, receipts).await
    }
    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        self.0.flaw.nack(&self.0.real, receipts).await
    }
    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        self.0.real.bus.extend(receipts, visibility).await
    }
}

#[async_trait]
impl Bus for Queue {
    async fn publish(&self, publications: &[Publication]) -> Result<()> {
        self.0.real.memory.publish(publications).await
    }
    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        self.0.flaw.take_begun(&self.0.real, dequeue).await
    }
    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        self.0.real.memory.ack(receipts).await
    }
    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        self.0.real.memory.nack(receipts).await
    }
    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        Bus::extend(&self.0.real.memory, receipts, visibility).await
    }
}
