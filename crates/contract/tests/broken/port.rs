//! The ports of a correct adapter, with a flaw in the way.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Control, Fault, StorePorts, Subject};
use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Batch, Batches, Bus, Claim, Claimed, DeadLetter, Delivery, Dequeue, DomainView, Domains,
    Filter, FoundId, Inspect, Known, LedgerLine, LetterFilter, LetterOrder, LetterView,
    LockManager, NewBatch, NewPause, Notice, Notices, OpenRoute, Operation, Outbox, Page, Prune,
    Pruned, Publication, Receipt, Recovery, Restriction, Scan, Silence, Store, Tenure, Write,
    Written,
};
use clinch_core::{
    AttemptId, BatchId, Domain, Keys, OpId, OpIdPrefix, ProcessId, Result, Sealed, Timestamp,
    WorkerId,
};

use crate::flaw::{Flaw, Real};

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
        locks: Some(shared.clone()),
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
    /// Neighbours of one kind go to the flaw together.
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        let is_same = |a: &Write, b: &Write| discriminant(a) == discriminant(b);
        let mut written = Vec::with_capacity(writes.len());
        for neighbours in writes.chunk_by(is_same) {
            written.extend(self.commit_kind(neighbours, routes).await?);
        }
        Ok(written)
    }
}

/// What writes of one kind hold.
macro_rules! held {
    ($writes:expr, $kind:ident) => {{
        let held = $writes.iter().filter_map(|write| match write {
            Write::$kind(held) => Some(held.clone()),
            _ => None,
        });
        held.collect::<Vec<_>>()
    }};
}

impl Port {
    async fn commit_kind(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        let (flaw, real) = (&self.flaw, &self.real);
        let changes = match writes.first() {
            None => return Ok(Vec::new()),
            Some(Write::Accept(_)) => {
                let accepted = flaw.accept(real, &held!(writes, Accept), routes).await?;
                return Ok(accepted.into_iter().map(Written::Accepted).collect());
            }
            Some(Write::Begin(_)) => {
                let begun = flaw.begin(real, &held!(writes, Begin), routes).await?;
                let begun = begun.into_iter().map(|one| match one {
                    Ok(operation) => Written::Begun(Box::new(operation)),
                    Err(refused) => Written::Refused(refused),
                });
                return Ok(begun.collect());
            }
            Some(Write::Seal(_)) => {
                let batches = held!(writes, Seal);
                let mut completed = flaw.seal(real, &batches, routes).await?;
                let sealed = batches.iter().map(|batch_id| {
                    let found = completed.iter().position(|one| one == batch_id);
                    let completed = found.map(|at| completed.swap_remove(at)).is_some();
                    Written::Sealed { completed }
                });
                return Ok(sealed.collect());
            }
            Some(Write::Extend(_)) => flaw.extend(real, &held!(writes, Extend)).await?,
            Some(Write::WriteAhead(_)) => {
                let answers = held!(writes, WriteAhead);
                flaw.write_ahead(real, &answers, routes).await?
            }
            Some(Write::Settle(_)) => flaw.settle(real, &held!(writes, Settle), routes).await?,
            Some(Write::Finalize(_)) => {
                flaw.finalize(real, &held!(writes, Finalize), routes)
                    .await?
            }
            Some(Write::Reschedule(_)) => {
                let ended = held!(writes, Reschedule);
                flaw.reschedule(real, &ended, routes).await?
            }
            Some(Write::Letter(_) | Write::Note(_)) => {
                return real.memory.commit(writes, routes).await;
            }
            Some(Write::Amend(_)) => flaw.amend(real, &held!(writes, Amend), routes).await?,
        };
        let written = changes.into_iter().map(|one| match one {
            Ok(changed) => Written::Changed(Box::new(changed)),
            Err(refused) => Written::Refused(refused),
        });
        Ok(written.collect())
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
    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        self.real.memory.check_in(process).await
    }
    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        self.real.memory.abandoned(process, claim).await
    }
    async fn check_out(&self, process: ProcessId) -> Result<()> {
        self.real.memory.check_out(process).await
    }
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>> {
        self.real
            .memory
            .dead_letters(filter, order, cursor, limit)
            .await
    }
    async fn letters(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>> {
        self.real.memory.letters(ops).await
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
    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        self.real.memory.read(batches).await
    }
    async fn list(
        &self,
        of: &Restriction,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Batch>> {
        Batches::list(&self.real.memory, of, cursor, limit).await
    }
}

#[async_trait]
impl Domains for Port {
    async fn pause(&self, domain: &Domain, pause: &NewPause) -> Result<()> {
        self.real.memory.pause(domain, pause).await
    }
    async fn resume(&self, domain: &Domain) -> Result<()> {
        self.real.memory.resume(domain).await
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
    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        self.real.memory.long_in_progress(before, max).await
    }
    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        self.real.memory.by_prefix(prefix, max).await
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
